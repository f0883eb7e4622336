"""On whose behalf a call is made, and a call that is ready to be made."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from ripieno.canisters import Canister, InvocationCanister
from ripieno.confirmation import Verdict
from ripieno.ensembles import Invoker
from ripieno.events import Event
from ripieno.inquiring import Inquire


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """On whose behalf a call is made. ``notify`` is told what happens, and does not raise; None: nobody listens.

    ``seconds`` and ``output`` (bytes) bound each call beside its own policy. ``inquire`` is asked before the confirmer
    what a tool asks back. ``history`` is what stands in the conversation before this turn.
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


@dataclasses.dataclass(slots=True, kw_only=True, eq=False)
class Prepared:
    """A call that is known to be well-formed, and what the rules say of it."""

    invocation: InvocationCanister
    invoker: Invoker
    arguments: dict[str, Any]
    verdict: Verdict

    @property
    def immediate(self) -> bool:
        """Whether it may start at once, beside others of its kind: it changes nothing and nobody is asked."""
        return self.verdict.action == "run" and self.invoker.policy.harmless
