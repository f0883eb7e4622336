"""Values of this house as JSON and back, as far as a cassette has them: data, never revived objects."""

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any, cast

from ripieno import approvals, exceptions
from ripieno.approvals import Answer
from ripieno.canisters import InvocationCanister, ResultCanister
from ripieno.canisters.events import Alert, ConfirmationRequested, Event, ExecutionProgress
from ripieno.canisters.serialization import deserialize_canister, serialize
from ripieno.descriptors import Policy
from ripieno.ensembles import Definition, Invoker
from ripieno.ensembles.offers import Offer
from ripieno.exceptions import ProviderFailure, SerializationInvalidity
from ripieno.jsonvalues import freeze, is_list, is_table, thaw
from ripieno.schemas import Schema

_FAILURES = ("ProviderUnreachable", "ProviderRefusal", "WireInvalidity")
_FAILURE_FIELDS = ("provider", "reason", "hint", "category", "retryable", "after", "status", "body")
_ANSWERS = ("Approve", "Deny", "Edit", "Defer")


def describe(value: Any) -> Any:
    """A frozen value of plain fields as JSON; fields that have their default are left out."""
    if dataclasses.is_dataclass(value):
        fields = ((field, getattr(value, field.name)) for field in dataclasses.fields(value))
        return {field.name: describe(part) for field, part in fields if part != field.default}
    if is_table(value):
        return thaw(freeze(value))
    return [describe(item) for item in value] if is_list(value) else value


def restore(kind: Any, value: Any) -> Any:
    """The value of a type that JSON describes. What a later version added is left out.

    Errors: ``SerializationInvalidity``.
    """
    origin, members = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        if value is None:
            return None
        return restore(next(one for one in members if one is not type(None)), value)
    if origin is tuple and is_list(value):
        return tuple(restore(members[0], item) for item in value)
    if dataclasses.is_dataclass(kind) and is_table(value):
        hints = typing.get_type_hints(kind)
        names = [field.name for field in dataclasses.fields(kind) if field.name in value]
        try:
            made: Any = cast("Any", kind)(**{name: restore(hints[name], value[name]) for name in names})
        except (TypeError, ValueError) as error:
            raise SerializationInvalidity(f"This is no {getattr(kind, '__name__', kind)}: {error}") from None
        return made
    if kind is float and type(value) is int:
        return float(value)
    if isinstance(kind, type) and type(value) is not kind:
        raise SerializationInvalidity(f"{value!r} is no {kind.__name__}.")
    return freeze(value) if is_table(value) else value


def describe_offer(offer: Offer) -> list[dict[str, Any]]:
    """The ensembles of an offer, with what is needed to offer the same again."""
    ensembles: dict[str, dict[str, Any]] = {}
    searchable = {one.exposed for one in offer.searchable}
    for invoker in offer.everything:
        ensemble = invoker.ensemble
        entry = ensembles.setdefault(
            ensemble.name,
            {"name": ensemble.name, "prefix": ensemble.prefix, "description": ensemble.description, "tools": []},
        )
        entry["tools"].append(_describe_invoker(invoker, searchable=invoker.exposed in searchable))
    return list(ensembles.values())


def _describe_invoker(invoker: Invoker, *, searchable: bool) -> dict[str, Any]:
    described: dict[str, Any] = {
        "name": invoker.name,
        "exposed": invoker.exposed,
        "description": invoker.description,
        "schema": thaw(invoker.schema.mapping),
        "policy": {**describe(invoker.policy), "tool_search": searchable},
        "origin": invoker.origin,
    }
    if invoker.results is not None:
        described["results"] = thaw(invoker.results.mapping)
    if invoker.hosted != "here":
        described["hosted"] = invoker.hosted
        described["configuration"] = thaw(freeze(invoker.configuration))
    return described


def restore_definition(stored: Mapping[str, Any]) -> Definition:
    """A tool as it was offered, without what runs it. Errors: ``SerializationInvalidity``."""
    try:
        results = stored.get("results")
        return Definition(
            name=stored["name"],
            exposed=stored["exposed"],
            description=stored["description"],
            schema=Schema.of(stored["schema"]),
            results=None if results is None else Schema.of_results(results),
            policy=restore(Policy, stored["policy"]),
            hosted=stored.get("hosted", "here"),
            configuration=freeze(dict(stored.get("configuration", {}))),
            origin=stored.get("origin", ""),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SerializationInvalidity(f"A tool of the cassette cannot be read: {error!r}.") from None


def describe_failure(error: ProviderFailure) -> dict[str, Any]:
    """What a provider failed with."""
    found = {name: getattr(error, name, None) for name in _FAILURE_FIELDS}
    found["body"] = thaw(freeze(found["body"])) if is_table(found["body"]) or is_list(found["body"]) else found["body"]
    return {"type": type(error).__name__, **{name: part for name, part in found.items() if part not in (None, "")}}


def restore_failure(stored: Mapping[str, Any]) -> ProviderFailure:
    """The same failure again. Errors: ``SerializationInvalidity``."""
    name = stored.get("type")
    kind: Any = getattr(exceptions, name) if name in _FAILURES else ProviderFailure
    fields = {field: part for field, part in stored.items() if field != "type"}
    status, body = fields.pop("status", None), fields.pop("body", None)
    if name == "ProviderRefusal":
        fields |= {"status": status, "body": body}
    if name == "WireInvalidity":
        fields = {field: fields[field] for field in ("provider", "reason", "hint", "retryable") if field in fields}
    try:
        failure: ProviderFailure = kind(fields.pop("provider"), fields.pop("reason"), **fields)
    except (KeyError, TypeError) as error:
        raise SerializationInvalidity(f"A failure of the cassette cannot be read: {error!r}.") from None
    return failure


def describe_event(event: Event) -> dict[str, Any] | None:
    """What a call tells while it runs; None for what is no event of a call."""
    if isinstance(event, ConfirmationRequested):
        invocation = serialize(event.invocation)
        return {"type": "ConfirmationRequested", **_asked(event), "invocation": invocation}
    if isinstance(event, ExecutionProgress | Alert):
        return {"type": type(event).__name__, **describe(event)}
    return None


def _asked(event: ConfirmationRequested) -> dict[str, Any]:
    return {"tool": event.tool, "effect": event.effect, "reason": event.reason}


def restore_event(stored: Mapping[str, Any]) -> Event:
    """The event again. Errors: ``SerializationInvalidity``."""
    fields = {name: part for name, part in stored.items() if name != "type"}
    try:
        match stored.get("type"):
            case "ConfirmationRequested":
                invocation = deserialize_canister(fields.pop("invocation"))
                if not isinstance(invocation, InvocationCanister):
                    raise SerializationInvalidity("A question of the cassette is about no call.")
                return ConfirmationRequested(invocation=invocation, **fields)
            case "ExecutionProgress":
                return cast("Event", restore(ExecutionProgress, fields))
            case "Alert":
                return cast("Event", restore(Alert, fields))
            case other:
                raise SerializationInvalidity(f"The cassette has an event of the unknown type {other!r}.")
    except (KeyError, TypeError) as error:
        raise SerializationInvalidity(f"An event of the cassette cannot be read: {error!r}.") from None


def restore_result(stored: Mapping[str, Any]) -> ResultCanister:
    """The result of a call. Errors: ``SerializationInvalidity``."""
    result = deserialize_canister(stored)
    if not isinstance(result, ResultCanister):
        raise SerializationInvalidity("A result of the cassette is none.")
    return result


def describe_answer(answer: object) -> dict[str, Any]:
    """What a confirmer answered: its name, and what belongs to it."""
    name = type(answer).__name__
    if name not in _ANSWERS:
        return {"answer": "Deny", "fields": {"advice": "The confirmation gave no answer."}}
    return {"answer": name, "fields": describe(answer)}


def restore_answer(name: str, fields: object) -> Answer:
    """The answer again. Errors: ``SerializationInvalidity``."""
    if name not in _ANSWERS or not is_table(fields):
        raise SerializationInvalidity(f"The cassette has the unknown answer {name!r}.")
    kind: Any = getattr(approvals, name)
    try:
        answer: Answer = kind(**{key: freeze(part) if is_table(part) else part for key, part in fields.items()})
    except TypeError as error:
        raise SerializationInvalidity(f"An answer of the cassette cannot be read: {error}.") from None
    return answer
