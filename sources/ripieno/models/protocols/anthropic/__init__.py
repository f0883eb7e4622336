"""The Messages wire, both directions (API version 2026-10-21).

Requirements:

* Leading supervisor canisters become ``system``; later ones are messages of that role.
* All results of a turn are in one user message, and first in it.
* Thinking blocks return unchanged, in order, before the calls they led to. They are opaque contents.
* ``max_tokens`` is required: the capability ``output_tokens`` is its default.
* Sampling controls are refused at this version; they are an error unless the capability ``sampling`` is true.
* The wire cannot express allowed tools: execution enforces them.
* Cache marks, unless the capability ``cache_breakpoints`` is false: on the tools, the system prompt, and each of the
  user's last two messages; at most four are accepted. A client's own marks are removed.
* Blank text blocks are refused, so they are left out, as are empty canisters.

Quirks:

* ``input`` may be complete in the start of a block, in fragments, one empty fragment, or absent; in complete answers
  also a text.
* Identifiers may be missing, blank or duplicate; indices missing or all the same; blocks never stopped.
* Usage in ``message_delta`` is cumulative: it replaces what is not null.
* A message that ends at ``max_tokens`` may cut a call in the middle and still stop its block. A call with missing or
  broken arguments is therefore sealed only with the next block or the end. A cut call is marked and never runs.
* ``pause_turn`` requires the same conversation again: the turn ends as if it had called a tool.
* Blocks of other kinds (provider-hosted tools) are kept as opaque contents, and never dispatched.
* A complete answer may come where a stream was requested.

Lost in answers: the original text of readable arguments (in complete answers, of any); that a call is free-form;
``caller`` and other extras that arrive after a call began; citations; reasoning without its block; other protocols'
opaque contents.

Lost in requests: the same, and a text's kind; blank texts; borders between adjacent canisters of one role, and the
user's position among the results of a turn; audio; images of a supervisor and of the assistant, and of a document as
part of it; a document's identifier without its ``context`` field; the kind of a document that is text or at a URL; a
fault's category, code and details (its text and ``is_error`` return), and the position of images in a failed result;
the format ``json_object``, which becomes an instruction at the end of ``system``.
"""

import re

from ripieno.canisters import DocumentContent, ImageContent, TextualContent
from ripieno.models.protocol import Protocol
from ripieno.models.protocols.anthropic.controls import CONTROLS
from ripieno.models.protocols.anthropic.decoder import Decoder
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
    path="/v1/messages",
    routes=("/v1/messages",),
    parse=parse,
    encoder=Encoder,
    encode=encode,
    refuse=refuse,
    requirements=Requirements(
        names=re.compile(r"[A-Za-z0-9_-]{1,128}"), identifiers=re.compile(r"[A-Za-z0-9_-]{1,256}"), user_first=True
    ),
)
