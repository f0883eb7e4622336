"""Requests of all wires, written and read, for the tests about them."""

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import strategies as st

from ripieno.canisters import Canister, Controls
from ripieno.ensembles import Definition, Ensemble
from ripieno.ensembles.offers import Offer
from ripieno.models import Protocol
from ripieno.models.protocol import Asked, Request
from ripieno.schemas import Schema
from tests.support.golden_wires import PROTOCOLS, addressed
from tests.support.json_strategies import objects
from tests.support.json_strategies import values as json_values

both = pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=lambda protocol: protocol.name)

PATH = {"type": "object", "properties": {"path": {"type": "string", "description": "Where."}}, "required": ["path"]}
ENSEMBLE = Ensemble.of(
    "house",
    [
        Definition(name="read_file", description="Reads a file.", schema=Schema.of(PATH), hosted="caller"),
        Definition(name="list_rooms", schema=Schema.of({"type": "object"}), hosted="caller"),
        Definition(name="search_web", schema=Schema.of({"type": "object"}), hosted="provider"),
    ],
)
OFFER = Offer.of([ENSEMBLE])
NO_TOOLS = Offer(())


def write(
    protocol: Protocol,
    canisters: Sequence[Canister],
    *,
    offer: Offer = NO_TOOLS,
    controls: Controls | None = None,
    memory: dict[object, Any] | None = None,
    **capabilities: Any,
) -> bytes:
    """The body of a request."""
    request = Request(
        model="m", canisters=canisters, offer=offer, controls=controls or Controls(), capabilities=capabilities
    )
    return protocol.request(request if memory is None else dataclasses.replace(request, memory=memory))


def asked(protocol: Protocol, body: bytes, *, stream: bool = False) -> Asked:
    """A body as our server half reads it. ``stream``: whether the path requests a stream, if it can."""
    return protocol.parse(addressed(protocol, json.loads(body), stream=stream))


def break_somewhere(data: st.DataObject, value: Any) -> None:
    """Replaces, drops or adds one value, somewhere in a JSON value."""
    for _ in range(20):
        keys: list[Any] = list(value) if isinstance(value, dict) else list(range(len(value)))
        if not keys:
            return
        key = data.draw(st.sampled_from(keys))
        if isinstance(value[key], dict | list) and value[key] and data.draw(st.booleans()):
            value = value[key]
            continue
        value[key] = data.draw(json_values | objects)
        return
