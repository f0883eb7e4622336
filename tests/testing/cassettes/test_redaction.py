"""No secret stands in a cassette, however it came: in answers, in pieces of them, in results, requests and errors."""

import base64
import dataclasses
import itertools
import json
import pathlib
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ripieno.assembly.configuration import load_configuration
from ripieno.assembly.protection import secrets_among, withheld
from ripieno.canisters import Conversation, ImageContent
from ripieno.descriptors import Policy, RetryPolicy
from ripieno.ensembles import Ensemble
from ripieno.exceptions import ProviderRefusal, ProviderUnreachable, WireInvalidity
from ripieno.execution import Execution
from ripieno.models import Model
from ripieno.models.protocol import Natives, Transport
from ripieno.storage.redaction import Redactor
from ripieno.testing import call, turn
from ripieno.testing.cassettes import Recorder, Replay
from ripieno.testing.cassettes.redaction import StreamRedactor
from ripieno.testing.wires import model_of
from tests.counts import count

CANARY = 'sk-"canary\\ä/1234567890'
WIRES = ("anthropic", "gemini", "openai-chat", "openai-responses")


def leaks(path: pathlib.Path) -> list[str]:
    """Forms of the canary in a file."""
    data = path.read_bytes().decode()
    forms = (CANARY, json.dumps(CANARY)[1:-1], json.dumps(json.dumps(CANARY))[3:-3], "canary", "1234567890")
    return [form for form in (*forms, base64.b64encode(CANARY.encode()).decode()) if form in data]


@pytest.mark.parametrize("protocol", WIRES)
@pytest.mark.parametrize("chunk", [1, 3, 7, 1000])
async def test_no_secret_stands_in_a_cassette(tmp_path: pathlib.Path, protocol: str, chunk: int) -> None:
    def tell(what: str) -> str:
        """Tells a secret."""
        return f"It is {CANARY}: {what}"

    def show(what: str) -> ImageContent:
        """Shows a picture."""
        return ImageContent(data=b"\x00" + what.encode() + b"\x01", mime_type="image/png")

    path = tmp_path / "c"
    turns = [
        turn(
            f"The key is {CANARY}, {CANARY}.", calls=[call("tell", "one", what=CANARY), call("show", None, what=CANARY)]
        ),
        turn(f"{{one}} {CANARY[:6]}", reasoning=f"Hm, {CANARY}"),
    ]
    with Recorder(path, secrets=[CANARY], variables={}) as recording:
        ensembles = [Ensemble.of_functions("mouth", [tell, show], policy=Policy(effect="read"))]
        conversation = await recording.conduct(
            model_of(turns, protocol=protocol, chunk=chunk), f"What is {CANARY}?", ensembles=ensembles
        )
    assert CANARY in conversation.text
    assert leaks(path) == []
    replayed = await Replay(path, variables={}).conduct()
    assert len(replayed.canisters) == len(conversation.canisters)
    assert replayed.text == conversation.text.replace(CANARY, "[hidden]")
    # Who knows the secret may say it again.
    again = await Replay(path, secrets=[CANARY], variables={}).conduct(None, f"What is {CANARY}?")
    assert again.text == replayed.text


@settings(max_examples=count(4000))
@given(st.text("abcdefgh", max_size=6), st.lists(st.integers(0, 30), max_size=6), st.integers(1, 3), st.data())
def test_pieces_are_read_as_one_text(before: str, cuts: list[int], times: int, data: st.DataObject) -> None:
    secrets = ["abcdefgh", "cdefghabab"]
    whole = before + "".join(data.draw(st.sampled_from([*secrets, "abcdefg", "x", "abc"])) for _ in range(times))
    places = sorted({min(cut, len(whole)) for cut in cuts} | {0, len(whole)})
    pieces = [whole[first:last] for first, last in itertools.pairwise(places)] or [whole]
    redactor = Redactor(secrets)
    stream = StreamRedactor(redactor)
    helds = [stream.feed([{"delta": {"text": piece}, "index": 0}]) for piece in pieces]
    open_before = [held.open for held in helds]
    stream.close()
    assert all(not held.open for held in helds)
    assert "".join(held.events[0]["delta"]["text"] for held in helds) == redactor.text(whole)
    if any(whole.endswith(secret[:5]) for secret in secrets) and not redactor.spans(whole):
        assert open_before[-1]


def test_parallel_texts_are_told_apart() -> None:
    stream = StreamRedactor(Redactor(["abcdefgh"]))
    first = stream.feed([{"index": 0, "text": "abcd"}, {"index": 1, "text": "abcd"}])
    second = stream.feed([{"index": 1, "text": "efgh"}, {"index": 0, "text": "x"}])
    assert first.events == [{"index": 0, "text": "abcd"}, {"index": 1, "text": "[hidden]"}]
    assert second.events == [{"index": 1, "text": ""}, {"index": 0, "text": "x"}]
    assert (first.open, second.open) == (0, 0)


def test_which_variables_are_secrets() -> None:
    variables = {
        "HOME": "/home/somebody",
        "HOUSE_API_KEY": "quite plain words",
        "LANG": "en_US.UTF-8",
        "OPAQUE": "q8ZkT2vPz81mNc04LsDw",
        "AUTHOR": "somebody with a name",
    }
    assert set(secrets_among(variables)) == {"quite plain words", "q8ZkT2vPz81mNc04LsDw"}


def test_folders_are_no_secrets(tmp_path: pathlib.Path) -> None:
    """``PWD`` has the name of a password."""
    variables = {
        "PWD": "/a/folder/of/another/machine",
        "OLDPWD": str(tmp_path / "gone"),
        "PASSWORD_STORE_DIR": str(tmp_path),
        "DATABASE_PWD": "/a/path/that/is/not/here",
    }
    secrets = {"/a/path/that/is/not/here"}
    assert set(secrets_among(variables)) == secrets
    loaded = load_configuration({}, workspace=tmp_path, user=False)
    assert withheld(loaded, variables) == secrets


class Failing(Transport):
    """Fails as often as it is told, in the words of an endpoint that repeats the key; then another one answers."""

    def __init__(self, inner: Any, failures: Sequence[Exception]) -> None:
        self._inner = inner
        self._failures = list(failures)

    @asynccontextmanager
    async def exchange(self, body: bytes, *, path: str, stream: bool) -> AsyncGenerator[AsyncIterator[Natives], None]:
        if self._failures:
            raise self._failures.pop(0)
        async with self._inner.exchange(body, path=path, stream=stream) as natives:
            yield natives


def failing(failures: Sequence[Exception], retries: int) -> Model:
    model = model_of([turn("At last.")])
    transport = Failing(model.provider.transport, failures)
    provider = dataclasses.replace(model.provider, transport=transport, retry=RetryPolicy(max_retries=retries))
    return dataclasses.replace(model, provider=provider)


async def test_what_a_provider_failed_with_is_played_again(tmp_path: pathlib.Path) -> None:
    failures = [
        ProviderUnreachable("house", f"Nothing there: {CANARY}"),
        ProviderUnreachable("house", "Still nothing."),
    ]
    path = tmp_path / "c"
    with Recorder(path, secrets=[CANARY], variables={}) as recording:
        run = recording.conduct(failing(failures, 2), "Are you there?")
        events = [event async for event in run]
        conversation = await run
    assert leaks(path) == []
    run = Replay(path, variables={}).conduct()
    replayed = [event async for event in run]
    assert await run == conversation
    shown = [repr(event).replace(repr(CANARY)[1:-1], "[hidden]") for event in events]
    assert shown == [repr(event) for event in replayed]
    assert len([event for event in events if type(event).__name__ == "Alert"]) == 2


async def test_a_refusal_is_one_again(tmp_path: pathlib.Path) -> None:
    refusal = ProviderRefusal(
        "house", "No.", hint="Pay.", status=402, body={"error": CANARY}, category="quota", after=7.0
    )
    path = tmp_path / "c"
    with Recorder(path, secrets=[CANARY], variables={}) as recording, pytest.raises(ProviderRefusal):
        await recording.conduct(failing([refusal], 0), "Are you there?", execution=Execution())
    assert leaks(path) == []
    with pytest.raises(ProviderRefusal) as caught:
        await Replay(path, variables={}).conduct()
    error = caught.value
    assert str(error) == str(refusal)
    assert (error.status, error.category, error.after) == (402, "quota", 7.0)
    assert error.body == {"error": "[hidden]"}


async def test_an_unreadable_answer_is_refused_by_the_same_decoder(tmp_path: pathlib.Path) -> None:
    """What is recorded is the wire: a decoder that is mended reads it better."""
    path = tmp_path / "c"
    with Recorder(path, variables={}) as recording:
        whole: Conversation = await recording.conduct(model_of([turn("Hello.")], protocol="anthropic"), "Hi.")
    assert whole.text == "Hello."
    lines = path.read_text().splitlines()
    ends = ('"message_delta"', '"message_stop"')
    path.write_text("\n".join([*(line for line in lines if not any(end in line for end in ends)), ""]))
    with pytest.raises(WireInvalidity):
        await Replay(path, variables={}).conduct()
