"""The pin file in the user's state: readable TOML, replaced atomically under a lock."""

import os
import pathlib
import tomllib
from collections.abc import Mapping
from typing import Any

from frozendict import frozendict

from ripieno.descriptors.reader.regular_files import open_regular
from ripieno.exceptions import InputError
from ripieno.jsonvalues import is_table, parse
from ripieno.storage.files import locked, make_private, replace_private
from ripieno.storage.pins.records import Pin, PinRecord

Records = frozendict[str, PinRecord]

_VERSION = 1
_TITLE = "# Pins of foreign tools, written by: ripieno lock\n"
#: Levels of nesting, more than an accepted definition can have.
_DEPTH = 256


class PinStore:
    """The approved records, in one file of the user's state."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.file = folder / "pins.toml"
        # The last read file and its records: parsing a megabyte takes a quarter of a second (measured).
        self._last: tuple[tuple[int, ...], Records] | None = None

    def read(self, *, fresh: bool = False) -> Records:
        """All records by ensemble. An unchanged file is not read again, unless ``fresh``.

        Errors: ``InputError`` for an unreadable file; nothing is approved then.
        """
        try:
            with open(self.file, "rb", opener=open_regular) as stream:
                about = os.fstat(stream.fileno())
                identity = (about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
                if not fresh and self._last is not None and self._last[0] == identity:
                    return self._last[1]
                data = stream.read()
        except FileNotFoundError:
            return frozendict()
        except OSError as error:
            raise InputError(f"{self.file} cannot be read: {error.strerror or error}.") from error
        records = read_pins(data, str(self.file), "Find out what changed it, delete it, and run: ripieno lock")
        self._last = (identity, records)
        return records

    def replace(self, before: Mapping[str, PinRecord | None], after: Mapping[str, PinRecord | None]) -> None:
        """Replaces the records of some ensembles, which must still equal ``before``. None means no record.

        Errors: ``InputError`` when another program has changed one of them; nothing is written then.
        """
        make_private(self.file.parent)
        with locked(self.file.with_suffix(".lock")):
            records = dict(self.read(fresh=True))
            for name in after:
                if records.get(name) != before.get(name):
                    raise InputError(f"The pins of {name!r} were changed by another program meanwhile. Run it again.")
            kept = {name: one for name, one in {**records, **after}.items() if one is not None}
            replace_private(self.file, write_pins(kept).encode())


def write_pins(records: Mapping[str, PinRecord], *, shared: bool = False) -> str:
    """Records as TOML. ``shared`` withholds the arguments of commands, which may be secret; the hash stays."""
    import tomli_w

    ensembles: dict[str, Any] = {}
    for name, record in sorted(records.items()):
        table = ensembles[name] = {}
        if record.command is not None:
            table["command"] = _pin_mapping(record.command, withheld=shared)
        table["tools"] = {tool: _pin_mapping(pin) for tool, pin in sorted(record.tools.items())}
    return _TITLE + tomli_w.dumps({"version": _VERSION, "ensembles": ensembles}, multiline_strings=True)


def _pin_mapping(pin: Pin, *, withheld: bool = False) -> dict[str, str]:
    return {"sha256": pin.sha256} if withheld or not pin.text else {"sha256": pin.sha256, "definition": pin.text}


def read_pins(data: bytes, file: str, advice: str) -> Records:
    """Records from TOML. ``file`` is its name in messages, and ``advice`` the next step.

    Errors: ``InputError`` for any altered content, including a text that does not match its hash.
    """
    try:
        stored = tomllib.loads(data.decode())
        if stored["version"] != _VERSION:
            raise ValueError(f"it has version {stored['version']!r}; this program reads {_VERSION}")
        return frozendict({name: _read_record(name, table) for name, table in stored["ensembles"].items()})
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reason = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        raise InputError(f"The pins in {file} cannot be read: {reason}. {advice}") from error


def _read_record(ensemble: str, table: Mapping[str, Any]) -> PinRecord:
    command = table.get("command")
    return PinRecord(
        tools=frozendict({name: _read_pin(one, ensemble, name) for name, one in table["tools"].items()}),
        command=None if command is None else _read_pin(command, ensemble, None),
    )


def _read_pin(table: Mapping[str, Any], ensemble: str, tool: str | None) -> Pin:
    sha256, text = table["sha256"], table.get("definition")
    where = f"the command of {ensemble!r}" if tool is None else f"{ensemble}.{tool}"
    if not isinstance(sha256, str):
        raise TypeError(f"the hash of {where} is not a text")
    if text is None and tool is None:
        return Pin(sha256=sha256)
    if not isinstance(text, str):
        raise TypeError(f"{where} has no definition")
    definition = parse(text, max_bytes=len(text.encode()), max_depth=_DEPTH)
    if not is_table(definition) or definition.get("ensemble") != ensemble or definition.get("name") != tool:
        raise ValueError(f"{where} has the definition of something else")
    pin = Pin.of(definition)
    if pin.sha256 != sha256:
        raise ValueError(f"{where} has a definition that does not have its hash")
    return pin
