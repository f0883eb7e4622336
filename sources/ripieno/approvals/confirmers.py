"""Confirmers without a screen: the rules alone, those of a server, a function, nobody for now, and nobody at all."""

import inspect
from collections.abc import Awaitable, Callable, Collection

from ripieno.approvals.requests import Answer, Approve, ConfirmationRequest, Defer, Deny
from ripieno.ensembles import is_asynchronous
from ripieno.ensembles.threads import run_in_thread


class RulesConfirmer:
    """Nobody is there: what the rules do not approve is denied, and the text names the key to set.

    ::

        ripieno.assemble("ripieno.toml")  # It is what answers when nothing is said.
    """

    async def confirm(self, request: ConfirmationRequest) -> Answer:
        """Denies, and says how it could be approved."""
        return Deny(
            f"Nobody is there to ask ({request.reason}). "
            f'The user can allow it with approve = ["{request.tool}"] under [confirmation].'
        )


class ServingConfirmer:
    """The confirmer of a server: nobody can be asked, and the text says what its operator can do.

    ``command`` is what the operator started, such as ``ripieno serve mcp``.
    """

    def __init__(self, command: str) -> None:
        self._command = command

    async def confirm(self, request: ConfirmationRequest) -> Answer:
        """Denies."""
        if not request.reason.startswith("its effect is"):
            return Deny(f"Nobody is there to ask, and it asks always: {request.reason}.")
        return Deny(
            f"Nobody is there to ask ({request.reason}). Whoever runs this server can allow it: "
            f'{self._command} --approve {request.tool}, or approve = ["{request.tool}"] under [confirmation].'
        )


class CallbackConfirmer:
    """Asks a function, plain or asynchronous; a plain one runs in a thread, and may block.

    ::

        def answer(request: ConfirmationRequest) -> Answer:
            return Approve() if request.tool == "io.write_file" else Deny("Only files, please.")


        ripieno.assemble("ripieno.toml", confirmer=CallbackConfirmer(answer))
    """

    def __init__(self, callback: Callable[[ConfirmationRequest], Answer | Awaitable[Answer]]) -> None:
        self._callback = callback

    async def confirm(self, request: ConfirmationRequest) -> Answer:
        """What the function says."""
        if is_asynchronous(self._callback):
            said = self._callback(request)
        else:
            said = await run_in_thread(self._callback, request, name="confirmation", patient=False)
        answer: Answer = await said if inspect.isawaitable(said) else said
        return answer


class DeferredConfirmer:
    """Whoever answers is not there now: the calls stay open, for another time or process.

    ::

        ripieno.assemble("ripieno.toml", confirmer=DeferredConfirmer())
    """

    async def confirm(self, request: ConfirmationRequest) -> Answer:
        """Defers. A question that a tool asks back has no later, and gets no answer."""
        if request.question is not None:
            return Deny("Nobody is there to answer now.")
        return Defer(request.reason)


class AutonomousConfirmer:
    """Nobody is asked: what the rules do not deny may run. Tools that can destroy may only by their full names.

    These stand in ``destructive`` here, or under ``[confirmation] approve``.

    ::

        ripieno.assemble("ripieno.toml", confirmer=AutonomousConfirmer(destructive=["git.git_checkout"]))
    """

    def __init__(self, *, destructive: Collection[str] = ()) -> None:
        self._destructive = frozenset(destructive)

    async def confirm(self, request: ConfirmationRequest) -> Answer:
        """Approves what is no question: values come from a person, or not at all."""
        if request.question is not None:
            return Deny("Nobody is there to answer.")
        if request.effect == "destructive" and request.tool not in self._destructive:
            return Deny(
                f"{request.tool} can destroy, and nobody is there to ask. "
                f'The user can allow it by its name: approve = ["{request.tool}"] under [confirmation].'
            )
        return Approve()
