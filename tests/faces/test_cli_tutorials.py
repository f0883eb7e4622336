"""What the tutorials tell people to write: ``ripieno check`` has nothing to say of it, and it works."""

import re
import textwrap
from collections.abc import Callable, Iterator

import pytest

from tests.faces.commanding import ROOT, User
from tests.faces.conftest import Done

Call = Callable[..., Done]

TUTORIAL = (ROOT / "documentation" / "tutorials" / "write-a-tool.rst").read_text(encoding="utf-8")
BLOCK = re.compile(r"\.\. code-block:: (\w+)\n\n((?:    .*\n|\n)+)")


def blocks(language: str) -> Iterator[str]:
    """The blocks of a language, as they would be typed."""
    return (textwrap.dedent(match[2]).strip() + "\n" for match in BLOCK.finditer(TUTORIAL) if match[1] == language)


@pytest.fixture
def written(user: User) -> User:
    """Somebody who has typed all of it."""
    for text in blocks("toml"):
        found = re.search(r'^name = "(\w+)"', text, re.MULTILINE)
        assert found is not None
        user.ensemble(found[1], text)
    (module,) = blocks("python")
    (user.configuration / "ensembles" / "dates.py").write_text(module)
    return user


def test_there_is_nothing_to_warn_of(call: Call, written: User) -> None:
    done = call("check", "--strict")
    assert (done.code, done.out) == (0, "Checked 4 ensembles: 0 errors, 0 warnings.\n")


def test_the_tools_work(call: Call, written: User) -> None:
    (written.workspace / "README.rst").write_text("four words of text\n")
    # The server of the third example is one to be installed.
    (written.configuration / "ensembles" / "time.toml").unlink()
    measured = call("invoke", "words.measure_text", "path=README.rst")
    assert (measured.code, measured.out.split()) == (0, ["4", "README.rst"])
    assert call("invoke", "dates.add_days", "date=2026-02-27", "days=2").out == "2026-03-01\n"


def test_the_mistake_that_is_shown_is_said_so(call: Call, written: User) -> None:
    file = written.configuration / "ensembles" / "words.toml"
    file.write_text(file.read_text().replace("effect", "efect"))
    (shown,) = (block for block in blocks("text") if "efect" in block)
    assert shown.replace("ensembles/words.toml", str(file)) in call("check").out
