"""Docstrings: the summary, and the description of each parameter.

Fields (``:param name: text``) and indented sections (``Args:``) are understood, as in Sphinx and Google style.
"""

import inspect
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

_FIELD = re.compile(r":(\w+)(?:\s+([^:]*))?:\s*(.*)")
_SECTION = re.compile(r"(Args|Arguments|Parameters|Returns?|Yields?|Raises|Examples?|Notes?|Warns|Attributes)\s*:\s*")
_ENTRY = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")


class Documentation(NamedTuple):
    """The text before any field or section, and the descriptions of parameters."""

    summary: str
    parameters: Mapping[str, str]


def documentation_of(thing: object) -> Documentation:
    """The parsed docstring of a function or class; empty without one."""
    lines = (inspect.getdoc(thing) or "").splitlines()
    end = next((at for at, line in enumerate(lines) if _FIELD.match(line) or _SECTION.fullmatch(line)), len(lines))
    return Documentation("\n".join(lines[:end]).strip(), {**_of_sections(lines), **_of_fields(lines)})


def _of_fields(lines: Sequence[str]) -> dict[str, str]:
    texts: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in lines:
        if match := _FIELD.match(line):
            kind, subject, text = match.groups()
            name = (subject or "").split()[-1:] if kind in ("param", "parameter", "arg", "argument") else []
            current = texts.setdefault(name[0].lstrip("*"), [text]) if name else None
        elif current is not None and line[:1].isspace():
            current.append(line.strip())
        else:
            current = None
    return {name: " ".join(filter(None, parts)) for name, parts in texts.items()}


def _of_sections(lines: Sequence[str]) -> dict[str, str]:
    texts: dict[str, list[str]] = {}
    inside, indentation = False, 0
    for line in lines:
        width = len(line) - len(line.lstrip())
        if line and not width:
            section = _SECTION.fullmatch(line)
            inside, indentation = section is not None and section[1] in ("Args", "Arguments", "Parameters"), 0
        elif inside and line.strip():
            indentation = indentation or width
            match = _ENTRY.fullmatch(line.strip())
            if match and width == indentation:
                texts[match[1]] = [match[2]]
            elif texts:
                texts[next(reversed(texts))].append(line.strip())
    return {name: " ".join(filter(None, parts)) for name, parts in texts.items()}
