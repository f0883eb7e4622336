"""What is left of a conversation that a server read: the losses that the docstrings of the protocols list."""

from collections.abc import Sequence
from typing import Any

from ripieno.canisters import (
    AssistantCanister,
    Canister,
    DocumentCanister,
    InvocationCanister,
    ResultCanister,
    UserCanister,
)
from ripieno.contents import AudioContent, Content, DocumentContent, ImageContent, OpaqueContent, TextualContent
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


def returned_by_anthropic(canisters: Sequence[Canister]) -> Row:
    """What a server reads of a conversation that was sent over the Messages wire."""
    row: Row = []
    answers: tuple[Row, Row] = ([], [])  # Results stand before whatever else the user says.
    for canister in [*filter(_speaks_to_anthropic, canisters), None]:
        if not isinstance(canister, UserCanister | DocumentCanister | ResultCanister):
            row += answers[0] + answers[1]
            answers[0].clear()
            answers[1].clear()
        if isinstance(canister, ResultCanister):
            answers[0].append(_result_by_anthropic(canister))
        elif isinstance(canister, DocumentCanister):
            answers[1].extend(_document_by_anthropic(canister))
        elif isinstance(canister, InvocationCanister):
            row.append(("call", canister.identifier, canister.name, "function", canister.arguments, None))
        elif canister is not None:
            target = answers[1] if isinstance(canister, UserCanister) else row
            target.extend((type(canister).__name__, one) for one in _carried_by_anthropic(canister.content))
    return row


def _speaks_to_anthropic(canister: Canister) -> bool:
    """Whether anything is left of a canister: one that says nothing is no canister there."""
    return isinstance(canister, InvocationCanister | ResultCanister) or bool(_carried_by_anthropic(canister.content))


def _carried_by_anthropic(contents: Sequence[Content]) -> list[Content]:
    return [
        plain(one)
        for one in contents
        if not isinstance(one, AudioContent)
        and not (isinstance(one, TextualContent) and not one.text)
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
    return ("result", result.invocation_id, False, text, *(one for one in carried if one != TextualContent(text="")))


def _document_by_anthropic(canister: DocumentCanister) -> Row:
    about = ("document", canister.identifier, canister.title)
    return [
        ("UserCanister", one) if isinstance(one, ImageContent) else (*about, one)
        for one in _carried_by_anthropic(canister.content)
    ]


def returned_by_chat(canisters: Sequence[Canister]) -> Row:
    """What a server reads of a conversation that was sent over the chat completions wire."""
    row: Row = []
    said: list[str] = []
    opaque: list[OpaqueContent] = []
    calls: Row = []
    results: Row = []
    images: Row = []
    others: Row = []
    for canister in [*filter(_speaks_to_chat, canisters), None]:
        if canister is None or isinstance(canister, AssistantCanister | InvocationCanister):
            row += results + images + others
            results, images, others = [], [], []
        if canister is None or not isinstance(canister, AssistantCanister | InvocationCanister):
            row += [("AssistantCanister", one) for one in _merged(opaque)]
            row += [("AssistantCanister", TextualContent(text="".join(said)))] if any(said) else []
            row += calls
            said, opaque, calls = [], [], []
        if isinstance(canister, InvocationCanister):
            call = ("call", canister.identifier, canister.name, canister.kind, canister.arguments, None)
            calls.append(call)
        elif isinstance(canister, AssistantCanister):
            said += [one.text for one in canister.content if isinstance(one, TextualContent)]
            opaque += [one for one in canister.content if isinstance(one, OpaqueContent)]
        elif isinstance(canister, ResultCanister):
            results.append(_result_by_chat(canister))
            images += [("UserCanister", one) for one in canister.content if isinstance(one, ImageContent)]
        elif isinstance(canister, DocumentCanister):
            others += _document_by_chat(canister)
        elif canister is not None:
            others += [(type(canister).__name__, one) for one in _carried_by_chat(canister.content)]
    return row


def _speaks_to_chat(canister: Canister) -> bool:
    """Whether anything is left of a canister: one that says nothing is no canister there."""
    if isinstance(canister, AssistantCanister):
        return bool(canister.text) or any(
            isinstance(one, OpaqueContent) and one.protocol == "openai-chat" for one in canister.content
        )
    if isinstance(canister, InvocationCanister | ResultCanister | DocumentCanister):
        return True
    return bool(_carried_by_chat(canister.content))


def _merged(contents: Sequence[OpaqueContent]) -> list[OpaqueContent]:
    """All reasoning of a message is one; another protocol's is left out."""
    own: list[Any] = [detail for one in contents if one.protocol == "openai-chat" for detail in _details(one)]
    data = freeze({"reasoning_details": own})
    return [OpaqueContent(protocol="openai-chat", kind="reasoning", data=data)] if own else []


def _details(content: OpaqueContent) -> Sequence[Any]:
    details = content.data["reasoning_details"]
    assert isinstance(details, tuple)
    return details


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


def _document_by_chat(canister: DocumentCanister) -> Row:
    title = f": {canister.title}" if canister.title else ""
    contents = list(canister.content)
    heading = f"[document {canister.identifier}{title}]\n"
    if contents and isinstance(contents[0], TextualContent):
        heading += contents.pop(0).text  # type: ignore[union-attr]
    return [("UserCanister", one) for one in _carried_by_chat([TextualContent(text=heading), *contents])]


def _result_by_chat(result: ResultCanister) -> tuple[Any, ...]:
    images = sum(isinstance(one, ImageContent) for one in result.content)
    lines = [result.text] if result.text else []
    if images:
        lines.append(f"[{images} image{'' if images == 1 else 's'} in the next message]")
    lines += ["[AudioContent left out]" for one in result.content if isinstance(one, AudioContent)]
    text = "\n".join(lines)
    return ("result", result.invocation_id, False, text, *([TextualContent(text=text)] if text else []))
