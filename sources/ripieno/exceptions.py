"""All exceptions, with one base class for each kind.

::

    RipienoError
    ├── InputError (ValueError)            something the caller gave cannot be accepted
    │   ├── JsonInvalidity                 text is not strict JSON
    │   ├── PatternInvalidity              the pattern of a rule has a syntax error
    │   ├── SchemaInvalidity               a JSON Schema is broken, unbounded or reaches outside
    │   ├── ConfigurationInvalidity        files or tables with problems, all of them listed
    │   ├── Conflict                       another process does the same, or has done it
    │   │   └── Superseded                 another process has taken over the conversation
    │   ├── NameAbsence (LookupError)      no ensemble, invoker, model, agent … of that name
    │   ├── RequestInvalidity              a client's request asks for what cannot be done
    │   └── SerializationInvalidity        stored data of an unknown kind or version
    ├── AssemblyFailure (ExceptionGroup)   start-up failed; every reason is a member
    ├── ConnectionFailure                  an ensemble could not connect, or was lost
    ├── PluginFailure                      a plugin could not be imported or registered
    ├── UsageError                         an object was used in an order it does not allow
    ├── ReplayDivergence                   a replay differs from its recording
    ├── ProviderFailure                    a model endpoint failed
    │   ├── ProviderUnreachable            no connection, or it was lost
    │   ├── ProviderRefusal                it answered with an error
    │   └── WireInvalidity                 it answered what its protocol does not allow
    ├── ToolExecutionFailure               a tool has a bug, and the run was ended for it
    └── ToolFault                          raised by tools: what a model should read
        ├── ValidationFault                arguments make no sense together
        ├── ExecutionFault                 the tool ran and failed
        ├── TimeoutFault                   something the tool waited for took too long
        ├── PermissionFault                not allowed
        ├── ResourceFault                  not found, or not available
        ├── NetworkFault                   a remote place could not be reached
        ├── QuotaFault                     a rate or an amount is used up
        ├── OutcomeUnknownFault            it may have happened
        └── FatalFault                     the run ends

Errors carry plain data only: names, texts and numbers.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from ripieno.lazy.modules import difflib
from ripieno.values import Value


class RipienoError(Exception):
    """The base of every error that ripieno raises."""


class InputError(RipienoError, ValueError):
    """Input of the caller is not accepted; the message says what, where and what to do."""


class JsonInvalidity(InputError):
    """Text is not strict JSON. ``position`` is the character at which parsing stopped, if known."""

    def __init__(self, message: str, *, position: int | None = None) -> None:
        super().__init__(message)
        self.position = position


class PatternInvalidity(InputError):
    """A pattern of a rule has a syntax error. ``position`` counts characters from 0."""

    def __init__(self, text: str, position: int, message: str, hint: str) -> None:
        self.reason = f"{message}, at character {position} of the pattern {text!r}"
        super().__init__(f"{self.reason}. {hint}")
        self.position = position
        self.hint = hint


class SchemaInvalidity(InputError):
    """A JSON Schema is broken, too large, or refers outside itself. ``pointer`` is a JSON Pointer into it."""

    def __init__(self, message: str, *, pointer: str = "") -> None:
        super().__init__(f"{message} (at {pointer})" if pointer else message)
        self.pointer = pointer


class Problem(Value, kw_only=True):
    """One error in a file or table, in the form of a compiler message.

    ``line`` counts from 1; ``source`` is the text of that line.
    """

    message: str
    file: str | None = None
    line: int | None = None
    key: str | None = None
    source: str | None = None
    hint: str | None = None
    severity: str = "error"

    def __str__(self) -> str:
        where = self.file or ""
        if self.line is not None:
            where += f":{self.line}"
        lines = [f"{where}: {self.severity}: {self.message}" if where else f"{self.severity}: {self.message}"]
        if self.source is not None:
            margin = f"{self.line or ''} | "
            lines.append(f"  {margin}{self.source.strip()}")
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)


class ConfigurationInvalidity(InputError):
    """Files or tables have errors; ``problems`` lists all of them."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: tuple[Problem, ...] = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class Conflict(InputError):
    """Valid input that comes too late or too early: another process does the same now, or has done it."""


class Superseded(Conflict):
    """Another process has taken over the conversation. Nothing that this one does with it is recorded or run."""


class RequestInvalidity(InputError):
    """A client's request cannot be answered. ``parameter`` is the part at fault, if known: ``tools[2]``."""

    def __init__(self, message: str, *, parameter: str | None = None) -> None:
        super().__init__(message)
        self.parameter = parameter


def nearest(name: str, known: Iterable[str], count: int = 3) -> tuple[str, ...]:
    """The names most similar to ``name``, best first; empty if none is close."""
    folded = {candidate.casefold(): candidate for candidate in known}
    close = difflib.get_close_matches(name.casefold(), folded, n=count, cutoff=0.6)
    return tuple(folded[match] for match in close)


def nearest_files(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """The most similar names of files. A suffix in common does not make short names similar."""
    stem = os.path.splitext(name)[0]
    return tuple(one for one in nearest(name, known) if nearest(stem, [os.path.splitext(one)[0]]))


class NameAbsence(InputError, LookupError):
    """Nothing of that kind has that name; ``nearest`` has the most similar names, best first.

    ``left_out`` is the reason why a thing with this name was left out. It replaces the similar names in the message.
    """

    def __init__(self, kind: str, name: str, known: Iterable[str] = (), *, hint: str = "", left_out: str = "") -> None:
        self.kind = kind
        self.name = name
        if left_out:
            self.nearest: tuple[str, ...] = ()
            super().__init__(f"The {kind} {name!r} {left_out}")
            return
        names = sorted(known)
        self.nearest = nearest(name, names)
        if self.nearest:
            advice = f"Did you mean {' or '.join(repr(one) for one in self.nearest)}?"
        elif 0 < len(names) <= 20:
            advice = f"Known: {', '.join(names)}."
        else:
            advice = ""
        super().__init__(" ".join(part for part in (f"There is no {kind} named {name!r}.", advice, hint) if part))


class SerializationInvalidity(InputError):
    """Stored data has an unknown kind or version, or lacks a field."""


class AssemblyFailure(ExceptionGroup[RipienoError], RipienoError):
    """Start-up failed. The members are all reasons; connected ensembles were disconnected.

    A traceback shows each member, so ``str`` only counts them; ``text`` is for output without a traceback.
    """

    def __new__(cls, message: str, failures: Sequence[RipienoError], /) -> "AssemblyFailure":
        return super().__new__(cls, message, failures)

    def derive(self, excs: Sequence[Any], /) -> "AssemblyFailure":  # type: ignore[override]
        return AssemblyFailure(self.message, excs)

    @property
    def text(self) -> str:
        """The message, with every reason below it."""
        return "\n".join([self.message, *map(str, self.exceptions)])


class ConnectionFailure(RipienoError):
    """An ensemble could not connect, or its connection was lost. ``explanation`` is the message without its name."""

    def __init__(self, ensemble: str, reason: str, *, hint: str = "") -> None:
        self.ensemble = ensemble
        self.reason = reason
        # A reason of several lines would run into the hint.
        self.explanation = ("\n" if "\n" in reason else " ").join(part for part in (reason, hint) if part)
        super().__init__(f"Ensemble {ensemble!r}: {self.explanation}")


def explain_absence(ensemble: str, failure: Exception) -> str:
    """The reason why an ensemble is absent, without its name."""
    if isinstance(failure, ConnectionFailure) and failure.ensemble == ensemble:
        return failure.explanation
    return str(failure)


class PluginFailure(RipienoError):
    """A plugin could not be imported, or does not follow the hook specification."""

    def __init__(self, plugin: str, reason: str) -> None:
        self.plugin = plugin
        self.reason = reason
        super().__init__(f"Plugin {plugin!r}: {reason}")


class UsageError(RipienoError):
    """An object was used in an order it does not allow, such as iterating a run twice."""


class ReplayDivergence(RipienoError):
    """A replay differs from its recording. ``step`` counts requests to the model; ``what`` is the difference."""

    def __init__(self, path: str, step: int, what: str) -> None:
        self.path = path
        self.step = step
        self.what = what
        super().__init__(f"The replay of {path} differs from its recording at step {step}: {what}.")


class ProviderFailure(RipienoError):
    """A model endpoint failed. ``provider`` is its name, ``hint`` is what to do next.

    ``category`` is one of seed 000, section 7.1. ``retryable`` says whether the same request may succeed later,
    ``after`` in how many seconds the server accepts requests again (None if unknown). ``before`` has a short text for
    each model that was tried before this one.
    """

    category: str = "execution"
    retryable: bool = False

    def __init__(
        self,
        provider: str,
        reason: str,
        *,
        hint: str = "",
        category: str | None = None,
        retryable: bool | None = None,
        after: float | None = None,
    ) -> None:
        super().__init__(provider, reason)
        self.provider = provider
        self.reason = reason
        self.hint = hint
        self.category = category or self.category
        self.retryable = self.retryable if retryable is None else retryable
        self.after = after
        self.before: tuple[str, ...] = ()

    def __str__(self) -> str:
        text = f"Provider {self.provider!r}: {self.reason}"
        if self.hint:
            # A server's text may have several lines, and no full stop at its end.
            text += "\n" if "\n" in self.reason else " " if self.reason.endswith((".", "!", "?", "…")) else ". "
            text += self.hint
        return "\n".join([text, *(f"  tried before: {one}" for one in self.before)])

    @property
    def elsewhere(self) -> bool:
        """Whether another model may succeed: as far as known, the request itself is valid."""
        return self.retryable or self.category in ("network", "timeout", "quota")


class ProviderUnreachable(ProviderFailure):
    """No connection could be made, it was lost before a terminal event, or the circuit breaker is open."""

    category = "network"
    retryable = True


class ProviderRefusal(ProviderFailure):
    """The endpoint answered with an error. ``status`` is the HTTP status, or None within a stream."""

    def __init__(
        self,
        provider: str,
        reason: str,
        *,
        hint: str = "",
        status: int | None = None,
        body: object = None,
        category: str | None = None,
        retryable: bool | None = None,
        after: float | None = None,
    ) -> None:
        super().__init__(provider, reason, hint=hint, category=category, retryable=retryable, after=after)
        self.status = status
        self.body = body


class WireInvalidity(ProviderFailure):
    """The server violated its protocol. ``retryable`` if its answer only ended too early."""

    category = "network"


class ToolExecutionFailure(RipienoError):
    """A tool has a bug: it raised an exception that is not for the model. The cause has the traceback.

    Every call of the turn still has its result. Source: seed 002, "Error Handling".
    """

    def __init__(self, tool: str, reason: str) -> None:
        self.tool = tool
        self.reason = reason
        super().__init__(f"Tool {tool!r} failed: {reason}")


class ToolFault(RipienoError):
    """An error that a tool raises for the model to read and fix.

    ``code`` is a short machine-readable word, ``details`` are JSON values, ``suggestion`` is what
    to try next. Source: seed 000, sections 6.3 and 7.1.
    """

    category: ClassVar[str] = "execution"
    recoverable: ClassVar[bool] = True

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        details: Mapping[str, Any] | None = None,
        suggestion: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.category
        self.details: dict[str, Any] = dict(details or {})
        self.suggestion = suggestion


class ValidationFault(ToolFault):
    """The arguments fit their schema but make no sense together."""

    category = "validation"


class ExecutionFault(ToolFault):
    """The tool ran and failed."""


class TimeoutFault(ToolFault):
    """An operation that the tool waited for took too long."""

    category = "timeout"


class PermissionFault(ToolFault):
    """Access is not allowed, and a retry does not change that."""

    category = "permission"


class ResourceFault(ToolFault):
    """A resource was not found, or is not available."""

    category = "resource"


class NetworkFault(ToolFault):
    """A remote host could not be reached."""

    category = "network"


class QuotaFault(ToolFault):
    """A rate limit or a quota is used up."""

    category = "quota"


class OutcomeUnknownFault(ToolFault):
    """The work may have been done, wholly or in part. Check before a retry."""

    category = "outcome_unknown"


class FatalFault(ToolFault):
    """An error that cannot be fixed: the run ends after this turn's results."""

    category = "fatal"
    recoverable = False
