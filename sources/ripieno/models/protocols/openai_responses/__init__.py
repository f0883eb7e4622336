"""The Responses wire, both directions: OpenAI's own, and that of the servers that took it up.

What it wants:

* A conversation is a list of items: messages, calls, results, reasoning, and whatever the provider ran itself. Nothing
  is stored there (``store`` is false), so that all of it comes along each time, in the order in which it stood.
* Leading supervisor canisters become ``instructions``; later ones are messages of the role ``system``.
* Reasoning returns unchanged, before the calls it led to, where the capability ``reasoning_replay`` says so; its
  encrypted content is asked for then. So do all other items that are no calls for us (searches, code, MCP, compaction):
  they are opaque contents, and never dispatched.
* A call has two identifiers: ``call_id`` pairs it with its result, its item's ``id`` returns with it. ``namespace``
  and ``caller`` return, too, and the result repeats the caller.
* A message has a ``phase``: it stands beside the text, as an opaque content before it, and returns with it.
* There is no word for a failed result: the text says it. Images and files stand in results.
* ``strict`` is always said: left out, a server may hold arguments to a schema that was not made for that.
* There is no word for stop sequences: asking for one is an error.

What it does (each of them a scenario of the tests):

* Arguments may come in fragments, in their ``.done`` event, in the item's, or only in the whole answer at the end; as
  text, as an object, or not at all; before the item has begun, or before its name is known.
* ``output_index``, ``item_id`` and ``call_id`` may be missing, doubled, or change on the way; ``.done`` events may be
  missing; the last event may have no response in it, or no output.
* An item whose ``status`` says that it is not complete is marked as cut off, and never runs; so is a call that was
  open, or cannot be read, when the answer ended at ``max_output_tokens`` or by ``content_filter``.
* Reasoning as it began may not be whole: only what its ``.done`` event or the whole answer has is kept.
* Errors come as an event, flat or nested, as a failed response, or as a whole answer.
* A refusal is a part of a message: its text is kept, and the finish is ``filter``.
* An answer may come whole where a stream was asked for.

Free-form tools: their calls are ``custom_tool_call`` items, and their results are told apart as theirs. A client's own
tool of that kind is offered again as it was declared.

What an answer cannot carry back: several parts of one message as several texts, and citations in them; a refusal's own
part; that arguments came as an object, or not at all (they come back as text); the identifier of a call's item that
comes after the call began; the reasoning of another protocol, whose text alone is shown; opaque contents of other
protocols. Reasoning is streamed when its item is complete.

What a request cannot carry back: the same, and the kind of a text; empty texts; the borders of adjacent canisters of
the assistant, and of leading supervisors (they become one text); arguments that cannot be read; a mark that a result
failed, and its fault; several texts of a result as several, where it has nothing else; audio; documents and their
identifiers (a text says them), but for their files; the name of a file, and the kind of one at a URL; the
``detail`` of an image that stands in its part; images of a supervisor and of the assistant; ``text`` (format and
verbosity), which is left to the provider.
"""

from frozendict import frozendict

from ripieno.canisters import DocumentContent, ImageContent, TextualContent
from ripieno.models.protocol import Protocol
from ripieno.models.protocols.common.openai import refuse
from ripieno.models.protocols.openai_responses.contents import NAME
from ripieno.models.protocols.openai_responses.controls import CONTROLS
from ripieno.models.protocols.openai_responses.decoder import Decoder, decode
from ripieno.models.protocols.openai_responses.encoder import Encoder, SeedEncoder, encode
from ripieno.models.protocols.openai_responses.invocations import INVOCATIONS
from ripieno.models.protocols.openai_responses.messages import MESSAGES
from ripieno.models.protocols.openai_responses.requests import parse, request

PROTOCOL = Protocol(
    name=NAME,
    sdk="openai",
    carries=(TextualContent, ImageContent, DocumentContent),
    messages=MESSAGES,
    invocations=INVOCATIONS,
    controls=CONTROLS,
    request=request,
    decoder=Decoder,
    decode=decode,
    path="/responses",
    routes=("/v1/responses",),
    parse=parse,
    encoder=Encoder,
    variants=frozendict[str, type[Encoder]]({"seed": SeedEncoder}),
    encode=encode,
    refuse=refuse,
    shows_results=True,
)
