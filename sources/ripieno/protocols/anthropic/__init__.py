"""The Messages wire, both directions (API version 2026-10-21).

What it wants:

* Leading supervisor canisters become ``system``; later ones are messages of that role.
* All results of a turn go into one user message, and stand first in it.
* Thinking blocks return unchanged, in order, before the calls they led to. They are opaque contents.
* ``max_tokens`` is required: the capability ``output_tokens`` is its default.
* Sampling controls are refused at this version; asking for one is an error unless the capability ``sampling`` is true.
* There is no word for allowed tools: execution enforces them.
* Empty text blocks are refused, and left out.

What it does:

* ``input`` may come whole in the start of a block, in fragments, as one empty fragment, or not at all.
* Usage in ``message_delta`` is cumulative: it replaces.
* A message that ends at ``max_tokens`` may leave a call cut in the middle: it is marked, and never runs.
* ``pause_turn`` asks for the same conversation again: the turn ends as if it had called a tool.
* Blocks of other kinds (tools that the provider runs itself) are kept as opaque contents, and never dispatched.

What it cannot carry back: the exact text of arguments that could be read; audio; the identifier of a document without
its ``context`` field; a fault's category, code and details (its text and ``is_error`` come back); reasoning without
a signature; opaque contents of other protocols; the borders of adjacent user canisters.
"""

from ripieno.contents import DocumentContent, ImageContent, TextualContent
from ripieno.processors import Protocol
from ripieno.protocols.anthropic.controls import CONTROLS
from ripieno.protocols.anthropic.decoding import Decoder, decode
from ripieno.protocols.anthropic.encoding import Encoder, encode, refuse
from ripieno.protocols.anthropic.invocations import INVOCATIONS
from ripieno.protocols.anthropic.messages import MESSAGES
from ripieno.protocols.anthropic.requests import parse, request

PROTOCOL = Protocol(
    name="anthropic",
    sdk="anthropic",
    carries=(TextualContent, ImageContent, DocumentContent),
    messages=MESSAGES,
    invocations=INVOCATIONS,
    controls=CONTROLS,
    request=request,
    decoder=Decoder,
    decode=decode,
    path="/v1/messages",
    routes=("/v1/messages",),
    parse=parse,
    encoder=Encoder,
    encode=encode,
    refuse=refuse,
)
