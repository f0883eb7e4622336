"""Pins: the definitions of foreign tools that a user approved, and the handling of tools that differ from them.

``records`` has the values, ``store`` their file, ``checks`` what happens when an ensemble is opened.
"""

from ripieno.storage.pins.checks import Pins, admit, advise, check_command
from ripieno.storage.pins.records import Comparison, Pin, PinRecord, compare, pin_command, pin_tools, show_difference
from ripieno.storage.pins.store import PinStore, read_pins, write_pins

__all__ = [
    "Comparison",
    "Pin",
    "PinRecord",
    "PinStore",
    "Pins",
    "admit",
    "advise",
    "check_command",
    "compare",
    "pin_command",
    "pin_tools",
    "read_pins",
    "show_difference",
    "write_pins",
]
