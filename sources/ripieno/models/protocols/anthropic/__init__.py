"""The Messages wire, both directions (API version 2026-10-21).

What it wants:

* Leading supervisor canisters become ``system``; later ones are messages of that role.
* All results of a turn go into one user message, and stand first in it.
* Thinking blocks return unchanged, in order, before the calls they led to. They are opaque contents.
* ``max_tokens`` is required: the capability ``output_tokens`` is its default.
* Sampling controls are refused at this version; asking for one is an error unless the capability ``sampling`` says
  that the provider takes them all the same.
* There is no word for allowed tools: execution enforces them.
* What its cache should keep is marked, unless the capability ``cache_breakpoints`` is false: the tools, the system
  prompt, and all that was said up to each of the last two messages of the user's; at most four marks are taken. A
  mark of a client's is none of ours, and left out.
* Blank text blocks are refused, and left out; so is a canister that says nothing.

What it does:

* ``input`` may come whole in the start of a block, in fragments, as one empty fragment, or not at all; in whole
  answers as text.
* Identifiers may be missing, blank or doubled; indices missing or all the same; blocks never stopped.
* Usage in ``message_delta`` is cumulative: it replaces, where it is not null.
* A message that ends at ``max_tokens`` may leave a call cut in the middle, and stop its block all the same: a call
  without arguments, or with broken ones, is sealed only with the next block or the end. One that was cut is marked,
  and never runs.
* ``pause_turn`` asks for the same conversation again: the turn ends as if it had called a tool.
* Blocks of other kinds (tools that the provider runs itself) are kept as opaque contents, and never dispatched.
* An answer may come whole where a stream was asked for.

What an answer cannot carry back: the text of arguments that could be read, in whole answers of any; that a call is
free-form; what came to stand beside a call (``caller``) after it had begun; citations of a text; reasoning without its
block; opaque contents of other protocols.

What a request cannot carry back: the same, and the kind of a text; blank texts; the borders of adjacent canisters of
one role, and where among the results of a turn the user spoke; audio; images of a supervisor and of the assistant, and
those of a document as part of it; the identifier of a document without its ``context`` field; the kind of a document at
a URL, or of one that is text; a fault's category, code and details (its text and ``is_error`` come back), and where
among the texts of a failed result its images stood.
"""

import re

from ripieno.canisters import DocumentContent, ImageContent, TextualContent
from ripieno.models.protocol import Protocol
from ripieno.models.protocols.anthropic.controls import CONTROLS
from ripieno.models.protocols.anthropic.decoder import Decoder, decode
from ripieno.models.protocols.anthropic.encoder import Encoder, encode, refuse
from ripieno.models.protocols.anthropic.invocations import INVOCATIONS
from ripieno.models.protocols.anthropic.messages import MESSAGES
from ripieno.models.protocols.anthropic.requests import parse, request
from ripieno.models.repair import Requirements

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
    requirements=Requirements(
        names=re.compile(r"[A-Za-z0-9_-]{1,128}"), identifiers=re.compile(r"[A-Za-z0-9_-]{1,256}"), asked_first=True
    ),
)
