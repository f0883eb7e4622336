"""The chat completions wire, both directions, as its many servers really speak it.

What it wants:

* Results are messages of their own (role ``tool``), text only, right after the calls: images follow in a user message
  after all of them, and whatever the user said meanwhile after these.
* There is no word for a failed result: the text says it.
* ``arguments`` is a text. It is sent back exactly as it came; one that cannot be read returns as ``{}``, because
  servers that parse it refuse the whole conversation.
* A message with one text has a string for its content, which every server takes; more parts make a list.
* ``max_completion_tokens`` or ``max_tokens``: the capability ``output_tokens_parameter`` names the one to use.
* A canister that says nothing is left out.

What it does (each measured on a real server or its documentation, and each a scenario of the tests):

* Identifiers may be missing, blank, doubled, or repeated on every fragment; indices missing, all zero, or from one.
* The name may come after the first arguments, or again on every fragment.
* Arguments may be fragments, one whole text, an object, null, or absent; ``{}`` may come before the real ones.
* Whole calls may come in the last chunk, with ``stop`` as the reason.
* A stream may end with a reason, with ``[DONE]``, or both; usage comes in a chunk without choices, after the reason.
* An error may come as a chunk in the middle, or as a whole answer with a good status; an answer may come whole where
  a stream was asked for.
* Vendor's extras on a call and its function (signatures) return with the call; ``reasoning_details`` and
  ``extra_content`` return unchanged, details that were streamed word by word as whole ones; ``reasoning_content`` and
  ``reasoning`` return where the capability ``reasoning_replay`` says so.

A call is sealed when another block begins and its arguments are a whole object, or at the end. One that has none, or
only ``{}``, waits for the end. More arguments for a sealed call are an error, since it may run already.

What an answer cannot carry back: where text stood among the calls of a message; several texts of one message as
several; that arguments came as an object, or not at all (they come back as text); under which of its names reasoning
was streamed; a refusal's own field (its text and the finish ``filter`` come back); opaque contents of other protocols.

What a request cannot carry back: the same, and the kind of a text; empty texts; arguments that cannot be read; where
among the results of a turn the user spoke; a mark that a result failed, its fault, and which result the images that
follow belong to; audio in results; documents and their identifiers (a text says them), but for their files; images of
a supervisor and of the assistant; the kind of a sound, but for ``audio/mpeg`` and ``audio/wav``.
"""

from ripieno.canisters import AudioContent, DocumentContent, ImageContent, TextualContent
from ripieno.models.protocol import Protocol
from ripieno.models.protocols.common.openai import refuse
from ripieno.models.protocols.openai_chat.controls import CONTROLS
from ripieno.models.protocols.openai_chat.decoder import Decoder, decode
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
    decode=decode,
    path="/chat/completions",
    routes=("/v1/chat/completions",),
    parse=parse,
    encoder=Encoder,
    encode=encode,
    refuse=refuse,
)
