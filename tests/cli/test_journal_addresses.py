"""A wrong address of the journal is one refusal, the same from each command, which never shows its password."""

import json

import pytest

from tests.support.command_line import User
from tests.support.users import Call

FAULT = "must begin with postgresql://, such as postgresql://user@host/database"
COMMANDS = (
    ("runs", "list"),
    ("runs", "schedules"),
    ("runs", "workers"),
    ("submit", "Hello?"),
    ("work",),
    ("journal", "list"),
    ("stats",),
    ("approvals", "list"),
    ("responses", "list"),
    ("ask", "Hello?"),
)
MODEL = '[model]\ndefault = "ollama/small"\n'


@pytest.mark.parametrize("url", ["mysql://u:topsecret@h/y", "postgresql//u:topsecret@h/x"])
@pytest.mark.parametrize("named", [False, True], ids=["own", "named"])
def test_in_the_configuration(user: User, call: Call, url: str, named: bool) -> None:
    text = f'{MODEL}[journal]\nurl = "{url}"\n'
    file = user.workspace / "mine.toml" if named else user.configuration / "config.toml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    options = ("--config", str(file)) if named else ()
    problem = f"{file}:4: error: url {FAULT}\n  4 | url = …\n"
    for command in COMMANDS:
        done = call(*command, *options)
        assert (done.code, problem in done.err, done.out) == (2, True, ""), (command, done.err)
        assert "topsecret" not in done.err
    checked = call("check", *options)
    assert (checked.code, problem in checked.out + checked.err) == (2, True), checked
    looked = call("doctor", "--no-connect", "--format", "json", *options)
    assert FAULT in json.loads(looked.out)["journal"]["problem"]
    assert "topsecret" not in checked.out + checked.err + looked.out + looked.err


def test_in_a_variable(user: User, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOURNAL_URL", "mysql://u:topsecret@h/y")
    user.configure(MODEL + '[journal]\nurl = "{env:JOURNAL_URL}"\n')
    for command in (*COMMANDS, ("journal", "list", "--journal", "{env:JOURNAL_URL}")):
        done = call(*command)
        assert (done.code, done.out) == (2, ""), (command, done.err)
        assert f"The address of the journal {FAULT}." in done.err
        assert "topsecret" not in done.err
    for command in (("check",), ("doctor", "--no-connect", "--full")):
        done = call(*command)
        assert f"with the value of JOURNAL_URL, journal.url {FAULT}" in done.out + done.err
        assert "topsecret" not in done.out + done.err
