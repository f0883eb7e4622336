"""A second signal ends a command whose event loop a tool blocks, and names the tool's line."""

import signal
import subprocess
import threading

import pytest

from tests.support.command_line import PATIENCE, User

CODE = """import time


async def roll_slowly(context, arguments):
    print("began", flush=True)
    time.sleep(3600)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_a_command_that_a_tool_blocks(user: User, number: signal.Signals) -> None:
    file = user.ensemble(
        "dice",
        '[ensemble]\nname = "dice"\nmodule = "./dice.py"\n'
        '[[invokers]]\nname = "roll_slowly"\ndescription = "x"\neffect = "none"\ntimeout = 1\n',
    )
    file.with_name("dice.py").write_text(CODE)
    with user.start("invoke", "dice.roll_slowly") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "began\n"
        lines: list[str] = []
        reading = threading.Thread(target=lines.extend, args=(process.stderr,))
        reading.start()
        # The first one cannot be handled; at once, the second one may come from the same press.
        for _ in range(PATIENCE * 4):
            process.send_signal(number)
            try:
                process.wait(0.25)
            except subprocess.TimeoutExpired:
                continue
            break
        reading.join()
    assert process.returncode == -number
    assert lines == [
        f"Ended: a tool blocks the program, at {file.with_name('dice.py')}:6. "
        "Make it a plain function without async: that has a thread.\n"
    ]
