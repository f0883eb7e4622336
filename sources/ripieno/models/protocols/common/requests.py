"""Code of all wires: reading and checking parameters, controls that a model supports, headings of documents."""

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ripieno.canisters import (
    AssistantCanister,
    Canister,
    Content,
    Controls,
    DocumentCanister,
    SupervisorCanister,
    TextualContent,
    UserCanister,
)
from ripieno.canisters.controls import Format, Reasoning
from ripieno.ensembles.offers import Offer
from ripieno.exceptions import InputError, JsonInvalidity, NameAbsence, RequestInvalidity
from ripieno.jsonvalues import EMPTY, freeze, is_list, is_table
from ripieno.models.protocol import Capabilities, Native

#: Servers' efforts, and the nearest of ours.
_EFFORTS: Mapping[object, Reasoning] = {
    "none": "none",
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "high",
    "max": "high",
}


def sampling_of(controls: Controls, capabilities: Capabilities, *, default: bool = True) -> dict[str, float]:
    """The sampling controls that are set. Errors: ``InputError`` if the model supports none.

    ``default`` applies if the provider's data does not say.
    """
    given = {"temperature": controls.temperature, "top_p": controls.top_p}
    sampling = {name: value for name, value in given.items() if value is not None}
    if sampling and not capabilities.get("sampling", default):
        raise InputError(
            f"This model does not support {' or '.join(sampling)}: leave it out, or set sampling = true in its "
            "capabilities."
        )
    return sampling


def tuning_of(controls: Controls, wire: str, words: Mapping[str, str]) -> dict[str, Any]:
    """The controls of ``TUNING`` in the words of a wire.

    Errors: ``RequestInvalidity`` for one that the wire lacks, unless its value has no effect.
    """
    native: dict[str, Any] = {}
    for name in TUNING:
        value = getattr(controls, name)
        if value is None:
            continue
        if name in words:
            native[words[name]] = value
        elif value or name == "seed":
            raise RequestInvalidity(
                f"The {wire} wire has no {name} here: leave it out, or use this model over another wire.",
                parameter=name,
            )
    return native


def choice_of(controls: Controls, offer: Offer, capabilities: Capabilities) -> str | None:
    """The choice among an offer's tools; None leaves it to the provider. If no tool is allowed, it is ``none``.

    Errors: ``InputError`` if the model does not support a forced call, ``NameAbsence`` for a tool that is not offered.
    """
    choice = "none" if controls.allowed_tools == () else controls.tool_choice
    if choice in (None, "auto", "none"):
        return choice
    if not capabilities.get("tool_choice", True):
        raise InputError(
            f"This model cannot be forced to call a tool (tool_choice = {choice!r}): leave tool_choice out, or set "
            "tool_choice = true in the provider's capabilities."
        )
    if choice != "required" and choice not in offer.names:
        raise NameAbsence("offered tool", choice, offer.names)
    return choice


def strict_of(controls: Controls, capabilities: Capabilities) -> bool:
    """Whether the provider must enforce schemas. Errors: ``InputError`` if the model does not support that."""
    if controls.strict and not capabilities.get("strict", False):
        raise InputError(
            "This model does not enforce schemas of arguments: leave strict out, or set strict = true in the "
            "provider's capabilities."
        )
    return bool(controls.strict)


def format_of(controls: Controls, capabilities: Capabilities) -> Format | None:
    """The required format of an answer's text. Errors: ``InputError`` if the model supports none."""
    if controls.format is not None and not capabilities.get("json_mode", True):
        raise InputError(
            f"This model does not support JSON output (format = {controls.format.kind!r}): leave format out, or set "
            "json_mode = true in the provider's capabilities."
        )
    return controls.format


def tables_in(native: Native, key: str) -> Sequence[Mapping[str, Any]]:
    """The objects in a list; none if it is absent. Errors: ``InputError``."""
    values = native.get(key)
    if values is None:
        return ()
    if is_list(values):
        for value in values:
            if type(value) is not dict and not is_table(value):
                break
        else:
            return values
    raise RequestInvalidity(f"{key} is a list of objects.", parameter=key)


def table_in(native: Native, key: str) -> Mapping[str, Any]:
    """The object under a key; empty if it is absent. Errors: ``InputError``."""
    value = native.get(key)
    if value is None:
        return EMPTY
    if not is_table(value):
        raise RequestInvalidity(f"{key} is an object.", parameter=key)
    return value


def parts_in(content: object, what: str = "parts") -> Sequence[Any]:
    """The parts of a content; a text is one part, an empty text none. Errors: ``InputError``."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    if not is_list(content):
        raise InputError(f"Content is a text or a list of {what}.")
    return content


def canisters_of(
    parts: Iterable[Any],
    make: type[UserCanister | AssistantCanister],
    special: Callable[[Any], Canister | None],
    contents_of: Callable[[Any], Iterable[Content]],
) -> list[Canister]:
    """The canisters of a message. A ``special`` part is a canister by itself; all others are contents of ``make``."""
    canisters: list[Canister] = []
    contents: list[Content] = []
    for part in parts:
        canister = special(part)
        if canister is None:
            contents.extend(contents_of(part))
            continue
        if contents or (make is AssistantCanister and not canisters):
            # As in answers, calls follow an assistant's canister, which may be empty.
            canisters.append(make(content=tuple(contents)))
            contents.clear()
        canisters.append(canister)
    if contents or not canisters:
        canisters.append(make(content=tuple(contents)))
    return canisters


def decoded(data: object, where: str = "A part") -> bytes:
    """The bytes of base64 text. Errors: ``InputError``."""
    try:
        return base64.b64decode(str(data), validate=True)
    except ValueError as error:
        raise InputError(f"{where} has invalid base64: {error}.") from error


def number_in(native: Native, key: str) -> float | None:
    """The number under a key. Errors: ``InputError``."""
    value = native.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RequestInvalidity(f"{key} is a number, not {value!r}.", parameter=key)
    return value


def count_in(native: Native, key: str) -> int | None:
    """The integer under a key, at least 1. Errors: ``InputError``."""
    value = number_in(native, key)
    if value is not None and (not isinstance(value, int) or value < 1):
        raise RequestInvalidity(f"{key} is an integer of at least 1, not {value!r}.", parameter=key)
    return value


def _integer_in(native: Native, key: str) -> int | None:
    value = number_in(native, key)
    if value is not None and not isinstance(value, int):
        raise RequestInvalidity(f"{key} is an integer, not {value!r}.", parameter=key)
    return value


def _biases_in(native: Native, key: str) -> Mapping[str, Any] | None:
    if native.get(key) is None:
        return None
    biases = table_in(native, key)
    for token in biases:
        if number_in(biases, token) is None:
            raise RequestInvalidity(f"{key} has no number for the token {token}.", parameter=key)
    return biases


def _flag_set_in(native: Native, key: str) -> bool | None:
    return flag_in(native, key) or None


def _number_above_0_in(native: Native, key: str) -> int | None:
    return _integer_in(native, key) or None


#: Controls that only some wires have, and how each is read.
TUNING: Mapping[str, Callable[[Native, str], Any]] = {
    "seed": _integer_in,
    "presence_penalty": number_in,
    "frequency_penalty": number_in,
    "logit_bias": _biases_in,
    "logprobs": _flag_set_in,
    "top_logprobs": _number_above_0_in,
}


def tuning_in(native: Native, words: Mapping[str, str]) -> dict[str, Any]:
    """The controls of ``TUNING`` in a request; ``words`` are the wire's. Errors: ``RequestInvalidity``."""
    return {name: TUNING[name](native, word) for name, word in words.items()}


def flag_in(native: Native, key: str) -> bool | None:
    """The boolean under a key. Errors: ``InputError``."""
    value = native.get(key)
    if value is not None and not isinstance(value, bool):
        raise RequestInvalidity(f"{key} is true or false, not {value!r}.", parameter=key)
    return value


def present(members: Mapping[str, Any]) -> dict[str, Any]:
    """The members that have a value."""
    return {name: value for name, value in members.items() if value is not None}


def texts_in(native: Native, key: str) -> tuple[str, ...] | None:
    """The texts under a key, in a list or a single one; None if there are none. Errors: ``InputError``."""
    value = native.get(key)
    values: object = [value] if isinstance(value, str) else value or ()
    if not is_list(values) or not all(isinstance(one, str) for one in values):
        raise RequestInvalidity(f"{key} is a text or a list of texts.", parameter=key)
    return tuple(values) or None


def effort_in(native: Native, key: str) -> Reasoning | None:
    """The reasoning effort, as the nearest of ours. Errors: ``InputError`` for an unknown one."""
    value = native.get(key)
    if value is None:
        return None
    if not isinstance(value, str) or value not in _EFFORTS:
        words = ", ".join(map(str, _EFFORTS))
        raise RequestInvalidity(f"{key} is one of {words}; not {value!r}.", parameter=key)
    return _EFFORTS[value]


def format_in(form: Native, schema: Native, key: str) -> Format | None:
    """The required format of an answer's text; ``schema`` holds the JSON Schema. Errors: ``InputError``."""
    kind = form.get("type")
    if kind is None or kind == "text":
        return None
    if kind == "json_object":
        return Format(kind=kind)
    if kind != "json_schema":
        raise RequestInvalidity(
            f"{key} has the type {kind!r}; known are text, json_object and json_schema.", parameter=key
        )
    return schema_format(
        schema.get("schema"),
        key,
        name=str(schema.get("name") or ""),
        strict=flag_in(schema, "strict"),
        description=str(schema.get("description") or ""),
    )


def schema_format(schema: object, key: str, **fields: Any) -> Format:
    """A format with a schema. Errors: ``InputError`` if it is not an object."""
    if not is_table(schema):
        raise RequestInvalidity(f"{key} has no schema: give an object.", parameter=key)
    try:
        return Format(kind="json_schema", schema=freeze(schema), **fields)
    except JsonInvalidity as error:
        raise RequestInvalidity(f"The schema of {key} is not valid JSON: {error}", parameter=key) from error


#: Checks a parameter, given its name and value. Errors: ``RequestInvalidity``.
Check = Callable[[str, Any], None]
Checks = Mapping[str, Check]
#: Characters of a value in an error.
_SHOWN = 60
#: The reason for refusing a parameter that only one wire has.
UNSAYABLE = "{key} = {value} cannot be passed on to every model: leave {key} out."


def check(native: Native, checks: Checks, within: str = "") -> None:
    """Refuses parameters that cannot be honoured; null always passes. Errors: ``RequestInvalidity``.

    ``within`` is a prefix of the names in errors, for parameters of an inner object.
    """
    for key, value in native.items():
        if value is not None and (judge := checks.get(key)) is not None:
            judge(within + key, value)


def refused(why: str) -> Check:
    """Refuses any value. ``why`` is the message; it may contain ``{key}`` and ``{value}``."""

    def judge(key: str, value: Any) -> None:
        raise RequestInvalidity(why.format(key=key, value=_shown(value)), parameter=key)

    return judge


def unless(*harmless: Any, why: str) -> Check:
    """Refuses all values except these, which have no effect."""
    refuse = refused(why)

    def judge(key: str, value: Any) -> None:
        if value not in harmless:
            refuse(key, value)

    return judge


def among(*known: str) -> Check:
    """Refuses a list with any other word."""

    def judge(key: str, value: Any) -> None:
        if not is_list(value):
            raise RequestInvalidity(f"{key} is a list.", parameter=key)
        for one in value:
            if one not in known:
                raise RequestInvalidity(
                    f"{key} has {_shown(one)}, which is unknown here; known are {', '.join(known)}.", parameter=key
                )

    return judge


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def leading(canisters: Sequence[Canister]) -> tuple[Sequence[SupervisorCanister], Sequence[Canister]]:
    """The supervisor canisters at the beginning, and the rest."""
    found: list[SupervisorCanister] = []
    for canister in canisters:
        if not isinstance(canister, SupervisorCanister):
            break
        found.append(canister)
    return found, canisters[len(found) :] if found else canisters


def texts_of(supervisor: SupervisorCanister) -> list[TextualContent]:
    return [content for content in supervisor.content if isinstance(content, TextualContent)]


def heading_of(document: DocumentCanister) -> str:
    """The heading of a document, for wires without fields for its identifier and title."""
    title = f": {document.title}" if document.title else ""
    return f"[document {document.identifier}{title}]\n"


def headed(document: DocumentCanister) -> Sequence[Content]:
    """The contents of a document, with its heading joined to a first text."""
    heading, contents = heading_of(document), document.content
    if contents and isinstance(contents[0], TextualContent):
        return (TextualContent(text=heading + contents[0].text), *contents[1:])
    return (TextualContent(text=heading), *contents)
