"""Requests of the generateContent wire: written by the client half, read by the server half."""

from collections.abc import Sequence

from ripieno.canisters import AssistantCanister, Canister, InvocationCanister, OpaqueContent
from ripieno.exceptions import InputError, RequestInvalidity
from ripieno.jsonvalues import encode, is_list, is_table
from ripieno.models.protocol import Asked, Native, Request
from ripieno.models.protocols.common.encoding import definitions, join
from ripieno.models.protocols.common.parsing import read_request
from ripieno.models.protocols.common.requests import (
    UNSAYABLE,
    Checks,
    check,
    leading,
    refused,
    strict_of,
    texts_of,
    unless,
)
from ripieno.models.protocols.gemini.contents import CONTINUATION, NAME, parts_of
from ripieno.models.protocols.gemini.controls import CONTROLS, METHODS, tool_choice
from ripieno.models.protocols.gemini.invocations import INVOCATIONS, declared_in
from ripieno.models.protocols.gemini.messages import MESSAGES
from ripieno.models.protocols.gemini.schemas import respell


def request(asked: Request) -> bytes:
    """The body of a request; the path has the model's name. Errors: ``InputError`` for a control that it refuses."""
    supervisors, canisters = leading(asked.canisters)
    system = parts_of(text for one in supervisors for text in texts_of(one))
    rest = dict(CONTROLS.nativize(asked.controls, asked.capabilities))
    canisters, token = _continued(canisters)
    if token is not None:
        rest["continuationToken"] = token
    members: list[tuple[str, bytes]] = []
    if system:
        members.append(("systemInstruction", encode({"parts": system})))
    declarations = definitions(
        asked.offer, NAME, INVOCATIONS.definition_of, strict=strict_of(asked.controls, asked.capabilities)
    )
    if declarations is not None:
        members.append(("tools", b'[{"functionDeclarations":%s}]' % declarations))
        choice = tool_choice(asked.controls, asked.offer, asked.capabilities)
        if choice is not None:
            rest["toolConfig"] = choice
    return join(rest, "contents", MESSAGES.pieces(canisters, asked.capabilities, asked.memory), members)


def _continued(canisters: Sequence[Canister]) -> tuple[Sequence[Canister], object]:
    """The conversation and the token that continues an answer; then the answer's own canisters are removed."""
    last = canisters[-1] if canisters else None
    if not isinstance(last, AssistantCanister) or not last.content:
        return canisters, None
    content = last.content[-1]
    if not isinstance(content, OpaqueContent) or (content.protocol, content.kind) != (NAME, CONTINUATION):
        return canisters, None
    end = len(canisters)
    while end and isinstance(canisters[end - 1], AssistantCanister | InvocationCanister):
        end -= 1
    return canisters[:end], content.data["continuationToken"]


def parse(native: Native) -> Asked:
    """A client's request; ``model`` and ``method`` are from its path. Errors: ``InputError``."""
    if native.get("method", "generateContent") not in METHODS:
        raise InputError(f"The method {native['method']!r} is unknown; known are {' and '.join(METHODS)}.")
    return read_request(
        respell(native),
        checks=_CHECKS,
        declared=declared_in,
        canisters=lambda body, _: MESSAGES.normalize(body),
        controls=lambda body, _: CONTROLS.normalize(body),
        conversation="contents",
        choice="toolConfig",
    )


def _generation(key: str, value: object) -> None:
    if is_table(value):
        check(value, _GENERATION, f"{key}.")


def _safety(key: str, value: object) -> None:
    """Refuses safety settings other than those that filter nothing: models of other vendors cannot honour them."""
    for setting in value if is_list(value) else ():
        if is_table(setting) and setting.get("threshold") not in _OPEN:
            raise RequestInvalidity(
                f"{key} sets {setting.get('threshold')!r}, which cannot be passed on to every model: leave {key} out.",
                parameter=key,
            )


_TEXT = "{key} = {value} asks for more than text, and only text is supported here: leave {key} out."
_OPEN = (None, "HARM_BLOCK_THRESHOLD_UNSPECIFIED", "BLOCK_NONE", "OFF")
_GENERATION: Checks = {
    "candidateCount": unless(1, why="{key} = {value} asks for several answers: ask once for each."),
    "topK": refused(UNSAYABLE),
    "responseLogprobs": unless(False, why=UNSAYABLE),
    "logprobs": unless(0, why=UNSAYABLE),
    "responseModalities": unless(["TEXT"], ["text"], [], why=_TEXT),
    "speechConfig": refused(_TEXT),
    "imageConfig": refused(_TEXT),
    "responseFormat": refused("{key} is unknown here: give a responseMimeType and a responseJsonSchema."),
    "mediaResolution": unless("MEDIA_RESOLUTION_UNSPECIFIED", why=UNSAYABLE),
    "audioTimestamp": unless(False, why=UNSAYABLE),
    "audioTranscriptionConfig": refused(UNSAYABLE),
    "translationConfig": refused(UNSAYABLE),
    "enableAffectiveDialog": unless(False, why=UNSAYABLE),
    "enableEnhancedCivicAnswers": unless(False, why=UNSAYABLE),
    "routingConfig": refused("{key} would choose another model: name one."),
    "modelSelectionConfig": refused("{key} would choose another model: name one."),
}
_CHECKS: Checks = {
    "generationConfig": _generation,
    "safetySettings": _safety,
    "cachedContent": refused("Nothing is stored here, so {key} = {value} refers to nothing: send the content itself."),
    "modelArmorConfig": refused("{key} cannot be promised here: leave {key} out."),
}
