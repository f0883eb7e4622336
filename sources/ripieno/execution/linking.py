"""Arguments as links lead: what a rule about paths says of a file holds for every link to it."""

import os
from collections.abc import Mapping
from typing import Any

from ripieno.jsonvalues import is_list

#: Characters of the longest text that is looked at as a path.
_LONGEST = 1024


def as_links_lead(arguments: Mapping[str, Any], workspace: str) -> dict[str, Any] | None:
    """The arguments with the true paths of what they name beneath a workspace; None where no link is on the way.

    A path that leads out of the workspace is an absolute one. Texts that are no paths stay as they are: nothing is
    there under them. Hard links have no other path, and are not seen.
    """
    root = os.path.realpath(workspace)
    changed = {name: _follow(value, root) for name, value in arguments.items()}
    return changed if any(changed[name] is not value for name, value in arguments.items()) else None


def _follow(value: Any, root: str) -> Any:
    if is_list(value):
        items = [_follow(item, root) for item in value]
        return items if any(one is not other for one, other in zip(items, value, strict=True)) else value
    if not isinstance(value, str) or not value or len(value) > _LONGEST or "\n" in value or "\0" in value:
        return value
    whole = os.path.normpath(os.path.join(root, value))
    try:
        true = os.path.realpath(os.path.join(root, value))
    except (OSError, ValueError):
        return value
    if true == whole:
        return value
    return os.path.relpath(true, root) if true == root or true.startswith(f"{root}{os.sep}") else true
