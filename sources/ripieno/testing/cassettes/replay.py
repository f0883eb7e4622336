"""Replaying: a cassette in the place of a model, its tools and whoever decides; or the beginning of what is live."""

import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ripieno.approvals import Confirmer
from ripieno.assembly.plugins import discover
from ripieno.assembly.protection import secrets_among
from ripieno.canisters import Canister, Conversation
from ripieno.canisters.events import Alert
from ripieno.canisters.serialization import deserialize_conversation
from ripieno.conducting import Run, conduct
from ripieno.ensembles import Definition, Ensemble, Surroundings
from ripieno.exceptions import InputError, ReplayDivergence, SerializationInvalidity
from ripieno.execution import Execution
from ripieno.models import Model, Protocol
from ripieno.sandbox.processes import LocalSpawner
from ripieno.storage.records import Recorder as Journal
from ripieno.storage.redaction import Redactor
from ripieno.testing.cassettes.assembly import CassetteAssembly, assemble_with
from ripieno.testing.cassettes.file import CassetteLine, read
from ripieno.testing.cassettes.player import Player
from ripieno.testing.cassettes.recorder import Ends
from ripieno.testing.cassettes.replayed_parts import PlayedConfirmer, PlayedExecution, played_model
from ripieno.testing.cassettes.values import RecordedEnsemble, RecordedModel, RecordedSettings


class _Stage(Ensemble):
    """An ensemble that offers what a cassette says."""

    def play(self, definitions: Iterable[Definition]) -> None:
        """Offers this from now on."""
        self._change(definitions)


class Replay:
    """Plays the runs of a cassette, in the order in which they were recorded.

    ::

        run = Replay("talk.jsonl").conduct()
        conversation = await run

    Nothing is asked of a network, and nothing is run. A request that is not the one that was recorded ends it with
    ``ReplayDivergence``, unless it is ``lenient``. It is as quick as it can be; ``speed`` 1 has the recorded timing.
    ``protocols`` are known beside those that are built in; ``secrets`` and ``variables`` are those of the recording,
    where what is said has secrets in it. Errors: ``InputError`` for a file that is no cassette.
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
            raise InputError(f"speed = {speed} is no speed: 1 is the recorded one, 2 is twice as fast.")
        self._tape = read(path)
        self._speed = speed
        self._lenient = lenient
        self._protocols = protocols or {}
        self._redactor = Redactor((*secrets, *secrets_among(os.environ if variables is None else variables)))
        self._runs = [line for line in self._tape.lines if line.kind == "conduct"]
        self._next = 0
        self._notes: dict[str, int] = {}
        self._players: dict[str, Player] = {}
        self._ends = Ends()
        #: Whether runs go on live where the cassette ends, with an assembly's own models and tools.
        self.forks = False

    @property
    def path(self) -> str:
        """The file."""
        return self._tape.path

    @property
    def whole(self) -> bool:
        """Whether the recording was ended in order."""
        return self._tape.whole

    @property
    def left(self) -> int:
        """How many recorded runs were not played yet."""
        return len(self._runs) - self._next

    def __enter__(self) -> "Replay":
        return self

    def __exit__(self, *details: object) -> None:
        """There is nothing to let go of."""

    def close(self) -> None:
        """There is nothing to let go of."""

    def hide(self, secrets: Iterable[str]) -> None:
        """These were secrets when it was recorded, too."""
        self._redactor.learn(secrets)

    def _no_more(self) -> ReplayDivergence:
        why = "" if self.whole else ": the recording stopped here"
        return ReplayDivergence(self._tape.path, 0, f"it has no more runs{why}")

    def note(self, name: str) -> Any:
        """The next value that was noted under this name. Errors: ``ReplayDivergence`` when there is none."""
        values = [line.fields.get("value") for line in self._tape.lines if line.fields.get("name") == name]
        at = self._notes.get(name, 0)
        if at >= len(values):
            raise ReplayDivergence(self._tape.path, 0, f"there is no {name!r} noted any more")
        self._notes[name] = at + 1
        return values[at]

    def confirmer(self, inner: Confirmer | None = None) -> Confirmer:
        """Answers as was answered; where the cassette has come to its end, as ``inner`` does."""
        return PlayedConfirmer(self._players.get, inner if self.forks else None)

    def said(self) -> Conversation:
        """What the next recorded run begins with."""
        if not self.left:
            raise self._no_more()
        line = self._runs[self._next]
        recorded = _read_conversation(line)
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
        """The next recorded run; with the same arguments as where it was recorded, or with none.

        Of ``execution`` only the recorder counts: limits, rules, tools and answers are those of the cassette. A
        cassette that forks goes on with all that is given here. Errors: ``ReplayDivergence`` when no run is left.
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
        stages = self._stages(line.run)
        player = self._player(line, stages)
        self._players[conversation.identifier] = player
        journal: Journal | None = None if execution is None else execution.reporter.recorder
        played = Execution(
            limits=recorded_settings.execution_limits,
            rules=recorded_settings.rules,
            confirmer=self.confirmer(),
            recorder=journal,
            surroundings=_surroundings(recorded_settings.workspace),
        )
        kept = {name: settings[name] for name in ("answers", "watchers", "auxdata") if name in settings}
        if what is not None and settings.get("supervisor") is not None:
            kept["supervisor"] = settings["supervisor"]
        run = conduct(
            self._model(line, player),
            conversation,
            ensembles=tuple(stages.values()),
            execution=PlayedExecution(played, player, live=False),
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
        """What is live has a conversation of its own: another one than the recorded."""
        if model is None:
            raise InputError("A fork goes on live: it needs a model.")
        player = self._player(line, {})
        self._players[begun.identifier] = player
        live = PlayedExecution(execution or Execution(confirmer=self.confirmer()), player, live=True)
        run = conduct(self._model(line, player, live=model), begun, execution=live, **settings)
        self._ends.note(run)
        return run

    def _model(self, line: CassetteLine, player: Player, live: Model | None = None) -> Model:
        models: tuple[RecordedModel, ...] = line.read(tuple[RecordedModel, ...], "models")
        if not models:
            raise SerializationInvalidity(f"Line {line.number} of the cassette names no model.")
        return played_model(models, player, self._protocol, self._redactor, lenient=self._lenient, live=live)

    def _protocol(self, name: str) -> Protocol:
        if name in self._protocols:
            return self._protocols[name]
        found: Protocol = discover().resolve("protocols", name)
        return found

    def _player(self, line: CassetteLine, stages: Mapping[str, _Stage]) -> Player:
        def offered(changed: CassetteLine) -> None:
            tools = {one.name: one.tools for one in _ensembles(changed)}
            for name, stage in stages.items():
                stage.play(tool.definition() for tool in tools.get(name, ()))

        kinds = ("request", "native", "failure", "alert", "event", "result", "decision", "ensemble")
        mine = [one for one in self._tape.lines if one.run == line.run and one.kind in kinds]
        return Player(mine, path=self._tape.path, speed=self._speed, offered=offered)

    def _stages(self, run: int) -> dict[str, _Stage]:
        """All ensembles that a run is ever offered, empty."""
        stages: dict[str, _Stage] = {}
        for line in self._tape.lines:
            if line.kind == "ensemble" and line.run == run:
                for one in _ensembles(line):
                    stage = _Stage(one.name, prefix=one.prefix, description=one.description)
                    stages.setdefault(one.name, stage)
        return stages

    def fork(self, steps: int) -> "Replay":
        """The first ``steps`` answers, with the results of their calls; then everything is live.

        Errors: ``InputError`` when the cassette has fewer.
        """
        kept: list[CassetteLine] = []
        done = 0
        for line in self._tape.lines:
            begun = any(one.kind == "conduct" for one in kept)
            if done >= steps and (line.kind in ("request", "end") or (line.kind == "conduct" and begun)):
                break
            kept.append(line)
            done += line.kind == "native" and line.fields.get("ended") == "whole"
        if done < steps or steps < 0:
            raise InputError(f"{self._tape.path} has {done} steps: it cannot be forked after {steps}.")
        forked = Replay.__new__(Replay)
        forked.__dict__.update(vars(self))
        forked._tape = type(self._tape)(path=self._tape.path, lines=tuple(kept), whole=True)
        forked._runs = [line for line in kept if line.kind == "conduct"]
        forked._next, forked._notes, forked._players, forked._ends = 0, {}, {}, Ends()
        forked.forks = True
        return forked

    @property
    def tap(self) -> None:
        """Nothing is recorded."""

    @property
    def replays(self) -> bool:
        """Whether everything comes from the cassette."""
        return not self.forks

    def begins(self) -> Conversation | None:
        """What the next recorded run begins with, if there is one."""
        return self.said() if self.left else None

    def assemble(self, configuration: Any = None, **settings: Any) -> CassetteAssembly:
        """As ``ripieno.assemble``: what the assembly conducts is replayed, and nothing is connected unless it forks."""
        return assemble_with(self, configuration, **settings)


def _surroundings(workspace: str | None) -> Surroundings | None:
    """Surroundings that lend nothing: records name the workspace."""
    if workspace is None:
        return None
    return Surroundings(workspace=pathlib.Path(workspace), spawner=LocalSpawner(), secrets={}, alert=_ignore)


def _ignore(alert: Alert) -> None:
    """Whoever listens to the run hears of it there."""


def _ensembles(line: CassetteLine) -> tuple[RecordedEnsemble, ...]:
    ensembles: tuple[RecordedEnsemble, ...] = line.read(tuple[RecordedEnsemble, ...], "ensembles")
    return ensembles


def _read_conversation(line: CassetteLine) -> Conversation:
    return deserialize_conversation(line.fields["conversation"])
