"""Signals that end ``ripieno work``: the first one in order, the second one at once."""

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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_the_worker_at_once_with_one_line(user: User, number: signal.Signals) -> None:
    begun = user.workspace.parent / "begun"
    user.configure('[ensembles]\nenabled = ["hanging"]\n')
    user.ensemble("hanging", TOOLS.replace("{begun}", str(begun)))
    (user.workspace / "hang.toml").write_text(SCORE)
    with user.start("work", "--grace", "100") as process:
        wait_for(process, "takes submitted runs")
        assert user.run("submit", "-m", "score:./hang.toml", "Go.").returncode == 0
        until = time.monotonic() + PATIENCE
        while not begun.exists():
            assert time.monotonic() < until
            time.sleep(0.02)  # Another process creates it.
        process.send_signal(number)
        wait_for(process, r"The worker takes nothing new\. 1 run under way: 100 s to end\.")
        wait_for(process, "Another signal ends it at once.")
        process.send_signal(number)
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + number
    assert err == "The worker ends at once. Another one goes on with its runs within 17 seconds.\n"
