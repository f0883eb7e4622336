"""The generateContent wire, both directions, as the Gemini API speaks it.

What it wants:

* The model's name, and whether to stream, stand in the path; nothing of either is in the body. The key goes into a
  header, never into the address. No SDK is made: the official one drops what it does not know.
* Leading supervisor canisters become ``systemInstruction``; there is no such role later on, so that later ones are
  texts of the user under the heading ``[instructions]``. Documents are parts under a heading with their identifier.
* All results of a turn stand first in one content of the user, in the order of their calls. Each has the name of its
  call, and its identifier where the provider gave one: otherwise name and order are all that ties them together.
* A result is an object: its texts as ``output``, what failed as ``error``, all else as parts of it; or after all
  results of the turn where the capability ``images_in_results`` says no.
* Signatures return on the part that they came with, in its place: on calls (of parallel ones the first has one), on
  texts, on empty texts. Where none of a turn's calls has one (another model made them), the first gets the text of the
  capability ``signature_placeholder``: newer models refuse a history without.
* Thoughts return as they came. So do the provider's own tools (``executableCode``, ``codeExecutionResult``,
  ``toolCall``, ``toolResponse``), which are opaque and never dispatched, and whatever is not known.
* Sampling controls are taken. How much to think is a level; older models take a number of tokens, as the capability
  ``thinking_budgets`` says. There is no word for parallel calls: execution knows.
* Allowed tools have a word in the modes ``ANY`` and ``VALIDATED``. Strict arguments are the latter: a mode of the whole
  request.
* Empty texts are refused, and left out; so is a canister that says nothing.

What it does:

* Each chunk of a stream is a whole answer of its own. Texts go on from one to the next; one that is signed is a part
  by itself. Calls come whole, without identifiers (they get ours, which depend on their place alone), and without
  arguments where there are none.
* Some endpoints stream arguments value by value, each with its place (``partialArgs``): such a call is sealed with its
  last part. One without it was cut off, and never runs.
* ``STOP`` ends an answer with calls, too. ``CONTINUATION`` asks for the same conversation again, with a token.
* A prompt may be blocked: there is no candidate then, and the turn ends as filtered. An answer may break off with a
  reason (``MALFORMED_FUNCTION_CALL``): that is an error, in the provider's words.
* Usage is cumulative: it replaces. Thoughts are counted beside the output.
* An error may come as a chunk; a stream as one array; an answer whole where a stream was asked for.

What an answer cannot carry back: several texts side by side as several, and unsigned thoughts; in a stream, that a
signature stood on a text or a thought (it comes in an empty part right after); the arguments and the fault of a call
that could not be read (it comes as one that never ends); tokens that were written to a cache; that a call is free-form;
opaque contents of other protocols.

What a request cannot carry back: the same, but that texts stay apart; where among the results of a turn the user spoke,
and the order of results that is not that of their calls; several texts of a result as several, and their places among
its other contents; a fault, but for its words; that a supervisor spoke in the middle; documents and their identifiers
(a text says them), but for their files; the kind of a text; the kind of a file that is a pattern; ``parallel``.
"""

import re

from ripieno.canisters import AudioContent, DocumentContent, ImageContent, TextualContent
from ripieno.models.protocol import Protocol
from ripieno.models.protocols.gemini.contents import NAME
from ripieno.models.protocols.gemini.controls import CONTROLS
from ripieno.models.protocols.gemini.decoder import Decoder, decode
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
    decode=decode,
    path="/models/{model}:generateContent",
    stream_path="/models/{model}:streamGenerateContent?alt=sse",
    routes=("/v1beta/models/{model:path}:{method}", "/v1/models/{model:path}:{method}"),
    # The SDK adds the version of the wire to the address by itself.
    environment="GOOGLE_GEMINI_BASE_URL={url} GEMINI_API_KEY=none",
    parse=parse,
    encoder=Encoder,
    encode=encode,
    refuse=refuse,
    requirements=Requirements(names=re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}"), asked_first=True),
)
