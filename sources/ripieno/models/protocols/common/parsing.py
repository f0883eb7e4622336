"""Reads a client's request; common to all wires."""

from collections.abc import Callable, Mapping

from ripieno.canisters import Canister, Controls
from ripieno.exceptions import InputError, RequestInvalidity
from ripieno.jsonvalues import EMPTY
from ripieno.models.protocol import Asked, Native
from ripieno.models.protocols.common.requests import Checks, check
from ripieno.models.protocols.common.tools import Declared, hosted_named


def read_request(
    native: Native,
    *,
    checks: Checks,
    declared: Callable[[Native], Declared],
    canisters: Callable[[Native, Declared], tuple[Canister, ...]],
    controls: Callable[[Native, Declared], Controls],
    conversation: str = "messages",
    choice: str = "tool_choice",
) -> Asked:
    """A client's request. ``conversation`` and ``choice`` are the keys of the conversation and of the tool choice.

    Errors: ``RequestInvalidity``, with the reason and the parameter.
    """
    model = native.get("model")
    if not isinstance(model, str) or not model:
        raise RequestInvalidity("The request has no model.", parameter="model")
    if native.get(conversation) is None:
        raise RequestInvalidity(f"The request has no {conversation}.", parameter=conversation)
    where: str | None = None
    try:
        check(native, checks)
        where = "tools"
        tools = declared(native)
        where = None
        wanted = controls(native, tools)
        chooses = wanted.tool_choice is not None or wanted.allowed_tools
        undeclared = _undeclared(wanted, tools, choice, native) if chooses else EMPTY
        where = conversation
        read = canisters(native, tools)
    except RequestInvalidity:
        raise
    except InputError as error:
        raise RequestInvalidity(str(error), parameter=where) from error
    except (AttributeError, KeyError, TypeError) as error:
        raise RequestInvalidity(f"The request cannot be read: {error}.", parameter=where) from error
    return Asked(
        model=model,
        canisters=read,
        tools=tools.tools,
        hosted=tools.hosted,
        controls=wanted,
        undeclared=undeclared,
        native=native,
    )


def _undeclared(
    controls: Controls, declared: Declared, parameter: str, native: Native
) -> Mapping[str, RequestInvalidity]:
    """The chosen names that the request does not declare, and the refusal of each."""
    listing = "allowed_tools" if native.get("allowed_tools") is not None else parameter
    forced = controls.forced_tool()
    named = (*(controls.allowed_tools or ()), *(() if forced is None else (forced,)))
    known = set(declared.names.values())
    absent = (name for name in named if name not in known and hosted_named(name) is None)
    return {name: unknown(name, declared, parameter if name == forced else listing) for name in absent}


def unknown(name: object, declared: Declared, parameter: str = "tool_choice") -> RequestInvalidity:
    known = ", ".join(sorted({one for _, one in declared.names} | {one.kind for one in declared.hosted}))
    return RequestInvalidity(
        f"{parameter} names {name!r}, which is not among the tools of the request ({known or 'there are none'}): "
        "declare it, or leave it out.",
        parameter=parameter,
    )
