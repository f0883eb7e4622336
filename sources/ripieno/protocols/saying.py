"""What several wires say alike of a conversation: what its supervisor says first, and how a document is headed."""

from collections.abc import Iterable, Sequence

from ripieno.canisters import Canister, Content, DocumentCanister, SupervisorCanister, TextualContent


def leading(canisters: Iterable[Canister]) -> Sequence[SupervisorCanister]:
    """The supervisor canisters before all others."""
    found: list[SupervisorCanister] = []
    for canister in canisters:
        if not isinstance(canister, SupervisorCanister):
            break
        found.append(canister)
    return found


def heading_of(document: DocumentCanister) -> str:
    """The line over a document, for wires that have no word for its identifier and its title."""
    title = f": {document.title}" if document.title else ""
    return f"[document {document.identifier}{title}]\n"


def headed(document: DocumentCanister) -> Sequence[Content]:
    """The contents of a document under its heading, which is one text with the first of them."""
    heading, contents = heading_of(document), document.content
    if contents and isinstance(contents[0], TextualContent):
        return (TextualContent(text=heading + contents[0].text), *contents[1:])
    return (TextualContent(text=heading), *contents)
