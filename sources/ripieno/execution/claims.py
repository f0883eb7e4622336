"""The resources that a call reads and writes, by its tool's templates; and which calls conflict.

A resource is a kind and a value, such as ``file:src/a.py`` or ``table:orders``, or a whole kind, such as ``network``.
"""

import functools
import itertools
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ripieno.descriptors.templates import Placeholder, Template
from ripieno.ensembles import Invoker
from ripieno.exceptions import InputError
from ripieno.jsonvalues import is_list
from ripieno.values import Value

_FILE = "file"


class Resource(Value):
    """One resource. A ``value`` of None means all of its kind; an empty ``kind`` means everything.

    A file's value is its path in parts, from the root if it begins with ``/``; a directory includes its contents.
    """

    kind: str
    value: str | tuple[str, ...] | None = None

    def overlaps(self, other: "Resource") -> bool:
        """Whether the two may overlap; true in case of doubt."""
        if self.kind != other.kind:
            return not self.kind or not other.kind
        mine, theirs = self.value, other.value
        if mine is None or theirs is None or mine == theirs:
            return True
        if not isinstance(mine, tuple) or not isinstance(theirs, tuple):
            return False
        if (mine[:1] == ("/",)) != (theirs[:1] == ("/",)) or ".." in (*mine[:1], *theirs[:1]):
            return True  # Where the relative one begins is unknown.
        return all(one == another for one, another in zip(mine, theirs, strict=False))


EVERYTHING = Resource("")


class Claims(Value, kw_only=True):
    """The resources that one call reads and writes. ``alone``: it conflicts with every other call."""

    reads: tuple[Resource, ...] = ()
    writes: tuple[Resource, ...] = ()
    alone: bool = False

    def conflicts(self, other: "Claims") -> bool:
        """Whether one writes what the other reads or writes, so that their order matters."""
        if self.alone or other.alone:
            return True
        if not (self.writes or other.writes):
            return False
        return (
            _overlap(self.writes, other.writes)
            or _overlap(self.writes, other.reads)
            or _overlap(self.reads, other.writes)
        )

    @property
    def declared(self) -> bool:
        """Whether it declares everything that it touches."""
        return not self.alone and EVERYTHING not in self.reads


ALONE = Claims(reads=(EVERYTHING,), writes=(EVERYTHING,), alone=True)
READER = Claims(reads=(EVERYTHING,))
NOTHING = Claims()


def claims_of(invoker: Invoker, arguments: Mapping[str, Any]) -> Claims:
    """The claims of a call with these arguments, to which its presets are added.

    A harmless call without ``reads`` reads everything; another call without ``writes`` conflicts with all. One that
    declares ``writes`` and no ``reads`` reads nothing else.
    """
    policy = invoker.policy
    reads, writes = policy.reads, policy.writes
    if writes is None and not policy.harmless:
        return ALONE
    if reads is None and not writes:
        return READER if policy.harmless else NOTHING
    if invoker.presets:
        arguments = {**arguments, **invoker.presets}
    surroundings = invoker.ensemble.surroundings
    workspace = None if surroundings is None else str(surroundings.workspace)
    read = (EVERYTHING,) if reads is None and policy.harmless else _resources(reads or (), arguments, workspace)
    return Claims(reads=read, writes=_resources(writes or (), arguments, workspace))


@functools.lru_cache(maxsize=1024)
def _parse(text: str) -> tuple[str, Template | None]:
    """The kind of a resource, and the template of its value; an unreadable template means all of its kind."""
    kind, colon, rest = text.partition(":")
    try:
        return kind, Template.parse(rest) if colon else None
    except InputError:
        return kind, None


def _overlap(some: Sequence[Resource], others: Sequence[Resource]) -> bool:
    for one in some:
        for another in others:
            if one.overlaps(another):
                return True
    return False


def _resources(texts: Iterable[str], arguments: Mapping[str, Any], workspace: str | None) -> tuple[Resource, ...]:
    found: dict[Resource, None] = {}
    for text in texts:
        kind, template = _parse(text)
        values = None if template is None else _fill(template, arguments)
        if values is None:
            found[Resource(kind)] = None
        elif kind == _FILE:
            for value in values:
                found.update(dict.fromkeys(_files(value, workspace)))
        else:
            found.update(dict.fromkeys(Resource(kind, value) for value in values))
    return tuple(found)


def _fill(template: Template, arguments: Mapping[str, Any]) -> list[str] | None:
    """The texts of a template, one for each item of a list; None when an argument is absent or empty."""
    parts: list[list[str]] = []
    for part in template.parts:
        if not isinstance(part, Placeholder):
            parts.append([part])
            continue
        value = arguments.get(part.name)
        items: Sequence[Any] = value if is_list(value) else (value,)
        if not items or any(item is None or item == "" for item in items):
            return None
        parts.append([_text(item) for item in items])
    return ["".join(one) for one in itertools.product(*parts)]


def _text(value: Any) -> str:
    """A value as text; equal numbers have equal texts."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _files(path: str, workspace: str | None) -> tuple[Resource, ...]:
    """The file of a path as written and, if the workspace is known, with links resolved."""
    if workspace is None:
        return (Resource(_FILE, _split(os.path.normpath(path))),)
    path = os.path.join(workspace, path)
    written = Resource(_FILE, _split(os.path.normpath(path)))
    try:
        true = Resource(_FILE, _split(os.path.realpath(path)))
    except (OSError, ValueError):  # Not a possible path.
        return (written,)
    return (written,) if true == written else (written, true)


def _split(path: str) -> tuple[str, ...]:
    """The parts of a normal path; an absolute one begins with ``/``, and ``.`` has no parts."""
    parts = tuple(part for part in path.split("/") if part not in ("", "."))
    return ("/", *parts) if path.startswith("/") else parts
