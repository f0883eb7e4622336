"""``ripieno journal`` and ``ripieno stats``: what was recorded is listed, shown, found, checked, forked and deleted."""

import dataclasses
import datetime
import json
import pathlib
import re
import shlex
import sqlite3

import pytest
from frozendict import frozendict

from ripieno.canisters import (
    AssistantCanister,
    InvocationCanister,
    OpaqueContent,
    ResultCanister,
    TextualContent,
    UserCanister,
)
from ripieno.canisters.faults import Fault, Report
from ripieno.canisters.serialization import deserialize_conversation
from ripieno.cli.common import exit_codes
from ripieno.storage.journal import Journal
from ripieno.storage.records import Record
from tests.support.command_line import Screen, User
from tests.support.postgresql import address_of_schema
from tests.support.users import Call

FIRST, SECOND = "3f9a41c07b52", "77aa00bb11cc"
HOSTILE = "nothing\x1b[2J to \u202esee"


@pytest.fixture
def file(user: User) -> pathlib.Path:
    """The user's own journal, with two conversations; the one that begins with 77 is the latest."""
    path = user.state / "journal.sqlite3"
    with Journal(path) as journal:
        for name, path_of in ((FIRST, "README.rst"), (SECOND, HOSTILE)):
            journal.record(list(conducted(name, path_of)))
    return path


def conducted(name: str, path: str) -> list[Record]:
    def record(stage: object, turn: int = 0, **parts: object) -> Record:
        return Record(stage=stage, conversation=name, turn=turn, **parts)  # type: ignore[arg-type]

    call = InvocationCanister(identifier="call_1", name="read_file", arguments=frozendict(path=path))
    wrong = InvocationCanister(identifier="call_2", name="red_file", arguments=frozendict(path=path))
    seen = ResultCanister(
        invocation_id="call_1",
        content=(TextualContent(text=f"It says {path}.\n" * 20),),
        report=Report(duration_ms=12.4, attempts=2),
    )
    none = ResultCanister(invocation_id="call_2", error=Fault(category="unknown_tool", message="There is none."))
    used = {"input_tokens": 120, "output_tokens": 30, "cache_read_tokens": 100}
    turned = {"model": "house/small", "usage": used, "milliseconds": 1500}
    return [
        record("began", details={"model": "house/small", "ensembles": ["io"]}),
        record("said", canister=UserCanister.of(f"What is in {path}?")),
        record("turned", 1, details={"finish": "invocations", **turned}),
        *(record("said", 1, canister=one) for one in (AssistantCanister.of("I look."), call, wrong)),
        record("asked", 1, tool="io.read_file", invocation=call, details={"reason": "It is asked for."}),
        record("answered", 1, tool="io.read_file", invocation=call, details={"answer": "approve"}),
        record("started", 1, tool="io.read_file", invocation=call),
        record("finished", 1, tool="io.read_file", invocation=call, result=seen),
        record("refused", 1, tool="red_file", invocation=wrong, result=none),
        record("turned", 2, details={"finish": "stop", **turned}),
        record("said", 2, canister=AssistantCanister.of("It begins with Ripieno.")),
        record("ended", 2, details={"finish": "stop", "turns": 2, "calls": 1}),
    ]


@pytest.mark.parametrize("command", [("list",), ("show",), ("verify",), ("stats",)])
def test_without_a_journal_nothing_is_made(user: User, call: Call, command: tuple[str, ...]) -> None:
    done = call(*(command if command == ("stats",) else ("journal", *command)))
    assert done.code == (2 if command in [("show",), ("verify",)] else 0)
    assert str(user.state / "journal.sqlite3") in done.out + done.err
    assert not user.state.exists()


def test_list(file: pathlib.Path, call: Call) -> None:
    done = call("journal", "list")
    header, latest, first = done.out.splitlines()
    assert header.split()[0] == "CONVERSATION"
    assert latest.startswith(SECOND)
    assert first.startswith(FIRST)
    assert first.endswith("What is in README.rst?")
    assert "house/small" in first
    assert "stop" in first
    assert "\x1b" not in done.out
    assert done.err == call("journal", "list", "--limit", "2").err == ""
    cut = call("journal", "list", "--limit", "1")
    assert (len(cut.out.splitlines()), cut.err) == (2, "Showing the latest 1 of 2. For more, use --limit, or --all.\n")
    (one,) = json.loads(call("journal", "list", "--limit", "1", "--format", "json").out)
    assert (one["identifier"], one["turns"], one["calls"], one["finish"]) == (SECOND, 2, 1, "stop")
    assert len(json.loads(call("journal", "list", "--all", "--format", "json").out)) == 2


def test_show(file: pathlib.Path, call: Call) -> None:
    done = call("journal", "show", "3f")
    assert done.code == 0
    heading, *lines = done.out.splitlines()
    assert heading.startswith(f"Conversation {FIRST} | house/small | 2 turns, 1 call | ")
    assert heading.endswith(" | stop")
    assert [line for line in lines if re.match(r"\d", line)] == [
        "1  user",
        "2  assistant",
        '3  call read_file {"path":"README.rst"} (call_1)',
        '4  call red_file {"path":"README.rst"} (call_2)',
        "5  result of call_1",
        "6  result of call_2",
        "7  assistant",
    ]
    steps = [line.partition("  ")[2].partition("  ")[2] for line in lines if line.startswith("  - ")]
    assert steps == [
        "began: house/small",
        "turned: invocations, 120 input tokens, 30 output tokens",
        'asked: io.read_file {"reason": "It is asked for."}',
        'answered: io.read_file {"answer": "approve"}',
        "started: io.read_file",
        "finished: io.read_file in 12 ms, attempt 2",
        "refused: red_file: unknown_tool: There is none.",
        "turned: stop, 120 input tokens, 30 output tokens",
        "ended: stop",
    ]
    assert done.out.count("It says README.rst.") == 6
    assert "--full shows all 401 characters" not in done.out
    assert "(--full shows all" in done.out
    assert call("journal", "show", "3f", "--full").out.count("It says README.rst.") == 20


def test_reasoning_is_shown(file: pathlib.Path, call: Call) -> None:
    kept = OpaqueContent(protocol="anthropic", kind="thinking", data=frozendict(thinking="Hm.", signature="c2ln"))
    sealed = OpaqueContent(protocol="anthropic", kind="redacted_thinking", data=frozendict(data="c2Vj"))
    said = AssistantCanister(content=(kept, sealed, TextualContent(text="Yes.")))
    with Journal(file) as journal:
        journal.record([Record(stage="said", conversation="bb", turn=1, canister=said)])
    shown = call("journal", "show", "bb").out
    assert "    (reasoning) Hm.\n    [redacted_thinking, for anthropic only]\n    Yes." in shown


def test_a_call_that_a_person_edited_is_shown_with_both_arguments(file: pathlib.Path, call: Call) -> None:
    with Journal(file) as journal:
        for record in conducted("aa", "README.rst"):
            if record.stage == "finished" and record.result is not None:
                report = dataclasses.replace(record.result.report, edited={"path": "OTHER.rst"})
                result = dataclasses.replace(record.result, report=report)
                journal.record([dataclasses.replace(record, result=result)])
            else:
                journal.record([record])
    shown = call("journal", "show", "aa").out
    assert '3  call read_file {"path":"README.rst"} (call_1)' in shown
    assert 'in 12 ms, attempt 2, with arguments that a person edited: {"path":"OTHER.rst"}' in shown


def test_the_latest_is_shown_by_itself_and_nothing_in_it_acts_on_a_terminal(file: pathlib.Path, call: Call) -> None:
    done = call("journal", "show", "--full")
    assert done.out.startswith(f"Conversation {SECOND}")
    assert not {"\x1b", "\u202e"} & set(done.out)
    # Arguments as anybody is asked about them, JSON's escapes; texts as everywhere.
    assert r'{"path":"nothing\u001b[2J to \u202esee"}' in done.out
    assert r"It says nothing\x1b[2J to \u202esee." in done.out
    told = json.loads(call("journal", "show", "--format", "json").out)
    assert told["conversation"]["identifier"] == SECOND
    assert [line["stage"] for line in told["lines"]][:3] == ["began", "said", "turned"]


def test_a_conversation_that_there_is_not(file: pathlib.Path, call: Call) -> None:
    done = call("journal", "show", "3f9a41c07b53")
    assert done.code == 2
    assert f"Did you mean '{FIRST}'" in done.err
    with Journal(file) as journal:
        journal.record([Record(stage="began", conversation="3fff", turn=0)])
    assert "Several conversations begin with '3f'" in call("journal", "show", "3f").err


def test_search(file: pathlib.Path, call: Call) -> None:
    done = call("journal", "search", "README.rst", "--stage", "started")
    assert done.code == 0
    (row,) = done.out.splitlines()[1:]
    assert row.split()[0] == FIRST
    assert row.endswith("io.read_file  README.rst")
    assert len(call("journal", "search", "says").out.splitlines()) == 1 + 2
    assert len(call("journal", "search", "says", "--conversation", "77", "--limit", "1").out.splitlines()) == 2
    hostile = call("journal", "search", "\x1b[2J", "--tool", "io.read_file")
    assert hostile.code == 0
    assert "\x1b" not in hostile.out
    assert "nothing" in hostile.out
    assert {line["stage"] for line in json.loads(call("journal", "search", "I look", "--format", "json").out)} == {
        "said"
    }
    assert call("journal", "search", "says", "--limit", "2").err == ""
    assert call("journal", "search", "says", "--limit", "1").err == "Showing the first 1. For more, use --limit.\n"
    nowhere = call("journal", "search", "no such words")
    assert (nowhere.code, nowhere.out) == (1, "")


def test_the_stages_of_a_call_are_one_row_where_they_say_the_same(file: pathlib.Path, call: Call) -> None:
    found = call("journal", "search", "README.rst", "--tool", "io.read_file")
    rows = [re.split("  +", row) for row in found.out.splitlines()[1:]]
    assert [row[3:] for row in rows] == [["asked, answered, started, finished", "io.read_file", "README.rst"]]
    lines = json.loads(call("journal", "search", "README.rst", "--tool", "io.read_file", "--format", "json").out)
    assert [line["stage"] for line in lines] == ["asked", "answered", "started", "finished"]


@pytest.mark.usefixtures("file")
def test_a_journal_that_is_off_is_reported(user: User, call: Call, tmp_path: pathlib.Path) -> None:
    named = tmp_path / "off.toml"
    named.write_text("[journal]\nenabled = false\n")
    user.configure("[journal]\nenabled = true\n")
    warning = f"! The journal is off: {named} has enabled = false under [journal]. Nothing newer is recorded."
    for command in (("journal", "list"), ("journal", "show"), ("stats",)):
        assert "The journal is off" not in call(*command).err
        done = call(*command, "--config", str(named))
        assert (done.code, warning in done.err) == (0, True)
        assert done.err.count("The journal is off") == 1
    (user.state / "journal.sqlite3").unlink()
    nothing = call("journal", "list", "--config", str(named))
    assert warning in nothing.err
    assert "Nothing has been recorded" in nothing.out


def test_export_and_verify(file: pathlib.Path, user: User, call: Call) -> None:
    kept = user.workspace / "kept.jsonl"
    assert call("journal", "export", "--output", str(kept)).code == 0
    lines = [json.loads(line) for line in kept.read_text().splitlines()]
    assert len(lines) == 28 + 1
    with Journal(file) as journal:
        assert lines[-1] == {"anchor": dataclasses.asdict(journal.anchor())}
    assert lines[-1]["anchor"]["number"] == 28
    assert call("journal", "export", "3f").out.splitlines()[:14] == kept.read_text().splitlines()[:14]
    again = call("journal", "export", "--output", str(kept))
    assert (again.code, "already exists" in again.err) == (2, True)
    good = call("journal", "verify", "--anchor", str(kept))
    assert (good.code, "Verified 28 lines" in good.out, "up to 28" in good.out) == (0, True, True)
    assert "To detect removed last lines, use --anchor." in call("journal", "verify").out
    with sqlite3.connect(file) as connection:
        connection.execute("DELETE FROM lines WHERE number > 26")
    connection.close()
    assert call("journal", "verify").code == 0
    cut = call("journal", "verify", "--anchor", str(kept), "--format", "json")
    assert (cut.code, json.loads(cut.out)["break"]["number"]) == (1, 27)
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE lines SET tool = 'io.other' WHERE number = 9")
    connection.close()
    changed = call("journal", "verify")
    assert (changed.code, changed.out) == (1, f"{file}, line 9: It was changed.\n")
    bad = call("journal", "verify", "--anchor", str(file))
    assert (bad.code, "does not end with an anchor" in bad.err) == (2, True)


def test_a_long_check_says_how_far_it_is_at_a_terminal(file: pathlib.Path, user: User) -> None:
    with Journal(file) as journal:
        journal.record([Record(stage="began", conversation="d", turn=0) for _ in range(2500)])
    with Screen(user, "journal", "verify") as screen:
        screen.wait_for("1000 of 2528 lines")
        screen.wait_for("Verified 2528 lines")
        assert screen.end() == 0


def test_copy_to_a_database_and_back(
    file: pathlib.Path, user: User, call: Call, postgresql_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JOURNAL_URL", address_of_schema(postgresql_server))
    done = call("journal", "copy", "{env:JOURNAL_URL}")
    assert (done.code, done.out.startswith("Copied 28 lines to postgresql://")) == (0, True)
    assert done.out.endswith("It is verified: none altered.\n")
    assert call("journal", "copy", "{env:JOURNAL_URL}").out.startswith("Copied 0 lines to ")
    back = call("journal", "copy", "--journal", "{env:JOURNAL_URL}", str(user.workspace / "back"), "--format", "json")
    assert (json.loads(back.out)["copied"], json.loads(back.out)["lines"]) == (28, 28)
    same = call("journal", "copy", str(file))
    assert (same.code, "already at this place" in same.err) == (2, True)
    # The user's configuration may name the database; then all commands read it.
    user.configure('[journal]\nurl = "{env:JOURNAL_URL}"\n')
    for command in (("list",), ("show", "3f"), ("search", "says"), ("verify",), ("export",)):
        assert call("journal", *command).out.replace(str(file), "") != "", command
    assert call("journal", "list").out == call("journal", "list", "--journal", str(file)).out
    assert call("journal", "delete", "3f", "--yes").code == 0
    assert "(deleted)" in call("journal", "list").out or "deleted" in call("journal", "show", "3f").out
    monkeypatch.delenv("JOURNAL_URL")
    lacking = call("journal", "list")
    assert (lacking.code, "needs the variable JOURNAL_URL, which is not set" in lacking.err) == (2, True)


@pytest.mark.parametrize(
    "place",
    ["env:JOURNAL_URL", "JOURNAL_URL", "$JOURNAL_URL", "{env.JOURNAL_URL}", "~/b", "postgresql//u:topsecret@h/x"],
)
def test_a_copy_is_made_in_no_file_that_may_be_a_mistyped_address(
    file: pathlib.Path, user: User, call: Call, place: str
) -> None:
    done = call("journal", "copy", place)
    assert (done.code, "An address in a variable: '{env:JOURNAL_URL}'." in done.err, done.out) == (2, True, "")
    assert "topsecret" not in done.err
    assert list(user.workspace.iterdir()) == []


def test_a_copy_is_made_in_a_folder_that_there_is(file: pathlib.Path, user: User, call: Call) -> None:
    for place in ("new/copy.sqlite3", str(user.workspace / "new" / "copy")):
        done = call("journal", "copy", place)
        assert (done.code, f"There is no folder {user.workspace / 'new'}" in done.err) == (2, True), done.err
    for place in ("copy.sqlite3", "./copy", str(user.workspace / "other")):
        assert call("journal", "copy", place).out.startswith("Copied 28 lines to ")


def test_fork(file: pathlib.Path, call: Call) -> None:
    # The fork's own name is made by chance, and may begin like any other.
    done = call("journal", "fork", FIRST, "--at", "6")
    assert done.code == 0
    shown = call("journal", "show", done.out.strip()).out
    assert f"began: forked from {FIRST}, 6 messages" in shown
    assert "7  assistant" not in shown
    whole = call("journal", "fork", FIRST, "--format", "json")
    conversation = deserialize_conversation(json.loads(whole.out))
    assert conversation.text == "It begins with Ripieno."
    assert conversation.usage.input_tokens == 240
    middle = call("journal", "fork", FIRST, "--at", "4")
    assert (middle.code, "before it, at 1" in middle.err) == (2, True)
    assert call("journal", "verify").code == 0
    assert len(call("journal", "list").out.splitlines()) == 1 + 4


def test_delete(file: pathlib.Path, user: User, call: Call) -> None:
    asked = call("journal", "delete", "3f")
    assert asked.code == 2
    assert asked.err.endswith("Nothing is deleted yet, because there is no terminal to ask. To delete, add: --yes\n")
    assert "Usage" not in asked.err
    assert "README" in call("journal", "show", "3f").out
    assert call("journal", "delete", "3f", "--yes").out == f"Deleted: {FIRST}, 14 lines.\n"
    assert "README" not in call("journal", "show", "3f").out
    assert b"README.rst" not in b"".join(one.read_bytes() for one in user.state.iterdir() if one.is_file())
    assert "(deleted)" in call("journal", "list").out
    assert call("journal", "show", "3f").out.splitlines()[0].endswith(" | deleted")
    # The latest one without a name is one that has content.
    assert call("journal", "show").out.startswith(f"Conversation {SECOND[:12]}")
    assert call("journal", "verify").code == 0
    assert call("journal", "delete", "--older-than", "1d", "--yes").out == "No conversation matches.\n"
    assert call("journal", "delete", "--older-than", "0m", "--yes").out == f"Deleted: {SECOND}, 14 lines.\n"
    assert call("journal", "delete").code == 2
    assert call("journal", "delete", "77", "--older-than", "1d").code == 2
    assert call("journal", "delete", "--older-than", "soon").code == 2


def test_somebody_at_a_terminal_is_asked_before_anything_is_deleted(file: pathlib.Path, user: User) -> None:
    with Screen(user, "journal", "delete", "3f") as screen:
        screen.wait_for("cannot be undone")
        screen.type("n\n")
        screen.wait_for("Nothing was deleted.")
        assert screen.end() == exit_codes.REFUSED
    with Screen(user, "journal", "delete", "3f") as screen:
        screen.wait_for("cannot be undone")
        screen.type("y\n")
        screen.wait_for("Deleted")
        assert screen.end() == 0


def test_a_conversation_that_is_continued_before_the_answer_is_not_old(file: pathlib.Path, user: User) -> None:
    now = datetime.datetime.now(datetime.UTC).isoformat()
    with Screen(user, "journal", "delete", "--older-than", now) as screen:
        screen.wait_for("cannot be undone")
        with Journal(file) as journal:
            journal.record([Record(stage="titled", conversation=FIRST, turn=0, details={"title": "Mine"})])
        screen.type("y\n")
        screen.wait_for(f"Left out: The conversation {FIRST} was continued meanwhile.")
        assert screen.end() == 0
    with Journal(file) as journal:
        assert {one.identifier for one in journal.conversations() if not one.deleted} >= {FIRST}
        assert journal.summary(SECOND, owner="").deleted


def test_another_journal_is_named_and_errors_name_it(user: User, call: Call, tmp_path: pathlib.Path) -> None:
    other = tmp_path / "other.sqlite3"
    done = call("journal", "list", "--journal", str(other))
    assert (done.code, str(other) in done.err) == (2, True)
    other.write_text("This is no database.")
    for command in (["journal", "list"], ["journal", "verify"], ["stats"]):
        done = call(*command, "--journal", str(other))
        assert done.code == 2
        assert str(other) in done.err
        assert len(done.err.splitlines()) == 1


def test_stats(file: pathlib.Path, call: Call) -> None:
    done = call("stats", "--by", "model")
    assert done.code == 0
    assert done.out.splitlines()[:5] == [
        "2 conversations, 4 turns, 2 calls (0 failed, 0 denied, 2 refused for another reason)",
        "Tokens: 480 input (400 of them from a provider's cache), 120 output (0 of them reasoning)",
        "Time: 6.0 s in models, 25 ms in tools",
        "Calls: 2 needed approval, 2 attempts after the first",
        "Errors: 2 unknown_tool",
    ]
    tables = [[line.split() for line in table.splitlines()] for table in done.out.split("\n\n")[1:]]
    assert tables[0][1] == ["io.read_file", "2", "0", "0", "0", "2", "25", "ms", "12", "ms", "12", "ms"]
    assert tables[1][1:] == [["red_file", "2"]]
    assert tables[2][1][:4] == ["house/small", "4", "2", "0"]
    told = json.loads(call("stats", "--conversation", "77", "--format", "json").out)
    assert told["total"]["conversations"] == 1
    assert list(told["conversations"]) == [SECOND]
    assert told["unknown"] == {"red_file": 1}


@pytest.mark.usefixtures("file")
def test_the_mean_of_times_leaves_deleted_calls_out(call: Call) -> None:
    call("journal", "delete", "3f", "--yes")
    lines = call("stats").out.splitlines()
    assert lines[3].endswith(", 1 without a time, as those of deleted conversations")
    (row,) = [line.split() for line in lines if line.startswith("io.read_file")]
    assert (row[1], row[6:]) == ("2", ["12", "ms", "12", "ms", "12", "ms"])
    call("journal", "delete", "77", "--yes")
    (row,) = [line.split() for line in call("stats").out.splitlines() if line.startswith("io.read_file")]
    assert row[6:] == ["0", "ms", "-", "-"]


def test_stats_since(file: pathlib.Path, call: Call) -> None:
    assert "2 conversations" in call("stats", "--since", "1h").out
    assert "2 conversations" in call("stats", "--since", "2020-01-31").out
    assert "since then" in call("stats", "--since", "9998-01-01T10:00:00+02:00").out
    assert "2 conversations" in call("stats", "--since", "999999w").out
    wrong = call("stats", "--since", "yesterday")
    assert (wrong.code, "24h" in wrong.err) == (2, True)
    assert set(json.loads(call("stats", "--format", "json").out)) == {
        *("total", "tools", "days", "models", "conversations", "unknown", "categories")
    }


def test_a_named_configuration_names_the_journal(
    user: User, call: Call, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, postgresql_server: str
) -> None:
    """All commands about the journal use it, and the printed ones repeat the option."""
    monkeypatch.setenv("JOURNAL_URL", address_of_schema(postgresql_server))
    named = tmp_path / "j.toml"
    named.write_text('[journal]\nurl = "{env:JOURNAL_URL}"\n')
    (user.workspace / "write.toml").write_text(WRITING)
    begun = call("ask", "--defer", "--config", str(named), "-m", "score:./write.toml", "Write.")
    assert begun.code == 10, begun.err
    lines = dict(line.split(":", 1) for line in begun.err.splitlines() if line.startswith("To "))
    commands = {name: shlex.split(text.partition("    (or")[0])[1:] for name, text in lines.items()}
    assert commands.keys() == {"To see it", "To approve it", "To continue"}
    assert json.loads(call("approvals", "list", "--config", str(named), "--format", "json").out)
    for name in ("To see it", "To approve it", "To continue"):
        done = call(*commands[name])
        assert done.code == 0, done.err
    assert (user.workspace / "a.txt").read_text() == "one"
    for command in (("journal", "show"), ("journal", "verify"), ("journal", "search", "Write."), ("stats",)):
        done = call(*command, "--config", str(named))
        assert (done.code, "postgresql://" in done.out or "Nothing" not in done.out) == (0, True), done.err
    assert "score:" in call("journal", "list", "--config", str(named)).out
    # The user's own journal has nothing.
    assert not (user.state / "journal.sqlite3").exists()
    named.write_text("[journal]\nurls = 1\n")
    wrong = call("journal", "list", "--config", str(named))
    assert (wrong.code, f"{named}:2: error" in wrong.err) == (2, True), wrong.err
    missing = call("stats", "--config", str(tmp_path / "missing.toml"))
    assert (missing.code, "missing.toml" in missing.err) == (2, True), missing.err


WRITING = """
[score]
name = "write"
[[turns]]
calls = [{ tool = "write_file", arguments = { path = "a.txt", content = "one" } }]
[[turns]]
text = "Done."
"""


def test_a_scripted_model_is_named_as_it_is_typed(user: User, call: Call) -> None:
    """Also as JSON, in statistics, and in the log; a call without a model has a word."""
    score = user.workspace / "write.toml"
    score.write_text(WRITING)
    asked = call("ask", "--autonomous", "--log-format", "json", "-m", "score:./write.toml", "Write.")
    assert asked.code == 0, asked.err
    assert f'"model": "score:{score}"' in asked.err
    assert call("invoke", "io.read_file", "path=a.txt").code == 0
    for command in (("journal", "show", "--format", "json"), ("journal", "list"), ("stats", "--by", "model")):
        identifier = (json.loads(call("journal", "list", "--format", "json").out)[-1]["identifier"],)
        shown = call(*command, *(identifier if "show" in command else ()))
        assert (f"score:{score}"[:40] in shown.out, "score//" in shown.out) == (True, False), shown.out
    assert "(no model)" in call("stats", "--by", "model").out


def test_an_unknown_conversation_names_few(user: User, call: Call) -> None:
    (user.workspace / "write.toml").write_text(WRITING)
    assert call("ask", "--autonomous", "-m", "score:./write.toml", "Write.").code == 0
    (found,) = json.loads(call("journal", "list", "--format", "json").out)
    identifier = found["identifier"]
    none = call("journal", "show", "zzz")
    assert (none.code, identifier[:12] in none.err, "ripieno journal list" in none.err) == (2, False, True)
    near = call("journal", "show", f"{identifier[:10]}zz")
    assert (near.code, repr(identifier[:12]) in near.err, identifier in near.err) == (2, True, False), near.err
