"""How the pins of each foreign ensemble stand, for ``ripieno doctor``: as JSON, and as rows for people."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ripieno.cli.locking import is_foreign
from ripieno.conducting.observers.console import brief
from ripieno.descriptors import EnsembleDescriptor
from ripieno.exceptions import InputError
from ripieno.storage.pins import Comparison, PinRecord, Pins, compare, pin_command


def pin_facts(descriptor: EnsembleDescriptor, pins: Pins | None, *, starts: bool = True) -> dict[str, Any] | None:
    """What is pinned, and what is not as it was pinned; None for an ensemble of our own.

    ``state`` is ``off``, ``unreadable`` (``reason`` says why), ``not pinned``, ``same``, ``new``, ``changed``, or
    ``not compared`` where it was not connected. Tools of an ensemble that is connected are compared by then; of one
    that does not start, nothing is there to be recorded.
    """
    if not is_foreign(descriptor):
        return None
    facts: dict[str, Any] = {"mode": descriptor.pin, "state": "off", "recorded": None, "reason": None, "advice": None}
    comparison: Comparison | None = None
    if descriptor.pin != "off":
        try:
            record = None if pins is None else pins.record(descriptor.name)
        except InputError as error:
            facts |= {"state": "unreadable", "reason": str(error)}
        else:
            comparison = _compared(descriptor, pins, record)
            state = "not pinned" if record is None else _state(comparison)
            facts |= {"state": state, "recorded": None if record is None else len(record.tools)}
            # A command may have to be approved before anything starts.
            facts["advice"] = _advice(descriptor.name, state) if starts or state == "changed" else None
    kinds: dict[str, Iterable[str]] = {} if comparison is None else dataclasses.asdict(comparison)
    for kind in ("new", "changed", "gone"):
        facts[kind] = list(kinds.get(kind, ()))
    return {**facts, "command": "same" if comparison is None else comparison.command}


def pin_row(name: str, facts: Mapping[str, Any]) -> Sequence[str]:
    """Name, mode, how it stands, and what to do, for a table."""
    recorded = facts["recorded"]
    pinned = "" if recorded is None else f"pinned {recorded} tool{'' if recorded == 1 else 's'}"
    differences = [f"{kind}: {', '.join(facts[kind])}" for kind in ("changed", "new", "gone") if facts[kind]]
    if facts["command"] != "same":
        differences.insert(0, f"the command is {facts['command']}")
    words = {
        "off": "not compared",
        "unreadable": str(facts["reason"]),
        "not pinned": "not pinned",
        "not compared": f"{pinned}, not compared",
    }
    how = words.get(facts["state"], pinned)
    return name, facts["mode"], brief("; ".join((how, *differences)), 1000), facts["advice"] or ""


def _compared(descriptor: EnsembleDescriptor, pins: Pins | None, record: PinRecord | None) -> Comparison | None:
    """What differs from the record, as far as it is known; None where nothing was compared."""
    if pins is None or record is None:
        return None
    now = PinRecord(tools=record.tools, command=pin_command(descriptor))
    command = compare(record, now).command
    tools = pins.compared.get(descriptor.name)
    if tools is None:
        return None if command == "same" else Comparison(command=command)
    return dataclasses.replace(tools, command=command)


def _state(comparison: Comparison | None) -> str:
    if comparison is None:
        return "not compared"
    if comparison.changed or comparison.command != "same":
        return "changed"
    return "new" if comparison.new else "same"


def _advice(name: str, state: str) -> str | None:
    """The command that records what is there now."""
    advice = {
        "not pinned": f"ripieno lock {name}",
        "new": f"ripieno lock --approve {name}",
        "changed": f"ripieno lock --approve {name}",
    }
    return advice.get(state)
