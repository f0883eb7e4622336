"""The whole family of errors, so that one ``except`` clause can name any of them.

::

    RipienoError
    ├── InputError (ValueError)            something the caller gave cannot be accepted
    │   ├── JsonInvalidity                 text is not strict JSON
    │   ├── SchemaInvalidity               a JSON Schema is broken, unbounded or reaches outside
    │   ├── ConfigurationInvalidity        files or tables with problems, all of them listed
    │   ├── NameAbsence (LookupError)      no ensemble, invoker, model, agent … of that name
    │   ├── RequestInvalidity              a client's request asks for what cannot be done
    │   └── SerializationInvalidity        stored data of an unknown kind or version
    ├── AssemblyFailure (ExceptionGroup)   start-up failed; every reason is a member
    ├── ConnectionFailure                  an ensemble could not connect, or was lost
    ├── PluginFailure                      a plugin could not be imported or registered
    ├── UsageError                         an object was used in an order it does not allow
    ├── ReplayDivergence                   a replay went another way than its recording
    ├── ProviderFailure                    a model endpoint failed
    │   ├── ProviderUnreachable            no connection, or it was lost
    │   ├── ProviderRefusal                it answered with an error
    │   └── WireInvalidity                 it answered what its protocol does not allow
    ├── ToolExecutionFailure               a tool has a bug, and the run was ended for it
    └── ToolFault                          raised by tools: what a model should read
        ├── ValidationFault                arguments make no sense together
        ├── ExecutionFault                 the tool ran, and failed
        ├── TimeoutFault                   something the tool waited for took too long
        ├── PermissionFault                not allowed
        ├── ResourceFault                  not found, or not available
        ├── NetworkFault                   a remote place could not be reached
        ├── QuotaFault                     a rate or an amount is used up
        ├── OutcomeUnknownFault            it may have happened, and nobody can tell
        └── FatalFault                     nothing can be mended; the run ends

Errors carry plain data only: names, texts, numbers, never the objects they complain about.
"""

import dataclasses
import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar


class RipienoError(Exception):
    """Base of every error that ripieno raises on purpose."""


class InputError(RipienoError, ValueError):
    """Something the caller gave cannot be accepted; the message says what, where and what to do."""


class JsonInvalidity(InputError):
    """Text is not JSON, or is JSON that two readers could understand differently.

    ``position`` is the character at which reading stopped, where one is known.
    """

    def __init__(self, message: str, *, position: int | None = None) -> None:
        super().__init__(message)
        self.position = position


class PatternInvalidity(InputError):
    """A pattern of a rule is not written as the grammar has it. ``position`` counts characters from 0."""

    def __init__(self, text: str, position: int, message: str, hint: str) -> None:
        self.reason = f"{message}, at character {position} of the pattern {text!r}"
        super().__init__(f"{self.reason}. {hint}")
        self.position = position
        self.hint = hint


class SchemaInvalidity(InputError):
    """A JSON Schema is broken, too large, or refers to something outside itself.

    ``pointer`` is a JSON Pointer into the schema (``""`` is the root).
    """

    def __init__(self, message: str, *, pointer: str = "") -> None:
        super().__init__(f"{message} (at {pointer})" if pointer else message)
        self.pointer = pointer


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong in a file or table, said as a good compiler would.

    ``line`` counts from 1; ``source`` is the offending line as it stands in the file.
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
    """Files or tables have problems; ``problems`` lists all of them."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: tuple[Problem, ...] = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class Conflict(InputError):
    """Somebody else does it now, or has done it: what was given was good, and comes too late or too early."""


class RequestInvalidity(InputError):
    """A client's request cannot be honoured. ``parameter`` is what of it: ``truncation``, ``tools[2]``; if known."""

    def __init__(self, message: str, *, parameter: str | None = None) -> None:
        super().__init__(message)
        self.parameter = parameter


def nearest(name: str, known: Iterable[str], count: int = 3) -> tuple[str, ...]:
    """The names most like ``name``, best first; empty when none is close."""
    folded = {candidate.casefold(): candidate for candidate in known}
    close = difflib.get_close_matches(name.casefold(), folded, n=count, cutoff=0.6)
    return tuple(folded[match] for match in close)


class NameAbsence(InputError, LookupError):
    """Nothing of that kind has that name; ``nearest`` has the most similar names, best first.

    ``left_out`` says why something that has it is not there: it takes the place of other names, which nobody meant.
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
    """Stored data has an unknown kind, an unknown version, or lacks something."""


class AssemblyFailure(ExceptionGroup[RipienoError], RipienoError):
    """Start-up failed. The members are all reasons; whatever had been connected is disconnected.

    A traceback shows each member, so ``str`` only counts them; ``text`` is for people who see no traceback.
    """

    def __new__(cls, message: str, failures: Sequence[RipienoError]) -> "AssemblyFailure":
        return super().__new__(cls, message, failures)

    def __init__(self, message: str, failures: Sequence[RipienoError]) -> None:
        super().__init__(message, failures)

    def derive(self, excs: Sequence[Any], /) -> "AssemblyFailure":  # type: ignore[override]
        return AssemblyFailure(self.message, excs)

    @property
    def text(self) -> str:
        """The message, and every reason below it."""
        return "\n".join([self.message, *map(str, self.exceptions)])


class ConnectionFailure(RipienoError):
    """An ensemble could not connect, or its connection was lost. ``explanation`` is the message without its name."""

    def __init__(self, ensemble: str, reason: str, *, hint: str = "") -> None:
        self.ensemble = ensemble
        self.reason = reason
        # What ends in an address or in somebody else's lines would run into the hint.
        self.explanation = ("\n" if "\n" in reason else " ").join(part for part in (reason, hint) if part)
        super().__init__(f"Ensemble {ensemble!r}: {self.explanation}")


def explain_absence(ensemble: str, failure: Exception) -> str:
    """Why an ensemble is not there, to follow its name, which is not said again."""
    if isinstance(failure, ConnectionFailure) and failure.ensemble == ensemble:
        return failure.explanation
    return str(failure)


class PluginFailure(RipienoError):
    """A plugin could not be imported, or does not keep the hook specification."""

    def __init__(self, plugin: str, reason: str) -> None:
        self.plugin = plugin
        self.reason = reason
        super().__init__(f"Plugin {plugin!r}: {reason}")


class UsageError(RipienoError):
    """An object was used in an order it does not allow, such as iterating a run twice."""


class ReplayDivergence(RipienoError):
    """A replay went another way than its recording. ``step`` counts requests to the model; ``what`` is different."""

    def __init__(self, path: str, step: int, what: str) -> None:
        self.path = path
        self.step = step
        self.what = what
        super().__init__(f"The replay of {path} went another way, at step {step}: {what}.")


class ProviderFailure(RipienoError):
    """A model endpoint failed. ``provider`` is its name, ``hint`` what to do next.

    ``category`` is one of seed 000, section 7.1. ``retryable`` says whether the same request may do better in a moment,
    ``after`` in how many seconds from now its server may be asked again (None where nobody says). ``before`` has what
    became of the models that were asked before this one, a short text each.
    """

    def __init__(
        self,
        provider: str,
        reason: str,
        *,
        hint: str = "",
        category: str = "execution",
        retryable: bool = False,
        after: float | None = None,
    ) -> None:
        super().__init__(provider, reason)
        self.provider = provider
        self.reason = reason
        self.hint = hint
        self.category = category
        self.retryable = retryable
        self.after = after
        self.before: tuple[str, ...] = ()

    def __str__(self) -> str:
        text = f"Provider {self.provider!r}: {self.reason}"
        if self.hint:
            # Somebody else's words, or a page of them, would run into the hint.
            text += "\n" if "\n" in self.reason else " " if self.reason.endswith((".", "!", "?", "…")) else ". "
            text += self.hint
        return "\n".join([text, *(f"  asked before it: {one}" for one in self.before)])

    @property
    def elsewhere(self) -> bool:
        """Whether another model may do: nothing is wrong with the request, as far as anybody knows."""
        return self.retryable or self.category in ("network", "timeout", "quota")


class ProviderUnreachable(ProviderFailure):
    """No connection could be made, it was lost before a terminal event, or it is not tried for now."""

    def __init__(
        self,
        provider: str,
        reason: str,
        *,
        hint: str = "",
        category: str = "network",
        retryable: bool = True,
        after: float | None = None,
    ) -> None:
        super().__init__(provider, reason, hint=hint, category=category, retryable=retryable, after=after)


class ProviderRefusal(ProviderFailure):
    """The endpoint answered with an error. ``status`` is HTTP's, or None inside a stream."""

    def __init__(
        self,
        provider: str,
        reason: str,
        *,
        hint: str = "",
        status: int | None = None,
        body: object = None,
        category: str = "execution",
        retryable: bool = False,
        after: float | None = None,
    ) -> None:
        super().__init__(provider, reason, hint=hint, category=category, retryable=retryable, after=after)
        self.status = status
        self.body = body


class WireInvalidity(ProviderFailure):
    """The other side sent what its protocol does not allow. ``retryable`` where its answer only ended too early."""

    def __init__(self, provider: str, reason: str, *, hint: str = "", retryable: bool = False) -> None:
        super().__init__(provider, reason, hint=hint, category="network", retryable=retryable)


class ToolExecutionFailure(RipienoError):
    """A tool raised what it did not mean a model to read: a bug. The cause has the traceback.

    Source: seed 002, "Error Handling". Every call of the turn has its result all the same.
    """

    def __init__(self, tool: str, reason: str) -> None:
        self.tool = tool
        self.reason = reason
        super().__init__(f"Tool {tool!r} failed: {reason}")


class ToolFault(RipienoError):
    """Raised by a tool to say something that a model should read and may mend.

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
    """The arguments fit their schema, and still make no sense."""

    category = "validation"


class ExecutionFault(ToolFault):
    """The tool ran, and failed."""


class TimeoutFault(ToolFault):
    """Something that the tool waited for took too long."""

    category = "timeout"


class PermissionFault(ToolFault):
    """Access is not allowed, and asking again will not change that."""

    category = "permission"


class ResourceFault(ToolFault):
    """Something was not found, or is not available."""

    category = "resource"


class NetworkFault(ToolFault):
    """A remote place could not be reached."""

    category = "network"


class QuotaFault(ToolFault):
    """A rate limit or an amount is used up."""

    category = "quota"


class OutcomeUnknownFault(ToolFault):
    """The work may have been done, wholly or in part, and nobody can tell: look before repeating it."""

    category = "outcome_unknown"


class FatalFault(ToolFault):
    """Nothing can be mended: the run ends after this turn's results."""

    category = "fatal"
    recoverable = False
