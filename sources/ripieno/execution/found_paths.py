"""Judges paths of files: with their links resolved, and those that a tool finds beneath the path of its call."""

import os
from collections.abc import Callable, Mapping
from typing import Any

from ripieno.descriptors.rules import CallRules
from ripieno.jsonvalues import is_list

#: Bytes of the longest path that a system takes; longer texts are no paths.
_LONGEST_PATH = 4096


def resolve_links(arguments: Mapping[str, Any], workspace: str) -> dict[str, Any] | None:
    """The arguments with symbolic links beneath the workspace resolved; None if there is no link.

    A path that leads out of the workspace becomes absolute. Texts that are not paths of files stay unchanged. Hard
    links are not detected.
    """
    root = os.path.realpath(workspace)
    resolved = {name: _resolve_link(value, root) for name, value in arguments.items()}
    return resolved if any(resolved[name] is not value for name, value in arguments.items()) else None


def _resolve_link(value: Any, root: str) -> Any:
    if is_list(value):
        items = [_resolve_link(item, root) for item in value]
        return items if any(one is not other for one, other in zip(items, value, strict=True)) else value
    if not isinstance(value, str) or not value or len(value) >= _LONGEST_PATH or "\0" in value:
        return value
    path = os.path.join(root, value)
    try:
        true = os.path.realpath(path)
    except (OSError, ValueError):
        return value
    if true == os.path.normpath(path):
        return value
    return os.path.relpath(true, root) if true == root or true.startswith(f"{root}{os.sep}") else true


def bar_found(
    rules: CallRules, identity: str, arguments: Mapping[str, Any], workspace: str
) -> Callable[..., str | None] | None:
    """``Context.barred`` of a call that may run: which found paths its tool must neither show nor change.

    Rules that apply to the call itself do not count: a person has answered for it.
    """
    about = [
        (action, pattern)
        for action, listed in (("deny", rules.deny), ("ask", rules.ask))
        for pattern in listed
        if pattern.conditions and pattern.meets(identity) and not pattern.covers(identity, arguments)
    ]
    resolved = resolve_links(arguments, workspace) if about else None
    patterns = [one for one in about if resolved is None or not one[1].covers(identity, resolved)]
    if not patterns:
        return None

    def barred(**found: str) -> str | None:
        changed = {**arguments, **found}
        forms = [changed]
        if any(os.path.islink(os.path.join(workspace, path)) for path in found.values()):
            # Tools follow no links beneath a path, so that only the last name can be one.
            forms.append({**changed, **(resolve_links(found, workspace) or {})})
        for action, pattern in patterns:
            if any(pattern.covers(identity, one) for one in forms):
                return f"[confirmation] {action} has {pattern.text!r}"
        return None

    return barred
