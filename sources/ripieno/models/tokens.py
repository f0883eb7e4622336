"""How many tokens a conversation takes: as its provider counted them, or an estimate that says it is one."""

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from ripieno.canisters import Canister, Content, InvocationCanister, OpaqueContent, ResultCanister, TextualContent
from ripieno.canisters.conversation import Usage
from ripieno.ensembles.offers import Offer
from ripieno.jsonvalues import encode, is_list, is_table

#: ASCII characters a token: in prose and code, and in JSON.
_TEXT, _JSON = 4.0, 3.5
#: Bytes a token of what is not ASCII.
_OTHER = 4.5
#: Tokens around each message and each tool.
_FRAME = 4
#: Tokens of an image, a sound or a document, whose size in tokens only its provider knows.
_MEDIUM = 1500
#: A text in an opaque content that is at least so long and has no space in it is sealed: base64 of what nobody can
#: read. So many characters of it make a token, if what it seals is text.
_SEALED, _SEALED_TEXT = 200, 5.5


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
    Contents of which ``sends`` says that they are not sent take none.
    """

    def __init__(self, sends: Callable[[Content], bool] = lambda _: True) -> None:
        self._sends = sends

    def count(self, canisters: Sequence[Canister], offer: Offer | None = None) -> TokenCount:
        """The estimate. Takes time in proportion to the conversation."""
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
        return _content(content) if self._sends(content) else 0.0


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


def _content(content: Content) -> float:
    if isinstance(content, TextualContent):
        return _text(content.text, _TEXT)
    return sum(map(_inside, _texts(content.data))) if isinstance(content, OpaqueContent) else _MEDIUM


def _texts(value: object) -> Iterator[str]:
    """All texts in a JSON value, without the names in objects."""
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
    # It may as well be a medium.
    return min(len(text) / _SEALED_TEXT, _MEDIUM)


def _text(text: str, characters: float) -> float:
    if text.isascii():
        return len(text) / characters
    ascii_only = len(text.encode("ascii", "ignore"))
    return ascii_only / characters + (len(text.encode("utf-8", "replace")) - ascii_only) / _OTHER
