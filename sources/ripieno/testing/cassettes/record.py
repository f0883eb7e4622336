"""Recording: what an application holds while its runs are written into a cassette."""

import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ripieno.approvals import Confirmer, RulesConfirmer
from ripieno.canisters import Canister, Conversation
from ripieno.conducting import Run, conduct
from ripieno.ensembles.surroundings import Tap
from ripieno.exceptions import UsageError
from ripieno.execution import Execution
from ripieno.models import Model
from ripieno.testing.cassettes.assembly import CassetteAssembly, assemble_with
from ripieno.testing.cassettes.recorded_parts import TapedConfirmer, TapedExecution, links_of, record_model, tape_model
from ripieno.testing.cassettes.recorder import Ends, RunTape, Traffic, open_desk


class Recorder:
    """Records runs into a new file, line by line.

    ::

        recording = Recorder("talk.jsonl")
        async with recording.assemble("ripieno.toml") as assembly:
            conversation = await assembly.conduct("What is in README.rst?")
        recording.close()

    ``secrets`` never stand in the file, nor do those variables of ``variables`` (the environment by default) that are
    secrets by their names or looks. Errors: ``InputError`` when there is such a file already.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        secrets: Iterable[str] = (),
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self.path = pathlib.Path(path)
        self._desk = open_desk(path, secrets, os.environ if variables is None else variables)
        self._tapes: dict[str, RunTape] = {}
        self._runs = 0
        self._ends = Ends()
        self._traffic = Traffic(self._desk)

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(self, *details: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the recording. May be called twice."""
        self._desk.flush(all_of_it=True)
        self._desk.writer.close()

    def hide(self, secrets: Iterable[str]) -> None:
        """From now on these never stand in the file."""
        self._desk.redactor.learn(secrets)

    def note(self, name: str, value: Any) -> None:
        """Something of the application's own, as JSON: whoever replays asks for it by its name, in the same order."""
        self._desk.put({"kind": "note", "name": name, "value": value})

    def confirmer(self, inner: Confirmer | None = None) -> Confirmer:
        """The confirmer to give to an ``Execution`` or an assembly that is recorded."""
        return TapedConfirmer(inner or RulesConfirmer(), self._tapes.get)

    def conduct(
        self,
        model: Model,
        what: str | Canister | Sequence[Canister] | Conversation,
        *,
        execution: Execution | None = None,
        **settings: Any,
    ) -> Run:
        """As ``ripieno.conduct``, recorded.

        Errors: ``UsageError`` for an execution whose confirmer is not one of ``confirmer``, and for a model without a
        wire.
        """
        execution = execution or Execution()
        if not isinstance(execution.confirmer, TapedConfirmer | RulesConfirmer):
            raise UsageError(
                "What its confirmer answers would not be recorded. Make the execution with "
                "Execution(confirmer=recording.confirmer(yours))."
            )
        self._runs += 1
        tape = RunTape(self._desk, self._runs)
        run = conduct(tape_model(model, tape), what, execution=TapedExecution(execution, tape), **settings)
        conversation = run.conversation
        models = tuple(map(record_model, links_of(model)))
        tape.begin(conversation, self._ends.kept(conversation), models, execution, settings)
        self._tapes[conversation.identifier] = tape
        self._ends.note(run)
        return run

    @property
    def tap(self) -> Tap:
        """Records messages to and from MCP servers: for the ``Surroundings`` of ensembles that no assembly opens."""
        return self._traffic.record

    @property
    def replays(self) -> bool:
        """Nothing: everything is live."""
        return False

    def begins(self) -> Conversation | None:
        """Nothing is recorded before it is said."""
        return None

    def assemble(self, configuration: Any = None, **settings: Any) -> CassetteAssembly:
        """As ``ripieno.assemble``; what the assembly conducts is recorded."""
        return assemble_with(self, configuration, **settings)
