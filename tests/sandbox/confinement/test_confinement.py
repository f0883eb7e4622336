"""What a confined program tries and does not get, tier by tier; what it needs, and gets. Canaries appear nowhere."""

import asyncio
import json
import os
import secrets
import stat
from pathlib import Path

import pytest

from ripieno.sandbox import ProcessLimits
from ripieno.sandbox.processes import LocalSpawner
from tests.support.sandbox_tiers import SHELTERS, python, shelter

ATTACKER = (Path(__file__).parent / "attacker.py").read_text(encoding="utf-8")
CANARY = f"CANARY-{secrets.token_hex(16)}"
#: What a tier without mounts does not keep (said in the guide): the mode of the user's own files outside.
NOT_PROMISED = {"tier 1 without mounts": ("mode",), "tier 1 without namespaces": ("mode",)}
#: Attempts that seem to succeed and change nothing of ours, which is looked at from outside: what is written goes to a
#: private copy; a signal to everybody is no error when it is refused for each one (Linux); the first process of tier 2
#: has the environment of the program itself.
HARMLESS = {
    "tier 1 without namespaces": ("process: kill everybody",),
    "tier 2": (
        *("write: create", "write: folder", "write: symbolic link"),
        *("environment: of everybody", "environment: parent"),
    ),
}


def environment_of(process: int) -> str:
    return Path(f"/proc/{process}/environ").read_text()


def files_of_the_home() -> list[str]:
    return [str(path) for path in Path.home().iterdir() if path.is_file()]


async def attack(name: str, folder: Path) -> tuple[dict[str, str], str]:
    """What came of each attempt, and all that the program wrote."""
    inside, outside = folder / "inside", folder / "outside"
    for one in (inside, outside, outside / "folder"):
        one.mkdir()
    (outside / "secret").write_text(CANARY)
    (outside / "mine").write_text(CANARY)
    sandbox = shelter(name, inside)
    async with await LocalSpawner().start(
        ["sh", "-c", "echo ready; sleep 300; true"], {"PATH": os.defpath, "SECRET": CANARY}, outside, ProcessLimits()
    ) as victim:
        assert await victim.stdout.read(6) == b"ready\n"
        assert CANARY in environment_of(victim.pid)
        completed = await python(
            ATTACKER,
            sandbox.confinement(writable=[inside]),
            inside,
            str(inside),
            str(outside),
            str(victim.pid),
            json.dumps(files_of_the_home()),
            **sandbox.environment(),
        )
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await victim.wait()
    sandbox.close()
    assert completed.exit_code == 0, completed.stderr.text
    found: dict[str, str] = json.loads(completed.stdout.text)
    return found, completed.stdout.text + completed.stderr.text


@pytest.mark.parametrize("name", SHELTERS)
async def test_a_confined_program_gets_nothing_and_what_it_needs(name: str, tmp_path: Path) -> None:
    found, said = await attack(name, tmp_path)
    assert len(found) > 100
    allowed = (*NOT_PROMISED.get(name, ()), *HARMLESS.get(name, ()))
    expected = {one for one in found if one.startswith("works")}
    got = {one for one, what in found.items() if what.startswith("done")}
    surprising = {one: found[one] for one in got - expected if not one.startswith(allowed)}
    assert surprising == {}
    assert {one: found[one] for one in expected - got} == {}
    assert CANARY not in said
    outside = tmp_path / "outside"
    assert sorted(path.name for path in outside.iterdir()) == ["folder", "mine", "secret"]
    assert (outside / "mine").read_text() == CANARY
    if "mode" not in allowed:
        assert stat.S_IMODE((outside / "mine").stat().st_mode) == 0o644
