"""How many tokens a conversation takes: as its provider counted them, or an estimate that says it is one."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Protocol

from ripieno.canisters import Canister, InvocationCanister, ResultCanister
from ripieno.contents import Content, TextualContent
from ripieno.conversations import Usage
from ripieno.jsonvalues import encode
from ripieno.offers import Offer

#: ASCII characters a token: in prose and code, and in JSON.
_TEXT, _JSON = 4.0, 3.5
#: Bytes a token of what is not ASCII.
_OTHER = 4.5
#: Tokens around each message and each tool.
_FRAME = 4
#: Tokens of an image, a sound or a document, whose size in tokens only its provider knows.
_MEDIUM = 1500


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TokenCount:
    """A number of tokens. ``estimated``: nobody has counted all of them."""

    tokens: int
    estimated: bool


class ConversationTokenizer(Protocol):
    """Counts what a model would read. Applications that have a model's own tokenizer write one."""

    def count(self, canisters: Sequence[Canister], offer: Offer | None = None) -> TokenCount:
        """The tokens of a conversation, with the tools that are offered beside it."""
        ...


class EstimatingTokenizer:
    """Estimates by the number of characters.

    Measured against the tokenizer ``o200k_base``: within a third for prose in seven languages, for Python and for JSON.
    """

    def count(self, canisters: Sequence[Canister], offer: Offer | None = None) -> TokenCount:
        """The estimate. Takes time in proportion to the conversation."""
        tokens = sum(map(_estimate, canisters))
        for invoker in () if offer is None else offer.invokers:
            schema = encode(invoker.arguments_schema).decode()
            tokens += _FRAME + _text(invoker.exposed + invoker.description, _TEXT) + _text(schema, _JSON)
        return TokenCount(tokens=math.ceil(tokens), estimated=True)


class ReportedTokenizer:
    """What the provider counted for a conversation so far, and an estimate of what has come since."""

    def __init__(self, otherwise: ConversationTokenizer | None = None) -> None:
        self._otherwise: ConversationTokenizer = otherwise or EstimatingTokenizer()
        self._counted: Sequence[Canister] = ()
        self._tokens = 0

    def learn(self, canisters: Sequence[Canister], usage: Usage) -> None:
        """The provider has counted these canisters, its answer among them, and the tools. A count of 0 is none."""
        if usage.input_tokens:
            self._counted, self._tokens = tuple(canisters), usage.total_tokens

    def count(self, canisters: Sequence[Canister], offer: Offer | None = None) -> TokenCount:
        """The count, which is no estimate as long as nothing was said since. The tools are in what was reported."""
        known = len(self._counted)
        # Tuples compare the same objects without looking into them.
        if not known or tuple(canisters[:known]) != self._counted:
            return self._otherwise.count(canisters, offer)
        rest = canisters[known:]
        if not rest:
            return TokenCount(tokens=self._tokens, estimated=False)
        return TokenCount(tokens=self._tokens + self._otherwise.count(rest).tokens, estimated=True)


def _estimate(canister: Canister) -> float:
    if isinstance(canister, InvocationCanister):
        arguments = canister.raw if canister.raw is not None else encode(canister.arguments).decode()
        return _FRAME + _text(canister.name, _TEXT) + _text(arguments, _JSON)
    tokens = _FRAME + sum(map(_content, canister.content))
    if isinstance(canister, ResultCanister) and canister.error is not None:
        tokens += _text(canister.error.text(), _TEXT)
    return tokens


def _content(content: Content) -> float:
    return _text(content.text, _TEXT) if isinstance(content, TextualContent) else _MEDIUM


def _text(text: str, characters: float) -> float:
    if text.isascii():
        return len(text) / characters
    ascii_only = len(text.encode("ascii", "ignore"))
    return ascii_only / characters + (len(text.encode("utf-8", "replace")) - ascii_only) / _OTHER
