"""The policy of an invoker: its effect, its limits, and its confirmation. Defaults are strict.

``[defaults]`` of an ensemble sets policies; the invoker's own table overrides them key by key.
"""

from typing import Literal

from frozendict import frozendict

from ripieno.canisters.faults import Category, Effect
from ripieno.values import Value

OnError = Literal["abort", "report"]
Hosted = Literal["here", "caller", "provider"]

EFFECTS: tuple[Effect, ...] = ("none", "read", "write", "destructive")
HARMLESS: frozenset[Effect] = frozenset({"none", "read"})
#: Categories of faults that may be transient. After others a retry would fail again, or act twice.
PASSING: tuple[Category, ...] = ("timeout", "network", "quota", "resource", "execution")
#: The longest pause in seconds that a server may request; if it requests more, there is no retry.
LONGEST_ASKED = 60.0


class RetryPolicy(Value, kw_only=True):
    """The retries of a failed call or model request, and the pauses between them in seconds (seed 000, section 7.2).

    Calls are repeated only if ``Policy.repeatable`` is true, and only after faults of ``categories``; requests only
    after a ``ProviderFailure`` that is ``retryable``. The first pause is ``initial_backoff``, and none is shorter.
    ``jitter`` is the part of a backoff above it that is random, so that clients that failed together do not retry
    together.
    """

    max_retries: int = 3
    initial_backoff: float = 0.1
    max_backoff: float = 10.0
    multiplier: float = 2.0
    categories: tuple[Category, ...] = ("timeout", "network", "quota")
    jitter: float = 1.0

    def pause(self, failed: int, asked: float | None, chance: float) -> float | None:
        """Seconds to wait after the last of ``failed`` failures; None if that one is final.

        ``asked`` are the seconds that the server requests, which replace the backoff. ``chance`` is a random number
        from 0 (shortest) to 1 (full backoff).
        """
        if failed > self.max_retries or (asked or 0.0) > LONGEST_ASKED:
            return None
        backoff = min(self.max_backoff, self.initial_backoff * self.multiplier ** min(failed - 1, 64))
        shortest = min(self.initial_backoff, self.max_backoff)
        return asked or shortest + (backoff - shortest) * (1 - self.jitter * (1 - chance))


class Policy(Value, kw_only=True):
    """Policy of one invoker. ``timeout`` is in seconds, ``output`` in bytes."""

    #: The effect of a call on the world. If it is not declared, it is a write.
    effect: Effect = "write"
    #: Running twice does the same as running once. Set by our configuration, never by a server.
    idempotent: bool = False
    #: Always ask, even if a rule approves.
    confirm: bool = False
    #: The run ends after the turn with this call.
    terminal: bool = False
    #: After a bug in the tool, the run ends, or the model gets a result.
    on_error: OnError = "abort"
    timeout: float = 30.0
    retry: RetryPolicy = RetryPolicy()
    output: int = 64 * 1024
    #: How often the same call with the same result may occur in one run; None is the run's limit.
    repeats: int | None = None
    #: How many calls of it may run at the same time, in all conversations of the process.
    max_parallel: int | None = None
    #: Seconds for which a result may be reused; 0 is never. Only for the effects ``none`` and ``read``.
    cache: float = 0.0
    #: Resources that a call reads and writes, such as ``file:{path}``; None if unknown, empty for none.
    reads: tuple[str, ...] | None = None
    writes: tuple[str, ...] | None = None
    supersedes: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    #: Whether its definition is not sent, but found by a search. None: only if there are many tools.
    tool_search: bool | None = None
    #: Notes for the person who approves, such as "This cannot be undone."
    notes: tuple[str, ...] = ()
    #: An argument that sets the deadline, within its schema's bounds.
    timeout_argument: str | None = None
    #: An argument that names an earlier call of the conversation, which runs in place of this one.
    again_argument: str | None = None
    #: Arguments that are fixed and hidden from the model.
    presets: frozendict[str, object] = frozendict()

    @property
    def harmless(self) -> bool:
        """Whether a call changes nothing."""
        return self.effect in HARMLESS

    @property
    def repeatable(self) -> bool:
        """Whether a call may safely run twice."""
        return self.harmless or self.idempotent
