"""The tools that every side runs: four that read, and answer at once with some three hundred characters."""

from typing import Any

SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "Path of the file, relative to the workspace."},
        "start_line": {"type": "integer", "minimum": 1, "description": "First line, from 1."},
        "end_line": {"type": "integer", "minimum": 1, "description": "Last line, itself included."},
    },
    "required": ["path"],
    "additionalProperties": False,
}
NAMES = tuple(f"read_{index}" for index in range(4))
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": name, "description": "Reads lines of a file.", "parameters": SCHEMA}}
    for name in NAMES
]
_TEXT = "def function(argument):\n    return argument + 1\n" * 6


async def read(arguments: dict[str, Any]) -> str:
    """The result of every call."""
    return f"{arguments['path']}:{arguments['start_line']}\n{_TEXT}"
