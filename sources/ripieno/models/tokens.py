"""Token counts of conversations: reported by the provider, or estimated."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from ripieno.canisters import Canister, Content, InvocationCanister, OpaqueContent, ResultCanister, TextualContent
from ripieno.canisters.conversation import Usage
from ripieno.ensembles.offers import Offer
from ripieno.jsonvalues import encode, is_list, is_table
from ripieno.values import Value

#: ASCII characters per token: in prose and code, and in JSON.
_TEXT, _JSON = 4.0, 3.5
#: Bytes per token of non-ASCII text.
_OTHER = 4.5
#: Tokens of overhead for each message and tool.
_FRAME = 4
#: Tokens assumed for an image, a sound or a document; only the provider knows their number.
_MEDIUM = 1500
#: A text in opaque content of at least this length without a space is encrypted base64. If it encrypts text, so many
#: characters make one token.
_SEALED, _SEALED_TEXT = 200, 5.5


class TokenCount(Value, kw_only=True):
    """A number of tokens. ``estimated``: not all of them were counted."""

    tokens: int
    estimated: bool


class ConversationTokenizer(Protocol):
    """Counts what a model reads. An application with a model's own tokenizer implements it."""

    def count(self, canisters: Sequence[Canister], offer: Offer | None = None) -> TokenCount:
        """The tokens of a conversation and of the offered tools."""
        ...


class EstimatingTokenizer:
    """Estimates from the number of characters.

    Measured against the tokenizer ``o200k_base``: within a third for prose in seven languages, for Python and for JSON.
    Contents that ``sends`` rejects count as zero.
    """

    def __init__(self, sends: Callable[[Content], bool] = lambda _: True) -> None:
        self._sends = sends

    def count(self, canisters: Sequence[Canister], offer: Offer | None = None) -> TokenCount:
        """The estimate, in time proportional to the conversation."""
        tokens = sum(map(self._canister, canisters))
        for invoker in () if offer is None else offer.invokers:
            schema = encode(invoker.arguments_schema).decode()
            tokens += _FRAME + _text(invoker.exposed + invoker.description, _TEXT) + _text(schema, _JSON)
        return TokenCount(tokens=math.ceil(tokens), estimated=True)

    def _canister(self, canister: Canister) -> float:
        if isinstance(canister, InvocationCanister):
            arguments = canister.raw if canister.raw is not None else encode(canister.arguments).decode()
            return _FRAME + _text(canister.name, _TEXT) + _text(arguments, _JSON)
        tokens = _FRAME + sum(map(self._content, canister.content))
        if isinstance(canister, ResultCanister) and canister.error is not None:
            tokens += _text(canister.error.text(), _TEXT)
        return tokens

    def _content(self, content: Content) -> float:
        if not self._sends(content):
            return 0.0
        if isinstance(content, TextualContent):
            return _text(content.text, _TEXT)
        return sum(map(_inside, _texts(content.data))) if isinstance(content, OpaqueContent) else _MEDIUM


class ReportedTokenizer:
    """The provider's count of a conversation, plus an estimate of what was added since."""

    def __init__(self, otherwise: ConversationTokenizer | None = None) -> None:
        self._otherwise: ConversationTokenizer = otherwise or EstimatingTokenizer()
        self._counted: Sequence[Canister] = ()
        self._tokens = 0

    def learn(self, canisters: Sequence[Canister], usage: Usage) -> None:
        """Records the provider's count of these canisters, its answer and the tools. A count of 0 is ignored."""
        if usage.input_tokens:
            self._counted, self._tokens = tuple(canisters), usage.total_tokens

    def count(self, canisters: Sequence[Canister], offer: Offer | None = None) -> TokenCount:
        """The count, exact while nothing was added since. The report includes the tools."""
        known = len(self._counted)
        # Tuples compare identical objects quickly.
        if not known or tuple(canisters[:known]) != self._counted:
            return self._otherwise.count(canisters, offer)
        rest = canisters[known:]
        if not rest:
            return TokenCount(tokens=self._tokens, estimated=False)
        return TokenCount(tokens=self._tokens + self._otherwise.count(rest).tokens, estimated=True)


def _texts(value: object) -> Iterator[str]:
    """All texts in a JSON value, without the keys of objects."""
    if isinstance(value, str):
        yield value
    elif is_table(value):
        for one in value.values():
            yield from _texts(one)
    elif is_list(value):
        for one in value:
            yield from _texts(one)


def _inside(text: str) -> float:
    if len(text) < _SEALED or " " in text or not text.isascii():
        return _text(text, _TEXT)
    # It may be media.
    return min(len(text) / _SEALED_TEXT, _MEDIUM)


def _text(text: str, characters: float) -> float:
    if text.isascii():
        return len(text) / characters
    ascii_only = len(text.encode("ascii", "ignore"))
    return ascii_only / characters + (len(text.encode("utf-8", "replace")) - ascii_only) / _OTHER
