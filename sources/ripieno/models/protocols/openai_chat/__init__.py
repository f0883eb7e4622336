"""The chat completions wire, both directions, with the deviations of its many servers.

Requirements:

* Results are messages of their own (role ``tool``), text only, right after the calls. Images follow in a user message
  after all of them, then whatever the user said meanwhile.
* The wire cannot mark a failed result: the text says it.
* ``arguments`` is a text, sent back exactly as it came; an unreadable one returns as ``{}``, because servers that parse
  it refuse the whole conversation.
* A message with one text has a string as content, which every server accepts; more parts make a list.
* ``max_completion_tokens`` or ``max_tokens``: the capability ``output_tokens_parameter`` names the one to use.
* An empty canister is left out.

Quirks (each measured on a server or documented, and each a scenario of the tests):

* Identifiers may be missing, blank, duplicate, or repeated on every fragment; indices missing, all zero, or from one.
* The name may come after the first arguments, or again on every fragment.
* Arguments may be fragments, one complete text, an object, null, or absent; ``{}`` may precede the real ones.
* Complete calls may come in the last chunk, with ``stop`` as the reason.
* A stream may end with a reason, with ``[DONE]``, or both; usage comes in a chunk without choices, after the reason.
* An error may come as a chunk in the middle, or as a complete answer with a good status; a complete answer may come
  where a stream was requested.
* Vendors' extras on a call and its function (signatures) return with the call; ``reasoning_details`` (streamed ones
  joined) and ``extra_content`` return unchanged; ``reasoning_content`` and ``reasoning`` return if the capability
  ``reasoning_replay`` says so.

A call is sealed when another block begins and its arguments are a complete object, or at the end. A call without
arguments, or with only ``{}``, waits for the end. More arguments for a sealed call are an error: it may run already.

Lost in answers: a text's position among the calls of a message; borders between texts of one message; that arguments
came as an object or not at all (they return as text); the name under which reasoning was streamed; a refusal's own
field (its text and the finish ``filter`` return); the chunks of ``logprobs``; other protocols' opaque contents.

Lost in requests: the same, and a text's kind; empty texts; unreadable arguments; the user's position among the results
of a turn; that a result failed, its fault, and which result the following images belong to; audio in results;
documents and their identifiers (they become text), except for their files; images of a supervisor and of the
assistant; a sound's kind, except for ``audio/mpeg`` and ``audio/wav``.
"""

from ripieno.canisters import AudioContent, DocumentContent, ImageContent, TextualContent
from ripieno.models.protocol import Protocol
from ripieno.models.protocols.common.openai import refuse
from ripieno.models.protocols.openai_chat.controls import CONTROLS
from ripieno.models.protocols.openai_chat.decoder import Decoder
from ripieno.models.protocols.openai_chat.encoder import Encoder, encode
from ripieno.models.protocols.openai_chat.invocations import INVOCATIONS
from ripieno.models.protocols.openai_chat.messages import MESSAGES
from ripieno.models.protocols.openai_chat.requests import parse, request

PROTOCOL = Protocol(
    name="openai-chat",
    sdk="openai",
    carries=(TextualContent, ImageContent, AudioContent, DocumentContent),
    messages=MESSAGES,
    invocations=INVOCATIONS,
    controls=CONTROLS,
    request=request,
    decoder=Decoder,
    path="/chat/completions",
    routes=("/v1/chat/completions",),
    parse=parse,
    encoder=Encoder,
    encode=encode,
    refuse=refuse,
)
