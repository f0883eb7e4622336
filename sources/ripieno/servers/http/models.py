"""The list of models in a form with the fields of all wires."""

from collections.abc import Sequence
from typing import Any


def model_entry(name: str) -> dict[str, Any]:
    """One model."""
    return {
        "id": name,
        "object": "model",
        "type": "model",
        "display_name": name,
        "created": 0,
        "created_at": "1970-01-01T00:00:00Z",
        "owned_by": "ripieno",
    }


def model_list(names: Sequence[str]) -> dict[str, Any]:
    """The list of models, on one page."""
    ends = {"first_id": names[0] if names else None, "last_id": names[-1] if names else None}
    return {"object": "list", "data": [model_entry(name) for name in names], "has_more": False, **ends}
