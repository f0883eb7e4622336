"""What is left of a conversation that a server read: the losses that the docstrings of the protocols list."""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ripieno.canisters import (
    AssistantCanister,
    AudioContent,
    Canister,
    Content,
    DocumentCanister,
    DocumentContent,
    ImageContent,
    InvocationCanister,
    OpaqueContent,
    ResultCanister,
    SupervisorCanister,
    TextualContent,
    UserCanister,
)
from ripieno.jsonvalues import freeze

# What a wire cannot carry in a request, and nothing else: the docstring of each protocol has the same list. Borders
# of canisters that become one message are dissolved: a conversation is compared as a row of what stands in it.

Row = list[tuple[Any, ...]]


def row_of(canisters: Sequence[Canister]) -> Row:
    """What stands in a conversation, one after the other, without the borders of canisters."""
    row: Row = []
    for canister in canisters:
        if isinstance(canister, InvocationCanister):
            row.append(("call", canister.identifier, canister.name, canister.kind, canister.arguments, canister.fault))
        elif isinstance(canister, ResultCanister):
            row.append(("result", canister.invocation_id, canister.error is not None, canister.text, *canister.content))
        elif isinstance(canister, DocumentCanister):
            row.extend(("document", canister.identifier, canister.title, content) for content in canister.content)
        else:
            row.extend((type(canister).__name__, content) for content in canister.content)
    return row


def plain(content: Content) -> Content:
    """The content without the kind of its text."""
    return TextualContent(text=content.text) if isinstance(content, TextualContent) else content


def _call(call: InvocationCanister, kind: str = "function") -> tuple[Any, ...]:
    return ("call", call.identifier, call.name, kind, call.arguments, None)


def _headed(canister: DocumentCanister, contents: Sequence[Content]) -> list[Content]:
    """The contents of a document on a wire without documents: a heading joins the first text."""
    title = f": {canister.title}" if canister.title else ""
    heading = f"[document {canister.identifier}{title}]\n"
    if contents and isinstance(contents[0], TextualContent):
        return [TextualContent(text=heading + contents[0].text), *contents[1:]]
    return [TextualContent(text=heading), *contents]


def _results_first(said: Iterable[tuple[Canister, Row]], *inputs: type[Canister]) -> Row:
    """One row, in which results stand before other ``inputs`` of the same turn."""
    row: Row = []
    results: Row = []
    others: Row = []
    for canister, one in said:
        if isinstance(canister, ResultCanister):
            results += one
        elif isinstance(canister, inputs):
            others += one
        elif one:
            row += [*results, *others, *one]
            results, others = [], []
    return [*row, *results, *others]


def returned_by_anthropic(canisters: Sequence[Canister]) -> Row:
    said = ((canister, _said_to_anthropic(canister)) for canister in canisters)
    return _results_first(said, UserCanister, DocumentCanister)


def _said_to_anthropic(canister: Canister) -> Row:
    if isinstance(canister, ResultCanister):
        return [_result_by_anthropic(canister)]
    if isinstance(canister, DocumentCanister):
        return _document_by_anthropic(canister)
    if isinstance(canister, InvocationCanister):
        return [_call(canister)]
    return [(type(canister).__name__, one) for one in _carried_by_anthropic(canister.content)]


def _carried_by_anthropic(contents: Sequence[Content]) -> list[Content]:
    return [
        plain(one)
        for one in contents
        if not isinstance(one, AudioContent)
        and not (isinstance(one, TextualContent) and not one.text.strip())
        and not (isinstance(one, OpaqueContent) and one.protocol != "anthropic")
    ]


def _result_by_anthropic(result: ResultCanister) -> tuple[Any, ...]:
    carried = [
        TextualContent(text="[AudioContent left out]") if isinstance(one, AudioContent) else plain(one)
        for one in result.content
        if not isinstance(one, OpaqueContent)
    ]
    text = "".join(one.text for one in carried if isinstance(one, TextualContent))
    others = [one for one in carried if not isinstance(one, TextualContent)]
    if result.error is not None:
        # What failed stands first, and all texts are one.
        said = result.error.text() + (f"\n{text}" if text else "")
        return ("result", result.invocation_id, True, said, *others)
    if not others:
        carried = [TextualContent(text=text)]
    else:
        carried = [one for one in carried if not isinstance(one, TextualContent) or one.text.strip()]
        text = "".join(one.text for one in carried if isinstance(one, TextualContent))
    return ("result", result.invocation_id, False, text, *(one for one in carried if one != TextualContent(text="")))


def _document_by_anthropic(canister: DocumentCanister) -> Row:
    about = ("document", canister.identifier, canister.title)
    return [
        ("UserCanister", one) if isinstance(one, ImageContent) else (*about, one)
        for one in _carried_by_anthropic(canister.content)
    ]


def returned_by_chat(canisters: Sequence[Canister]) -> Row:
    row: Row = []
    spoken = filter(_speaks_to_chat, canisters)
    for answers, group in itertools.groupby(spoken, _is_of_assistant):
        row += (_answered_by_chat if answers else _asked_of_chat)([*group])
    return row


def _is_of_assistant(canister: Canister) -> bool:
    return isinstance(canister, AssistantCanister | InvocationCanister)


def _answered_by_chat(canisters: Sequence[Canister]) -> Row:
    """All reasoning of a message as one, all texts as one, and then the calls."""
    contents = [content for one in canisters if isinstance(one, AssistantCanister) for content in one.content]
    own: list[Any] = [one for one in contents if isinstance(one, OpaqueContent) and one.protocol == "openai-chat"]
    data = freeze({"reasoning_details": [detail for one in own for detail in one.data["reasoning_details"]]})
    text = "".join(one.text for one in contents if isinstance(one, TextualContent))
    row: Row = (
        [("AssistantCanister", OpaqueContent(protocol="openai-chat", kind="reasoning", data=data))] if own else []
    )
    row += [("AssistantCanister", TextualContent(text=text))] if text else []
    # A free-form call is one of a function there, unless the provider knows these.
    return row + [_call(one) for one in canisters if isinstance(one, InvocationCanister)]


def _asked_of_chat(canisters: Sequence[Canister]) -> Row:
    """The results of a turn, then their images, then all else."""
    results: list[Row] = [[], [], []]
    for canister in canisters:
        if isinstance(canister, ResultCanister):
            results[0].append(_result_by_chat(canister))
            results[1] += [("UserCanister", one) for one in canister.content if isinstance(one, ImageContent)]
        elif isinstance(canister, DocumentCanister):
            headed = _headed(canister, canister.content)
            results[2] += [("UserCanister", one) for one in _carried_by_chat(headed)]
        elif not isinstance(canister, InvocationCanister):
            results[2] += [(type(canister).__name__, one) for one in _carried_by_chat(canister.content)]
    return [*itertools.chain(*results)]


def _speaks_to_chat(canister: Canister) -> bool:
    """Whether anything is left of a canister: one that says nothing is no canister there."""
    if isinstance(canister, AssistantCanister):
        return bool(canister.text) or any(
            isinstance(one, OpaqueContent) and one.protocol == "openai-chat" for one in canister.content
        )
    if isinstance(canister, InvocationCanister | ResultCanister | DocumentCanister):
        return True
    return bool(_carried_by_chat(canister.content))


def _carried_by_chat(contents: Sequence[Content]) -> list[Content]:
    carried: list[Content] = []
    for one in contents:
        if isinstance(one, OpaqueContent) or (isinstance(one, TextualContent) and not one.text):
            continue
        if isinstance(one, DocumentContent) and one.url is not None and not one.mime_type.startswith("image/"):
            carried.append(TextualContent(text=f"[document at {one.url}]"))
        else:
            carried.append(plain(one))
    return carried


def returned_by_gemini(canisters: Sequence[Canister]) -> Row:
    rest = list(canisters)
    row: Row = []
    while rest and isinstance(rest[0], SupervisorCanister):
        row += [("SupervisorCanister", one) for one in _texts(rest.pop(0).content)]
    said = ((canister, _said_to_gemini(canister)) for canister in rest)
    return row + _results_first(said, UserCanister, DocumentCanister, SupervisorCanister)


def _said_to_gemini(canister: Canister) -> Row:
    if isinstance(canister, InvocationCanister):
        return [_call(canister)]
    if isinstance(canister, ResultCanister):
        text = "".join(one.text for one in _texts(canister.content))
        output = [TextualContent(text=text)] if text else []
        media = [one for one in _carried_by_gemini(canister.content) if not isinstance(one, TextualContent)]
        return [("result", canister.invocation_id, canister.error is not None, canister.text, *output, *media)]
    speaker = "AssistantCanister" if isinstance(canister, AssistantCanister) else "UserCanister"
    contents = _carried_by_gemini(canister.content)
    if isinstance(canister, DocumentCanister):
        contents = _headed(canister, contents)
    elif isinstance(canister, SupervisorCanister):
        first, *others = _texts(canister.content) or [None]
        contents = [] if first is None else [TextualContent(text=f"[instructions]\n{first.text}"), *others]
    return [(speaker, one) for one in contents]


def _texts(contents: Sequence[Content]) -> list[TextualContent]:
    return [TextualContent(text=one.text) for one in contents if isinstance(one, TextualContent) and one.text]


def _carried_by_gemini(contents: Sequence[Content]) -> list[Content]:
    """A signature joins what stands before it, or an empty text."""
    carried: list[Content] = []
    joins = False
    for one in contents:
        if isinstance(one, OpaqueContent):
            if one.protocol != "gemini":
                continue
            alone = one.kind == "signature" and not joins
            data = freeze({"text": "", **one.data}) if alone else one.data
            carried.append(OpaqueContent(protocol="gemini", kind=one.kind, data=data))
            joins = False
            continue
        joins = not (isinstance(one, TextualContent) and not one.text)
        if isinstance(one, DocumentContent) and one.url is not None and "*" in one.mime_type:
            carried.append(DocumentContent(url=one.url, mime_type="*/*"))
        elif joins:
            carried.append(plain(one))
    return carried


def _result_by_chat(result: ResultCanister) -> tuple[Any, ...]:
    images = sum(isinstance(one, ImageContent) for one in result.content)
    lines = [result.text] if result.text else []
    if images:
        lines.append(f"[{images} image{'' if images == 1 else 's'} in the next message]")
    lines += ["[AudioContent left out]" for one in result.content if isinstance(one, AudioContent)]
    text = "\n".join(lines)
    return ("result", result.invocation_id, False, text, *([TextualContent(text=text)] if text else []))


def returned_by_responses(canisters: Sequence[Canister]) -> Row:
    row: Row = []
    rest = list(canisters)
    instructions: list[str] = []
    while rest and isinstance(rest[0], SupervisorCanister):
        instructions.append("".join(one.text for one in _texts(rest.pop(0).content)))
    if any(instructions):
        row.append(("SupervisorCanister", TextualContent(text="\n\n".join(filter(None, instructions)))))
    for canister in rest:
        if isinstance(canister, InvocationCanister):
            row.append(_call(canister, canister.kind))
        elif isinstance(canister, ResultCanister):
            row.append(_result_by_responses(canister))
        elif isinstance(canister, AssistantCanister):
            row += [("AssistantCanister", one) for one in _said_to_responses(canister.content)]
        elif isinstance(canister, DocumentCanister):
            whole = _headed(canister, canister.content)
            row += [("UserCanister", one) for one in _carried_by_responses(whole)]
        elif isinstance(canister, SupervisorCanister):
            row += [("SupervisorCanister", one) for one in _texts(canister.content)]
        else:
            row += [("UserCanister", one) for one in _carried_by_responses(canister.content)]
    return row


def _said_to_responses(contents: Sequence[Content]) -> list[Content]:
    """What stands beside a text comes right before it, and nowhere else."""
    said: list[Content] = []
    beside: Content | None = None
    for one in contents:
        if isinstance(one, TextualContent):
            if one.text:
                said += [plain(one)] if beside is None else [beside, plain(one)]
            beside = None
        elif isinstance(one, OpaqueContent) and one.protocol == "openai-responses":
            if one.kind == "message":
                beside = one
            else:
                said.append(one)
    return said


def _carried_by_responses(contents: Sequence[Content]) -> list[Content]:
    carried: list[Content] = []
    for one in contents:
        if isinstance(one, OpaqueContent | AudioContent) or (isinstance(one, TextualContent) and not one.text):
            continue
        if isinstance(one, DocumentContent) and one.url is not None:
            kind = "image/*" if one.mime_type.startswith("image/") else "application/pdf"
            carried.append(DocumentContent(url=one.url, mime_type=kind))
        else:
            carried.append(plain(one))
    return carried


def _result_by_responses(result: ResultCanister) -> tuple[Any, ...]:
    carried = _carried_by_responses(
        [
            TextualContent(text="[AudioContent left out]") if isinstance(one, AudioContent) else one
            for one in result.content
        ]
    )
    if result.error is not None:
        carried.insert(0, TextualContent(text=result.error.text() + ("\n" if carried else "")))
    text = "".join(one.text for one in carried if isinstance(one, TextualContent))
    if all(isinstance(one, TextualContent) for one in carried):
        carried = [TextualContent(text=text)] if text else []
    return ("result", result.invocation_id, False, text, *carried)


RETURNED: Mapping[str, Callable[[Sequence[Canister]], Row]] = {
    "anthropic": returned_by_anthropic,
    "openai-chat": returned_by_chat,
    "gemini": returned_by_gemini,
    "openai-responses": returned_by_responses,
}
