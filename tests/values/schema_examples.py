"""Schemas that several tests use."""

from typing import Any

READ: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "minLength": 1, "description": "Path of the file"},
        "start": {"type": "integer", "minimum": 1, "default": 1},
        "limit": {"type": "integer", "minimum": 1, "maximum": 1000},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
        "options": {
            "type": "object",
            "properties": {"case": {"type": "boolean", "default": True}, "mode": {"enum": ["fast", "slow"]}},
            "additionalProperties": False,
        },
    },
    "required": ["path"],
}
