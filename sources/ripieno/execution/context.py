"""On whose behalf a call is made, a call that is ready to be made, and one that waits for somebody.

What an invocable learns of its call: the same for the call itself, and for a preview of it.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ripieno.approvals import Answer, ConfirmationRequest, Given
from ripieno.approvals.grants import Binding
from ripieno.approvals.questions import Inquire
from ripieno.approvals.rules import Verdict
from ripieno.canisters import Canister, InvocationCanister
from ripieno.canisters.events import Event
from ripieno.ensembles import Context, Invoker, Surroundings


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """On whose behalf a call is made. ``notify`` is told what happens, and does not raise; None: nobody listens.

    ``seconds`` and ``output`` (bytes) bound each call beside its own policy. ``inquire`` is asked before the confirmer
    what a tool asks back. ``history`` is what stands in the conversation before this turn. ``answers`` are answers
    that were given ahead, by the identifiers of invocations: nobody is asked about these calls again, as long as they
    are those that were answered. Anything but ``Deny`` counts only as ``Given`` with the binding of what was asked.
    """

    conversation: str = ""
    turn: int = 0
    auxdata: Any = None
    namespaces: dict[str, dict[str, object]] = dataclasses.field(default_factory=dict[str, dict[str, object]])
    notify: Callable[[Event], None] | None = None
    seconds: float | None = None
    output: int | None = None
    inquire: Inquire | None = None
    history: Sequence[Canister] = ()
    answers: Mapping[str, Answer | Given] = dataclasses.field(default_factory=dict[str, Answer | Given])


@dataclasses.dataclass(slots=True, kw_only=True, eq=False)
class Prepared:
    """A call that is known to be well-formed, and what the rules say of it.

    ``token`` is that of the grant with which a person approved it, and ``change`` what they saw that it would change.
    ``reader`` is what the model calls the tool that reads on in results which are too long to be shown; None where it
    has none.
    """

    invocation: InvocationCanister
    invoker: Invoker
    arguments: dict[str, Any]
    verdict: Verdict
    token: str = dataclasses.field(default="", repr=False)
    reader: str | None = None
    change: str | None = None

    @property
    def immediate(self) -> bool:
        """Whether it may start at once, beside others of its kind: it changes nothing and nobody is asked."""
        return self.verdict.action == "run" and self.invoker.policy.harmless

    @property
    def whole(self) -> dict[str, Any]:
        """All arguments, presets too: what rules, persons and approvals see, and what runs."""
        return complete(self.invoker, self.arguments)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Deferred:
    """A call about which nobody can answer now: it has no result, and is neither run nor denied.

    ``binding`` is what an answer to the ``request`` is about; it goes into the ``Given`` of whoever answers later.
    """

    prepared: Prepared
    request: ConfirmationRequest
    binding: Binding


def complete(invoker: Invoker, arguments: dict[str, Any]) -> dict[str, Any]:
    """Arguments with the presets of their tool, which win."""
    return {**arguments, **invoker.presets} if invoker.presets else arguments


def context_of(
    prepared: Prepared,
    around: Circumstances,
    surroundings: Surroundings | None,
    *,
    progress: Callable[..., None],
    **more: Any,
) -> Context:
    """The context of a call. ``surroundings`` are those of the application, for an ensemble that has none of its own;
    ``more`` are fields of ``Context`` that a call has and a preview has not.
    """
    invoker = prepared.invoker
    ensemble = invoker.ensemble
    return Context(
        invoker=invoker,
        invocation=prepared.invocation.identifier,
        conversation=around.conversation,
        turn=around.turn,
        auxdata=around.auxdata,
        namespace=around.namespaces.setdefault(ensemble.name, {}),
        connection=ensemble.connection,
        configuration=invoker.configuration or ensemble.configuration,
        surroundings=ensemble.surroundings or surroundings,
        deadline=None,
        progress=progress,
        **more,
    )
