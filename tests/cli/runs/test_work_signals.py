"""Signals that end ``ripieno work``: the first one in order, the second one at once. Its log names the runs."""

import json
import pathlib
import signal
import time

import pytest

from tests.support.command_line import PATIENCE, User, wait_for

SCORE = """
[score]
name = "hang"
[[turns]]
text = "I wait."
calls = [{ tool = "hang", arguments = {} }]
[[turns]]
text = "Done."
"""
TOOLS = """
[ensemble]
name = "hanging"
description = "Waits."
[[invokers]]
name = "hang"
description = "Waits."
effect = "read"
timeout = 300
[invokers.invocable]
origin = "command"
argv = ["sh", "-c", "echo x > {begun}; sleep 300"]
"""


@pytest.fixture
def begun(user: User) -> pathlib.Path:
    """The file that the tool which waits creates when it begins."""
    file = user.workspace.parent / "begun"
    user.configure('[ensembles]\nenabled = ["hanging"]\n')
    user.ensemble("hanging", TOOLS.replace("{begun}", str(file)))
    (user.workspace / "hang.toml").write_text(SCORE)
    return file


def wait_until_begun(begun: pathlib.Path) -> None:
    until = time.monotonic() + PATIENCE
    while not begun.exists():
        assert time.monotonic() < until
        time.sleep(0.02)  # Another process creates it.


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_the_worker_at_once_with_one_line(
    user: User, begun: pathlib.Path, number: signal.Signals
) -> None:
    with user.start("work", "--grace", "100") as process:
        wait_for(process, "takes submitted runs")
        assert user.run("submit", "-m", "score:./hang.toml", "Go.").returncode == 0
        wait_until_begun(begun)
        process.send_signal(number)
        wait_for(process, r"The worker takes nothing new\. 1 run under way: 100 s to end\.")
        wait_for(process, "Another signal ends it at once.")
        process.send_signal(number)
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + number
    assert err == "The worker ends at once. Another one goes on with its runs within 17 seconds.\n"


def test_the_log_says_which_run_is_given_back_and_goes_on(user: User, begun: pathlib.Path) -> None:
    with user.start("work", "--grace", "0", "--log-format", "text") as process:
        wait_for(process, "takes submitted runs")
        assert user.run("submit", "-m", "score:./hang.toml", "--id", "mine", "Go.").returncode == 0
        wait_until_begun(begun)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=PATIENCE)
    (listed,) = json.loads(user.call("runs", "list", "--format", "json").stdout)
    name = f"[run mine of {listed['conversation'][:8]}]"
    assert f" INFO {name} A run begins with score:" in err
    assert f" INFO {name} The run is given back: another worker continues it.\n" in err
    assert "ended with cancelled" not in err
    with user.start("work", "--log-format", "json") as process:
        line = json.loads(wait_for(process, ".*The run goes on where another worker has left it.*")[0])
        assert (line["run"], line["conversation"]) == ("mine", listed["conversation"])
        ended = json.loads(wait_for(process, ".*The run ended with .*")[0])
        assert (ended["run"], ended["finish"]) == ("mine", "stop")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
