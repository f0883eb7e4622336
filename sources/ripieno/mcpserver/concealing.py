"""Takes paths outside of the workspace out of errors before a stranger reads them."""

import dataclasses
import json
import pathlib
import re
from collections.abc import Mapping
from typing import Any

#: An absolute path, also behind ``file://``, but not the path of another URL.
_PATH = re.compile(r"(?:(?<=file://)|(?<![\w/.~%-])(?!//))/[^\s'\"`<>|:,;()\[\]{}]+")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Concealer:
    """Replaces absolute paths of this machine in a text.

    Those beneath the workspace stay, and those that the caller said itself, in its arguments. What begins with a
    folder that is not there, as routes of a web service do, is no path.
    """

    workspace: pathlib.Path
    arguments: Mapping[str, Any]

    def __call__(self, text: str) -> str:
        said: list[str] = []

        def replace(match: re.Match[str]) -> str:
            path = match[0]
            if not said:
                said.append(json.dumps(dict(self.arguments), ensure_ascii=False, default=str))
            if path.rstrip(".!?") in said[0] or self._is_ours(path) or not _is_here(path):
                return path
            return "(a path outside of the workspace)"

        return _PATH.sub(replace, text)

    def _is_ours(self, path: str) -> bool:
        plain = pathlib.PurePosixPath(path.rstrip(".!?"))
        return ".." not in plain.parts and plain.is_relative_to(self.workspace)


def _is_here(path: str) -> bool:
    """Whether its first folder exists on this machine."""
    first = path.strip("/").partition("/")[0]
    return bool(first) and pathlib.Path("/", first).exists()
