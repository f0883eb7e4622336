"""The generateContent wire of the Gemini API, both directions.

Requirements:

* The path has the model's name and whether to stream; the body has neither. The key is in a header, never in the
  address. No SDK is used: the official one drops unknown fields.
* Leading supervisor canisters become ``systemInstruction``. Later ones are texts of the user under the heading
  ``[instructions]``. Documents are parts under a heading with their identifier.
* All results of a turn are first in one content of the user, in the order of their calls. Each has the name of its
  call, and its identifier if the provider gave one; otherwise only name and order connect them.
* A result is an object: its texts as ``output``, an error as ``error``, the rest as parts of it, or after all results
  of the turn if the capability ``images_in_results`` is false.
* Signatures return on their part, in its place: on calls (of parallel ones the first has one), on texts, on empty
  texts. If none of a turn's calls has one (another model made them), the first gets the text of the capability
  ``signature_placeholder``: newer models refuse a history without.
* Thoughts return unchanged. So do the provider's own tools (``executableCode``, ``codeExecutionResult``, ``toolCall``,
  ``toolResponse``), which are opaque and never dispatched, and unknown parts.
* Sampling controls are accepted. Reasoning is a level; for older models a number of tokens (capability
  ``thinking_budgets``). The wire cannot express parallel calls: execution enforces that.
* Allowed tools need the mode ``ANY`` or ``VALIDATED``. Strict arguments are the latter: a mode of the whole request.
* Empty texts are refused, so they are left out, as are empty canisters.

Quirks:

* Each chunk of a stream is a complete answer. A text continues over chunks; a signed text is a part by itself. Calls
  are complete, without identifiers (ours depend only on their position), and without empty arguments.
* Some endpoints stream arguments value by value, each with its path (``partialArgs``): such a call is sealed with its
  last part. Without that part it was cut off, and never runs.
* ``STOP`` ends an answer with calls, too. ``CONTINUATION`` requires the same conversation again, with a token.
* A prompt may be blocked: then there is no candidate, and the turn ends as filtered. An answer may break off with a
  reason (``MALFORMED_FUNCTION_CALL``): that is an error with the provider's message.
* Usage is cumulative: it replaces. Thoughts are counted in addition to the output.
* An error may come as a chunk; a stream as one array; a complete answer where a stream was requested.

Lost in answers: borders between adjacent texts, and unsigned thoughts; in a stream, that a signature was on a text or a
thought (it follows in an empty part); the fault of an unreadable call (it is sent as one that never ends, with its
text as the argument ``INVALID_JSON``); cache write tokens; that a call is free-form; other protocols' opaque contents.

Lost in requests: the same, but texts stay apart; the user's position among the results of a turn, and an order of
results other than that of their calls; borders and positions of texts in a result; a fault, except for its text; that a
supervisor's canister was not leading; documents and their identifiers (they become text), except for their files; a
text's kind; a file's kind if it is a pattern; ``parallel``.
"""

import re

from ripieno.canisters import AudioContent, DocumentContent, ImageContent, TextualContent
from ripieno.models.protocol import Protocol
from ripieno.models.protocols.gemini.contents import NAME
from ripieno.models.protocols.gemini.controls import CONTROLS
from ripieno.models.protocols.gemini.decoder import Decoder
from ripieno.models.protocols.gemini.encoder import Encoder, encode, refuse
from ripieno.models.protocols.gemini.invocations import INVOCATIONS
from ripieno.models.protocols.gemini.messages import MESSAGES
from ripieno.models.protocols.gemini.requests import parse, request
from ripieno.models.repair import Requirements

PROTOCOL = Protocol(
    name=NAME,
    sdk="google",
    carries=(TextualContent, ImageContent, AudioContent, DocumentContent),
    messages=MESSAGES,
    invocations=INVOCATIONS,
    controls=CONTROLS,
    request=request,
    decoder=Decoder,
    path="/models/{model}:generateContent",
    stream_path="/models/{model}:streamGenerateContent?alt=sse",
    routes=("/v1beta/models/{model:path}:{method}", "/v1/models/{model:path}:{method}"),
    # The SDK adds the API version to the address.
    environment="GOOGLE_GEMINI_BASE_URL={url} GEMINI_API_KEY=none",
    parse=parse,
    encoder=Encoder,
    encode=encode,
    refuse=refuse,
    requirements=Requirements(names=re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}"), user_first=True),
)
