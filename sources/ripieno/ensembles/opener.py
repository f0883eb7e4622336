"""Makes the opener of an ensemble from its descriptor, and connects several ensembles concurrently.

The origins of one ensemble (its connection's, and those of its invokers) are opened and closed together, by the task
that enters the opener.
"""

import contextlib
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ripieno.canisters.events import Alert
from ripieno.descriptors import EnsembleDescriptor, InvokerDescriptor
from ripieno.ensembles.ensemble import Definition, Ensemble, Opened, Opener, ServerClaim
from ripieno.ensembles.origin import Connected, Origin, opened_at_once, pin_programs
from ripieno.ensembles.owner import reason
from ripieno.ensembles.requirements import find_unmet_of
from ripieno.ensembles.surroundings import Surroundings
from ripieno.exceptions import (
    ConfigurationInvalidity,
    ConnectionFailure,
    InputError,
    NameAbsence,
    RipienoError,
    SchemaInvalidity,
)
from ripieno.jsonvalues import EMPTY, digest
from ripieno.lazy.modules import asyncio
from ripieno.schemas import Schema
from ripieno.storage.pins import admit, advise, check_command


async def connect_all(ensembles: Sequence[Ensemble]) -> list[RipienoError | None]:
    """Connects all concurrently: for each its failure, or None. After any other error, none stays connected."""
    tasks = [asyncio.create_task(ensemble.connect()) for ensemble in ensembles]
    try:
        outcomes: list[RipienoError | None] = []
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if outcome is not None and not isinstance(outcome, RipienoError):
                raise outcome
            outcomes.append(outcome)
    except BaseException:
        await asyncio.gather(*tasks, return_exceptions=True)
        await disconnect_all(ensembles)
        raise
    return outcomes


async def disconnect_all(ensembles: Sequence[Ensemble]) -> None:
    """Disconnects all concurrently; raises no errors of the connections."""
    await asyncio.gather(*(ensemble.disconnect() for ensemble in ensembles))


def opener(descriptor: EnsembleDescriptor, origins: Mapping[str, Origin], surroundings: Surroundings) -> Opener:
    """The opener of an ensemble. Invokers that are not enabled are left out; nothing happens before it is entered.

    Errors on entering: ``NameAbsence`` for an origin that is not in ``origins``; ``ConnectionFailure`` for a command
    that is not the approved one; those of the origins. A discovered tool that cannot be used, or does not match its
    pin, is left out, with an ``Alert``.
    """

    @contextlib.asynccontextmanager
    async def open_origins() -> AsyncGenerator[Opened, None]:
        for name in needed_origins(descriptor):
            if name not in origins:
                raise NameAbsence("origin", name, origins)
        if descriptor.connection is not None:
            command = pin_programs(origins[descriptor.connection.origin], descriptor)
            check_command(descriptor, command, surroundings.pins, surroundings.alert)
        async with contextlib.AsyncExitStack() as stack:
            connected: dict[str, Connected] = {}
            for name in needed_origins(descriptor):
                try:
                    connected[name] = await stack.enter_async_context(origins[name].open(descriptor, surroundings))
                except ConfigurationInvalidity:
                    raise
                except InputError as error:
                    # Such as a variable that is not set: the message does not say whose.
                    raise ConnectionFailure(descriptor.name, str(error)) from error
            main = connected[descriptor.connection.origin] if descriptor.connection is not None else None
            declared, disabled = _declare(descriptor, connected, surroundings)
            if main is None:
                yield Opened(connection=None, definitions=declared, left_out=disabled)
                return
            left_out: dict[str, str] = {}

            def define(found: Iterable[InvokerDescriptor]) -> tuple[Definition, ...]:
                left_out.clear()
                left_out.update(main.left_out)
                definitions = (*declared, *_define_discovered(descriptor, found, main, surroundings, left_out))
                left_out.update(disabled)
                return definitions

            def subscribe(changed: Callable[[tuple[Definition, ...]], None]) -> None:
                if main.subscribe is not None:
                    main.subscribe(lambda found: changed(define(found)))

            yield Opened(
                connection=main.connection, definitions=define(main.definitions), subscribe=subscribe, left_out=left_out
            )

    return open_origins


def opens_nothing(descriptor: EnsembleDescriptor, origins: Mapping[str, Origin], surroundings: Surroundings) -> bool:
    """Whether none of the origins of an ensemble has anything to open."""
    return all(opened_at_once(origins[one], descriptor, surroundings) is not None for one in needed_origins(descriptor))


def connect_at_once(
    ensemble: Ensemble, descriptor: EnsembleDescriptor, origins: Mapping[str, Origin], surroundings: Surroundings
) -> RipienoError | None:
    """Connects an ensemble that ``opens_nothing``, without an event loop. Returns its failure, or None."""
    opened = {name: opened_at_once(origins[name], descriptor, surroundings) for name in needed_origins(descriptor)}
    connected = {name: one for name, one in opened.items() if one is not None}
    try:
        declared, disabled = _declare(descriptor, connected, surroundings)
        ensemble.adopt(Opened(connection=None, definitions=declared, left_out=disabled))
    except RipienoError as failure:
        return failure
    except Exception as error:
        return ConnectionFailure(ensemble.name, f"it could not connect: {reason(error)}")
    return None


def _declare(
    descriptor: EnsembleDescriptor, connected: Mapping[str, Connected], surroundings: Surroundings
) -> tuple[tuple[Definition, ...], dict[str, str]]:
    """The definitions of the declared invokers, and why the others are left out."""
    reasons = ((one.name, why_not(one, descriptor, surroundings)) for one in descriptor.invokers)
    disabled = {name: reason for name, reason in reasons if reason is not None}
    declared = tuple(
        _define(invoker, connected[invoker.invocable.origin], bundled=descriptor.layer == "package")
        for invoker in descriptor.invokers
        if invoker.name not in disabled
    )
    return declared, disabled


def needed_origins(descriptor: EnsembleDescriptor) -> tuple[str, ...]:
    """The origins that an ensemble needs: its connection's, then those of its enabled invokers, each once."""
    names = [] if descriptor.connection is None else [descriptor.connection.origin]
    names.extend(invoker.invocable.origin for invoker in descriptor.invokers if invoker.enabled)
    return tuple(dict.fromkeys(names))


def _define(invoker: InvokerDescriptor, connected: Connected, *, bundled: bool) -> Definition:
    """The definition of a declared invoker. Its schema is closed unless it sets ``additionalProperties``."""
    return _definition(
        invoker,
        connected,
        Schema.of(invoker.arguments, closed=True),
        None if invoker.results is None else Schema.of_results(invoker.results),
        origin=_digest(invoker.invocable.origin, invoker.invocable.settings),
        bundled=invoker.file if bundled else None,
    )


def _define_discovered(
    descriptor: EnsembleDescriptor,
    found: Iterable[InvokerDescriptor],
    connected: Connected,
    surroundings: Surroundings,
    left_out: dict[str, str],
) -> Iterator[Definition]:
    """The usable tools of a connection; ``left_out`` gets the others. Foreign schemas stay unchanged."""
    declared = {invoker.name for invoker in descriptor.invokers}
    offered = tuple(found)
    connection = descriptor.connection
    origin = "" if connection is None else _digest(connection.origin, connection.settings)

    def alert(name: str, message: str) -> None:
        surroundings.alert(Alert(message=message, tool=f"{descriptor.name}.{name}"))

    admitted = admit(descriptor, offered, surroundings.pins, surroundings.alert)
    left_out.update((one.name, f"it differs from its pin, or has none. {advise(descriptor.name)}") for one in offered)
    for invoker in map(descriptor.overridden, admitted):
        left_out.pop(invoker.name, None)
        unmet = why_not(invoker, descriptor, surroundings)
        if unmet is not None:
            left_out[invoker.name] = unmet
            continue
        if invoker.name in declared:
            alert(invoker.name, "The tool is left out: a declared invoker of this ensemble has the same name.")
            continue
        try:
            schema = Schema.of(invoker.arguments, closed=False)
        except SchemaInvalidity as invalidity:
            left_out[invoker.name] = f"the schema of its arguments cannot be used: {invalidity}"
            alert(invoker.name, f"The tool is left out: {left_out[invoker.name]}")
            continue
        results = None
        if invoker.results is not None:
            try:
                results = Schema.of_results(invoker.results)
            except SchemaInvalidity as invalidity:
                alert(invoker.name, f"The results of the tool are not checked: their schema is invalid: {invalidity}")
        yield _definition(invoker, connected, schema, results, origin=origin, claim=_claim(descriptor.name, invoker))


def why_not(invoker: InvokerDescriptor, descriptor: EnsembleDescriptor, surroundings: Surroundings) -> str | None:
    """Why an invoker of an ensemble is not offered, or None."""
    if not invoker.enabled:
        return f"it is not enabled (enabled = false, {invoker.file or 'in the configuration'})"
    return find_unmet_of(invoker, descriptor, surroundings)


def _digest(origin: str, settings: Mapping[str, Any]) -> str:
    """The identifier of an origin with its settings, which are hashed because they may contain secrets."""
    return f"{origin} {digest(settings)}"


def _claim(server: str, invoker: InvokerDescriptor) -> ServerClaim:
    """A server's own title and description of its tool, even if the operator overrides them."""
    offered = EMPTY if invoker.offered is None else invoker.offered
    title, description = offered.get("title"), offered.get("description", invoker.description)
    return ServerClaim(
        server=server,
        title=title if isinstance(title, str) else "",
        description=description if isinstance(description, str) else "",
    )


def _definition(
    invoker: InvokerDescriptor,
    connected: Connected,
    schema: Schema,
    results: Schema | None,
    *,
    origin: str,
    claim: ServerClaim | None = None,
    bundled: str | None = None,
) -> Definition:
    return Definition(
        name=invoker.name,
        description=invoker.description,
        schema=schema,
        results=results,
        invocable=connected.bind(invoker),
        policy=invoker.policy,
        hosted=connected.hosted,
        configuration=invoker.configuration,
        origin=origin,
        preview=connected.foresee(invoker),
        claim=claim,
        bundled=bundled,
    )
