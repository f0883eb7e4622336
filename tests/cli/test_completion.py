"""Completion of values in a shell: what is offered, and that a failure offers nothing."""

import json

import pytest

from tests.support.command_line import User

SCORE = '[score]\nname = "one"\n[[turns]]\ntext = "Hello."\n'


def complete(user: User, line: str) -> list[str]:
    """What bash would offer for the last word of a line."""
    place = str(len(line.split(" ")) - 1)
    done = user.run(_RIPIENO_COMPLETE="bash_complete", COMP_WORDS=line, COMP_CWORD=place)
    assert (done.returncode, done.stderr) == (0, "")
    return [one.removeprefix("plain,") for one in done.stdout.split()]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ripieno invoke io.r", ["io.read_file"]),
        ("ripieno explain io.w", ["io.write_file"]),
        ("ripieno --profile minimal invoke execution.b", ["execution.bash"]),
        ("ripieno ask --profile s", ["standard", "starter", "swe-agent"]),
        ("ripieno ask --agent c", ["clerk"]),
        ("ripieno tools -e ", ["io"]),
        ("ripieno serve mcp --ensemble i", ["io"]),
        ("ripieno providers anth", ["anthropic"]),
        ("ripieno invoke nothing.", []),
        # Without a journal.
        ("ripieno journal show ", []),
        ("ripieno approvals show ", []),
    ],
)
def test_values_are_completed(user: User, line: str, expected: list[str]) -> None:
    user.configure('[agents.clerk]\ninstructions = "Count."\n')
    assert complete(user, line) == expected


def test_conversations_are_completed(user: User) -> None:
    (user.workspace / "one.toml").write_text(SCORE)
    assert user.run("ask", "-m", "score:./one.toml", "Hello").returncode == 0
    (told,) = json.loads(user.run("journal", "list", "--format", "json").stdout)
    identifier = told["identifier"]
    for command in ("journal show", "journal fork", "journal delete"):
        assert complete(user, f"ripieno {command} {identifier[:3]}") == [identifier]


def test_a_broken_configuration_completes_nothing_and_says_nothing(user: User) -> None:
    user.configure("[agents\n")
    assert complete(user, "ripieno ask --agent ") == []


def test_models_and_scores_are_completed(user: User) -> None:
    user.configure(
        '[model]\ndefault = "house/large"\n[providers.house]\nprotocol = "openai-chat"\nbase_url = "http://a"\n'
    )
    assert complete(user, "ripieno ask -m h") == ["house/large", "house/"]
    assert complete(user, "ripieno demo --score ") == ["demo", "repair"]
    # An ensemble without a server has nothing to pin.
    assert complete(user, "ripieno lock i") == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ripieno ask -m sc", ["score:"]),
        # As zsh and fish split it, and then as bash does, which replaces only what comes after the colon.
        ("ripieno ask -m score:./o", ["score:./one.toml"]),
        ("ripieno chat -m score : ./o", ["./one.toml"]),
        ("ripieno ask -m score :", ["one.toml", "plays/"]),
        ("ripieno ask -m score : plays/", ["plays/two.toml"]),
        ("ripieno ask -m other:./o", []),
        ("ripieno demo --score o", ["one.toml"]),
        ("ripieno demo --score = pl", ["plays/"]),
        ("ripieno rehearse plays/t", ["plays/two.toml"]),
        ("ripieno rehearse absent/", []),
    ],
)
def test_files_of_scores_are_completed(user: User, line: str, expected: list[str]) -> None:
    (user.workspace / "plays").mkdir()
    for name in ("one.toml", "plays/two.toml"):
        (user.workspace / name).write_text(SCORE)
    (user.workspace / "other.toml").write_text('[project]\nname = "other"\n')
    assert complete(user, line) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ripieno invoke io.read_file pa", ["path="]),
        ("ripieno invoke io.read_file path=a.txt ", ["start_line=", "end_line=", "encoding="]),
        ("ripieno invoke io.read_file path = a.txt end", ["end_line="]),
        ("ripieno invoke --yes io.write_file con", ["content="]),
        ("ripieno invoke io.nothing ", []),
    ],
)
def test_names_of_arguments_are_completed(user: User, line: str, expected: list[str]) -> None:
    assert complete(user, line) == expected


def test_bash_adds_no_space_within_a_word(user: User) -> None:
    source = user.run(_RIPIENO_COMPLETE="bash_source").stdout
    assert "COMPREPLY[0]} == *[:=/] ]] && compopt -o nospace\n    return 0\n" in source
