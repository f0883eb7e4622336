"""Events split from bytes, however servers write and cut them."""

import json

import pytest

from ripieno.exceptions import WireInvalidity
from ripieno.models.protocol import Native
from ripieno.models.transport.sse import DONE, Splitter
from tests.models.protocols.test_wires_golden import natives_of


def split(*chunks: bytes) -> list[Native]:
    return natives_of(chunks)


def test_only_data_counts() -> None:
    assert split(b"\xef\xbb\xbfdata: {}\n\n") == [{}]
    assert split(b'metadata: 1\ndata:{"a":1}\n\n') == [{"a": 1}]
    assert split(b": data: {}\n\nevent: x\n\ndata\n\ndata:\n\n\n\n\n") == []
    assert split(b'data: {"a":\ndata: 1}\n\n') == [{"a": 1}]
    assert split(b'id: 1\r\ndata: {"a":1}\r\nretry: 1\r\n\r\n') == [{"a": 1}]
    assert split(b'data: {"a":1}') == [{"a": 1}]
    assert split(b'data: {"a":1}\n\ndata: [DONE]\n') == [{"a": 1}, DONE]
    assert split(b'data: {"a":1}\n\ndata: {"b":2}\n\ndata: [DONE]\n\n') == [{"a": 1}, {"b": 2}, DONE]
    assert Splitter("house").feed(b'data: {"a":1}\n\ndata: [DONE]\n\n')[-1] is DONE


def test_a_pair_of_line_ends_that_is_cut_is_one() -> None:
    """Otherwise an event of several lines would end in its middle."""
    assert split(b'data: {"a":\r', b"\ndata: 1}\r", b"\n", b"\r", b"\n") == [{"a": 1}]
    assert split(b'data: {"a":\r', b"", b"\ndata: 1}\r\n\r\n") == [{"a": 1}]
    assert split(b'data: {"a":1}\r', b'\rdata: {"b":2}\r\r') == [{"a": 1}, {"b": 2}]


def test_arguments_that_stand_as_an_object_are_read_strictly() -> None:
    big = 123456789012345678901234567890
    assert split(b'data: {"input" : { "n":%d}}\n\n' % big) == [{"input": {"n": big}}]
    assert split(b'data: {"arguments":"","input":{"n":%d}}\n\n' % big) == [{"arguments": "", "input": {"n": big}}]
    for end in (b"", b"data: [DONE]\n\n"):
        with pytest.raises(WireInvalidity, match="occurs twice"):
            split(b'data: {"arguments":{"a":1,"a":2}}\n\n' + end)
    # What a model writes is text, whatever it looks like.
    text = json.dumps({"text": '"input":{"a":1,"a":2}'}).encode()
    assert split(b"data: " + text + b"\n\n") == [json.loads(text)]


def test_a_last_event_that_is_cut_is_an_error() -> None:
    with pytest.raises(WireInvalidity, match="ended in the middle of an event"):
        split(b"data: {}\n\ndata: {")


@pytest.mark.parametrize("data", [b"[1]", b"1", b"null", b'"x"', b"{", b"{} {}", b'{"a":NaN}', b"\xff"])
def test_what_is_no_object_is_refused(data: bytes) -> None:
    with pytest.raises(WireInvalidity, match="'house'"):
        Splitter("house").feed(b"data: " + data + b"\n\n")
