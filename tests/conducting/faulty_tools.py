"""What tools do in generated runs: good, slow, and every bad kind there is."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from ripieno.ensembles import Context
from ripieno.exceptions import FatalFault, ResourceFault


class Mute(Exception):
    """An error that cannot even be printed."""

    def __str__(self) -> str:
        raise ValueError

    __repr__ = __str__


async def _value(context: Context) -> object:
    return "done"


async def _slowly(context: Context) -> object:
    for step in range(3):
        context.progress(step, 3)
        await asyncio.sleep(0.3)
    return {"slowly": [1, None]}


async def _hang(context: Context) -> object:
    await asyncio.Event().wait()
    return "never"


async def _stubborn(context: Context) -> object:
    """Takes one cancellation, and ends with the second."""
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        await asyncio.Event().wait()
    return "never"


async def _late(context: Context) -> object:
    """Has a value after all when it is cancelled."""
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        return "late"
    return "never"


async def _clean_up(context: Context) -> object:
    try:
        await asyncio.sleep(0.5)
    finally:
        await asyncio.sleep(1.5)
    return "clean"


async def _fail_when_cancelled(context: Context) -> object:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        raise ConnectionError("interrupted") from None
    return "never"


async def _cancel_itself(context: Context) -> object:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)
    return "never"


def _raising(make: Callable[[], BaseException]) -> Callable[[Context], Coroutine[Any, Any, object]]:
    async def fail(context: Context) -> object:
        await asyncio.sleep(0)
        raise make()

    return fail


def _returning(value: object) -> Callable[[Context], Coroutine[Any, Any, object]]:
    async def give(context: Context) -> object:
        return value

    return give


DEEDS: dict[str, Callable[[Context], Coroutine[Any, Any, object]]] = {
    "value": _value,
    "slowly": _slowly,
    "hang": _hang,
    "stubborn": _stubborn,
    "late": _late,
    "clean up": _clean_up,
    "fail when cancelled": _fail_when_cancelled,
    "cancel itself": _cancel_itself,
    "fault": _raising(lambda: ResourceFault("There is no x.", details={"set": {1}})),
    "fatal": _raising(lambda: FatalFault("The disk is gone.")),
    "bug": _raising(lambda: KeyError("x")),
    "exit": _raising(lambda: SystemExit(1)),
    "interrupt": _raising(KeyboardInterrupt),
    "cancelled": _raising(asyncio.CancelledError),
    "stop": _raising(StopAsyncIteration),
    "hostile": _raising(lambda: ResourceFault("Look.", details={"here": Mute(), "set": {1}})),
    "mute": _raising(Mute),
    "group": _raising(lambda: BaseExceptionGroup("many", [SystemExit(1)])),
    "nonsense": _returning(object()),
    "half": _returning("\udcff" * 3),
    "nothing": _returning(None),
}
