"""The Responses wire, both directions: OpenAI's own, and that of compatible servers.

Requirements:

* A conversation is a list of items: messages, calls, results, reasoning, and items of provider-hosted tools. Nothing is
  stored at the provider (``store`` is false), so every request has all items, in their order.
* Leading supervisor canisters become ``instructions``; later ones are messages of the role ``system``.
* Reasoning returns unchanged, before the calls it led to, if the capability ``reasoning_replay`` says so; its encrypted
  content is then requested. So do all other items that are no calls for us (searches, code, MCP, compaction): they are
  opaque contents, and never dispatched.
* A call has two identifiers: ``call_id`` pairs it with its result, and its item's ``id`` returns with it. ``namespace``
  and ``caller`` return, too, and the result repeats the caller.
* A message has a ``phase``: an opaque content before the text, which returns with it.
* The wire cannot mark a failed result: the text says it. Results may contain images and files.
* ``strict`` is always sent: without it, a server may enforce a schema that was not made for that.
* The wire has no stop sequences: they are an error.

Quirks (each a scenario of the tests):

* Arguments may come in fragments, in their ``.done`` event, in the item's, or only in the complete answer at the end;
  as text, as an object, or not at all; before the item has begun, or before its name is known.
* ``output_index``, ``item_id`` and ``call_id`` may be missing, duplicate, or change; ``.done`` events may be missing;
  the last event may have no response, or no output in it.
* An item with an incomplete ``status`` is marked as cut off and never runs; so is a call that was open or unreadable
  when the answer ended at ``max_output_tokens`` or by ``content_filter``.
* Reasoning may be incomplete when it begins: only what its ``.done`` event or the complete answer has is kept.
* Errors come as an event, flat or nested, as a failed response, or as a complete answer.
* A refusal is a part of a message: its text is kept, and the finish is ``filter``.
* A complete answer may come where a stream was requested.

Free-form tools: their calls are ``custom_tool_call`` items, and their results have a type of their own. A client's
free-form tool is offered to the provider as the client declared it.

Lost in answers: borders between parts of one message, and citations in them; a refusal's own part; that arguments came
as an object or not at all (they return as text); the identifier of a call's item that comes after the call began;
another protocol's reasoning, of which only the text is shown; other protocols' opaque contents. Reasoning is streamed
when its item is complete.

Lost in requests: the same, and a text's kind; empty texts; borders between adjacent canisters of the assistant, and
between leading supervisors (they become one text); unreadable arguments; that a result failed, and its fault; borders
between texts of a result without other contents; audio; documents and their identifiers (they become text), except for
their files; a file's name, and the kind of one at a URL; the ``detail`` of an image with its data in the part; images
of a supervisor and of the assistant; ``text`` (format and verbosity), which is left to the provider.
"""

from typing import Any

from frozendict import frozendict

from ripieno.canisters import DocumentContent, ImageContent, TextualContent
from ripieno.models.protocol import Protocol
from ripieno.models.protocols.common.openai import refuse
from ripieno.models.protocols.openai_responses.compaction import compacted
from ripieno.models.protocols.openai_responses.contents import NAME
from ripieno.models.protocols.openai_responses.controls import CONTROLS
from ripieno.models.protocols.openai_responses.decoder import Decoder
from ripieno.models.protocols.openai_responses.encoder import Encoder, encode
from ripieno.models.protocols.openai_responses.invocations import INVOCATIONS
from ripieno.models.protocols.openai_responses.messages import MESSAGES
from ripieno.models.protocols.openai_responses.requests import parse, request
from ripieno.models.protocols.openai_responses.seed_encoder import SeedEncoder, encode_seed

PROTOCOL = Protocol(
    name=NAME,
    sdk="openai",
    carries=(TextualContent, ImageContent, DocumentContent),
    messages=MESSAGES,
    invocations=INVOCATIONS,
    controls=CONTROLS,
    request=request,
    decoder=Decoder,
    path="/responses",
    routes=("/v1/responses",),
    parse=parse,
    encoder=Encoder,
    variants=frozendict[str, Any]({"seed": (SeedEncoder, encode_seed)}),
    encode=encode,
    refuse=refuse,
    shows_results=True,
    sockets=True,
    stores=True,
    compacted=compacted,
)
