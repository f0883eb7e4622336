"""What applies to one invoker: its effect on the world, its limits, and when it asks.

Defaults are the strict ones. They come from ``[defaults]`` of an ensemble and from the invoker's
own table, which overrides them key by key.
"""

import dataclasses
from typing import Literal

from frozendict import frozendict

from ripieno.canisters.faults import Category, Effect

OnError = Literal["abort", "report"]
Hosted = Literal["here", "caller", "provider"]

EFFECTS: tuple[Effect, ...] = ("none", "read", "write", "destructive")
HARMLESS: frozenset[Effect] = frozenset({"none", "read"})
#: The categories of what may pass by itself. Of the others another attempt would meet the same, or do it twice.
PASSING: tuple[Category, ...] = ("timeout", "network", "quota", "resource", "execution")
#: Seconds that the other side may ask for before the next attempt. There is none if it asks for more.
LONGEST_ASKED = 60.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often a failed call or a failed request to a model is repeated, and after how many seconds.

    Source: seed 000, section 7.2. Calls are repeated only where ``Policy.repeatable`` says that this is safe, and only
    after faults of ``categories``; requests only after a ``ProviderFailure`` that is ``retryable``. ``jitter`` is the
    part of a backoff that chance may take away, so that those who failed together do not come back together.
    """

    max_retries: int = 3
    initial_backoff: float = 0.1
    max_backoff: float = 10.0
    multiplier: float = 2.0
    categories: tuple[Category, ...] = ("timeout", "network", "quota")
    jitter: float = 1.0

    def pause(self, failed: int, asked: float | None, chance: float) -> float | None:
        """Seconds to wait after the last of ``failed`` failures; None when that one is final.

        ``asked`` are the seconds that the other side asks for. They go before the backoff. ``chance`` is a number from
        0 to 1; at 1 nothing is taken away.
        """
        if failed > self.max_retries or (asked or 0.0) > LONGEST_ASKED:
            return None
        backoff = min(self.max_backoff, self.initial_backoff * self.multiplier ** min(failed - 1, 64))
        return asked or backoff * (1 - self.jitter * (1 - chance))


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
    retry: RetryPolicy = RetryPolicy()
    output: int = 64 * 1024
    #: How often the same call with the same result may come in one run; None is the run's limit.
    repeats: int | None = None
    #: How many calls of it may run at the same time, in all conversations of the process.
    max_parallel: int | None = None
    #: Seconds for which a result may be reused; 0 is never, and so is every effect but ``none`` and ``read``.
    cache: float = 0.0
    #: What a call reads and writes, such as ``file:{path}``; None where nobody has said, and empty for nothing.
    reads: tuple[str, ...] | None = None
    writes: tuple[str, ...] | None = None
    supersedes: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    #: Whether its definition is left out of requests, and found by a search. None: where there are many tools.
    tool_search: bool | None = None
    #: What a person is told before a call is approved, such as "This cannot be undone."
    notes: tuple[str, ...] = ()
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

    @property
    def repeatable(self) -> bool:
        """Whether a call may be made twice where once was meant."""
        return self.harmless or self.idempotent
