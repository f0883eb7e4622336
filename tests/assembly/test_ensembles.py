"""Ensembles that open nothing are listed without an event loop, as those that are connected by one."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest

from ripieno.assembly.configuration import load_configuration
from ripieno.assembly.ensembles import ConnectedEnsembles
from ripieno.ensembles import Invoker
from ripieno.exceptions import AssemblyFailure
from tests.support.command_line import User

#: One ensemble for each built-in origin that opens nothing, and the bundled ones.
MIXED: dict[str, list[dict[str, Any]]] = {
    "ensembles": [
        {
            "ensemble": {"name": "mixed", "prefix": "mixed"},
            "invokers": [
                {"name": "say", "description": "Says.", "invocable": {"origin": "command", "argv": ["echo"]}},
                {"name": "ask", "description": "Asks.", "invocable": {"origin": "client"}},
                {"name": "off", "description": "Is off.", "enabled": False, "invocable": {"origin": "client"}},
                {
                    "name": "get",
                    "description": "Gets.",
                    "invocable": {"origin": "http", "method": "GET", "url": "https://api.example.org/"},
                },
            ],
        },
        {"ensemble": {"name": "unmet", "requires": ["command:no-such-program"]}, "invokers": []},
    ]
}
BROKEN = {
    "ensemble": {"name": "broken", "required": False},
    "invokers": [
        {
            "name": "say",
            "description": "Says.",
            "invocable": {"origin": "command", "argv": ["echo"], "environment": {"TOKEN": "{env:NO_SUCH_VARIABLE}"}},
        }
    ],
}


def everything(user: User) -> Mapping[str, Any]:
    known = load_configuration({}, places=user.places).known
    return {"ensembles": {"enabled": [name for name in known if known[name].connection is None]}}


def shown(invoker: Invoker) -> dict[str, object]:
    """The fields of an invoker. Of those that are made anew, whether it has them."""
    fields = {one.name: getattr(invoker, one.name) for one in dataclasses.fields(invoker)}
    made = {name: fields[name] is not None for name in ("invocable", "preview", "ensemble")}
    return {**fields, **made}


async def both(user: User, configuration: Mapping[str, Any]) -> list[object]:
    """What is known of the ensembles after each way to connect them."""
    outcomes: list[object] = []
    for entered in (False, True):
        loaded = load_configuration(configuration, places=user.places, workspace=user.workspace)
        assembly = ConnectedEnsembles(loaded, secrets={"PATH": "/usr/bin"})
        if entered:
            async with assembly:
                found = assembly.ensembles
        else:
            assert assembly.connect_at_once()
            found = assembly.ensembles
        described = [
            (one.name, one.prefix, dict(one.left_out), [*map(shown, one.invokers.values())], one.layer, one.description)
            for one in found
        ]
        outcomes.append((described, assembly.absences, assembly.alerts))
    return outcomes


async def test_all_bundled_ensembles(user: User) -> None:
    at_once, entered = await both(user, everything(user))
    assert at_once == entered


@pytest.mark.parametrize("configuration", [MIXED, {"ensembles": [*MIXED["ensembles"], BROKEN]}])
async def test_every_origin_that_opens_nothing(user: User, configuration: Mapping[str, Any]) -> None:
    at_once, entered = await both(user, configuration)
    assert at_once == entered


async def test_a_required_ensemble_that_fails(user: User) -> None:
    required = {**BROKEN, "ensemble": {"name": "broken"}}
    loaded = load_configuration({"ensembles": [required]}, places=user.places)
    with pytest.raises(AssemblyFailure) as at_once:
        ConnectedEnsembles(loaded).connect_at_once()
    with pytest.raises(AssemblyFailure) as entered:
        async with ConnectedEnsembles(loaded):
            pass
    assert at_once.value.text == entered.value.text


@pytest.mark.parametrize(
    "configuration",
    [
        {"ensembles": [{"ensemble": {"name": "far"}, "connection": {"origin": "mcp", "command": ["no-such-server"]}}]},
        {
            "ensembles": [
                {"ensemble": {"name": "near"}, "connection": {"origin": "python", "factory": "contextlib:nullcontext"}}
            ]
        },
        {"ensembles": [{"ensemble": {"name": "strange"}, "connection": {"origin": "no-such-origin"}}]},
        {"ensembles": {"profile": "starter"}},
    ],
)
def test_what_opens_something_waits_for_an_event_loop(user: User, configuration: Mapping[str, Any]) -> None:
    assembly = ConnectedEnsembles(load_configuration(configuration, places=user.places))
    assert not assembly.connect_at_once()
    assert (assembly.ensembles, assembly.alerts) == ((), [])
