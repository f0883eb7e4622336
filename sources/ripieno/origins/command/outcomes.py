"""How a program ended, in words that a model reads: exit code, both streams told apart, what was left running. Pure."""

import dataclasses
import signal
from collections.abc import Sequence

from ripieno.ensembles import Outcome
from ripieno.exceptions import ExecutionFault, TimeoutFault
from ripieno.sandbox.capture import Captured
from ripieno.sandbox.processes import Completed

#: Bytes of a result that the lines about how a program ended may take.
MARK = 256


def ending(program: str, completed: Completed) -> str:
    """How a program ended, as a sentence."""
    if completed.flooded:
        total = completed.stdout.total_bytes + completed.stderr.total_bytes
        return f"{program!r} wrote {total // 2**20} MiB and did not stop, so it was ended."
    if completed.exit_code < 0:
        number = -completed.exit_code
        name = signal.Signals(number).name if number in signal.valid_signals() else str(number)
        return f"{program!r} was ended by the signal {name}."
    return f"{program!r} ended with exit code {completed.exit_code}."


def failure(program: str, completed: Completed, room: int, *, suggestion: str | None = None) -> ExecutionFault:
    """The fault of a program that failed: how it ended, and what it wrote, at most ``room`` bytes of it."""
    stdout, stderr = share(completed.stdout, completed.stderr, room - MARK)
    return ExecutionFault(
        join(ending(program, completed), stdout.text, stderr.text, left(completed)),
        code="output_flood" if completed.flooded else "exit_code",
        details={"exit_code": completed.exit_code, "stdout": stdout.text, "stderr": stderr.text},
        suggestion=suggestion,
    )


def outcome(completed: Completed, room: int) -> Outcome:
    """The result of a program that did well: what it wrote to both streams, and how it ended."""
    stdout, stderr = share(completed.stdout, completed.stderr, room - MARK)
    text = join("", stdout.text, stderr.text, f"{left(completed)} [exit code {completed.exit_code}]".strip())
    return dataclasses.replace(report(completed), content=text)


def report(completed: Completed) -> Outcome:
    """How a program ran, without its content."""
    return Outcome(
        exit_code=completed.exit_code,
        stdout_truncated=completed.stdout.truncated,
        stderr_truncated=completed.stderr.truncated,
        total_bytes=completed.stdout.total_bytes + completed.stderr.total_bytes,
    )


def left(completed: Completed) -> str:
    """What it left running, and what there is to say beside, as sentences; empty when there is nothing."""
    parts = [completed.note]
    if completed.stopped:
        several = completed.stopped > 1
        parts.append(f"[{completed.stopped} process{'es that were' if several else ' that was'} left running: ended]")
    return " ".join(filter(None, parts))


def noted(completed: Completed) -> dict[str, str]:
    """The same for results that have keys: ``note``, where there is something to say."""
    note = left(completed)
    return {"note": note} if note else {}


def share(stdout: Captured, stderr: Captured, room: int) -> tuple[Captured, Captured]:
    """Both streams, with at most ``room`` bytes together: what one does not need the other has."""
    room = max(room, 0)
    first, second = (len(one.head) + len(one.tail) for one in (stdout, stderr))
    half = room // 2
    if first <= half:
        return stdout, stderr.within(room - first)
    if second <= half:
        return stdout.within(room - second), stderr
    return stdout.within(room - half), stderr.within(half)


def join(first: str, stdout: str, stderr: str, last: str) -> str:
    """The parts that there are, a line each; standard error has a line before it."""
    parts = [first, stdout.rstrip()]
    if stderr.strip():
        parts.append(f"--- standard error ---\n{stderr.rstrip()}")
    return "\n".join(part for part in (*parts, last) if part)


def late(
    argv: Sequence[str], seconds: float, stdout: Captured, stderr: Captured, room: int, *, note: str = ""
) -> TimeoutFault:
    """The fault of a program that was ended at its call's deadline, with what it had written (seed 000, 6.3).

    ``note`` is what there is to say beside.
    """
    stdout, stderr = share(stdout, stderr, room // 2 - MARK)
    written = join("", stdout.text, stderr.text, "")
    said = "It wrote nothing." if not written else "What it had written:"
    return TimeoutFault(
        join(f"{argv[0]!r} was not done after {seconds:.3g} s, and was ended. {said}", stdout.text, stderr.text, note),
        code="timeout",
        details={"command": list(argv), "timeout_seconds": round(seconds, 3), "partial_output": written},
        suggestion="Give it more time, let it do less, or spawn it and wait for it. It may have done part of its work.",
    )
