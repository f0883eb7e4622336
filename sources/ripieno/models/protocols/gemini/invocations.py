"""Tools, calls and results of the generateContent wire."""

from collections.abc import Mapping, Sequence
from typing import Any

from ripieno.canisters import Content, InvocationCanister, ResultCanister, TextualContent
from ripieno.canisters.contents import text_of
from ripieno.canisters.faults import Fault
from ripieno.ensembles import Definition, Ensemble, Invoker
from ripieno.ensembles.offers import Offer
from ripieno.jsonvalues import EMPTY, encode, is_table
from ripieno.models.protocol import HostedTool, Identifiers, InvocationsProcessor, Native
from ripieno.models.protocols.common.calls import extras_of, read_invocation, require_answer, served_arguments
from ripieno.models.protocols.common.dialects import GEMINI
from ripieno.models.protocols.common.requests import table_in, tables_in
from ripieno.models.protocols.common.tools import Declared, client_function, described, placed, remembered
from ripieno.models.protocols.gemini.contents import NAME, contents_of, parts_of
from ripieno.models.protocols.gemini.schemas import schema_of

_CALL = "functionCall"
_CALL_KEYS = frozenset({"id", "name", "args"})
#: Keys of a call while its arguments are streamed.
STREAMED = frozenset({"partialArgs", "willContinue"})


class Invocations(InvocationsProcessor):
    """Declarations are together in one tool; calls and results are parts."""

    dialect = GEMINI

    def prepare_tools(self, ensembles: Sequence[Ensemble] | Offer, *, strict: bool = False) -> Sequence[Native]:
        declarations = super().prepare_tools(ensembles, strict=strict)
        return [{"functionDeclarations": declarations}] if declarations else []

    def definition_of(self, invoker: Invoker, *, strict: bool = False) -> Native:
        del strict  # A mode of the whole request.
        return {**described(invoker), "parametersJsonSchema": self.lowered(invoker).schema}

    def normalize_invocations(self, native: Native) -> Sequence[InvocationCanister]:
        # A refused prompt has no candidates.
        require_answer(native, "candidates", "promptFeedback", "usageMetadata")
        identifiers = Identifiers()
        candidates = [one for one in tables_in(native, "candidates") if not one.get("index")]
        parts = [part for one in candidates for part in (one.get("content") or EMPTY).get("parts") or ()]
        calls = [part for part in parts if part.get(_CALL) is not None]
        return [invocation_of(part, identifiers.unique(part[_CALL].get("id"))) for part in calls]

    def nativize_results(self, results: Sequence[ResultCanister]) -> Sequence[Native]:
        # The identifier distinguishes results of which only the caller knows the tool.
        parts = [response_part(result, result.report.tool or result.invocation_id) for result in results]
        return [{"role": "user", "parts": parts}] if parts else []


INVOCATIONS = Invocations()


def invocation_of(part: Native, identifier: str) -> InvocationCanister:
    call = part[_CALL]
    return read_invocation(
        identifier=identifier,
        name=str(call.get("name") or ""),
        sent=call.get("args"),
        protocol=NAME,
        extras=extras_in(part),
        keep_text=False,
    )


def extras_in(part: Native) -> Mapping[str, Any]:
    """The keys that accompany a call in its part and inside it, usually signatures.

    A null identifier means that the call came without one, and returns without one.
    """
    call = part[_CALL]
    extras = {key: value for key, value in part.items() if key != _CALL and value is not None}
    inner = {
        key: value for key, value in call.items() if key not in _CALL_KEYS and key not in STREAMED and value is not None
    }
    if not is_identifier(call.get("id")):
        inner["id"] = None
    return {**extras, _CALL: inner} if inner else extras


def is_identifier(value: object) -> bool:
    """Whether the provider gave a call this identifier."""
    return isinstance(value, str) and bool(value.strip())


def call_part(invocation: InvocationCanister, *, served: bool = False) -> dict[str, Any]:
    """The part of a call. In an answer (``served``), a call that must not run is one that never ends."""
    never = served and invocation.fault is not None
    body: dict[str, Any] = {"args": invocation.arguments}
    if never:
        arguments = served_arguments(invocation)
        body = {"args": arguments, "willContinue": True} if arguments else {"willContinue": True}
    extras = dict(extras_of(invocation, NAME))
    inner = extras.pop(_CALL, EMPTY)
    call = {"id": invocation.identifier, "name": invocation.name, **body, **(inner if is_table(inner) else EMPTY)}
    if call["id"] is None:
        del call["id"]
    return {_CALL: call, **extras}


def has_identifier(invocation: InvocationCanister) -> bool:
    """Whether the provider gave the call an identifier, so that its result needs no matching by name and position."""
    inner = extras_of(invocation, NAME).get(_CALL)
    return not (is_table(inner) and "id" in inner and inner["id"] is None)


def response_part(result: ResultCanister, name: str, *, identified: bool = True, media: bool = True) -> dict[str, Any]:
    """The part of a result: an object with its texts as ``output``, an error as ``error``, the rest as parts."""
    text = text_of(result.content)
    response: dict[str, Any] = {}
    if result.error is not None:
        response["error"] = result.error.text()
    if text or result.error is None:
        response["output"] = text
    body: dict[str, Any] = {"id": result.invocation_id} if identified else {}
    body |= {"name": name, "response": response}
    parts = media_parts(result) if media else []
    if parts:
        body["parts"] = parts
    return {"functionResponse": body}


def media_parts(result: ResultCanister) -> list[Mapping[str, Any]]:
    return parts_of(content for content in result.content if not isinstance(content, TextualContent))


def result_of(response: Native, identifier: str) -> ResultCanister:
    """The result in a ``functionResponse`` of a request. Errors: ``InputError``."""
    error, contents = _error_and_output(table_in(response, "response"))
    media = [content for part in tables_in(response, "parts") for content in contents_of(part)]
    fault = None if error is None else Fault(category="execution", message=_text(error).removeprefix("Error: "))
    return ResultCanister(invocation_id=identifier, content=(*contents, *media), error=fault)


def _error_and_output(response: Mapping[str, Any]) -> tuple[object, tuple[Content, ...]]:
    """The error and the output of a result. An object without the usual keys is all output."""
    if not response.keys() <= {"output", "error"} and not response.keys() <= {"result"}:
        return None, (TextualContent(text=_text(response)),)
    output = response.get("result") if "result" in response else response.get("output")
    text = _text(output)
    return response.get("error"), (TextualContent(text=text),) if text else ()


def _text(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else encode(value).decode()


def definition_from(declaration: Native) -> Definition:
    """A function that a client declares. Errors: ``InputError``."""
    schema = declaration.get("parametersJsonSchema")
    if schema is None:
        schema = schema_of(declaration.get("parameters") or EMPTY)
    return client_function(declaration, schema, "A function has no name.")


def _read(tools: Sequence[Native]) -> Declared:
    functions: list[Definition] = []
    hosted: list[HostedTool] = []
    for place, tool in enumerate(tools):
        functions += [placed(place, definition_from, one) for one in tables_in(tool, "functionDeclarations")]
        for kind, value in tool.items():
            if kind == "mcpServers":
                names = [server.get("name") for server in tables_in(tool, kind)]
                hosted += [HostedTool(kind="mcp", label=str(name or "")) for name in names]
            elif kind != "functionDeclarations" and value is not None:
                hosted.append(HostedTool(kind=kind))
    return Declared.of(functions, hosted)


#: The tools of a request. Errors: ``InputError``.
declared_in = remembered(_read)
