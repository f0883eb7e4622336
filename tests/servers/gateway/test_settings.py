"""What the gateway is told: its table, its options, its keys; and all the ways in which it must not listen."""

import dataclasses
import hashlib
import itertools
import json
import re
import socket
import tomllib
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from ripieno.assembly.configuration import load_configuration
from ripieno.assembly.trust import TrustStore, find_project
from ripieno.cli.serve import responses
from ripieno.descriptors import GatewayDescriptor
from ripieno.descriptors.configuration import combine, read_parts
from ripieno.descriptors.gateway import GATEWAY, StoreDescriptor
from ripieno.exceptions import InputError
from ripieno.servers.http import listeners
from ripieno.servers.http.keys import Keys, digest_of, make_key
from ripieno.servers.http.listeners import bind
from ripieno.storage.places import Places
from tests.descriptors.descriptor_examples import read_configuration
from tests.support.command_line import User
from tests.support.users import Done

Call = Callable[..., Done]
KEY = "a-key-of-many-letters"
DIGEST = digest_of(KEY)
HOUSE = """
[providers.house]
protocol = "openai-chat"
base_url = "http://127.0.0.1:9/v1"
api_key = "none"
"""


def read(text: str) -> tuple[GatewayDescriptor | None, list[str]]:
    descriptor, problems = read_configuration(tomllib.loads(text))
    return None if descriptor is None else descriptor.gateway, [str(problem) for problem in problems]


def test_without_a_table_everything_has_its_default() -> None:
    assert read("") == (GatewayDescriptor(), [])
    assert {key.name for key in GATEWAY.keys} == {field.name for field in dataclasses.fields(GatewayDescriptor)}


def test_every_key_is_read() -> None:
    text = f"""
[gateway]
models = ["house/small-1"]
map = {{ "*" = "house/small-1", "gpt.4" = "house/a/b:7" }}
ensembles = ["io"]
hosted = {{ code_interpreter = "execution.python_exec", "acme:x" = "io.read_file" }}
mcp = ["git"]
strict = true
absent = "defer"
show_calls = false
max_turns = 3
keys = {{ laptop = "{DIGEST}" }}
hosts = ["Models.Example.org", "::1"]
events = "seed"
metrics = false
secret = "{{env:GATEWAY_SECRET}}"
header_bytes = "16 KiB"
header_seconds = 2.5
body_bytes = 1000
body_seconds = 3
messages = 7
parts = 8
tools = 9
containers = 10
memory_bytes = "1 MiB"
connections = 10
concurrency = 5
sockets = 6
socket_seconds = 7
socket_idle = 8
seconds = 60
keep_alive = 1
stalled = 2
grace = 0
store = {{ default = false, days = 1, responses = 3, bytes = "1 MiB" }}
"""
    gateway, problems = read(text)
    assert problems == []
    assert gateway is not None
    said = {field.name: getattr(gateway, field.name) for field in dataclasses.fields(gateway)}
    assert said.keys() == tomllib.loads(text)["gateway"].keys()
    assert [name for name, value in said.items() if value == getattr(GatewayDescriptor(), name)] == []
    assert (said["hosts"], said["header_bytes"]) == (("models.example.org", "::1"), 16384)
    assert said["map"] == {"*": "house/small-1", "gpt.4": "house/a/b:7"}
    assert said["store"] == StoreDescriptor(default=False, days=1, responses=3, bytes=2**20)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('models = ["small-1"]', 'must be a provider and a model such as "house/small-1"'),
        ('models = ["score:./mine.toml"]', "Serve the score with: ripieno rehearse ./mine.toml, which prints the"),
        ('models = ["a/b", "a/b"]', "occurs twice"),
        ('map = { "two words" = "a/b" }', "a name without spaces"),
        ('map = { small = "b" }', "a provider and a model"),
        ('hosted = { code_interpreter = "python_exec" }', "an ensemble and a tool"),
        ('hosted = { "Code" = "a.b" }', "a kind such as"),
        ('absent = "ask"', '"deny", "defer"'),
        ('events = "old"', '"official", "seed"'),
        ("strict = 1", "true or false"),
        ("max_turns = 0", "at least 1"),
        ('hosts = ["*"]', "would let any page of the web in"),
        ('hosts = ["http://a.example"]', "without scheme and port"),
        ('hosts = ["a.example:80"]', "without scheme and port"),
        ('hosts = ["a.example/"]', "without scheme and port"),
        ('hosts = ["a b"]', "without scheme and port"),
        ('hosts = [""]', "without scheme and port"),
        ('secret = "{SECRET}"', "no"),
        ('secret = "fifteen-letters"', "secret has 15 bytes: it needs 16 random bytes or more"),
        ('secret = "{{}}{{}}{{}}{{}}"', "secret has 8 bytes"),
        ("header_bytes = 0", "a size such as"),
        ('header_bytes = "2 MiB"', "at most 1 MiB"),
        ("body_seconds = 0", "above 0"),
        ("connections = 0", "from 1 to 100000"),
        ("concurrency = 1.5", "a whole number"),
        ("grace = -1", "0"),
        ("header_second = 1", "Did you mean 'header_seconds'?"),
        ("port = 80", "the options of `ripieno serve responses`"),
        (f'keys = {{ "two words" = "{DIGEST}" }}', "the name of a caller"),
        (f'keys = {{ one = "{DIGEST}", two = "{DIGEST}" }}', "two has the key of one"),
    ],
)
def test_what_is_wrong_is_said(line: str, words: str) -> None:
    gateway, problems = read(f"[gateway]\n{line}\n")
    assert gateway is None
    assert len(problems) == 1
    assert words.lower() in problems[0].lower()


@pytest.mark.parametrize("secret", ["sixteen-letters-", "sechzehn-zeichä", "{env:A}"])
def test_a_secret_is_counted_in_bytes_where_it_is_known(secret: str) -> None:
    gateway, problems = read(f'[gateway]\nsecret = "{secret}"\n')
    assert problems == []
    assert gateway is not None
    assert gateway.secret == secret


@pytest.mark.parametrize("wrong", [KEY, DIGEST.upper(), DIGEST + "0", DIGEST.removeprefix("sha256:"), " " + DIGEST])
def test_a_key_in_the_place_of_its_digest_is_not_repeated(wrong: str) -> None:
    gateway, problems = read(f'[gateway]\nkeys = {{ laptop = "{wrong}" }}\n')
    assert gateway is None
    assert "ripieno serve key" in problems[0]
    assert wrong.strip() not in problems[0]
    with pytest.raises(InputError, match="laptop") as raised:
        Keys({"laptop": wrong})
    assert wrong.strip() not in str(raised.value)


def test_the_schema_knows_the_table(call: Call) -> None:
    table = json.loads(call("schema", "config").out)["properties"]["gateway"]
    assert set(table["properties"]) == {field.name for field in dataclasses.fields(GatewayDescriptor)}
    assert table["additionalProperties"] is False
    assert table["properties"]["concurrency"]["default"] == GatewayDescriptor().concurrency
    assert "default" not in table["properties"]["secret"]


def test_layers_go_key_by_key() -> None:
    one, two = digest_of("a" * 16), digest_of("b" * 16)
    parts: list[Mapping[str, Any]] = []
    for table in ({"keys": {"a": one}, "models": ["h/a"], "grace": 1}, {"keys": {"b": two}, "models": ["h/b"]}):
        read_one, problems = read_parts({"gateway": table})
        assert problems == ()
        parts.append(read_one)
    assert combine(parts).gateway == GatewayDescriptor(keys=combine(parts).gateway.keys, models=("h/b",), grace=1)
    assert combine(parts).gateway.keys == {"a": one, "b": two}


def test_a_model_of_nobody_is_said(user: User, call: Call) -> None:
    user.configure(HOUSE + '[gateway]\nmodels = ["hous/small-1"]\nmap = { "*" = "garden/small-1" }\n')
    done = call("check")
    assert done.code == 2
    assert "gateway.models[0] names the provider 'hous'" in done.out + done.err
    assert "names the provider 'garden'" in done.out + done.err


def test_check_says_what_serving_would_refuse(user: User, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GATEWAY_SECRET", raising=False)
    user.ensemble("far", '[ensemble]\nname = "far"\n[connection]\norigin = "mcp"\ncommand = ["cat"]\n')
    file = user.workspace.parent / "gateway.toml"
    file.write_text(
        '[ensembles]\nenabled = ["io", "far"]\n[gateway]\n'
        'ensembles = ["io", "io2"]\n'
        'mcp = ["git"]\n'
        "[gateway.hosted]\n"
        'web_search = "web.search"\n'
        '"acme:read" = "io.read_fil"\n'
        'code_interpreter = "far.whatever"\n'
        '"acme:write" = "io.write_file"\n'
    )
    done = call("check", "--config", str(file))
    assert done.code == 2
    assert done.out.count(f"{file}:") == 5
    assert ": 4 errors, " in done.out
    assert f"{file}:4: error: gateway.ensembles[1] names the ensemble 'io2', which is not enabled\n" in done.out
    assert "Did you mean 'io'?" in done.out
    assert f"{file}:5: error: gateway.mcp[0] names the ensemble 'git'" in done.out
    assert 'To add it: include = ["git"] under [ensembles]' in done.out
    assert f"{file}:7: error: gateway.hosted.web_search names the ensemble 'web'" in done.out
    assert f"{file}:8: error: gateway.hosted.\"acme:read\" names the tool 'read_fil', which 'io' does not" in done.out
    assert "Did you mean 'io.read_file'?" in done.out
    file.write_text('[gateway]\nensembles = ["io"]\nsecret = "{env:GATEWAY_SECRET}"\n')
    done = call("check", "--config", str(file))
    assert done.code == 0
    assert f"{file}:3: warning: the variable GATEWAY_SECRET is not set" in done.out
    assert "hint: Set it: export GATEWAY_SECRET=...\n" in done.out
    monkeypatch.setenv("GATEWAY_SECRET", "too-short")
    short = call("check", "--config", str(file))
    assert (
        short.code,
        f"{file}:3: error: with the value of GATEWAY_SECRET, gateway.secret has 9 bytes" in short.out,
    ) == (
        2,
        True,
    )
    assert "too-short" not in short.out
    monkeypatch.setenv("GATEWAY_SECRET", "a secret of the tests")
    assert "GATEWAY_SECRET" not in call("check", "--config", str(file), "--strict").out
    file.write_text('[gateway]\nsecret = "too-short"\n')
    done = call("check", "--config", str(file))
    assert done.code == 2
    assert f"{file}:2: error: secret has 9 bytes" in done.out


def test_a_failed_start_closes_the_port(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[socket.socket] = []

    def bound(host: str, port: int) -> socket.socket:
        opened.append(bind(host, port))
        return opened[-1]

    monkeypatch.setattr(listeners, "bind", bound)
    monkeypatch.setattr(responses, "leave_input", lambda: None)
    user.configure("")
    assert user.call("serve", "responses", "-m", "hous/small-1", "--port", "0").returncode == 2
    assert [one.fileno() for one in opened] == [-1]


@pytest.mark.parametrize("server", [("responses", "-m", "house/small-1"), ("mcp", "--transport", "http")])
def test_who_lacks_a_key_is_told_how_to_get_one(user: User, server: tuple[str, ...]) -> None:
    user.configure(HOUSE)
    done = user.call("serve", *server, "--host", "0.0.0.0", "--port", "0")
    assert done.returncode == 2
    assert "which requires a key" in done.stderr
    assert "export SERVE_KEY=$(openssl rand -hex 32), and name it: --key-variable SERVE_KEY" in done.stderr


@pytest.mark.parametrize("trusted", [True, False])
def test_a_project_never_sets_it(user: User, call: Call, trusted: bool) -> None:
    user.configure(HOUSE + '[gateway]\nmodels = ["house/small-1"]\n')
    project = f'[gateway]\nmodels = ["house/other"]\nkeys = {{ anybody = "{DIGEST}" }}\nhosts = ["evil.example"]\n'
    (user.workspace / "ripieno.toml").write_text(project + 'hosted = { web_search = "io.write_file" }\n')
    places = Places(configuration=user.configuration, state=user.state)
    found = find_project(user.workspace)
    assert found is not None
    if trusted:
        TrustStore(user.state).add(found)
    loaded = load_configuration(places=places, project=found, workspace=user.workspace)
    assert loaded.failures == ()
    assert loaded.configuration.gateway == GatewayDescriptor(models=("house/small-1",))
    assert [one.name for one in loaded.left_out] == ["[gateway]"]
    done = call("serve", "responses", "--host", "0.0.0.0", "--port", "0")
    assert done.code == 2
    assert "Left out: [gateway]" in done.err
    assert "requires a key. Set one, such as export SERVE_KEY=$(openssl rand -hex 32)" in done.err


#: Beyond this machine, as people write it, and as somebody would who wants to be taken for loopback.
BEYOND = (
    *("0.0.0.0", "::", "", "192.168.1.5", "10.0.0.1", "172.17.0.1", "169.254.169.254", "fe80::1", "8.8.8.8", "*"),
    *("0", "0x7f000001", "0177.0.0.1", "2130706433", "127.1", "128.0.0.1", "126.255.255.255", "255.255.255.255"),
    *("localhost.", "LOCALHOST", "localhost.example", "127.0.0.1.example", "::ffff:0.0.0.0", "::ffff:192.168.1.5"),
    *("[::1]", " 127.0.0.1", "127.0.0.1 ", "127.0.0.1/8", "::2", "0::", "example.org", "this.machine"),
)
#: What is no key, in the variable that should have one.
NO_KEYS = (
    "",
    " ",
    "short",
    "fifteen-letters",
    "a key with spaces in it",
    "schlüssel-mit-umlauten",
    "tabs\tin\tthis-key",
)


@pytest.mark.parametrize("host", BEYOND)
def test_without_a_key_it_does_not_listen_beyond_this_machine(user: User, call: Call, host: str) -> None:
    user.configure(HOUSE)
    done = call("serve", "responses", "-m", "house/small-1", f"--host={host}", "--port", "0")
    assert done.code == 2
    assert "Serving" not in done.err
    assert re.search("requires a key|the name of a host", done.err)


@pytest.mark.parametrize(("host", "key"), list(itertools.product(("0.0.0.0", "::", "127.0.0.1"), NO_KEYS)))
def test_with_a_key_that_is_none_it_does_not_listen(
    user: User, call: Call, monkeypatch: pytest.MonkeyPatch, host: str, key: str
) -> None:
    user.configure(HOUSE)
    monkeypatch.setenv("GATEWAY_KEY", key)
    options = ("--host", host, "--port", "0", "--key-variable", "GATEWAY_KEY")
    done = call("serve", "responses", "-m", "house/small-1", *options)
    assert done.code == 2
    assert "Serving" not in done.err
    assert len(key) < 2 or key not in done.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--key-variable", "NOT_SET"], "is not set"),
        (["--map", "small"], "NAME=PROVIDER/MODEL"),
        (["--map", "=house/small-1"], "NAME=PROVIDER/MODEL"),
        (["--map", "*=score:./a b.toml"], "Serve the score with: ripieno rehearse './a b.toml'"),
        (["-m", "score:demo"], "Serve the score with: ripieno rehearse demo, which prints the provider"),
        (["--allow-host", "*"], "would let any page of the web in"),
        (["--model", "small-1"], "a provider and a model"),
        (["--ensemble", "nowhere"], "no ensemble"),
        (["--grace", "-1"], "grace"),
        (["--workers", "0"], "1<=x"),
        (["--port", "65536"], "65535"),
        (["--events", "old"], "official"),
        (["--approve", "io.no_such_tool", "--ensemble", "io"], "no_such_tool"),
        (["--model", "garden/small-1"], "garden"),
    ],
)
def test_what_is_wrong_with_an_option_is_said(user: User, options: list[str], words: str) -> None:
    user.configure(HOUSE + '[ensembles]\nenabled = ["io"]\n[model]\ndefault = "house/small-1"\n')
    done = user.run("serve", "responses", "--port", "0", *options)
    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert "Serving" not in done.stderr


def test_a_made_key_is_said_once_and_its_line_lets_in(call: Call) -> None:
    done = call("serve", "key", "--name", "lap.top")
    assert done.code == 0
    key = done.out.removesuffix("\n")
    assert "\n" not in key
    assert key not in done.err
    line = done.err.partition("\n")[2]
    gateway, problems = read(line)
    assert (gateway is not None, problems) == (True, [])
    assert gateway is not None
    assert Keys(gateway.keys).identify([(b"authorization", b"Bearer " + key.encode())]) == "lap.top"
    assert call("serve", "key", "--name", "two words").code == 2
    assert len({make_key() for _ in range(100)}) == 100


SENT: tuple[tuple[list[tuple[bytes, bytes]], str | None], ...] = (
    ([(b"authorization", b"Bearer " + KEY.encode())], "laptop"),
    ([(b"authorization", b"bEaReR  " + KEY.encode() + b" ")], "laptop"),
    ([(b"x-api-key", KEY.encode())], "laptop"),
    ([(b"x-goog-api-key", b"another-key-of-many")], "phone"),
    ([], None),
    ([(b"authorization", b"Basic " + KEY.encode())], None),
    ([(b"authorization", KEY.encode())], None),
    ([(b"authorization", b"Bearer " + DIGEST.encode())], None),
    ([(b"x-api-key", b"Bearer " + KEY.encode())], None),
    ([(b"x-api-key", KEY.encode() + b"x")], None),
    ([(b"x-api-key", KEY.encode()[:-1])], None),
    ([(b"x-api-key", b"")], None),
    ([(b"x-api-key", KEY.encode()), (b"x-api-key", KEY.encode())], None),
    ([(b"x-api-key", KEY.encode()), (b"authorization", b"Bearer " + KEY.encode())], None),
    ([(b"x-api-key", b"\xff\x00" * 16)], None),
    ([(b"cookie", b"key=" + KEY.encode())], None),
)


@pytest.mark.parametrize(("sent", "caller"), SENT)
def test_keys_name_their_callers(sent: list[tuple[bytes, bytes]], caller: str | None) -> None:
    keys = Keys({"laptop": DIGEST, "phone": digest_of("another-key-of-many")})
    assert keys.identify([(b"accept", b"*/*"), *sent]) == caller


def test_no_key_is_not_the_key_of_nobody() -> None:
    """The digest of nothing, which is public, is no way in."""
    keys = Keys({"nobody": "sha256:" + hashlib.sha256(b"").hexdigest()})
    for sent in ([], [(b"x-api-key", b"")], [(b"authorization", b"Basic x")]):
        assert keys.identify(sent) is None
