"""Invocables become invokers, which an origin provides, and an ensemble groups them. No process, no file, no wire."""

import dataclasses
import inspect
import types
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, TypeAlias

import msgspec
from frozendict import frozendict

from ripieno.canisters.events import Alert
from ripieno.canisters.faults import Changes
from ripieno.descriptors import Policy
from ripieno.descriptors.names import expose
from ripieno.descriptors.policies import Hosted
from ripieno.ensembles.differences import difference
from ripieno.ensembles.owner import Owner, Recovery, reason
from ripieno.ensembles.refusals import disconnected, without_doubles
from ripieno.ensembles.surroundings import Surroundings
from ripieno.ensembles.threads import is_asynchronous, run_in_thread
from ripieno.exceptions import ConnectionFailure, NameAbsence, RipienoError, ValidationFault, explain_absence
from ripieno.jsonvalues import freeze, freeze_containers, thaw
from ripieno.lazy.modules import asyncio, logging
from ripieno.schemas import Schema
from ripieno.values import Value


class ServerClaim(Value, kw_only=True):
    """A server's description of its tool. It is not verified."""

    server: str
    title: str = ""
    description: str = ""


async def _no_answer(text: str, schema: Mapping[str, Any]) -> None:
    """Gives no answer: no person can be asked."""


@dataclasses.dataclass(slots=True, kw_only=True, eq=False)
class Context:
    """The context of the call that an invocable serves.

    ``turn`` counts the answers of the conversation, from 1. ``namespace`` belongs to one conversation and one ensemble,
    for data kept between calls. ``deadline`` is in the event loop's time, ``timeout`` the seconds of each attempt. A
    call that is to end at once is ``cancelled``. ``progress(done, total, message)`` may be called from any thread.
    ``inquire(text, schema)`` asks the person behind the call for an object of values; None without a valid answer. Code
    that runs a program sets ``sandbox``, and adds to ``changes``. ``kept`` are the bytes of a long text that stay.
    ``barred(path="a/b")`` is the rule that keeps the tool from a path beneath its argument ``path``; None if none does,
    or ``barred`` if none can. ``owner`` is the user for whom the call is made. Dicts in ``auxdata`` are frozen.
    """

    invoker: "Invoker"
    invocation: str
    conversation: str
    turn: int
    auxdata: Any
    namespace: dict[str, Any]
    connection: Any
    configuration: Mapping[str, Any]
    surroundings: Surroundings | None
    deadline: float | None
    progress: Callable[..., None]
    inquire: Callable[[str, Mapping[str, Any]], Awaitable[Mapping[str, Any] | None]] = _no_answer
    sandbox: str | None = None
    kept: int = 0
    barred: Callable[..., str | None] | None = None
    owner: str = ""
    timeout: float | None = None
    cancelled: bool = False
    changes: Changes = dataclasses.field(default_factory=Changes)


Invocable: TypeAlias = Callable[[Context, dict[str, Any]], Awaitable[Any] | Any]
#: Returns the changes that a call with these arguments would make, as text (usually a unified diff), without making
#: them; None if they are unknown. It runs in a thread.
Foresight: TypeAlias = Callable[[Context, Mapping[str, Any]], str | None]
#: ``reconnecting``: the connection was lost and is tried again; ``failed``: it was never made, or is lost permanently.
State = Literal["new", "connecting", "connected", "reconnecting", "disconnected", "failed"]


class Definition(Value, kw_only=True):
    """The definition of an invoker, before it has an ensemble. Without an invocable, the caller or a provider runs it.

    ``exposed`` fixes the name that a model sees; None derives it from ``name`` and the ensemble's prefix. ``origin``
    identifies its source and the way to run it: an approval is valid for this origin only. ``preview`` returns the
    changes of a call; ``claim`` is a server's unverified description of its tool; ``bundled``, a bundled tool's file.
    """

    name: str
    schema: Schema
    description: str = ""
    invocable: Invocable | None = None
    results: Schema | None = None
    policy: Policy = Policy()
    hosted: Hosted = "here"
    configuration: Mapping[str, Any] = msgspec.field(default_factory=frozendict[str, Any])
    exposed: str | None = None
    origin: str = ""
    preview: Foresight | None = None
    claim: ServerClaim | None = None
    bundled: str | None = None


@dataclasses.dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class Invoker:
    """An invocable with its name, description, argument schema and policy. Immutable."""

    name: str
    identity: str
    exposed: str
    description: str
    invocable: Invocable | None
    policy: Policy
    presets: Mapping[str, object]
    schema: Schema
    results: Schema | None
    hosted: Hosted
    configuration: Mapping[str, Any]
    origin: str
    preview: Foresight | None
    claim: ServerClaim | None
    bundled: str | None
    ensemble: "Ensemble"
    threaded: bool
    encodings: dict[object, bytes]  #: Each protocol keeps its own form of the definition here, under its own key.

    def __init__(self, definition: Definition, ensemble: "Ensemble") -> None:
        presets = freeze(definition.policy.presets)
        fields: dict[str, Any] = {
            **{name: getattr(definition, name) for name in Definition.__dataclass_fields__},
            "identity": f"{ensemble.name}.{definition.name}",
            "exposed": definition.exposed or expose(definition.name, ensemble.prefix),
            "presets": presets,
            "schema": definition.schema.without(presets) if presets else definition.schema,
            "configuration": freeze(definition.configuration),
            "ensemble": ensemble,
            "threaded": not is_asynchronous(definition.invocable),
            "encodings": {},
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return f"<Invoker {self.identity}>"

    @property
    def arguments_schema(self) -> Mapping[str, Any]:
        """The JSON Schema of the arguments, as a model sees it: without presets."""
        return self.schema.mapping

    @property
    def results_schema(self) -> Mapping[str, Any] | None:
        """The JSON Schema of results, where one is declared."""
        return None if self.results is None else self.results.mapping

    async def __call__(self, context: Context, arguments: Mapping[str, Any]) -> Any:
        """Fills in defaults, validates the arguments, and runs the invocable.

        Errors: ``ValidationFault`` for invalid arguments; those of the invocable.
        """
        complete = self.schema.complete(arguments)
        if problems := self.schema.validate(complete):
            raise ValidationFault(" ".join(problem.message for problem in problems), code=problems[0].code)
        return await self.perform(context, dict(complete))

    async def perform(self, context: Context, arguments: dict[str, Any]) -> Any:
        """Runs the invocable with valid arguments; plain functions in a thread."""
        invocable = self.invocable
        if invocable is None:
            raise ConnectionFailure(self.ensemble.name, f"{self.identity} is run by the {self.hosted}, not here.")
        if self.ensemble.connection is None and self.ensemble.connects:
            raise disconnected(self.ensemble.name, self.exposed)
        arguments = {**arguments, **thaw(self.presets)} if self.presets else arguments
        if self.threaded:
            result = await run_in_thread(invocable, context, arguments, name=self.identity)
        else:
            result = invocable(context, arguments)
        return await result if inspect.isawaitable(result) else result


class Opened(Value, kw_only=True):
    """A connection and its definitions; ``subscribe`` and ``left_out`` as in ``Connected``."""

    connection: Any
    definitions: tuple[Definition, ...]
    subscribe: Callable[[Callable[[tuple[Definition, ...]], None]], None] | None = None
    left_out: Mapping[str, str] = msgspec.field(default_factory=frozendict[str, str])


Opener: TypeAlias = Callable[[], AbstractAsyncContextManager[Opened]]


class Ensemble:
    """A group of invokers with one configuration, one connection and one life cycle.

    It is the only live object: ``invokers`` is an immutable snapshot, ``revision`` counts the snapshots, and ``watch``
    reports changes of the snapshot and of the ``state``.
    """

    def __init__(
        self,
        name: str,
        *,
        opener: Opener | None = None,
        configuration: Mapping[str, Any] | None = None,
        prefix: str = "",
        required: bool = True,
        description: str = "",
        tokens: int | None = None,
        surroundings: Surroundings | None = None,
        recovery: Recovery | None = Recovery(),  # noqa: B008  a frozen value
        max_parallel: int | None = None,
        layer: str | None = None,
    ) -> None:
        self.name = name
        self.prefix = prefix
        self.layer = layer  #: The layer of its file; None for an ensemble that a program makes.
        self.required = required
        self.description = description
        self.tokens = tokens  #: The tokens that all its results may take of what a model is shown; None is no limit.
        self.configuration: Mapping[str, Any] = freeze_containers(dict(configuration or {}))
        self.surroundings = surroundings
        self.max_parallel = max_parallel  #: Its calls that may run at the same time, in all conversations together.
        self.connection: Any = None
        self.connects = False  #: Whether its tools have a connection, except while it is disconnected.
        self.state: State = "new"
        self.revision = 0
        self.invokers: Mapping[str, Invoker] = frozendict()
        self._left_out: Mapping[str, str] = frozendict[str, str]()
        self._opener = opener
        self._recovery = recovery
        self._owner: Owner[Opened] | None = None
        #: Each under its own key, so that one function may be registered twice.
        self._watchers: dict[object, Callable[[], None]] = {}
        self._turn: asyncio.Lock | None = None  #: Concurrent callers of ``connect`` wait for the same connection.

    def __repr__(self) -> str:
        return f"<Ensemble {self.name}: {self.state}, {len(self.invokers)} invokers>"

    @classmethod
    def of(cls, name: str, definitions: Iterable[Definition], **settings: Any) -> "Ensemble":
        """An ensemble of definitions without a connection. ``settings`` are those of the constructor. Errors:
        ``InputError`` for two definitions with one name.
        """
        ensemble = cls(name, **settings)
        ensemble.adopt(Opened(connection=None, definitions=without_doubles(name, definitions)))
        return ensemble

    @classmethod
    def of_functions(
        cls, name: str, functions: Iterable[Callable[..., Any]], *, policy: Policy | None = None, **settings: Any
    ) -> "Ensemble":
        """An ensemble of Python functions: schemas from their annotations, descriptions from their docstrings.

        A first parameter named ``context`` receives the ``Context``. The effect is ``write`` unless ``policy`` sets
        another one. Errors: ``SchemaInvalidity`` for an annotation that JSON Schema cannot express; those of ``of``.
        """
        from ripieno.schemas.functions import define_function

        policy = policy or Policy()
        definitions = [
            Definition(name=key, description=one.description, schema=one.schema, invocable=one.invocable, policy=policy)
            for key, one in ((function.__name__, define_function(function)) for function in functions)
        ]
        return cls.of(name, definitions, **settings)

    @classmethod
    def of_request(cls, definitions: Iterable[Definition], name: str = "client") -> "Ensemble":
        """An ensemble of tools that a caller declares in its request and runs itself, under the names it sent."""
        declared = (dataclasses.replace(one, hosted="caller", exposed=one.exposed or one.name) for one in definitions)
        return cls.of(name, declared)

    @property
    def left_out(self) -> Mapping[str, str]:
        """The declared or discovered tools that are not offered, by name, each with the reason."""
        return types.MappingProxyType(self._left_out)

    def access_invoker(self, name: str) -> Invoker:
        """The invoker with a name. Errors: ``NameAbsence``, with the nearest names, or why it is left out."""
        if name in self.invokers:
            return self.invokers[name]
        why = f"is left out: {self._left_out[name]}." if name in self._left_out else ""
        raise NameAbsence("tool", f"{self.name}.{name}", (one.identity for one in self.invokers.values()), left_out=why)

    def watch(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Calls a function after each change of ``invokers`` or ``state``, on the event loop.

        The returned function ends that. An exception of the callback is logged and does not spread.
        """
        key = object()
        self._watchers[key] = callback

        def leave() -> None:
            self._watchers.pop(key, None)

        return leave

    def _tell(self) -> None:
        """Calls all callbacks, but none that was removed meanwhile."""
        for key, callback in tuple(self._watchers.items()):
            try:
                if key in self._watchers:
                    callback()
            except Exception:
                logging.getLogger(__name__).exception("A function that watches ensemble %r failed.", self.name)

    async def __aenter__(self) -> "Ensemble":
        await self.connect()
        return self

    async def __aexit__(self, *details: object) -> None:
        await self.disconnect()

    async def connect(self) -> None:
        """Connects, and adopts the tools. May be called twice; a connection lost later is restored automatically.

        Errors: ``ConnectionFailure`` with the reason; nothing stays open then.
        """
        self._turn = self._turn or asyncio.Lock()
        async with self._turn:
            if self.state == "connected":
                return
            if self._opener is None:
                self._become("connected")
                return
            if self._owner is not None:
                await self._owner.close()  # It waits before its next attempt, which this call replaces.
            self._become("connecting")
            self._owner = Owner(
                self.name, self._opener, recovery=self._recovery, lost=self._lose, regained=self._regain
            )
            try:
                opened = await self._owner.open()
            except BaseException as error:
                # A cancelled attempt does not mean that the connection failed.
                self._become("failed" if isinstance(error, Exception) else "disconnected")
                if isinstance(error, RipienoError) or not isinstance(error, Exception):
                    raise
                raise ConnectionFailure(self.name, f"it could not connect: {reason(error)}") from error
            self.adopt(opened)

    async def disconnect(self) -> None:
        """Disconnects, also twice or before ``connect``. Later calls are faults. Raises no errors of the connection."""
        owner, self._owner = self._owner, None
        self.connection = None
        if self.state != "failed":
            self._become("disconnected")
        if owner is not None:
            await owner.close()

    def _lose(self, error: BaseException, pause: float | None) -> None:
        self._become("failed" if pause is None else "reconnecting")
        # The reason comes last: it may end with lines of the server, which must not look like ours.
        again = "" if pause is None else f", and reconnects in {pause:g} s"
        why = explain_absence(self.name, error) if isinstance(error, RipienoError) else f"{reason(error)}."
        self._alert(f"Ensemble {self.name!r} lost its connection{again}: {why}")

    def _regain(self, opened: Opened) -> None:
        before = self._shown()
        self.adopt(opened)
        self._alert(f"Ensemble {self.name!r} has reconnected. {difference(before, self._shown())}".rstrip())

    def _become(self, state: State) -> None:
        if state != self.state:
            self.state = state
            self._tell()

    def _change(self, definitions: Iterable[Definition]) -> None:
        before = self._shown()
        self._offer(definitions)
        self._tell()
        if changes := difference(before, self._shown()):
            self._alert(f"Ensemble {self.name!r} has changed its tools. {changes}")

    def _shown(self) -> dict[str, object]:
        """The definition of each invoker as a model sees it."""
        return {name: (one.description, one.schema.mapping) for name, one in self.invokers.items()}

    def _alert(self, message: str) -> None:
        if self.surroundings is not None:
            self.surroundings.alert(Alert(message=message))

    def adopt(self, opened: Opened) -> None:
        """Takes over a connection and its tools."""
        self.connection, self.connects = opened.connection, opened.connection is not None
        self._left_out = opened.left_out
        self._offer(opened.definitions)
        self.state = "connected"
        self._tell()
        if opened.subscribe is not None:
            opened.subscribe(self._change)

    def _offer(self, definitions: Iterable[Definition]) -> None:
        """Makes a new snapshot of the invokers, ordered by name so that it is the same byte for byte."""
        invokers = (Invoker(definition, self) for definition in sorted(definitions, key=lambda one: one.name))
        self.invokers = frozendict({invoker.name: invoker for invoker in invokers})
        self.revision += 1
