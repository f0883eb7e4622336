"""The Python blocks of all pages: each compiles as it is, and whole programs run, also a second time."""

import pytest

from tests.documentation.code_blocks import DOCUMENTATION, blocks
from tests.documentation.test_embedding_pages import printed, scripted
from tests.support.command_line import User

PAGES = sorted(str(one.relative_to(DOCUMENTATION).with_suffix("")) for one in DOCUMENTATION.rglob("*.rst"))
ANSWERS = """
[score]
name = "answers"
continues = true
[[turns]]
text = "One."
[[turns]]
text = "Two."
"""
REVIEWER = """
[agents.reviewer]
instructions = "You review changes."
"""
#: Pages whose programs need a model and nothing else. Tests of their own run the programs of other pages.
PROGRAMS = ("agents", "embed", "observability", "replay", "the-journal")


@pytest.mark.parametrize("page", PAGES)
def test_each_block_compiles(page: str) -> None:
    for block in blocks(page):
        if block.kind == "python":
            compile(block.text, f"{page}.rst:{block.line}", "exec", dont_inherit=True)


@pytest.mark.parametrize("page", PROGRAMS)
def test_whole_programs_run_twice(user: User, page: str) -> None:
    python = [block.text for block in blocks(f"tutorials/{page}") if block.kind == "python"]
    programs = [text for text in python if "asyncio.run(main(" in text]
    assert programs
    for program in programs:
        for _ in range(2):
            with scripted(user, ANSWERS, REVIEWER):
                # It ends with an error if a program fails. Logs are not printed.
                printed(user, program.replace("house/small-1", "house/scripted"))


@pytest.mark.parametrize(
    ("page", "name"),
    [("large-tool-sets", "ledger"), ("long-conversations", "notes")],
)
def test_printed_ensembles_give_no_warning(user: User, page: str, name: str) -> None:
    header = f'[ensemble]\nname = "{name}"'
    (text,) = [one.text for one in blocks(f"tutorials/{page}") if one.kind == "toml" and header in one.text]
    checked = user.call("check", str(user.ensemble(name, text)))
    assert (checked.returncode, f"{name}.toml" in checked.stdout) == (0, False), checked.stdout
    if name == "notes":
        # A note has a content.
        written = user.call("invoke", "--yes", "notes.write_note", "title=a", "text=Hello")
        assert written.returncode == 0, written.stderr
        assert user.call("invoke", "--yes", "notes.read_note", "title=a").stdout == "Hello\n"
