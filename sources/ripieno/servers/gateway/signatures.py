"""Results of calls that ran here are known again when a client sends them back: each carries a signature.

Nothing is stored here. What a client returns as the result of a tool of ours could be anything, and a model would take
it for what the tool has said: so it counts only with the signature that it was given with, by the caller that it was
given to. The results of a client's own tools need none.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ripieno.canisters import (
    Canister,
    Content,
    DocumentContent,
    InvocationCanister,
    OpaqueContent,
    ResultCanister,
    TextualContent,
)
from ripieno.descriptors.gateway import SECRET_BYTES
from ripieno.exceptions import InputError
from ripieno.jsonvalues import canonical, is_list, is_table
from ripieno.models.protocol import Native
from ripieno.servers.gateway.history_checks import described

#: What a signature begins with, as an identifier does.
_PREFIX = "fco_"
#: Part of what is signed: another meaning of the same parts would have another one.
_PURPOSE = "ripieno result 1"
_CLAIM = "ripieno claim 1"
#: The identifier of an item that waits: the conversation that is kept, how much of it was told, and a signature. No
#: provider is sent it: it is one of those that servers make.
_CLAIMED = re.compile(r"fc_ripieno_waiting_([0-9a-f]{32})_([0-9]{1,9})_([A-Za-z0-9_-]{43})")
_CLAIMS = "fc_ripieno_waiting_"


class Unsigned(InputError):
    """A result of one of our tools is not as it was given."""


class Signer:
    """Signs results, and knows them again. ``secret`` is the same wherever they may come back to.

    Errors: ``InputError`` for a secret that could be guessed.
    """

    def __init__(self, secret: bytes) -> None:
        if len(secret) < SECRET_BYTES:
            least = f"it needs {SECRET_BYTES} or more, by chance"
            raise InputError(f"The secret of a gateway has {len(secret)} bytes: {least}.")
        self._secret = secret

    def sign(self, call: InvocationCanister, result: ResultCanister, caller: str) -> str:
        """The signature of a result, of 47 characters: of its call, the arguments, and all that a model reads of it."""
        parts = [_PURPOSE, caller, call.identifier, call.name, call.arguments, _read(result)]
        return _PREFIX + self._digest(parts)

    def claim(self, call: InvocationCanister, caller: str, conversation: str, told: int) -> str:
        """What a caller claims the result of a waiting call with: the identifier of its item.

        ``conversation`` is kept under this identifier, and ``told`` is how many of its canisters the caller has.
        """
        parts = [_CLAIM, caller, conversation, told, call.identifier, call.name, call.arguments]
        return f"{_CLAIMS}{conversation}_{told}_{self._digest(parts)}"

    def claimed(self, call: InvocationCanister, caller: str, claim: str) -> tuple[str, int] | None:
        """The conversation and the number that ``claim`` was given; None for a claim that this is not."""
        match = _CLAIMED.fullmatch(claim)
        if match is None:
            return None
        conversation, told = match[1], int(match[2])
        expected = self.claim(call, caller, conversation, told)
        return (conversation, told) if hmac.compare_digest(expected, claim) else None

    def _digest(self, parts: Sequence[Any]) -> str:
        digest = hmac.digest(self._secret, canonical(parts), hashlib.sha256)
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode("ascii")

    def check(
        self, canisters: Sequence[Canister], ours: Collection[str], signatures: Mapping[str, Sequence[str]], caller: str
    ) -> None:
        """Whether the results of ``ours``, by the names of tools, are results of ours. Errors: ``Unsigned``.

        ``signatures`` are those that came along, by the identifiers of calls.
        """
        calls: dict[str, InvocationCanister] = {}
        for canister in canisters:
            if isinstance(canister, InvocationCanister):
                calls[canister.identifier] = canister
            elif isinstance(canister, ResultCanister):
                call = calls.get(canister.invocation_id)
                if call is None or call.name not in ours:
                    continue
                expected = self.sign(call, canister, caller).encode()
                given = signatures.get(canister.invocation_id, ())
                if not any(hmac.compare_digest(expected, one.encode("utf-8", "replace")) for one in given):
                    raise Unsigned(
                        f"{call.name!r} runs here, and the result of {described(call.name, call.identifier)} is not "
                        "as it was given: send the call and its result back unchanged, each with the id of its item, "
                        "or leave out both."
                    )


def signatures_in(native: Native) -> Mapping[str, Sequence[str]]:
    """The identifiers of a request's result items, by those of their calls; none on a wire without such items."""
    found: dict[str, list[str]] = {}
    for call, identifier in _identified(native, results=True):
        found.setdefault(call, []).append(identifier)
    return found


def claims_in(native: Native) -> Mapping[str, str]:
    """The claims of a request's waiting calls, by their identifiers: of the last item of each."""
    identified = _identified(native, results=False)
    return {call: identifier for call, identifier in identified if identifier.startswith(_CLAIMS)}


def _identified(native: Native, *, results: bool) -> Iterator[tuple[str, str]]:
    """The identifiers of a request's items of results, or of others, after those of their calls."""
    items = native.get("input")
    for item in items if is_list(items) else ():
        if is_table(item) and ("output" in item) == results:
            call, identifier = item.get("call_id"), item.get("id")
            if isinstance(call, str) and isinstance(identifier, str):
                yield call, identifier


def _read(result: ResultCanister) -> list[Any]:
    """What a model reads of a result, however a wire cuts its texts."""
    pieces: list[Any] = []
    texts: list[str] = [] if result.error is None else [result.error.text(), "\n"]
    for content in result.content:
        if isinstance(content, TextualContent):
            texts.append(content.text)
        else:
            pieces += [*_joined(texts), _digest(content)]
            texts.clear()
    return [*pieces, *_joined(texts)]


def _joined(texts: Iterable[str]) -> list[str]:
    # Wires part what failed from what follows by a line's end, or by nothing where nothing follows.
    text = "".join(texts).rstrip("\n")
    return [text] if text else []


def _digest(content: Content) -> list[str]:
    if isinstance(content, DocumentContent) and content.url is not None:
        return ["url", content.url]
    if isinstance(content, OpaqueContent):
        return ["opaque", hashlib.sha256(canonical(content.data)).hexdigest()]
    data = b"" if isinstance(content, TextualContent) else content.data
    return ["data", hashlib.sha256(data or b"").hexdigest()]
