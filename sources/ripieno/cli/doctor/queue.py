"""The facts of ``ripieno doctor`` about the queue of submitted runs: its engine, its workers, and what waits."""

import dataclasses
import os
from collections.abc import Iterator, Mapping
from importlib import metadata
from typing import Any

from ripieno.assembly.configuration import LoadedConfiguration
from ripieno.assembly.journal import place_of_journal
from ripieno.assembly.submissions import inspect_queue
from ripieno.canisters.display import count
from ripieno.cli.common.workers import lacking_worker
from ripieno.exceptions import InputError
from ripieno.storage.databases.opening import database_at
from ripieno.storage.dispatch.contract import QueueInspection

_ENGINE = "dbos"


def queue_facts(loaded: LoadedConfiguration, journal: Mapping[str, Any]) -> dict[str, Any] | None:
    """The facts, as JSON; None without ``[durable]`` and without a queue. Nothing is created or changed.

    ``journal`` are the facts about the journal: a queue beside one that cannot be used is not looked at. ``exists`` is
    null if the database cannot be used.
    """
    found: QueueInspection | None = None
    warnings: list[str] = []
    usable = not journal["problem"]
    if not journal["problem"] and journal.get("version") == journal.get("expected_version") is not None:
        try:
            found = _inspect(loaded)
        except InputError as error:
            warnings.append(str(error))
            usable = False
    configured = any(part.parts.get("durable") for part in loaded.parts)
    if found is None and not configured and not warnings:
        return None
    try:
        engine = metadata.version(_ENGINE)
    except metadata.PackageNotFoundError:
        engine = None
        warnings.append("Submitted runs need an engine. Install it: pip install 'ripieno[durable]'")
    warnings += [] if found is None else _unattended(found)
    numbers = dataclasses.asdict(found or QueueInspection())
    return {"engine": engine, "exists": found is not None if usable else None, **numbers, "warnings": warnings}


def _unattended(found: QueueInspection) -> Iterator[str]:
    """Warnings about runs that no worker takes, or whose worker is gone."""
    if found.lost:
        gone = f"{count(found.lost, 'run')} under way, of which the worker is gone: its lease has ended."
        alive = "One that is alive goes on within seconds: ripieno runs list"
        yield f"{gone} {alive if found.workers else 'To go on, start one: ripieno work'}"
    if found.queued and not found.workers:
        wait = f"{count(found.queued, 'submitted run')} {'waits' if found.queued == 1 else 'wait'}"
        yield f"{wait}, and no worker is alive. To start one: ripieno work"
        return
    for host in found.unattended:
        yield f"Submitted runs wait. {lacking_worker(host)}"


def _inspect(loaded: LoadedConfiguration) -> QueueInspection | None:
    place = place_of_journal(loaded, os.environ)
    database = database_at(place)
    try:
        return inspect_queue(place, database)
    finally:
        database.close()


def queue_line(facts: Mapping[str, Any] | None) -> str:
    """One line about the queue; empty if there is nothing to say."""
    if facts is None:
        return ""
    engine = f"{_ENGINE} {facts['engine']}" if facts["engine"] else "its engine is not installed"
    if facts["exists"] is None:
        return f"{engine}, its database cannot be reached or read"
    if not facts["exists"]:
        return f"{engine}, the first submission creates it"
    numbers = ", ".join(f"{facts[state]} {state}" for state in ("queued", "scheduled", "running"))
    numbers += f", {facts['answered']} answered" if facts["answered"] else ""
    return f"{engine}, {count(facts['workers'], 'worker')} alive; runs: {numbers}"
