"""The recorder that an application uses to record its runs into a cassette."""

import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ripieno.approvals import Confirmer, RulesConfirmer
from ripieno.assembly.protection import secrets_among
from ripieno.canisters import Canister, Conversation
from ripieno.conducting import Run, conduct
from ripieno.exceptions import UsageError
from ripieno.execution import Execution
from ripieno.jsonvalues import listed
from ripieno.models import Model
from ripieno.storage.redaction import Redactor
from ripieno.testing.cassettes.assembly import Cassette
from ripieno.testing.cassettes.file import Writer
from ripieno.testing.cassettes.recorded_parts import (
    RecordingConfirmer,
    RecordingExecution,
    links_of,
    recorded_model,
    recording_model,
)
from ripieno.testing.cassettes.recorder import RedactingWriter, RunEnds, RunRecorder, traffic_recorder


class Recorder(Cassette):
    """Records runs into a new file, line by line.

    ::

        recording = Recorder("talk.jsonl")
        async with recording.assemble() as assembly:
            conversation = await assembly.conduct("What is in README.rst?")
        recording.close()

    The file never contains ``secrets``, nor ``variables`` (by default the environment) whose names or values look
    secret. Errors: ``InputError`` if the file exists.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, secrets: Iterable[str] = (), variables: Mapping[str, str] | None = None
    ) -> None:
        self.path = pathlib.Path(path)
        hidden = secrets_among(os.environ if variables is None else variables)
        redactor = Redactor((*listed(secrets), *hidden))
        self._writer = RedactingWriter(Writer(path), redactor)
        self._tapes: dict[str, RunRecorder] = {}
        self._runs = 0
        self._ends = RunEnds()
        #: Records messages to and from MCP servers: for ``Surroundings`` outside of an assembly.
        self.tap = traffic_recorder(self._writer)

    def close(self) -> None:
        """Ends the recording. May be called twice."""
        self._writer.flush(all_of_it=True)
        self._writer.file.close()

    def hide(self, secrets: Iterable[str]) -> None:
        """Keeps these secrets out of the file from now on."""
        self._writer.redactor.learn(secrets)

    def note(self, name: str, value: Any) -> None:
        """Records a JSON value of the application; a replay returns it by its name, in the same order."""
        self._writer.put({"kind": "note", "name": name, "value": value})

    def confirmer(self, inner: Confirmer | None = None) -> Confirmer:
        """The confirmer for an ``Execution`` or an assembly that is recorded."""
        return RecordingConfirmer(inner or RulesConfirmer(), self._tapes.get)

    def conduct(
        self,
        model: Model,
        what: str | Canister | Sequence[Canister] | Conversation,
        *,
        execution: Execution | None = None,
        **settings: Any,
    ) -> Run:
        """As ``ripieno.conduct``, recorded.

        Errors: ``UsageError`` for an execution without a confirmer of ``confirmer``, and for a model without a wire.
        """
        execution = execution or Execution()
        if not isinstance(execution.confirmer, RecordingConfirmer | RulesConfirmer):
            raise UsageError(
                "Its confirmer's answers would not be recorded. Make the execution with "
                "Execution(confirmer=recording.confirmer(yours))."
            )
        self._runs += 1
        tape = RunRecorder(self._writer, self._runs)
        run = conduct(recording_model(model, tape), what, execution=RecordingExecution(execution, tape), **settings)
        conversation = run.conversation
        models = tuple(map(recorded_model, links_of(model)))
        tape.begin(conversation, self._ends.kept(conversation), models, execution, settings)
        self._tapes[conversation.identifier] = tape
        self._ends.note(run)
        return run
