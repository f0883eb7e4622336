"""The cassettes in a workspace, replayed for the web page."""

import json
import pathlib
import re
import stat
from collections.abc import Mapping, Sequence
from typing import Any

from ripieno.canisters import TextualContent, UserCanister
from ripieno.canisters.contents import text_of
from ripieno.canisters.display import clean
from ripieno.canisters.events import (
    ArgumentsDelta,
    ContentSealed,
    Event,
    ExecutionProgress,
    InvocationBegan,
    InvocationSealed,
    ReasoningDelta,
    ResultReady,
    TextDelta,
)
from ripieno.descriptors.reader.regular_files import open_regular
from ripieno.ensembles.threads import run_in_thread
from ripieno.jsonvalues import thaw
from ripieno.servers.chat.contents import SHOWN_BYTES
from ripieno.servers.chat.events import sent_form
from ripieno.testing.cassettes import Replay

#: Cassettes in a list, steps of one, and bytes of a file at most.
_LISTED, _STEPS, _BYTES = 200, 5000, 64 * 1024 * 1024
_HEADER = b'{"kind":"cassette"'
#: Parts of what a later event has whole.
_PARTS = (TextDelta, ReasoningDelta, ArgumentsDelta, InvocationBegan, ExecutionProgress)
_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")


class WorkspaceCassettes:
    """The files ``*.jsonl`` in a folder, and in the folders in it, that are cassettes."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder

    async def names(self) -> Sequence[str]:
        return await run_in_thread(self._find, name="cassettes", patient=False)

    async def steps(self, name: str) -> Sequence[Mapping[str, Any]]:
        # Lenient: a cassette of an earlier version can still be read.
        replay = await run_in_thread(lambda: Replay(self._folder / name, lenient=True), name="cassette", patient=False)
        steps: list[dict[str, Any]] = []
        while replay.left and len(steps) < _STEPS:
            prompts = [one for one in replay.said().canisters if isinstance(one, UserCanister)]
            if prompts:
                steps.append(_step("Said", "The user says", text_of(prompts[-1].content)))
            run = replay.conduct()
            async for event in run:
                if not isinstance(event, _PARTS) and len(steps) < _STEPS:
                    steps.append(_described(event))
        if not replay.whole:
            steps.append(_step("Incomplete", "The recording ends here", "It was interrupted."))
        return steps

    def _find(self) -> Sequence[str]:
        found = (path for pattern in ("*.jsonl", "*/*.jsonl") for path in sorted(self._folder.glob(pattern)))
        names = (path.relative_to(self._folder).as_posix() for path in found if _is_cassette(path))
        return [name for name, _ in zip(names, range(_LISTED), strict=False)]


def _is_cassette(path: pathlib.Path) -> bool:
    """Whether it is a regular file, not a link, and begins as a cassette does."""
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > _BYTES:
            return False
        with open(path, "rb", opener=open_regular) as file:
            return file.read(len(_HEADER)) == _HEADER
    except OSError:
        return False


def _described(event: Event) -> dict[str, Any]:
    """The step of an event."""
    kind = type(event).__name__
    match event:
        case ContentSealed(content=TextualContent(text=text)):
            return _step(kind, "The model says", text)
        case InvocationSealed(invocation=call):
            return _step(kind, f"The model calls {call.name}", _json(thaw(call.arguments)))
        case ResultReady(result=result, tool=tool):
            failed = None if result.error is None else f"{result.error.category}: {result.error.message}"
            return _step(kind, f"{'Result' if failed is None else 'Failure'} of {tool}", failed or result.text)
        case _:
            return _step(kind, _CAPITAL.sub(" ", kind).capitalize(), _json(sent_form(event) or {}))


def _step(kind: str, title: str, text: str) -> dict[str, Any]:
    shown = clean(text)
    cut = f"{shown[:SHOWN_BYTES]} ... ({len(shown)} characters)" if len(shown) > SHOWN_BYTES else shown
    return {"kind": kind, "title": clean(title), "text": cut}


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
