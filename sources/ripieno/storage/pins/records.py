"""Pins: the hash and the text of a definition, a record of them per ensemble, and their comparison.

The hash is the SHA-256 of the definition's canonical JSON (sorted keys, no whitespace). It includes the ensemble's
name, so that a pin is valid for one server only.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from frozendict import frozendict

from ripieno.descriptors import EnsembleDescriptor, InvokerDescriptor
from ripieno.jsonvalues import canonical, digest, is_list, is_table, thaw
from ripieno.lazy.modules import difflib
from ripieno.values import Value, uncompared

CommandState = Literal["same", "new", "changed", "gone"]


@uncompared("text")
class Pin(Value, kw_only=True):
    """One definition. ``sha256`` is hexadecimal; ``text`` is indented JSON for people, empty where withheld."""

    sha256: str
    text: str = ""

    @classmethod
    def of(cls, definition: Mapping[str, Any]) -> "Pin":
        """The pin of a definition. Errors: ``JsonInvalidity`` for invalid JSON, such as half a surrogate pair."""
        return cls(sha256=digest(definition), text=_indented(thaw(definition)))


class PinRecord(Value, kw_only=True):
    """The approved definitions of one ensemble: its tools by name, and the command that starts it, if any."""

    tools: frozendict[str, Pin] = frozendict()
    command: Pin | None = None


class Comparison(Value, kw_only=True):
    """Differences from the approved record: names of tools, and the command."""

    new: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    command: CommandState = "same"

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        return self == Comparison()


def pin_tools(descriptor: EnsembleDescriptor, found: Iterable[InvokerDescriptor]) -> frozendict[str, Pin]:
    """The pins of a connection's tools. Errors: ``JsonInvalidity``."""
    return frozendict({invoker.name: pin_tool(descriptor.name, invoker) for invoker in found})


def pin_tool(ensemble: str, invoker: InvokerDescriptor) -> Pin:
    """The pin of one tool as its server defined it, without the operator's overrides."""
    definition = invoker.offered
    if definition is None:
        # An origin that makes descriptors without ``EnsembleDescriptor.discovered``.
        definition = frozendict(
            name=invoker.name, description=invoker.description, arguments=invoker.arguments, results=invoker.results
        )
    return Pin.of({"ensemble": ensemble, **{key: value for key, value in definition.items() if value is not None}})


def pin_command(ensemble: str, commands: Sequence[Sequence[str]], environment: Iterable[str]) -> Pin | None:
    """The pin of the commands that a connection starts: arguments, and names of variables without values.

    None for a connection that starts none.
    """
    if not commands:
        return None
    command: list[Any] = [list(one) for one in commands]
    only = command[0] if len(command) == 1 else command
    return Pin.of({"ensemble": ensemble, "command": only, "environment": sorted(environment)})


def compare(before: PinRecord | None, after: PinRecord) -> Comparison:
    """The differences between a record and the present one."""
    known = before or PinRecord()
    command: CommandState = "same"
    if known.command != after.command:
        # A command of a server that was approved without one is a change, not new.
        command = "new" if before is None else "gone" if after.command is None else "changed"
    return Comparison(
        new=tuple(name for name in after.tools if name not in known.tools),
        changed=tuple(name for name in after.tools if name in known.tools and known.tools[name] != after.tools[name]),
        gone=tuple(name for name in known.tools if name not in after.tools),
        command=command,
    )


def changed_parts(before: Pin, after: Pin) -> str:
    """The parts of a definition that differ (``description, arguments``); empty where a text is withheld."""
    if not before.text or not after.text:
        return ""
    old, new = json.loads(before.text), json.loads(after.text)
    return ", ".join(key for key in dict.fromkeys((*new, *old)) if canonical(old.get(key)) != canonical(new.get(key)))


def show_difference(name: str, before: Pin | None, after: Pin | None) -> list[str]:
    """The lines of a unified diff of two definitions; none where they are equal or one is withheld.

    Foreign text in them is not cleaned; the caller cleans it.
    """
    if before == after or any(pin is not None and not pin.text for pin in (before, after)):
        return []
    for show in (_readable, _plain):
        lines = difflib.unified_diff(show(before), show(after), f"{name} (approved)", f"{name} (now)", lineterm="")
        if shown := list(lines):
            return shown
    return []


def _plain(pin: Pin | None) -> list[str]:
    return [] if pin is None else pin.text.splitlines()


def _readable(pin: Pin | None) -> list[str]:
    """The text with long descriptions line by line. Different definitions may look the same."""
    return [] if pin is None else _indented(_split(json.loads(pin.text))).splitlines()


def _split(value: Any) -> Any:
    if isinstance(value, str):
        return value.split("\n") if "\n" in value else value
    if is_table(value):
        return {key: _split(one) for key, one in value.items()}
    return [_split(one) for one in value] if is_list(value) else value


def _indented(value: Any) -> str:
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False)
