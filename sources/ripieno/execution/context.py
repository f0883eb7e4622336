"""The call scope, the prepared call, the deferred call, and the context that an invocable gets."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import force_setattr

from ripieno.approvals import Answer, ConfirmationRequest, Confirmer, Given
from ripieno.approvals.grants import Binding
from ripieno.approvals.questions import Inquire
from ripieno.approvals.rules import Verdict
from ripieno.canisters import Canister, InvocationCanister
from ripieno.canisters.events import Event
from ripieno.ensembles import Context, Invoker, Surroundings
from ripieno.jsonvalues import freeze_containers
from ripieno.values import Value


class Circumstances(Value, kw_only=True):
    """The scope of a call: its owner, conversation, turn, caller's data and bounds.

    ``owner`` is the user or the server's client for whom it is made; what one of them allowed counts for no other.
    ``notify`` gets events; it must not raise.
    ``seconds`` and ``output`` (bytes) bound each call in addition to its policy. ``inquire`` gets the questions of
    tools before the confirmer. ``history`` is the conversation before this turn. ``answers`` were given in advance, by
    the identifiers of invocations; they replace the confirmation of exactly the calls that were answered. Any answer
    other than ``Deny`` counts only as ``Given`` with the binding of the question. ``confirmer`` is asked instead of the
    execution's own.
    """

    owner: str = ""
    conversation: str = ""
    turn: int = 0
    auxdata: Any = None
    namespaces: dict[str, dict[str, object]] = msgspec.field(default_factory=dict[str, dict[str, object]])
    notify: Callable[[Event], None] | None = None
    seconds: float | None = None
    output: int | None = None
    inquire: Inquire | None = None
    confirmer: Confirmer | None = None
    history: Sequence[Canister] = ()
    answers: Mapping[str, Answer | Given] = msgspec.field(default_factory=dict[str, Answer | Given])

    def __post_init__(self) -> None:
        if type(self.auxdata) in (dict, list):  # A run has frozen its own already.
            force_setattr(self, "auxdata", freeze_containers(self.auxdata))


@dataclasses.dataclass(slots=True, kw_only=True, eq=False)
class Prepared:
    """A resolved and validated call with the verdict of the rules.

    ``token`` is that of the grant if a person approved it, and ``change`` the changes that they were shown. ``reader``
    is the exposed name of the tool that reads the rest of long results; None if the model has no such tool.
    """

    invocation: InvocationCanister
    invoker: Invoker
    arguments: dict[str, Any]
    verdict: Verdict
    token: str = dataclasses.field(default="", repr=False)
    reader: str | None = None
    change: str | None = None
    #: Whether a person edited the arguments.
    edited: bool = False

    @property
    def immediate(self) -> bool:
        """Whether it may start at once, beside others of its kind: it changes nothing and needs no confirmation."""
        return self.verdict.action == "run" and self.invoker.policy.harmless

    @property
    def all_arguments(self) -> dict[str, Any]:
        """All arguments with presets: rules, people and approvals see these, and the tool runs with them."""
        return complete(self.invoker, self.arguments)


class Deferred(Value, kw_only=True):
    """A call whose approval waits for a person: it has no result, and is neither run nor denied.

    ``binding`` belongs to the ``request``; a later answer is a ``Given`` with this binding.
    """

    prepared: Prepared
    request: ConfirmationRequest
    binding: Binding


def complete(invoker: Invoker, arguments: dict[str, Any]) -> dict[str, Any]:
    """Arguments with the presets of their tool, which take precedence."""
    return {**arguments, **invoker.presets} if invoker.presets else arguments


def context_of(
    prepared: Prepared,
    scope: Circumstances,
    surroundings: Surroundings | None,
    *,
    progress: Callable[..., None],
    **more: Any,
) -> Context:
    """The context of a call or of its preview. ``surroundings`` are for an ensemble that has none of its own;
    ``more`` are fields of ``Context`` that only a call has.
    """
    invoker = prepared.invoker
    ensemble = invoker.ensemble
    return Context(
        invoker=invoker,
        invocation=prepared.invocation.identifier,
        conversation=scope.conversation,
        owner=scope.owner,
        turn=scope.turn,
        auxdata=scope.auxdata,
        namespace=scope.namespaces.setdefault(ensemble.name, {}),
        connection=ensemble.connection,
        configuration=invoker.configuration or ensemble.configuration,
        surroundings=ensemble.surroundings or surroundings,
        deadline=None,
        progress=progress,
        **more,
    )
