"""Replays a cassette instead of a model, its tools and confirmations, or as the beginning of a live run."""

import copy
import dataclasses
import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ripieno.approvals import Confirmer
from ripieno.assembly.plugins import discover
from ripieno.assembly.protection import secrets_among
from ripieno.canisters import Canister, Conversation
from ripieno.canisters.serialization import deserialize_conversation
from ripieno.conducting import Run, conduct
from ripieno.ensembles import Definition, Ensemble, Surroundings
from ripieno.exceptions import InputError, ReplayDivergence, SerializationInvalidity
from ripieno.execution import Execution
from ripieno.jsonvalues import listed
from ripieno.models import Model, Protocol
from ripieno.sandbox.processes import LocalSpawner
from ripieno.storage.records import Recorder as Journal
from ripieno.storage.redaction import Redactor
from ripieno.testing.cassettes.assembly import Cassette
from ripieno.testing.cassettes.file import CassetteLine, read
from ripieno.testing.cassettes.player import Player
from ripieno.testing.cassettes.recorder import RunEnds
from ripieno.testing.cassettes.replayed_parts import ReplayedConfirmer, ReplayedExecution, replayed_model
from ripieno.testing.cassettes.values import RecordedEnsemble, RecordedModel, RecordedSettings


class _ReplayedEnsemble(Ensemble):
    def play(self, definitions: Iterable[Definition]) -> None:
        self._change(definitions)


class Replay(Cassette):
    """Replays the runs of a cassette in the recorded order.

    ::

        run = Replay("talk.jsonl").conduct()
        conversation = await run

    Nothing uses the network, and no tool runs. A request that differs from the recorded one ends the replay with
    ``ReplayDivergence``, unless it is ``lenient``. There are no pauses; ``speed`` 1 has the recorded timing.
    ``protocols`` extend the built-in ones. ``secrets`` and ``variables`` are those of the recording, if requests
    contain secrets. Errors: ``InputError`` for an unreadable file.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        speed: float | None = None,
        lenient: bool = False,
        protocols: Mapping[str, Protocol] | None = None,
        secrets: Iterable[str] = (),
        variables: Mapping[str, str] | None = None,
    ) -> None:
        if speed is not None and not speed > 0:
            raise InputError(f"speed = {speed} must be greater than 0: 1 is the recorded speed, 2 is twice as fast.")
        self._tape = read(path)
        #: The path of the file.
        self.path = self._tape.path
        #: Whether the recording ended properly.
        self.whole = self._tape.whole
        self._speed = speed
        self._lenient = lenient
        self._protocols = protocols or {}
        self._redactor = Redactor((*listed(secrets), *secrets_among(os.environ if variables is None else variables)))
        self._runs = [line for line in self._tape.lines if line.kind == "conduct"]
        self._next = 0
        self._notes: dict[str, int] = {}
        self._players: dict[str, Player] = {}
        self._ends = RunEnds()
        #: Whether runs continue live after the end of the cassette, with the assembly's models and tools.
        self.forks = False
        self.replays = True

    @property
    def left(self) -> int:
        """The number of recorded runs that remain."""
        return len(self._runs) - self._next

    def hide(self, secrets: Iterable[str]) -> None:
        """Adds secrets of the recording."""
        self._redactor.learn(secrets)

    def _no_more(self) -> ReplayDivergence:
        why = "" if self.whole else ": the recording ends here"
        return ReplayDivergence(self._tape.path, 0, f"it has no more runs{why}")

    def note(self, name: str) -> Any:
        """The next value noted under this name. Errors: ``ReplayDivergence`` if there is none."""
        values = [line.fields.get("value") for line in self._tape.lines if line.fields.get("name") == name]
        at = self._notes.get(name, 0)
        if at >= len(values):
            raise ReplayDivergence(self._tape.path, 0, f"it has no further note {name!r}")
        self._notes[name] = at + 1
        return values[at]

    def confirmer(self, inner: Confirmer | None = None) -> Confirmer:
        """Gives the recorded answers; after the end of a fork's cassette, those of ``inner``."""
        return ReplayedConfirmer(self._players.get, inner if self.forks else None)

    def said(self) -> Conversation:
        """The beginning of the next recorded run."""
        if not self.left:
            raise self._no_more()
        line = self._runs[self._next]
        recorded = deserialize_conversation(line.fields["conversation"])
        before = self._ends.canisters(recorded.identifier, line.fields["kept"])
        return recorded.replace(canisters=(*before, *recorded.canisters))

    def conduct(
        self,
        model: Model | None = None,
        what: str | Canister | Sequence[Canister] | Conversation | None = None,
        *,
        execution: Execution | None = None,
        **settings: Any,
    ) -> Run:
        """The next recorded run, with the arguments of the recording or with none.

        Only the recorder of ``execution`` counts: limits, rules, tools and answers are those of the cassette. A fork
        continues with everything that is given here. Errors: ``ReplayDivergence`` if no run remains.
        """
        if self.forks and not self.left:
            if model is None or what is None:
                raise self._no_more()
            return conduct(model, what, execution=execution, **settings)
        recorded = self.said()
        line = self._runs[self._next]
        self._next += 1
        if self.forks:
            begun = Conversation(canisters=recorded.canisters) if what is None else Conversation.of(what)
            return self._fork(line, model, begun, execution, settings)
        return self._play(line, recorded, what, execution, settings)

    def _play(
        self,
        line: CassetteLine,
        recorded: Conversation,
        what: Any,
        execution: Execution | None,
        settings: Mapping[str, Any],
    ) -> Run:
        conversation = recorded if what is None else Conversation.of(what).replace(identifier=recorded.identifier)
        recorded_settings: RecordedSettings = line.read(RecordedSettings, "settings")
        ensembles = self._empty_ensembles(line.run)
        player = self._player(line, ensembles)
        self._players[conversation.identifier] = player
        surroundings: Surroundings | None = None
        if (workspace := recorded_settings.workspace) is not None:
            # Without permissions; records name the workspace. The run's own events contain the alerts.
            path, spawner = pathlib.Path(workspace), LocalSpawner()
            surroundings = Surroundings(workspace=path, spawner=spawner, secrets={}, alert=lambda _: None)
        journal: Journal | None = None if execution is None else execution.reporter.recorder
        played = Execution(
            limits=recorded_settings.execution_limits,
            rules=recorded_settings.rules,
            confirmer=self.confirmer(),
            recorder=journal,
            surroundings=surroundings,
        )
        kept = {name: settings[name] for name in ("answers", "watchers", "auxdata") if name in settings}
        if what is not None and settings.get("supervisor") is not None:
            kept["supervisor"] = settings["supervisor"]
        run = conduct(
            self._model(line, player),
            conversation,
            ensembles=tuple(ensembles.values()),
            execution=ReplayedExecution(played, player, live=False),
            tools=recorded_settings.tools,
            controls=recorded_settings.controls,
            limits=recorded_settings.limits,
            **kept,
        )
        self._ends.note(run)
        return run

    def _fork(
        self,
        line: CassetteLine,
        model: Model | None,
        begun: Conversation,
        execution: Execution | None,
        settings: Mapping[str, Any],
    ) -> Run:
        """A live continuation has a conversation of its own."""
        if model is None:
            raise InputError("A fork continues live, so it needs a model.")
        player = self._player(line, {})
        self._players[begun.identifier] = player
        live = ReplayedExecution(execution or Execution(confirmer=self.confirmer()), player, live=True)
        run = conduct(self._model(line, player, live=model), begun, execution=live, **settings)
        self._ends.note(run)
        return run

    def _model(self, line: CassetteLine, player: Player, live: Model | None = None) -> Model:
        models: tuple[RecordedModel, ...] = line.read(tuple[RecordedModel, ...], "models")
        if not models:
            raise SerializationInvalidity(f"Line {line.number} of the cassette has no model.")
        return replayed_model(models, player, self._protocol, self._redactor, lenient=self._lenient, live=live)

    def _protocol(self, name: str) -> Protocol:
        if name in self._protocols:
            return self._protocols[name]
        found: Protocol = discover().resolve("protocols", name)
        return found

    def _player(self, line: CassetteLine, ensembles: Mapping[str, _ReplayedEnsemble]) -> Player:
        def offered(changed: CassetteLine) -> None:
            tools = {one.name: one.tools for one in _ensembles(changed)}
            for name, ensemble in ensembles.items():
                ensemble.play(tool.definition() for tool in tools.get(name, ()))

        kinds = ("request", "native", "failure", "alert", "event", "result", "decision", "ensemble")
        mine = [one for one in self._tape.lines if one.run == line.run and one.kind in kinds]
        return Player(mine, path=self._tape.path, speed=self._speed, offered=offered)

    def _empty_ensembles(self, run: int) -> dict[str, _ReplayedEnsemble]:
        """All ensembles that a run offers at some time, still empty."""
        lines = (line for line in self._tape.lines if line.kind == "ensemble" and line.run == run)
        recorded = {one.name: one for line in lines for one in _ensembles(line)}
        return {
            name: _ReplayedEnsemble(name, prefix=one.prefix, description=one.description)
            for name, one in recorded.items()
        }

    def fork(self, steps: int) -> "Replay":
        """The first ``steps`` answers with the results of their calls, continued live. Errors: ``InputError``."""
        kept: list[CassetteLine] = []
        done = 0
        for line in self._tape.lines:
            begun = any(one.kind == "conduct" for one in kept)
            if done >= steps and (line.kind in ("request", "end") or (line.kind == "conduct" and begun)):
                break
            kept.append(line)
            done += line.kind == "native" and line.fields.get("ended") == "whole"
        if done < steps or steps < 0:
            raise InputError(f"{self._tape.path} has {done} steps, so it cannot be forked after {steps}.")
        forked = copy.copy(self)
        forked._tape = dataclasses.replace(self._tape, lines=tuple(kept), whole=True)
        forked.whole = True
        forked._runs = [line for line in kept if line.kind == "conduct"]
        forked._next, forked._notes, forked._players, forked._ends = 0, {}, {}, RunEnds()
        forked.forks, forked.replays = True, False
        return forked

    def begins(self) -> Conversation | None:
        """The beginning of the next recorded run, if any."""
        return self.said() if self.left else None


def _ensembles(line: CassetteLine) -> tuple[RecordedEnsemble, ...]:
    ensembles: tuple[RecordedEnsemble, ...] = line.read(tuple[RecordedEnsemble, ...], "ensembles")
    return ensembles
