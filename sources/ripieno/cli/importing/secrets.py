"""Detection of secrets and of references to variables in a client's configuration. Pure."""

import re
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from ripieno.assembly.protection import SECRET_NAME
from ripieno.values import Value, unprinted

#: Variables that every process has.
HOME, WORKSPACE = "HOME", "PWD"
_PREDEFINED = {"userHome": HOME, "workspaceFolder": WORKSPACE, "workspaceRoot": WORKSPACE, "cwd": WORKSPACE}
_SEPARATORS = ("pathSeparator", "/")

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_PLACE = re.compile(r"\$\{((?:[^{}]|\{[^{}]*\})*)\}")
#: ``$NAME`` on its own, without lower-case letters, because passwords can contain dollar signs.
_BARE = re.compile(r"(?<!\S)\$([A-Z_][A-Z0-9_]*)(?!\S)")
_SEED_FORM = re.compile(r"env:([A-Za-z_][A-Za-z0-9_]*)\Z")

_SCHEME = re.compile(r"(?:bearer|basic|token|digest|apikey)[ \t]+", re.IGNORECASE)
#: Long runs of letters and digits, UUIDs, and users in addresses.
_CREDENTIAL = re.compile(
    r"(?=[A-Za-z]*[0-9])(?=[0-9]*[A-Za-z])[A-Za-z0-9]{20,}|\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b"
    r"|://(?!git@)[^\s/@]+@|://[^\s/@]*:\S+@|\b(?:bearer|basic)\s+[^\s\"']",
    re.IGNORECASE,
)
#: A name with a value. The match excludes the value, which may contain names and values again.
_ASSIGNMENT = re.compile(r"([A-Za-z][\w.-]*)[\"']?(?:=|:(?!//))\s*(?=[^\s,;&])")
#: The beginning of an argument before its value: ``--name=``, ``NAME=`` or ``Name:``.
_OPTION = re.compile(r"-{0,2}([A-Za-z][\w.-]*)(?:=|:(?!//)[ \t]*)")


class Reference(Value):
    """A place for the value of a variable. ``written`` is its form in the file, without the default."""

    name: str
    written: str
    defaulted: bool = False


@unprinted("value")
class Secret(Value):
    """A text that must not be shown or written."""

    value: str


Part: TypeAlias = str | Reference | Secret


def read_value(name: str, value: str) -> tuple[Part, ...]:
    """The parts of an entry of ``env`` or ``headers``. A literal is a secret, except for an authentication scheme.

    Text beside references stays, unless its name or form indicates a secret.
    """
    parts = find_references(value)
    if any(isinstance(part, Reference) for part in parts):
        text = "".join(part for part in parts if isinstance(part, str))
        named = is_secret_name(name) and re.search(r"\w", _SCHEME.sub("", text))
        return (Secret(value),) if named or holds_secret(text) else parts
    return _without_scheme(value) if value else ()


def read_arguments(arguments: Sequence[str]) -> Iterator[tuple[str, tuple[Part, ...]]]:
    """Each argument of a program: a name for its value (or ""), and its parts.

    An argument is a secret if its option has the name of a secret, or if it looks like one.
    """
    option = ""
    for argument in arguments:
        name, literal, value = "" if argument.startswith("-") else option, "", argument
        while not is_secret_name(name) and (found := _OPTION.match(value)) and not holds_secret(found[0]):
            name, literal, value = found[1], literal + found[0], value[found.end() :]
        option = argument.strip("-") if argument.startswith("-") and not literal and is_secret_name(argument) else ""
        parts: tuple[Part, ...] = find_references(value, bare=False)
        text = "".join(part for part in parts if isinstance(part, str))
        if (is_secret_name(name) and _SCHEME.sub("", text).strip()) or holds_secret(text):
            parts = _without_scheme(value)
        # A URL has no option name.
        yield name or ("url" if "://" in value else ""), ((literal, *parts) if literal else parts)


def _without_scheme(value: str) -> tuple[Part, ...]:
    scheme = _SCHEME.match(value)
    return (scheme[0], Secret(value[scheme.end() :])) if scheme else (Secret(value),)


def find_references(text: str, *, bare: bool = True) -> tuple[str | Reference, ...]:
    """The text with its references: ``${NAME}``, ``${env:NAME}``, ``${input:id}``, ``${NAME:-default}``, ``$NAME``.

    ``bare``: whether ``$NAME`` is a reference even beside other words.
    """
    seed = _SEED_FORM.match(text)
    if seed:
        return (Reference(seed[1], text),)
    parts: list[str | Reference] = []
    end = 0
    for found in _PLACE.finditer(text):
        parts += [*_bare(text[end : found.start()], bare, whole=False), _place(found[0], found[1])]
        end = found.end()
    parts += _bare(text[end:], bare, whole=not end)
    return tuple(part for part in parts if part != "")


def _bare(text: str, bare: bool, *, whole: bool) -> list[str | Reference]:
    if not bare and not (whole and _BARE.fullmatch(text)):
        return [text]
    pieces = _BARE.split(text)
    return [Reference(one, f"${one}") if index % 2 else one for index, one in enumerate(pieces)]


def _place(written: str, content: str) -> str | Reference:
    """The value of ``${content}``. A reference that is no environment variable gets the name of one."""
    content, colon, _ = content.partition(":-")
    if holds_secret(content) or not content.strip():
        return written
    shown = f"${{{content}}}"
    if content in _SEPARATORS:
        return "/"
    inner = content.removeprefix("env:").strip()
    name = _PREDEFINED.get(inner, inner)
    if _NAME.match(name):
        return Reference(name, shown, defaulted=bool(colon))
    return Reference(variable_name(content.partition(":")[2] or content), shown, defaulted=bool(colon))


def variable_name(text: str) -> str:
    """A valid name of a variable: ``MY_API_KEY`` for ``my-api.key``."""
    name = _normal(text)
    return name if _NAME.match(name) else f"VALUE_{name}".rstrip("_")


def is_secret_name(name: str) -> bool:
    """Whether the name indicates a secret."""
    return SECRET_NAME.search(_normal(name)) is not None


def holds_secret(text: str) -> bool:
    """Whether a text may contain a credential, whatever its name is."""
    return bool(_CREDENTIAL.search(text)) or any(map(is_secret_name, _ASSIGNMENT.findall(text)))


def _normal(name: str) -> str:
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return re.sub(r"[^A-Z0-9]+", "_", snake.upper()).strip("_")
