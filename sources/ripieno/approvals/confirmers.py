"""Confirmers without a screen: by rules alone, for a server, by a function, deferred, and autonomous."""

import inspect
from collections.abc import Awaitable, Callable, Collection

from ripieno.approvals.requests import Answer, Approve, ConfirmationRequest, Defer, Deny
from ripieno.ensembles import is_asynchronous
from ripieno.ensembles.threads import run_in_thread
from ripieno.jsonvalues import listed


def _may_be_approved(request: ConfirmationRequest) -> bool:
    """Whether ``approve`` under ``[confirmation]`` would approve the call: only its effect asks."""
    return request.reason.startswith("its effect is")


class RulesConfirmer:
    """Denies every call that the rules do not approve, and names the key to set.

    ::

        ripieno.assemble("ripieno.toml")  # The default.
    """

    async def confirm(self, request: ConfirmationRequest) -> Answer:
        """A denial with the setting that would approve the call; a rule weakens no other rule and no ``confirm``."""
        if not _may_be_approved(request):
            return Deny(
                f"No one can approve it here, and it always needs approval: {request.reason}. "
                "The user can answer later with ripieno ask --defer, or at a terminal; approve under [confirmation] "
                "does not help."
            )
        return Deny(
            f"No one can approve it here ({request.reason}). "
            f'The user can allow it with approve = ["{request.tool}"] under [confirmation].'
        )


class ServingConfirmer:
    """The confirmer of a server: denies every call, and names the setting that allows it.

    ``command`` is the operator's command, such as ``ripieno serve mcp``.
    """

    def __init__(self, command: str) -> None:
        self._command = command

    async def confirm(self, request: ConfirmationRequest) -> Answer:
        """A denial with the option that would approve the call."""
        if not _may_be_approved(request):
            return Deny(f"No one can approve it here, and it always needs approval: {request.reason}.")
        return Deny(
            f"No one can approve it here ({request.reason}). The operator of this server can allow it: "
            f'{self._command} --approve {request.tool}, or approve = ["{request.tool}"] under [confirmation].'
        )


class CallbackConfirmer:
    """Asks a function. A plain one runs in a thread and may block; it may also be asynchronous.

    ::

        def answer(request: ConfirmationRequest) -> Answer:
            return Approve() if request.tool == "io.write_file" else Deny("Only files, please.")


        ripieno.assemble("ripieno.toml", confirmer=CallbackConfirmer(answer))
    """

    def __init__(self, callback: Callable[[ConfirmationRequest], Answer | Awaitable[Answer]]) -> None:
        self._callback = callback

    async def confirm(self, request: ConfirmationRequest) -> Answer:
        """The answer of the function."""
        if is_asynchronous(self._callback):
            returned = self._callback(request)
        else:
            returned = await run_in_thread(self._callback, request, name="confirmation", patient=False)
        answer: Answer = await returned if inspect.isawaitable(returned) else returned
        return answer


class DeferredConfirmer:
    """Leaves calls open, to be answered later or by another process.

    ::

        ripieno.assemble("ripieno.toml", confirmer=DeferredConfirmer())
    """

    async def confirm(self, request: ConfirmationRequest) -> Answer:
        """Defers a call. A question of a tool then has no answer, and the model reads why."""
        if request.question is not None:
            return Defer("No one can answer during this run.")
        return Defer(request.reason)


class AutonomousConfirmer:
    """Approves every call that the rules do not deny. Destructive tools must be listed by their full names.

    They are listed in ``destructive``, or under ``[confirmation] approve``.

    ::

        ripieno.assemble("ripieno.toml", confirmer=AutonomousConfirmer(destructive=["git.git_checkout"]))
    """

    def __init__(self, *, destructive: Collection[str] = ()) -> None:
        self._destructive = frozenset(listed(destructive))

    async def confirm(self, request: ConfirmationRequest) -> Answer:
        """Approves calls, not questions: values come from a person, or not at all."""
        if request.question is not None:
            return Deny("No one can answer here.")
        if request.effect == "destructive" and request.tool not in self._destructive:
            if not _may_be_approved(request):
                return Deny(
                    f"{request.tool} is destructive, no one can approve it here, and it always needs approval: "
                    f"{request.reason}. The user can answer it at a terminal, or later: "
                    "ripieno ask --defer instead of --autonomous."
                )
            return Deny(
                f"{request.tool} is destructive, and no one can approve it here. "
                f'The user can allow it by its name: approve = ["{request.tool}"] under [confirmation].'
            )
        return Approve()
