"""A second signal ends a command whose event loop a tool blocks, and names the tool's line."""

import signal
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Callable
from typing import Any

import pytest

from ripieno.canisters.events import TextDelta
from ripieno.cli.common.user_code import place_of_frame
from ripieno.conducting.channel import notify
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
        assert process.stderr is not None
        assert process.stderr.readline() == "began\n"
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
        f"Ended: {file.with_name('dice.py')}:6 blocks the program. "
        "Make it a plain function without async: that has a thread.\n"
    ]


@pytest.mark.parametrize(
    ("files", "place"),
    [
        (["{purelib}/acme_tools/dice.py"], "{purelib}/acme_tools/dice.py:3"),
        (["{purelib}/acme_tools/dice.py", "{purelib}/urllib3/pool.py"], "{purelib}/acme_tools/dice.py:3"),
        (["/home/ada/dice.py", "{purelib}/urllib3/pool.py", "{stdlib}/ssl.py"], "/home/ada/dice.py:3"),
        (["{stdlib}/ssl.py"], None),
    ],
)
def test_the_tool_that_our_code_has_called_is_named(files: list[str], place: str | None) -> None:
    found: list[str | None] = []

    def look(_: object) -> None:
        found.append(place_of_frame(sys._getframe(1)))

    called: Callable[[Any], None] = look
    paths = sysconfig.get_paths()
    for file in reversed(files):
        names = {"called": called}
        exec(compile("def call(value):\n\n    called(value)\n", file.format(**paths), "exec"), names)
        called = names["call"]
    # Any code of ours that calls a function.
    notify([called], TextDelta("x"))
    assert found == [None if place is None else place.format(**paths)]
