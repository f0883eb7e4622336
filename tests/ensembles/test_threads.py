"""Plain functions in threads: what they return or raise, and how long a cancellation waits for them."""

import asyncio
import contextvars
import gc
import subprocess
import sys
import threading
import weakref

import pytest

from ripieno.ensembles import threads
from ripieno.ensembles.threads import end_idle_threads, run_in_thread


class Held:
    """A function that stays in its thread until it is let go."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.loop = asyncio.get_running_loop()
        self.began = asyncio.Event()
        self.go = threading.Event()
        self.error = error

    def __call__(self) -> str:
        self.loop.call_soon_threadsafe(self.began.set)
        self.go.wait(30)
        if self.error is not None:
            raise self.error
        return "done"


async def test_a_value_comes_back_from_another_thread() -> None:
    variable = contextvars.ContextVar("variable", default="unset")
    variable.set("set")

    def look(left: int, right: int) -> tuple[int, str, str, bool]:
        thread = threading.current_thread()
        return left + right, variable.get(), thread.name, thread.daemon

    assert await run_in_thread(look, 1, 2, name="adding") == (3, "set", "ripieno adding", True)


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
async def test_whatever_is_raised_comes_back(error: BaseException) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        await run_in_thread(fail)
    assert caught.value is error


async def test_stop_iteration_does_not_end_a_coroutine_in_silence() -> None:
    with pytest.raises(RuntimeError, match="StopIteration"):
        await run_in_thread(next, iter(()))


async def test_a_patient_wait_returns_what_was_done_all_the_same() -> None:
    held = Held()
    task = asyncio.create_task(run_in_thread(held))
    await held.began.wait()
    task.cancel()
    for _ in range(5):
        await asyncio.sleep(0)
    assert not task.done()
    held.go.set()
    assert await task == "done"


async def test_a_patient_wait_is_cancelled_when_nothing_was_done() -> None:
    held = Held(ValueError("no"))
    task = asyncio.create_task(run_in_thread(held))
    await held.began.wait()
    task.cancel()
    held.go.set()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("patient", [True, False])
async def test_a_thread_that_hangs_is_let_go(patient: bool) -> None:
    held = Held()
    task = asyncio.create_task(run_in_thread(held, patient=patient))
    await held.began.wait()
    task.cancel()
    if patient:
        await asyncio.sleep(0)
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    held.go.set()


def test_the_loop_may_end_before_the_thread() -> None:
    go, ended = threading.Event(), threading.Event()

    async def leave() -> None:
        began = asyncio.Event()
        loop = asyncio.get_running_loop()

        def hang() -> None:
            loop.call_soon_threadsafe(began.set)
            go.wait(30)
            ended.set()

        task = asyncio.create_task(run_in_thread(hang, patient=False))
        await began.wait()
        task.cancel()

    asyncio.run(leave())
    go.set()
    assert ended.wait(30)


async def test_many_at_once_do_not_wait_for_each_other() -> None:
    barrier = threading.Barrier(50)
    assert len(await asyncio.gather(*(run_in_thread(barrier.wait, 30) for _ in range(50)))) == 50


async def test_a_thread_that_has_nothing_to_do_runs_the_next_function() -> None:
    end_idle_threads()
    first = await run_in_thread(threading.get_ident, name="first")
    assert await run_in_thread(lambda: (threading.get_ident(), threading.current_thread().name)) == (
        first,
        "ripieno invocable",
    )


async def test_a_thread_that_waits_keeps_nothing() -> None:
    class Big:
        """Stands for what a function returns or raises."""

    held: list[weakref.ref[Big]] = []

    def make(argument: Big, fail: bool) -> Big:
        held.append(weakref.ref(argument))
        if fail:
            raise ValueError(argument)
        made = Big()
        held.append(weakref.ref(made))
        return made

    await run_in_thread(make, Big(), False)
    with pytest.raises(ValueError, match="Big"):
        await run_in_thread(make, Big(), True)
    # The last thing that a thread does for a function is to wait for the next one.
    await run_in_thread(threading.get_ident)
    gc.collect()
    assert [one() for one in held] == [None] * 3


async def test_threads_that_wait_end_when_they_are_told_or_not_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    thread = await run_in_thread(threading.current_thread)
    end_idle_threads()
    assert not thread.is_alive()
    monkeypatch.setattr(threads, "IDLE", 0.001)
    thread = await run_in_thread(threading.current_thread)
    thread.join(30)
    assert not thread.is_alive()
    assert await run_in_thread(threading.current_thread) is not thread


FORKED = """
import asyncio, os, threading
from ripieno.ensembles.threads import run_in_thread
before = asyncio.run(run_in_thread(threading.get_native_id))
child = os.fork()
after = asyncio.run(run_in_thread(threading.get_native_id))
if child == 0:
    os._exit(0 if after != before else 1)
assert after == before
assert os.waitpid(child, 0)[1] == 0
"""


def test_after_a_fork_there_are_new_threads() -> None:
    subprocess.run([sys.executable, "-W", "ignore", "-c", FORKED], check=True, timeout=60)
