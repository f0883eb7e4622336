"""What the tutorials tell people to write: ``ripieno check`` has nothing to say of it, and it works."""

import json
import re
import shlex
from collections.abc import Callable, Iterator

import pytest

from ripieno.origins.mcp.settings import CONNECTION
from tests.documentation.code_blocks import blocks
from tests.support.command_line import BUNDLED, COMMAND, ROOT, User
from tests.support.users import Done

Call = Callable[..., Done]

TUTORIALS = ROOT / "documentation" / "tutorials"
CONNECTING = (TUTORIALS / "connect-mcp.rst").read_text(encoding="utf-8")


def typed(language: str, page: str = "write-a-tool") -> Iterator[str]:
    """The blocks of a language in a tutorial, as they would be typed."""
    return (block.text for block in blocks(f"tutorials/{page}") if block.kind == language)


@pytest.fixture
def written(user: User) -> User:
    """Somebody who has typed all of it."""
    for text in typed("toml"):
        found = re.search(r'^name = "(\w+)"', text, re.MULTILINE)
        assert found is not None
        user.ensemble(found[1], text)
    (module,) = typed("python")
    (user.configuration / "ensembles" / "dates.py").write_text(module)
    return user


def test_there_is_nothing_to_warn_of(call: Call, written: User) -> None:
    done = call("check", "--strict")
    assert (done.code, done.out) == (0, f"Checked {BUNDLED + 3} ensembles: 0 errors, 0 warnings.\n")


def test_the_tools_work(call: Call, written: User) -> None:
    (written.workspace / "README.rst").write_text("four words of text\n")
    # The server of the third example is not installed: it is not required.
    measured = call("invoke", "words.measure_text", "path=README.rst")
    assert (measured.code, measured.out.split()) == (0, ["4", "README.rst"])
    assert call("invoke", "dates.add_days", "date=2026-02-27", "days=2").out == "2026-03-01\n"
    assert "use fewer days" in call("invoke", "dates.add_days", "date=2026-02-27", "days=99999999").err
    listed = call("tools")
    assert (listed.code, "measure_text" in listed.out) == (0, True), listed.err


def test_the_project_folder_needs_trust(call: Call, user: User) -> None:
    user.ensemble("words", next(typed("toml")), folder=user.workspace / "ensembles")
    assert "ripieno trust" in call("tools").err
    assert call("trust").code == 0
    assert "measure_text" in call("tools").out


def test_the_mistake_that_is_shown_is_said_so(call: Call, written: User) -> None:
    file = written.configuration / "ensembles" / "words.toml"
    file.write_text(file.read_text().replace("effect", "efect"))
    (shown,) = (block for block in typed("text") if "efect" in block)
    assert shown.replace("/home/ada/.config/ripieno/ensembles/words.toml", str(file)) in call("check").out


def test_the_first_server_needs_nothing_but_its_package(call: Call, user: User) -> None:
    text = next(typed("toml", "connect-mcp"))
    assert "env:" not in text
    user.ensemble("time", text)
    done = call("check", "--no-import")
    assert (done.code, done.out) == (0, f"Checked {BUNDLED + 1} ensembles: 0 errors, 0 warnings.\n")
    assert "~/.config/ripieno/ensembles/time.toml" in CONNECTING
    assert "ripieno invoke time.get_current_time timezone=Europe/Vienna" in CONNECTING


def test_what_is_served_can_be_listed(call: Call, user: User) -> None:
    found = [block.text for block in blocks("tutorials/serve-mcp")]
    (text,) = [block for block in found if 'name = "served"' in block]
    (commands,) = [block for block in found if "--ensemble served" in block]
    places = {name: value for name, value in user.environment().items() if re.match("RIPIENO_|PYTHONPATH", name)}
    table = ", ".join(f"{name} = {json.dumps(value)}" for name, value in places.items())
    text = text.replace('"ripieno"', ", ".join(map(json.dumps, COMMAND)))
    user.ensemble("served", f"{text}environment = {{ {table} }}\n")
    (user.workspace / "README.rst").write_text("A title\n")
    listing, reading = (shlex.split(line)[2:] for line in commands.strip().splitlines())
    assert "served__read_file" in call(*listing).out
    assert call(*reading, "--yes").out.startswith("A title")


def test_every_key_of_a_connection_is_in_the_tutorial() -> None:
    told = re.findall(r"^``(\w+)``$", CONNECTING.partition("The keys of")[2].partition("Two timeouts")[0], re.MULTILINE)
    assert told == ["origin", *CONNECTION.known]


@pytest.mark.parametrize("name", ["connect-mcp", "import-mcp", "pin-servers", "serve-mcp"])
def test_the_readme_leads_to_every_tutorial_about_mcp(name: str) -> None:
    assert (TUTORIALS / f"{name}.rst").exists()
    assert f"``{name}.rst``" in (ROOT / "README.rst").read_text(encoding="utf-8")
