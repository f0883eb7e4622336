"""The pages about the journal and about observability: every example is run as somebody would type it."""

import json
import logging
import re
from collections.abc import Callable, Iterator

import pytest
from anyio.from_thread import start_blocking_portal

from tests.documentation.code_blocks import texts
from tests.documentation.test_first_pages import run_program, typed
from tests.support.command_line import User
from tests.support.obedient_server import Obedient, obeying
from tests.support.users import Done

Call = Callable[..., Done]


@pytest.fixture
def asked(user: User, call: Call) -> Iterator[User]:
    """Somebody who has asked a small model something."""
    with start_blocking_portal() as portal:
        model = Obedient("parallel_calls")
        with portal.wrap_async_context_manager(obeying(model)) as url:
            user.configure(
                f'[providers.house]\nprotocol = "openai-chat"\nbase_url = "{url.removesuffix("/v1")}/v1"\n'
                '[model]\ndefault = "house/small-1"\n'
            )
            done = user.call("ask", "What is in README.rst?")
            assert done.returncode == 0, done.stderr
            yield user


def commands(block: str) -> list[list[str]]:
    return [typed(line) for line in block.splitlines()]


def test_the_journal(asked: User, call: Call, capsys: pytest.CaptureFixture[str]) -> None:
    look, fork, verify, export, delete, program = texts("tutorials/the-journal", *["console"] * 5, "python")
    listed, shown, found = (call(*words) for words in commands(look))
    assert "What is in README.rst?" in listed.out
    assert re.search(r"^1  user\n    What is in README.rst\?\n", shown.out, re.MULTILINE)
    assert "ended: stop" in shown.out
    assert "What is in README.rst?" in found.out
    (words,) = commands(fork)
    identifier = call(*words).out.strip()
    assert "What is in README.rst?" in call("journal", "show", identifier).out
    for block in (verify, export):
        for words in commands(block):
            done = call(*words)
            assert done.code == 0, done.err
    (words,) = commands(delete)
    assert call(*words).out == "No conversation matches.\n"
    run_program(program)
    *lines, last = capsys.readouterr().out.splitlines()
    assert last == "True True"
    assert [line.split()[2] for line in lines] == ["began", "said", "said", "turned", "ended"]


def test_observability(asked: User, call: Call, capsys: pytest.CaptureFixture[str]) -> None:
    stats, tracing, logs, line, own = texts("tutorials/observability", "console", "python", "python", "", "python")
    for words in commands(stats):
        done = call(*words)
        assert done.code == 0, done.err
        assert done.out.startswith("1 conversation, 1 turn, 0 calls ")
    assert "house/small-1" in done.out
    # The exporter keeps the standard output that there was when it was imported.
    run_program("import sys\n" + tracing.replace("SpanExporter())", "SpanExporter(out=sys.stdout))"))
    spans = capsys.readouterr().out
    assert [name in spans for name in ('"name": "chat small-1"', '"name": "invoke_agent"')] == [True, True]
    before = list(logging.getLogger("ripieno").handlers)
    try:
        run_program(logs)
    finally:
        logger = logging.getLogger("ripieno")
        for handler in set(logger.handlers) - set(before):
            logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)
    told = [json.loads(one) for one in capsys.readouterr().err.splitlines() if one.startswith("{")]
    assert [one["message"].split()[0] for one in told] == ["A", "An", "The"]
    shown = json.loads(line)
    assert set(told[1]) & set(shown) == set(told[1]) - {"finish", "input_tokens", "output_tokens"}
    run_program(own)
