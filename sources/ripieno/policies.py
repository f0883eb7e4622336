"""What applies to one invoker: its effect on the world, its limits, and when it asks.

Defaults are the strict ones. They come from ``[defaults]`` of an ensemble and from the invoker's
own table, which overrides them key by key.
"""

import dataclasses
from typing import Literal

from frozendict import frozendict

Effect = Literal["none", "read", "write", "destructive"]
OnError = Literal["abort", "report"]
Hosted = Literal["here", "caller", "provider"]

EFFECTS: tuple[Effect, ...] = ("none", "read", "write", "destructive")
HARMLESS: frozenset[Effect] = frozenset({"none", "read"})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Policy of one invoker. ``timeout`` is in seconds, ``output`` in bytes."""

    #: What a call may do to the world. What is not declared counts as a write.
    effect: Effect = "write"
    #: Running twice does the same as running once; ours to say, never a server's.
    idempotent: bool = False
    #: Always ask, whatever the rules approve.
    confirm: bool = False
    #: The run ends after the turn in which this was called.
    terminal: bool = False
    #: What a bug in the tool does: end the run, or become a result that the model reads.
    on_error: OnError = "abort"
    timeout: float = 30.0
    max_retries: int = 3
    output: int = 64 * 1024
    #: How often the same call with the same result may come in one run; None is the run's limit.
    repeats: int | None = None
    max_parallel: int | None = None
    #: Seconds for which a result may be reused; 0 is never.
    cache: float = 0.0
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    supersedes: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    #: An argument that sets the deadline, within its schema's bounds.
    timeout_argument: str | None = None
    #: An argument that names an earlier call of the conversation, which is run in place of this one.
    again_argument: str | None = None
    #: Arguments that are fixed, and hidden from the model.
    presets: frozendict[str, object] = frozendict()  # noqa: RUF009

    @property
    def harmless(self) -> bool:
        """Whether a call leaves the world as it was."""
        return self.effect in HARMLESS
