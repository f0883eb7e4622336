"""Runs that are killed at any moment and resumed: nothing is lost, nothing runs twice, and each ends."""

import json
import pathlib
import subprocess
import sys

import pytest

from tests.counts import count
from tests.support.postgresql import address_of_schema

#: Hang bound of the storm, in seconds.
HANG = 3000

#: Each child conducts until it ends, or is killed. Its tools append a line that nobody else writes.
STORM = """
import asyncio, collections, itertools, json, os, pathlib, random, signal, struct, sys, threading

from ripieno.canisters import InvocationCanister, ResultCanister
from ripieno.conducting import conduct
from ripieno.canisters.controls import Limits, Rules
from ripieno.canisters import Conversation
from ripieno.ensembles import Definition, Ensemble
from ripieno.exceptions import NameAbsence
from ripieno.execution import Execution
from ripieno.storage.journal import Journal
from ripieno.descriptors import Policy
from ripieno.conducting.resume import resumable
from ripieno.schemas import Schema
from ripieno.testing import call, model_of, turn

folder, kills = pathlib.Path(sys.argv[1]), int(sys.argv[2])
WORD = Schema.of({"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]})
STEPS = 4
WRITE, READ = Policy(effect="write"), Policy(effect="read")
#: In place of a moment: a child is killed when its tool has acted and has not returned.
IN_A_TOOL = -1
deadly = False


def place(path):
    return path / "journal" if len(sys.argv) < 4 else f"{sys.argv[3]}_{path.name}"


def append(path):
    def appended(context, arguments):
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(descriptor, (arguments["word"] + "\\n").encode())
        os.close(descriptor)
        if deadly and path.name == "effects":
            os.kill(os.getpid(), signal.SIGKILL)
        return "Written."

    return appended


def model():
    turns = []
    for step in range(STEPS):
        calls = [call(("append", "look")[(step + number) % 3 == 2], word=f"{step}.{number}") for number in range(3)]
        turns.append(turn(f"Step {step}.", calls=calls))
    return model_of([*turns, turn("All is written.")])


class Acknowledging(Journal):
    # Says of each line, over a pipe, that it was kept.

    def record(self, records):
        super().record(records)
        os.write(self.writing, struct.pack("i", len(records)))


def play(path, name, writing):
    with Acknowledging(place(path)) as journal:
        journal.writing = writing
        try:
            conversation = resumable(journal, name).conversation
        except NameAbsence:
            conversation = Conversation(identifier=name).say("Write.")
        if conversation.finish == "stop":
            return
        ensemble = Ensemble.of(
            "mine",
            (
                Definition(name="append", schema=WORD, invocable=append(path / "effects"), policy=WRITE),
                Definition(name="look", schema=WORD, invocable=append(path / "looks"), policy=READ),
            ),
        )
        execution = Execution(rules=Rules(approve=("mine.*",)), recorder=journal, limits=Limits(turns=50))

        async def main():
            async with ensemble:
                await conduct(model(), conversation, ensembles=[ensemble], execution=execution)

        asyncio.run(main())


def child(path, name, moment):
    # It is killed at its so many-th call of a function, in whichever thread: time would depend on the machine.
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        global deadly
        code, deadly = 1, moment == IN_A_TOOL
        moments = itertools.count()

        def see(frame, event, argument):
            if next(moments) == moment:
                os.kill(os.getpid(), signal.SIGKILL)

        try:
            os.close(reading)
            threading.setprofile(see)
            sys.setprofile(see)
            play(path, name, writing)
            sys.setprofile(None)
            (path / "moments").write_text(str(next(moments)))
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    rest = b""
    while data := os.read(reading, 65536):
        rest += data
    os.close(reading)
    _, status = os.waitpid(process, 0)
    killed = os.WIFSIGNALED(status)
    assert killed or os.WEXITSTATUS(status) == 0, status
    return killed, sum(struct.unpack(f"{len(rest) // 4}i", rest[: len(rest) // 4 * 4]))


def check(path, name, acknowledged):
    with Journal(place(path)) as journal:
        assert journal.verify() is None
        assert sum(1 for _ in journal.lines(name)) >= acknowledged, "an acknowledged line is lost"
        restored = journal.restore(name)
    conversation = restored.conversation
    assert conversation.finish == "stop", conversation.finish
    assert conversation.text == "All is written."
    calls = [one for one in conversation.canisters if isinstance(one, InvocationCanister)]
    results = [one for one in conversation.canisters if isinstance(one, ResultCanister)]
    counts = collections.Counter(one.invocation_id for one in results)
    assert counts == collections.Counter(one.identifier for one in calls), "the call law"
    by_call = {one.invocation_id: one for one in results}
    effects = collections.Counter((path / "effects").read_text().split())
    assert all(times == 1 for times in effects.values()), effects
    unknown = 0
    for one in calls:
        if one.name != "append":
            continue
        error = by_call[one.identifier].error
        if error is None:
            assert effects[one.arguments["word"]] == 1, one
        else:
            assert error.category == "outcome_unknown", error
            unknown += 1
    return unknown


chance, done, ended, unknown, longest = random.Random(11), 0, 0, 0, 0
while done < kills:
    path, name, acknowledged = folder / str(ended), f"conversation {ended}", 0
    path.mkdir()
    for attempt in range(1000):
        # The first conversation is measured; the last child of each is left alone, so that it comes to its end.
        moment = chance.randrange(longest) if longest and attempt < 12 and done < kills else None
        if longest and not attempt:
            moment = IN_A_TOOL
        killed, kept = child(path, name, moment)
        acknowledged += kept
        done += killed
        if not killed:
            break
    longest = longest or int((path / "moments").read_text())
    unknown += check(path, name, acknowledged)
    ended += 1
print(json.dumps({"kills": done, "conversations": ended, "unknown": unknown}))
"""


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_a_conduct_that_is_killed_at_any_moment_is_gone_on_with(
    tmp_path: pathlib.Path, database: str, request: pytest.FixtureRequest
) -> None:
    kills = count(1000, 50 if database == "sqlite" else 100)
    address = [] if database == "sqlite" else [address_of_schema(request.getfixturevalue("postgresql_server"))]
    script = tmp_path / "storm.py"
    script.write_text(STORM)
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path), str(kills), *address],
        capture_output=True,
        text=True,
        timeout=HANG,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["kills"] >= kills
    # In each conversation after the first, one call at least was under way.
    assert told["unknown"] >= told["conversations"] - 1
    assert told["conversations"] > 1
