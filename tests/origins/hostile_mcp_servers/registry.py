"""The table of behaviours: what each does instead of what a server should do, by the method that it is asked."""

import functools
from collections.abc import Callable
from typing import Any

from tests.origins.hostile_mcp_servers.exchanges import Exchange

Behaviour = Callable[[Exchange], None]
BEHAVIOURS: dict[str, dict[str, Behaviour]] = {}


def on(*methods: str, name: str = "") -> Callable[[Behaviour], Behaviour]:
    """Registers a behaviour under its function's name, or this one, for requests of these methods."""

    def register(behaviour: Behaviour) -> Behaviour:
        BEHAVIOURS.setdefault(name or behaviour.__name__, {}).update(dict.fromkeys(methods, behaviour))
        return behaviour

    return register


def behave(*methods: str, **behaviours: Behaviour) -> None:
    """Registers behaviours by their names."""
    for name, behaviour in behaviours.items():
        on(*methods, name=name)(behaviour)


def behave_and_answer(*methods: str, **behaviours: Behaviour) -> None:
    """Registers behaviours that are followed by a good answer."""

    def followed(exchange: Exchange, behaviour: Behaviour) -> None:
        behaviour(exchange)
        exchange.say("it")

    for name, behaviour in behaviours.items():
        on(*methods, name=name)(functools.partial(followed, behaviour=behaviour))


def fixed(method: str, results: dict[str, Any]) -> None:
    """Behaviours that answer a method with one result each."""
    for name, result in results.items():
        on(method, name=name)(lambda exchange, result=result: exchange.answer(result))


def known(name: str) -> dict[str, Behaviour]:
    """The behaviour of that name. Importing registers those that every transport has."""
    from tests.origins.hostile_mcp_servers import calls, handshakes, listings, notifications  # noqa: F401

    return BEHAVIOURS[name]
