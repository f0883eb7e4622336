"""The page for operators: its files, its commands, and its trial, with real workers, one of which is killed."""

import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import time
import uuid
from typing import Any

import pytest
import yaml

from ripieno.descriptors import GatewayDescriptor
from ripieno.storage.dispatch import leases
from tests.documentation.code_blocks import DOCUMENTATION, texts
from tests.support.command_line import PATIENCE, User, wait_for
from tests.support.postgresql import program_of

EXAMPLES = DOCUMENTATION / "examples" / "deploying"
PAGE = DOCUMENTATION / "tutorials" / "deploying.rst"
BLOCKS = ("console",) * 12
VARIABLES = {"HOUSE_KEY": "k", "GATEWAY_SECRET": "a secret of the tests", "JOURNAL_URL": "postgresql://db.example/r"}
GRACE = 60
ASK = 'psql "$JOURNAL_URL" --tuples-only --command'
METRICS = 9464


def read(name: str) -> str:
    return (EXAMPLES / name).read_text()


def unit(name: str) -> dict[str, dict[str, str]]:
    """The sections of a unit; each line is a comment, a section, or a setting that is given once."""
    sections: dict[str, dict[str, str]] = {}
    for line in filter(None, read(name).splitlines()):
        if line.startswith("["):
            here = sections.setdefault(line.strip("[]"), {})
        elif not line.startswith("#"):
            key, separator, value = line.partition("=")
            assert separator
            assert key not in here
            here[key] = value
    return sections


def kubernetes() -> dict[tuple[str, str], dict[str, Any]]:
    return {(one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(read("kubernetes.yaml"))}


def commands() -> dict[str, list[str]]:
    """The arguments of each command of Ripieno in the files."""
    found = {
        name: shlex.split(unit(name)["Service"]["ExecStart"])[1:] for name in ("worker.service", "gateway.service")
    }
    services = yaml.safe_load(read("compose.yaml"))["services"]
    found |= {f"compose {name}": services[name]["command"] for name in ("worker", "gateway")}
    for (kind, name), one in kubernetes().items():
        if kind == "Deployment":
            (container,) = one["spec"]["template"]["spec"]["containers"]
            found[name] = container["args"]
    entry, usual = re.findall(r"^(?:ENTRYPOINT|CMD) (\[.*\])$", read("Dockerfile"), re.MULTILINE)
    return {**found, "Dockerfile": [*json.loads(entry), *json.loads(usual)][1:]}


def test_the_page_includes_all_files() -> None:
    included = re.findall(r"literalinclude:: \.\./examples/deploying/(\S+)", PAGE.read_text())
    assert sorted(included) == sorted(one.name for one in EXAMPLES.iterdir())


@pytest.mark.parametrize("name", sorted(commands()))
def test_the_command_line_accepts_the_commands(user: User, name: str) -> None:
    words = commands()[name]
    assert words[0] in ("work", "serve")
    done = user.call(*words, "--help")
    assert (done.returncode, "Usage: ripieno" in done.stdout) == (0, True), done.stderr
    refused = user.call(*words, "--unheard-of", "--help")
    assert refused.returncode == 2


def test_the_page_installs_its_files_where_the_units_look_for_them() -> None:
    install, looks, *_ = texts("tutorials/deploying", *BLOCKS)
    copied = dict(re.findall(r"^\$ sudo install .*?([a-z]+\.[a-z]+) (/etc/\S+)$", install, re.MULTILINE))
    places = {name: re.findall(r"/etc/[\w/.-]+", read(name).splitlines()[0])[0].rstrip(".") for name in copied}
    assert copied == places
    folders = [one.split("=")[1].split() for one in read("worker.service").splitlines() if "StateDirectory=" in one]
    assert [f"/var/lib/{one}" for one in folders[0]] == install.split("--owner ripieno ")[1].split()[:2]
    service = unit("worker.service")["Service"]
    assert f"$ cd {service['WorkingDirectory']}\n" in looks
    assert f'PATH="{pathlib.Path(service["ExecStart"].split()[0]).parent}:' in looks
    assert f". {service['EnvironmentFile']};" in looks


def test_the_configuration_is_valid(user: User) -> None:
    user.configure(read("config.toml"))
    user.ensemble("trial", read("trial.toml"))
    for named in ((), ("--config", str(EXAMPLES / "config.toml"))):
        done = user.run("check", *named, "--strict", **VARIABLES)
        assert done.returncode == 0, done.stdout + done.stderr
    # On one machine.
    user.configure(read("config.toml").replace('[journal]\nurl = "{env:JOURNAL_URL}"\n', ""))
    assert user.run("check", "--strict", **{**VARIABLES, "JOURNAL_URL": ""}).returncode == 0
    named = dict(line.split("=", 1) for line in read("ripieno.env").splitlines() if not line.startswith("#"))
    assert named.keys() == {*VARIABLES, "RIPIENO_CONFIG_HOME", "RIPIENO_STATE_HOME"}


def test_each_limit_is_longer_than_the_grace_and_the_health_is_asked() -> None:
    assert f"grace = {GRACE}\n" in read("config.toml")
    services = yaml.safe_load(read("compose.yaml"))["services"]
    deployments = {
        name: one["spec"]["template"]["spec"] for (kind, name), one in kubernetes().items() if kind != "Service"
    }
    workers = (
        int(unit("worker.service")["Service"]["TimeoutStopSec"]),
        int(services["worker"]["stop_grace_period"].removesuffix("s")),
        deployments["ripieno-worker"]["terminationGracePeriodSeconds"],
    )
    assert min(workers) > GRACE + 10
    gateways = (
        int(unit("gateway.service")["Service"]["TimeoutStopSec"]),
        int(services["gateway"]["stop_grace_period"].removesuffix("s")),
        deployments["ripieno-gateway"]["terminationGracePeriodSeconds"],
    )
    usual = GatewayDescriptor()
    assert min(gateways) > usual.grace + 10
    (container,) = deployments["ripieno-gateway"]["containers"]
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}
    assert container["readinessProbe"] == {"httpGet": {"path": "/healthz", "port": "http"}}
    assert ports == {"http": 8080}
    (container,) = deployments["ripieno-worker"]["containers"]
    assert container["ports"] == [{"name": "metrics", "containerPort": METRICS}]
    for one in deployments.values():
        assert {mount["name"] for mount in one["containers"][0]["volumeMounts"]} == {v["name"] for v in one["volumes"]}
    assert services["database"]["image"] == "postgres:17"
    assert read("Dockerfile").splitlines()[1] == "FROM python:3.12-slim"
    assert f"client_max_body_size {usual.body_bytes // 2**20}m;" in read("nginx.conf")
    assert f"proxy_read_timeout {usual.seconds:.0f}s;" in read("nginx.conf")


def test_workers_serve_metrics_in_containers_also_for_others() -> None:
    found = commands()
    assert found["worker.service"][-2:] == ["--metrics", str(METRICS)]
    for name in ("compose worker", "ripieno-worker"):
        assert found[name][-2:] == ["--metrics", f"0.0.0.0:{METRICS}"]
    assert f"--metrics {METRICS}" in PAGE.read_text()


def test_ensembles_of_a_config_map_are_loaded(user: User) -> None:
    """The mounts of the manifest: one file, and a folder of links as Kubernetes makes it of a config map."""
    user.configure(read("config.toml") + '[ensembles]\ninclude = ["trial"]\n')
    mounted = user.configuration / "ensembles"
    version = mounted / "..2026_11_28_06_00_00.1"
    version.mkdir(parents=True)
    (version / "trial.toml").write_text(read("trial.toml"))
    (mounted / "..data").symlink_to(version.name)
    (mounted / "trial.toml").symlink_to(pathlib.Path("..data") / "trial.toml")
    assert user.call("check", "--strict", **VARIABLES).returncode == 0
    assert "trial.wait_seconds" in user.call("tools", **VARIABLES).stdout
    for (kind, _), one in kubernetes().items():
        if kind == "Deployment":
            spec = one["spec"]["template"]["spec"]
            folders = {mount["name"]: mount["mountPath"] for mount in spec["containers"][0]["volumeMounts"]}
            assert folders["configuration"] == "/etc/ripieno/config.toml"
            assert folders["ensembles"] == "/etc/ripieno/ensembles"
    assert "./ensembles:/etc/ripieno/ensembles:ro" in read("compose.yaml")
    assert "RIPIENO_CONFIG_HOME=/etc/ripieno " in read("Dockerfile")


def test_the_times_of_the_page_are_those_of_the_leases() -> None:
    assert f"at most {leases.LEASE:.0f} seconds, and other workers" in PAGE.read_text()
    assert "after at most 17" in PAGE.read_text()
    assert leases.LEASE + 2 == 17


class Shell:
    """Runs lines of the page as an operator of a database does."""

    def __init__(self, user: User, server: str, folder: pathlib.Path) -> None:
        self.user, self.server = user, server
        self.name = f"ripieno_{uuid.uuid4().hex[:8]}"
        host = re.search(r"host=([^&]+)", server)
        assert host is not None
        self._variables = {"PGHOST": host[1], "PGUSER": "postgres", **VARIABLES}
        programs = folder / "programs"
        programs.mkdir()
        (programs / "ripieno").write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m ripieno "$@"\n')
        (programs / "ripieno").chmod(0o700)
        self._path = os.pathsep.join((str(programs), str(program_of("psql").parent), os.environ["PATH"]))

    def url(self, name: str) -> str:
        return self.server.replace("/postgres?", f"/{name}?")

    def environment(self, name: str = "") -> dict[str, str]:
        return {**self._variables, "PATH": self._path, "JOURNAL_URL": self.url(name or self.name)}

    def run(self, line: str, name: str = "") -> str:
        environment = self.user.environment(**self.environment(name))
        command = ["sh", "-ec", line.removeprefix("$ ")]
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, cwd=self.user.workspace, check=False
        )
        assert done.returncode == 0, (line, done.stdout, done.stderr)
        return done.stdout


def states(shell: Shell) -> dict[str, tuple[str, str]]:
    """The states of the runs, and their workers."""
    listed = json.loads(shell.run("ripieno runs list --format json"))
    return {one["run"]: (one["state"], one["worker"] or "") for one in listed}


def of_worker(states: dict[str, tuple[str, str]], pid: int) -> list[str]:
    """The runs that are under way in the worker with a process identifier."""
    return [run for run, (state, worker) in states.items() if state == "running" and f"-{pid}-" in worker]


def test_the_trial_and_a_restored_backup(user: User, postgresql_server: str, tmp_path: pathlib.Path) -> None:
    install, looks, starting, creation, anywhere, trial, after, dumps, empty, restoring, cancel, again = texts(
        "tutorials/deploying", *BLOCKS
    )
    assert "pip install '.[durable,otel]'" in install
    assert starting.splitlines()[1].endswith(" ripieno-worker")
    shell = Shell(user, postgresql_server, tmp_path)
    for line in creation.splitlines():
        # A role of this test, without a terminal for its password.
        shell.run(line.replace("--pwprompt ", "").replace("ripieno", shell.name))
    user.configure(read("config.toml"))
    # Calls end when the test lets them, however slow the machine is.
    going = tmp_path / "going"
    sleeping = json.dumps(["sh", "-c", f"until [ -e '{going}' ]; do sleep 0.1; done", "{seconds}"])
    described, slept = read("trial.toml"), '["sleep", "{seconds}"]'
    assert described.count(slept) == 1
    user.ensemble("trial", described.replace(slept, sleeping))
    (user.workspace / "slow.toml").write_text(read("slow.toml"))
    for line in looks.splitlines()[4:6]:
        shell.run(line)
    work, submit, _ = trial.splitlines()
    assert work == "$ ripieno work"
    extra = shell.environment()
    with user.start("work", **extra) as first, user.start("work", **extra) as second:
        for process in (first, second):
            wait_for(process, "takes submitted runs")
        assert shell.run(after.splitlines()[0]).count("\n") == 3
        shell.run(submit)
        until = time.monotonic() + PATIENCE
        while not (hit := of_worker(states(shell), first.pid)):
            assert time.monotonic() < until, states(shell)
        first.send_signal(signal.SIGKILL)
        first.wait(PATIENCE)
        going.touch()
        wait_for(second, r"has not renewed its lease: its runs are queued again \(trial-\d[^\n]*\)\.")
        until = time.monotonic() + PATIENCE
        while set(dict((now := states(shell)).values())) != {"ended"}:
            assert time.monotonic() < until, now
        assert len(now) == 5
        assert all(f"-{second.pid}-" in now[run][1] for run in hit)
        for line in after.splitlines():
            shell.run(line)
        second.send_signal(signal.SIGTERM)
        assert second.wait(PATIENCE) == 0
    # Submitted, and not taken by any worker: it is in the backup.
    shell.run(anywhere)
    mask, *dumped = dumps.splitlines()
    shell.run(f"{ASK} \"INSERT INTO ripieno.caller_keys VALUES ('laptop', 'earlier')\"")
    for line in dumped:
        shell.run(f"{mask.removeprefix('$ ')}; {line.removeprefix('$ ')}")
    assert {one.stat().st_mode & 0o777 for one in user.workspace.glob("*.dump")} == {0o600}
    copy = f"{shell.name}_restored"
    shell.run(empty.replace("ripieno", shell.name))
    *restored, verify, listing, schedules = restoring.splitlines()
    for line in restored:
        shell.run(line, copy)
    assert "none altered" in shell.run(verify, copy)
    assert "Summarise the new issues." in shell.run(listing, copy)
    shell.run(schedules, copy)
    (waiting,) = json.loads(shell.run("ripieno runs list --state queued --format json", copy))
    shell.run(cancel.replace("RUN", waiting["run"]), copy)
    assert shell.run(listing, copy).strip() == "No run matches."
    # A gateway has made another key before the earlier ones were restored.
    shell.run(f"{ASK} \"UPDATE ripieno.caller_keys SET wrapped = 'another'\"", copy)
    for line in again.splitlines():
        shell.run(line, copy)
    shown = shell.run(f"{ASK} \"SELECT wrapped = 'earlier' FROM ripieno.caller_keys\"", copy)
    assert shown.strip() == "t"
