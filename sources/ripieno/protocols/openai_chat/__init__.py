"""The chat completions wire, both directions, as its many servers really speak it.

What it wants:

* Results are messages of their own (role ``tool``), text only: images follow in a user message after all of them.
* There is no word for a failed result: the text says it.
* ``arguments`` is a text. It is sent back exactly as it came.
* A message with one text has a string for its content, which every server takes; more parts make a list.
* ``max_completion_tokens`` or ``max_tokens``: the capability ``output_tokens_parameter`` names the one to use.

What it does (each measured on a real server or its documentation, and each a scenario of the tests):

* Identifiers may be missing, blank, doubled, or repeated on every fragment; indices missing, all zero, or from one.
* The name may come after the first arguments, or again on every fragment.
* Arguments may be fragments, one whole text, an object, null, or absent.
* Whole calls may come in the last chunk, with ``stop`` as the reason.
* A stream may end with a reason, with ``[DONE]``, or both; usage comes in a chunk without choices, after the reason.
* An error may come as a chunk in the middle.
* Vendor's extras on a call (signatures) return with the call; ``reasoning_details`` return unchanged;
  ``reasoning_content`` returns where the capability ``reasoning_replay`` says so.

What it cannot carry back: where text stood among the calls of a message; several texts of one message as several;
a mark that a result failed, and the images in it; documents and their identifiers; opaque contents of other
protocols; a refusal's own field (its text and the finish ``filter`` come back).
"""

from ripieno.contents import AudioContent, DocumentContent, ImageContent, TextualContent
from ripieno.processors import Protocol
from ripieno.protocols.openai_chat.controls import CONTROLS
from ripieno.protocols.openai_chat.decoding import Decoder, decode
from ripieno.protocols.openai_chat.encoding import Encoder, encode, refuse
from ripieno.protocols.openai_chat.invocations import INVOCATIONS
from ripieno.protocols.openai_chat.messages import MESSAGES
from ripieno.protocols.openai_chat.requests import parse, request

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
