"""Invocation canisters from calls as models really send them."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from frozendict import frozendict

from ripieno.canisters import InvocationCanister
from ripieno.canisters.canisters import InvocationKind
from ripieno.canisters.events import InvocationBegan
from ripieno.canisters.faults import Fault
from ripieno.exceptions import InputError, JsonInvalidity
from ripieno.jsonvalues import EMPTY, freeze, is_table, parse

_KINDS: Mapping[type, str] = {type(None): "null", str: "a text", bool: "a boolean", int: "a number", float: "a number"}


def read_arguments(sent: object) -> tuple[frozendict[str, object], Fault | None]:
    """Arguments from any form that servers send (a text, an object, nothing), or why they cannot be read.

    An absent value, null and a blank text all mean no arguments (measured: servers send each of them).
    """
    if sent is None or (isinstance(sent, str) and not sent.strip()):
        return EMPTY, None
    try:
        value = parse(sent) if isinstance(sent, str) else sent
        if is_table(value):
            return freeze(value), None
        return EMPTY, _unreadable(f"they are {_KINDS.get(type(value), 'an array')}, not an object")
    except JsonInvalidity as error:
        return EMPTY, _unreadable(str(error))


def read_invocation(
    *,
    identifier: str,
    name: str,
    sent: object,
    kind: InvocationKind = "function",
    protocol: str = "",
    extras: Mapping[str, Any] | None = None,
    keep_text: bool = True,
) -> InvocationCanister:
    """An invocation canister, with a fault if the call cannot be read. ``keep_text`` keeps the text as it was sent.

    ``extras`` are what this protocol's providers need back on the call. They are in ``opaque`` under its name.
    """
    text = sent if isinstance(sent, str) else None
    arguments: frozendict[str, object] = EMPTY
    fault: Fault | None = None
    if kind == "function":
        arguments, fault = read_arguments(sent)
    else:
        arguments = freeze({"input": text or ""})
    if not name:
        fault = Fault(
            category="validation", message="The call has no name.", code="name_missing", suggestion="Name a tool."
        )
    return InvocationCanister(
        identifier=identifier,
        name=name,
        arguments=arguments,
        kind=kind,
        raw=text if keep_text or fault is not None else None,
        fault=fault,
        opaque=opaque_of(extras, protocol),
    )


def opaque_of(extras: Mapping[str, Any] | None, protocol: str) -> frozendict[str, object]:
    """The opaque part of a call: what this protocol needs back on it."""
    return frozendict({protocol: freeze(extras)}) if extras else EMPTY


def extras_of(call: InvocationCanister | InvocationBegan, protocol: str) -> Mapping[str, Any]:
    """The keys that a protocol needs back on a call; empty if another protocol's provider made it."""
    extras = call.opaque.get(protocol)
    return extras if is_table(extras) else EMPTY


def served_arguments(invocation: InvocationCanister) -> Mapping[str, Any]:
    """The arguments in an answer of a wire that has only objects.

    Unreadable text is the value of the one key ``INVALID_JSON``, which Anthropic documents for this: without it, the
    call would look like one without arguments. A call that was cut off shows it by the end of the answer.
    """
    unreadable = invocation.fault is not None and invocation.fault.code == "arguments_unreadable"
    return {"INVALID_JSON": invocation.raw or ""} if unreadable else invocation.arguments


def cut_off(invocation: InvocationCanister, why: str) -> InvocationCanister:
    """The same call with a fault that says it was cut off; it never runs."""
    return dataclasses.replace(
        invocation,
        arguments=EMPTY,
        fault=Fault(
            category="validation",
            message=f"The call was cut off: {why}.",
            code="cut_off",
            suggestion="Make the call again, with shorter arguments.",
        ),
    )


def require_answer(native: Mapping[str, Any], *keys: str) -> None:
    """Refuses what has none of the keys of a complete answer. Errors: ``InputError``."""
    if not any(key in native for key in keys):
        raise InputError(
            f"This is no complete answer: it has no {' or '.join(map(repr, keys))}. Give the whole body of the "
            "provider's answer, not a message or an item of it."
        )


def _unreadable(why: str) -> Fault:
    return Fault(
        category="validation",
        message=f"The arguments cannot be read: {why.removesuffix('.')}.",
        code="arguments_unreadable",
        suggestion="Send the arguments as one JSON object.",
    )
