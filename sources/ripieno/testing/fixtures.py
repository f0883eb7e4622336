"""Pytest fixtures for scores as models, and for cassettes. A ``conftest.py`` enables them:

::

    pytest_plugins = ["ripieno.testing.fixtures"]

``score(...)`` gives a model that follows a score, over a real wire format. ``cassette(path)`` records a missing file if
``pytest --ripieno-record`` or ``RIPIENO_RECORD=1`` is set, and replays an existing one. Relative paths are beside the
test.
"""

import os
from collections.abc import Callable, Generator, Iterator
from typing import Any, TypeAlias

import pytest

from ripieno.models import Model
from ripieno.testing.cassettes import Recorder, Replay
from ripieno.testing.wires import model_of

Scoring: TypeAlias = Callable[..., Model]
Cassettes: TypeAlias = Callable[..., Recorder | Replay]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("ripieno")
    group.addoption("--ripieno-record", action="store_true", help="record the cassettes that are missing")


@pytest.fixture
def score() -> Scoring:
    """``ripieno.testing.model_of``: makes the model of a score or of turns."""
    return model_of


@pytest.fixture
def cassette(request: pytest.FixtureRequest) -> Iterator[Cassettes]:
    """A function from a path to a ``Recorder`` or a ``Replay``; both have ``conduct`` and ``assemble``.

    Keywords are those of ``Replay``; ``secrets`` and ``variables`` apply to a recording, too. The recording of a failed
    test is renamed to ``.failed``, so that it is not replayed.
    """
    recordings: list[Recorder] = []
    records = request.config.getoption("--ripieno-record") or os.environ.get("RIPIENO_RECORD") == "1"

    def open_cassette(path: str | os.PathLike[str], **settings: Any) -> Recorder | Replay:
        whole = request.path.parent / path
        if not whole.exists() and records:
            whole.parent.mkdir(parents=True, exist_ok=True)
            kept = {name: settings[name] for name in ("secrets", "variables") if name in settings}
            recordings.append(Recorder(whole, **kept))
            return recordings[-1]
        if not whole.exists():
            pytest.fail(f"There is no cassette {whole}. To record it, run pytest --ripieno-record.", pytrace=False)
        return Replay(whole, **settings)

    yield open_cassette
    for recording in recordings:
        recording.close()
        if getattr(request.node, "ripieno_failed", False):
            recording.path.replace(recording.path.with_name(f"{recording.path.name}.failed"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Marks a failed test, for fixtures that end later."""
    report: pytest.TestReport = yield
    if report.failed:
        item.ripieno_failed = True  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    return report
