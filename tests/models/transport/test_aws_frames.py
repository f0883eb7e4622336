"""Amazon's event streams: what stands in the frames, whatever is wrong with them."""

import contextlib
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import pytest
from anthropic.lib.bedrock._stream_decoder import AWSEventStreamDecoder

from ripieno.exceptions import ProviderFailure, WireInvalidity
from ripieno.models.transport.aws_frames import unframe
from tests.models.transport.test_clouds import event_frame, exception_frame, frame, frames


async def pieces_of(data: bytes, size: int) -> AsyncGenerator[bytes, None]:
    for place in range(0, len(data), size):
        yield data[place : place + size]


@pytest.mark.parametrize("size", [1, 7, 100_000])
async def test_frames_are_the_events_of_the_sdks_own_decoder(size: int) -> None:
    """Should either of the two change, they part here."""
    skipped = event_frame({"no": "type"}) + frame(b"{}", **{":event-type": "other", ":message-type": "event"})
    data = frames() + skipped + exception_frame("throttlingException", "Wait a bit.")
    theirs = AWSEventStreamDecoder().aiter_bytes(pieces_of(data, size))
    expected = [event.json() async for event in theirs]
    ours = [native async for natives in unframe(pieces_of(data, size), "house") for native in natives]
    assert len(ours) > 3
    assert ours == expected
    assert ours[-1] == {"type": "error", "error": {"type": "throttlingException", "message": "Wait a bit."}}


async def test_an_error_may_stand_in_a_frames_headers() -> None:
    data = frame(b"", **{":message-type": "error", ":error-code": "modelTimeoutException", ":error-message": "Late."})
    (native,) = [native async for natives in unframe(pieces_of(data, 9), "house") for native in natives]
    assert native == {"type": "error", "error": {"type": "modelTimeoutException", "message": "Late."}}


async def test_no_damage_goes_unseen() -> None:
    """Any byte that is another is an error, or an event that never ends; and what came before it was there."""
    good, bad = event_frame({"type": "ping"}), event_frame({"type": "message_stop"})
    for place in range(len(bad)):
        data = good + bad[:place] + bytes([bad[place] ^ 0x55]) + bad[place + 1 :]
        seen: list[Mapping[str, Any]] = []
        with contextlib.suppress(WireInvalidity):
            async for natives in unframe(pieces_of(data, len(data)), "house"):
                seen += natives
        assert seen == [{"type": "ping"}], place


@pytest.mark.parametrize(
    "payload", [b"", b"[]", b"{}", b'{"bytes": 7}', b'{"bytes": "?"}', b'{"bytes": "Ww=="}', b'{"bytes": "W10="}']
)
async def test_frames_without_an_event_in_them(payload: bytes) -> None:
    data = frame(payload, **{":event-type": "chunk", ":message-type": "event"})
    with pytest.raises(WireInvalidity, match="frames that cannot be read"):
        _ = [natives async for natives in unframe(pieces_of(data, 50), "house")]


async def test_a_botocore_that_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("botocore.eventstream.EventStreamBuffer")
    with pytest.raises(ProviderFailure, match="EventStreamBuffer") as caught:
        _ = [natives async for natives in unframe(pieces_of(frames(), 50), "house")]
    assert "ripieno[bedrock]" in caught.value.hint
