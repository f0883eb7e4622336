"""The facts of ``ripieno doctor`` about the journal: where it is, whether it can be used, and its versions."""

import os
from collections.abc import Mapping
from typing import Any

from ripieno.assembly.configuration import LoadedConfiguration
from ripieno.assembly.journal import open_database
from ripieno.cli.check.needs import check_journal, check_state
from ripieno.cli.common.findings import Subject, find_problems
from ripieno.exceptions import InputError
from ripieno.jsonvalues import EMPTY
from ripieno.storage.databases.tables import VERSION
from ripieno.storage.places import Places

#: Seconds of difference between two clocks that are reported as a warning.
_CLOCKS = 5.0


def journal_facts(loaded: LoadedConfiguration) -> dict[str, Any]:
    """The facts, as JSON. Nothing is created or changed. ``problem`` prevents a start of what records."""
    tables = [part.parts.get("journal", EMPTY) for part in reversed(loaded.parts)]
    enabled = next((one["enabled"] for one in tables if "enabled" in one), True)
    facts: dict[str, Any] = {"enabled": enabled, "place": None, "problem": "", "warning": ""}
    lacking = find_problems([check_journal, check_state], Subject(loaded=loaded, descriptors=()))
    if not enabled or lacking:
        return {**facts, "problem": str(lacking[0]) if enabled and lacking else ""}
    try:
        database = open_database(loaded, os.environ)
        facts["place"] = database.name
        found = database.inspect()
    except InputError as error:
        return {**facts, "problem": str(error)}
    if found.clock is not None and abs(found.clock) > _CLOCKS:
        ahead = f"{abs(found.clock):.0f} s {'ahead of' if found.clock > 0 else 'behind'} this machine's"
        facts["warning"] = f"The clock of the journal's server is {ahead}. Synchronise both: times in it would differ."
    shown = {name: getattr(found, name) for name in ("server", "version", "clock", "size", "mode", "problem")}
    return {**facts, **shown, "expected_version": VERSION, "state": str(Places.of_user().state)}


def journal_line(facts: Mapping[str, Any]) -> str:
    """One line about the journal."""
    if not facts["enabled"]:
        return "disabled"
    if facts["problem"]:
        return f"cannot be used: {facts['place']}" if facts["place"] else "cannot be used; see the failures"
    version, expected = facts["version"], facts["expected_version"]
    if version is None:
        tables = "the first run creates it"
    else:
        later = "" if version == expected else f", which the next run brings to {expected}"
        tables = f"version {version}{later}"
    parts = [facts["server"], tables]
    parts += [f"{facts['size']:,} bytes"] if facts["size"] is not None else []
    parts += [f"mode {facts['mode']}"] if facts["mode"] else []
    parts += [f"its clock differs by {abs(facts['clock']):.2f} s"] if facts["clock"] is not None else []
    return f"{facts['place']}: {', '.join(parts)}"
