"""Which tier is taken, what is said of it, and what a confinement of it has; folders that come and go."""

import os
import pathlib
import sys
from typing import Any

import pytest

from ripieno.descriptors.sandbox import SandboxDescriptor
from ripieno.exceptions import PermissionFault, ResourceFault
from ripieno.sandbox import Confinement, DetectedTiers, ProcessLimits, RoutedSpawner, Sandbox
from ripieno.sandbox.paths import is_beneath, outermost, readable_places, secrets_of
from ripieno.sandbox.processes import LocalSpawner, collect

KERNEL = DetectedTiers(
    tier=1, template=Confinement(tier=1, namespaces=("user", "pid")), parts=("landlock 7", "seccomp")
)
BUBBLE = DetectedTiers(tier=2, template=Confinement(tier=2, program="/usr/bin/bwrap"), parts=("bubblewrap",))


def sandbox(folder: pathlib.Path, *tiers: DetectedTiers, **wishes: Any) -> Sandbox:
    """One on a machine where these tiers hold, and no others."""
    held = {found.tier: found for found in tiers}
    return Sandbox(
        folder,
        SandboxDescriptor(**wishes),
        try_tier=lambda tier: held.get(tier, DetectedTiers(tier=tier, failure=f"no tier {tier} here.")),
    )


ONE, TWO, NONE = "tier 1 (landlock 7, seccomp)", "tier 2 (bubblewrap)", "tier 0 (limits, private home)"
NO_TWO = "Tier 2 unavailable: no tier 2 here."
NEITHER = f"{NO_TWO} Tier 1 unavailable: no tier 1 here."


@pytest.mark.parametrize(
    ("tiers", "wishes", "name", "reason", "offered"),
    [
        ((KERNEL, BUBBLE), {}, TWO, None, True),
        ((KERNEL,), {}, ONE, NO_TWO, True),
        ((BUBBLE,), {}, TWO, None, True),
        ((KERNEL, BUBBLE), {"tier": 1}, ONE, "[sandbox] tier is 1.", True),
        ((KERNEL,), {"tier": 2}, NONE, NO_TWO, False),
        ((KERNEL,), {"tier": 2, "level": "auto"}, ONE, NO_TWO, True),
        ((), {"level": "auto"}, NONE, NEITHER, True),
        ((), {"level": "required"}, NONE, NEITHER, False),
        ((KERNEL,), {"level": "off"}, NONE, '[sandbox] level is "off".', True),
        ((), {"provider": "cubes"}, "tier 3 (cubes)", None, True),
    ],
)
def test_the_tier_and_why(
    tmp_path: pathlib.Path,
    *,
    tiers: tuple[DetectedTiers, ...],
    wishes: dict[str, Any],
    name: str,
    reason: str | None,
    offered: bool,
) -> None:
    one = sandbox(tmp_path, *tiers, **wishes)
    assert (one.name, one.reason) == (name, reason)
    assert one.tier == int(name[5])
    if offered:
        assert one.missing is None
        assert one.confinement(writable=[tmp_path]).tier == one.tier
    else:
        assert one.missing is not None
        assert "no tier 2 here." in one.missing
        with pytest.raises(PermissionFault, match="The program was not started: no sandbox is available here"):
            one.confinement(writable=[tmp_path])
    one.close()


def test_the_level_is_the_systems(tmp_path: pathlib.Path) -> None:
    assert sandbox(tmp_path).level == ("required" if sys.platform == "linux" else "auto")


def test_nothing_is_tried_or_made_before_it_is_needed(tmp_path: pathlib.Path) -> None:
    tried: list[int] = []

    def note(tier: int) -> DetectedTiers:
        tried.append(tier)
        return DetectedTiers(tier=tier, failure="not here.")

    one = Sandbox(tmp_path, SandboxDescriptor(level="auto"), try_tier=note)
    one.close()
    assert tried == []
    assert (one.tier, one.tier, tried) == (0, 0, [2, 1])


def test_folders_of_its_own(tmp_path: pathlib.Path) -> None:
    one = sandbox(tmp_path, KERNEL)
    home, temporary = pathlib.Path(one.home), pathlib.Path(one.temporary)
    assert one.environment({"A": "b"}) == {**one.environment(), "A": "b", "HOME": str(home), "TMPDIR": str(temporary)}
    toolchains = {"RUSTUP_HOME", "PYENV_ROOT", "RBENV_ROOT"}
    assert set(one.environment()) <= {"PATH", "LANG", "TZ", "HOME", "TMPDIR", *toolchains}
    assert [path.stat().st_mode & 0o777 for path in (home, temporary)] == [0o700, 0o700]
    confinement = one.confinement(writable=[tmp_path])
    assert {str(tmp_path.resolve()), str(home), str(temporary)} <= set(confinement.writable)
    # What a program leaves there may be hard to remove, and may lead out.
    (tmp_path / "kept").write_text("kept")
    (home / "deep" / "deeper").mkdir(parents=True)
    (home / "deep" / "deeper" / "file").write_text("x")
    (home / "out").symlink_to(tmp_path)
    (home / "deep" / "deeper").chmod(0)
    (home / "deep").chmod(0)
    one.close()
    assert not home.parent.exists()
    assert (tmp_path / "kept").read_text() == "kept"
    one.close()
    assert pathlib.Path(one.home).parent != home.parent
    one.close()


def test_what_is_writable_is_not_named_again_among_what_is_read(tmp_path: pathlib.Path) -> None:
    workspace, elsewhere = tmp_path / "workspace", tmp_path / "elsewhere"
    for one in (workspace / "programs", elsewhere):
        one.mkdir(parents=True)
    box = sandbox(
        workspace, KERNEL, readable=(str(elsewhere), str(tmp_path / "missing")), writable=(str(elsewhere / "x"),)
    )
    confinement = box.confinement(writable=[workspace], readable=[workspace / "programs"])
    assert str(elsewhere) in confinement.readable
    assert not any(path.startswith(str(workspace)) for path in confinement.readable)
    assert not any("missing" in path for path in confinement.readable)
    assert str(elsewhere / "x") not in confinement.writable
    box.close()


def test_control_files_are_protected_where_they_can_be_written(tmp_path: pathlib.Path) -> None:
    policy = tmp_path / "policy.toml"
    box = Sandbox(tmp_path, protected=[str(policy), "/elsewhere/config.toml"], try_tier=lambda tier: KERNEL)
    root = str(tmp_path.resolve())
    protected = box.confinement(writable=[tmp_path]).protected
    assert {f"{root}/.git/config", f"{root}/.git/hooks/", f"{root}/ripieno.toml", str(policy)} <= set(protected)
    assert "/elsewhere/config.toml" not in protected
    assert box.confinement().protected == ()
    box.close()


@pytest.mark.parametrize("mark", [None, "pyvenv.cfg", "lib/python3.11", "lib/node_modules", "pkg/tool"])
def test_of_the_folder_above_a_bin_only_parts_of_a_known_layout_are_readable(
    mark: str | None, tmp_path: pathlib.Path
) -> None:
    application = tmp_path / "app"
    for name in ("bin", "lib/inner", "src", ".git", "config"):
        (application / name).mkdir(parents=True)
    (application / ".env").write_text("SECRET=1")
    if mark is not None:
        (application / mark).mkdir(parents=True)
    places = readable_places(f"{application}/bin", str(tmp_path / "home"), network=False)
    readable = [one for one in places if one.startswith(str(tmp_path))]
    assert f"{application}/bin" in readable
    assert (readable == [f"{application}/bin"]) == (mark is None)
    hidden = (application, application / ".env", application / ".git", application / "config")
    assert not {str(one) for one in hidden} & set(readable)


def test_an_interpreter_in_an_application_is_readable_without_its_files(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / ".env").touch()
    for name in ("prefix", "exec_prefix"):
        monkeypatch.setattr(sys, name, str(tmp_path))
    places = readable_places("", "/nonexistent", network=False)
    assert [one for one in places if one.startswith(str(tmp_path))] == [str(tmp_path / "bin")]


def test_homes_are_no_place_for_programs(tmp_path: pathlib.Path) -> None:
    home, system = tmp_path / "home", tmp_path / "system"
    for one in (home / "bin", system / "bin", system / "scripts"):
        one.mkdir(parents=True)
    path = os.pathsep.join((str(home / "bin"), str(system / "bin"), "relative", str(tmp_path / "missing"), "/usr/bin"))
    places = readable_places(path, str(home), network=False)
    assert str(system / "bin") in places
    assert not any(place.startswith(str(home)) for place in places)
    assert "/" not in places
    assert str(tmp_path) not in places
    assert outermost(places) == list(places)


def test_settings_are_told_apart(tmp_path: pathlib.Path) -> None:
    for name, mode in (("all", 0o644), ("root", 0o600), ("group", 0o640)):
        (tmp_path / name).write_text(name)
        (tmp_path / name).chmod(mode)
    for name in ("open", "mixed", "closed"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "all").write_text(name)
    (tmp_path / "mixed" / "root").touch(mode=0o600)
    (tmp_path / "closed").chmod(0o700)
    common, secret = secrets_of(str(tmp_path))
    assert sorted(os.path.relpath(one, tmp_path) for one in common) == ["all", "mixed/all", "open"]
    assert sorted(os.path.relpath(one, tmp_path) for one in secret) == ["closed", "group", "mixed/root", "root"]


def test_the_systems_settings_are_looked_through_once(tmp_path: pathlib.Path) -> None:
    looked: list[object] = []
    listening = True

    def hear(event: str, arguments: tuple[object, ...]) -> None:
        if listening and event == "os.scandir" and arguments[0] == "/etc":
            looked.append(arguments)

    sys.addaudithook(hear)
    box = sandbox(tmp_path, KERNEL)
    for network in (False, True, False):
        for readable in ((), (tmp_path,)):
            box.confinement(readable=readable, network=network)
    listening = False
    box.close()
    # Only root reads what not everybody may, and has to leave it out.
    assert len(looked) == (os.geteuid() == 0)


async def test_a_plugins_spawner_starts_what_is_confined_and_nothing_else(tmp_path: pathlib.Path) -> None:
    class Elsewhere(LocalSpawner):
        def __init__(self) -> None:
            self.given: list[Any] = []

        async def start(self, *arguments: Any, confinement: Any = None, **settings: Any) -> Any:
            self.given.append(confinement)
            return await super().start(*arguments, **settings)

    elsewhere = Elsewhere()
    spawner = RoutedSpawner(LocalSpawner(), lambda: elsewhere)
    box = sandbox(tmp_path, provider="cubes")
    confinement = box.confinement(writable=[tmp_path])
    for one in (None, confinement):
        process = await spawner.start(["true"], box.environment(), tmp_path, ProcessLimits(), confinement=one)
        assert (await collect(process)).exit_code == 0
    assert elsewhere.given == [confinement]
    box.close()


async def test_what_another_tier_must_keep_is_not_started_here(tmp_path: pathlib.Path) -> None:
    """A confinement that this machine's own spawner does not know is an error, and no program without one."""
    with pytest.raises(ResourceFault, match=r"There is no tier 3; tiers are 0, 1 and 2\.$"):
        await LocalSpawner().start(
            ["touch", "started"], {"PATH": os.defpath}, tmp_path, ProcessLimits(), confinement=Confinement(tier=3)
        )
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("key", ["readable", "writable"])
@pytest.mark.parametrize("through", ["", "/inner"])
def test_a_link_that_programs_can_replace_grants_nothing(tmp_path: pathlib.Path, key: str, through: str) -> None:
    workspace, away, other = (tmp_path / name for name in ("workspace", "away", "other"))
    for folder in (workspace, away / "inner", other):
        folder.mkdir(parents=True)
    (workspace / "link").symlink_to(away)
    (tmp_path / "own").symlink_to(other)
    box = sandbox(workspace, KERNEL, **{key: (f"{workspace}/link{through}", f"{tmp_path}/own")})
    made = box.confinement(writable=[workspace])
    granted = (*made.readable, *made.writable)
    assert str(other) in granted
    assert not any(is_beneath(place, [str(away)]) for place in granted)
    box.close()


def test_a_link_in_a_writable_folder_grants_nothing(tmp_path: pathlib.Path) -> None:
    workspace, shared, away = (tmp_path / name for name in ("workspace", "shared", "away"))
    for folder in (workspace, shared, away):
        folder.mkdir()
    (shared / "link").symlink_to(away)
    box = sandbox(workspace, KERNEL, writable=(str(shared), f"{shared}/link"), readable=(f"{shared}/link",))
    made = box.confinement(writable=[workspace])
    assert str(shared) in made.writable
    assert str(away) not in (*made.readable, *made.writable)
    box.close()


@pytest.mark.parametrize("part", ["share", "bin"])
def test_links_in_a_virtual_environment_of_the_workspace_grant_nothing(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    workspace, away = tmp_path / "workspace", tmp_path / "away"
    environment = workspace / ".venv"
    for folder in (environment, away):
        folder.mkdir(parents=True)
    (environment / "pyvenv.cfg").touch()
    for name in {"bin", "lib"} - {part}:
        (environment / name).mkdir()
    (environment / part).symlink_to(away)
    monkeypatch.setenv("PATH", f"{environment}/bin:{os.environ['PATH']}")
    box = sandbox(workspace, KERNEL)
    assert str(away) not in box.confinement(writable=[workspace]).readable
    box.close()
