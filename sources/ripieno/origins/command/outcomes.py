"""A program's outcome as text for a model: exit code, both streams, and processes left running. Pure."""

import dataclasses
import signal

from ripieno.ensembles import Outcome
from ripieno.exceptions import ExecutionFault, TimeoutFault, ToolFault
from ripieno.sandbox.capture import Captured
from ripieno.sandbox.processes import Completed

#: Bytes of a result reserved for the lines about the end of a program.
MARK = 256
#: Characters of a command in a message.
_COMMAND = 200
#: Advice by exit code; the codes are those of shells.
_ADVICE = {
    126: "The file cannot be executed: check its permissions, or run it with its interpreter.",
    127: "The program was not found: check its name, or install it.",
}


class StoppedFault(ToolFault):
    """A program was ended because its call was cancelled. The message has its output."""

    category = "cancelled"


def ending(program: str, completed: Completed) -> str:
    """The end of a program, as a sentence."""
    if completed.flooded:
        total = completed.stdout.total_bytes + completed.stderr.total_bytes
        return f"{program!r} was ended, because it wrote {total // 2**20} MiB and did not stop."
    if completed.exit_code < 0:
        number = -completed.exit_code
        name = signal.Signals(number).name if number in signal.valid_signals() else str(number)
        return f"{program!r} was ended by the signal {name}."
    return f"{program!r} ended with exit code {completed.exit_code}."


def failure(program: str, completed: Completed, limit: int, *, suggestion: str | None = None) -> ExecutionFault:
    """The fault of a failed program: its end and at most ``limit`` bytes of its output."""
    stdout, stderr = share(completed.stdout, completed.stderr, limit - MARK)
    return ExecutionFault(
        join(ending(program, completed), stdout.text, stderr.text, left(completed)),
        code="output_flood" if completed.flooded else "exit_code",
        details={"exit_code": completed.exit_code, "stdout": stdout.text, "stderr": stderr.text},
        suggestion=suggestion or advice(completed),
    )


def advice(completed: Completed, success: tuple[int, ...] = ()) -> str:
    """A suggestion after a program failed. ``success`` are the exit codes that a descriptor declares as success."""
    if completed.flooded:
        return "Ask it for less output, or write the output to a file and read parts of it."
    if completed.exit_code in (-signal.SIGKILL, 128 + signal.SIGKILL):
        return "It may have used too much memory: do a smaller part of the work at once."
    if completed.exit_code == 1 and success and not (completed.stdout.total_bytes or completed.stderr.total_bytes):
        return (
            "It wrote nothing, which often means that it found nothing. Try other arguments. If that is no failure, as "
            f"with grep, the author of this tool sets success = {sorted({*success, 1})} beside argv."
        )
    return _ADVICE.get(completed.exit_code, "Check the command and its output, then fix it or try another approach.")


def outcome(completed: Completed, limit: int) -> Outcome:
    """The result of a successful program: both streams and its exit code."""
    stdout, stderr = share(completed.stdout, completed.stderr, limit - MARK)
    text = join("", stdout.text, stderr.text, f"{left(completed)} [exit code {completed.exit_code}]".strip())
    return dataclasses.replace(report(completed), content=text, stdout_bytes=size_before("", stdout, stderr))


def report(completed: Completed) -> Outcome:
    """A program's outcome without content."""
    return Outcome(
        exit_code=completed.exit_code,
        stdout_truncated=completed.stdout.truncated,
        stderr_truncated=completed.stderr.truncated,
        total_bytes=completed.stdout.total_bytes + completed.stderr.total_bytes,
    )


def left(completed: Completed) -> str:
    """Sentences about processes left running, and the sandbox's note; empty if there are none."""
    parts = [completed.note]
    if completed.stopped:
        several = completed.stopped > 1
        parts.append(f"[{completed.stopped} process{'es that were' if several else ' that was'} left running: ended]")
    return " ".join(filter(None, parts))


def noted(completed: Completed) -> dict[str, str]:
    """The same as a ``note`` key, for structured results; empty if there is nothing to report."""
    note = left(completed)
    return {"note": note} if note else {}


def share(stdout: Captured, stderr: Captured, limit: int) -> tuple[Captured, Captured]:
    """Both streams within ``limit`` bytes together; one gets the bytes that the other does not need."""
    limit = max(limit, 0)
    first, second = (len(one.head) + len(one.tail) for one in (stdout, stderr))
    half = limit // 2
    if first <= half:
        return stdout, stderr.within(limit - first)
    if second <= half:
        return stdout.within(limit - second), stderr
    return stdout.within(limit - half), stderr.within(half)


def join(first: str, stdout: str, stderr: str, last: str) -> str:
    """The nonempty parts, one per line; standard error gets a heading."""
    parts = [first, stdout.rstrip()]
    if stderr.strip():
        parts.append(f"--- standard error ---\n{stderr.rstrip()}")
    return "\n".join(part for part in (*parts, last) if part)


def size_before(first: str, stdout: Captured, stderr: Captured) -> int | None:
    """The bytes before the heading of standard error in the text that ``join`` makes; None without such a heading."""
    return len(join(first, stdout.text, "", "").encode()) if stderr.text.strip() else None


def _short(command: str) -> str:
    first, *more = command.strip()[:_COMMAND].split("\n", 1)
    return f"{first} …" if more or len(command.strip()) > _COMMAND else first


def late(
    command: str, seconds: float, stdout: Captured, stderr: Captured, limit: int, *, note: str = ""
) -> TimeoutFault:
    """The fault of a program that was ended at its call's limit of ``seconds``, with its output (seed 000, 6.3).

    ``command`` is what the model gave; ``note`` is a further remark.
    """
    written = _so_far(stdout, stderr, limit)
    heading = "It wrote nothing." if not written else "Its output:"
    message = f"{_short(command)!r} did not finish within {seconds:.6g} s and was ended. {heading}"
    return TimeoutFault(
        join(message, written, "", note),
        code="timeout",
        details={"command": command, "timeout_seconds": round(seconds, 3), "partial_output": written},
        suggestion="Allow more time, request less work, or spawn it and wait for it. Part of its work may be done.",
    )


def stopped(command: str, stdout: Captured, stderr: Captured, limit: int, *, note: str = "") -> StoppedFault:
    """The fault of a program that was ended with its call, which was cancelled; ``command`` and ``note`` as above."""
    written = _so_far(stdout, stderr, limit)
    return StoppedFault(
        join(f"The call was cancelled, and {_short(command)!r} was ended. Its output:", written, "", note),
        details={"command": command, "partial_output": written},
        suggestion="Part of its work may be done: check before you repeat it.",
    )


def _so_far(stdout: Captured, stderr: Captured, limit: int) -> str:
    """The output of a program that was ended; the message and the details have it."""
    stdout, stderr = share(stdout, stderr, limit // 2 - MARK)
    return join("", stdout.text, stderr.text, "")
