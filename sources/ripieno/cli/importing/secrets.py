"""What looks like a secret in text that people wrote into a configuration, and the variables it refers to. Pure."""

import dataclasses
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from ripieno.assembly.protection import SECRET_NAME

#: Names that a process always has, so that nobody needs to set them.
HOME, WORKSPACE = "HOME", "PWD"
_PREDEFINED = {"userHome": HOME, "workspaceFolder": WORKSPACE, "workspaceRoot": WORKSPACE, "cwd": WORKSPACE}
_SEPARATORS = ("pathSeparator", "/")

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_PLACE = re.compile(r"\$\{((?:[^{}]|\{[^{}]*\})*)\}")
#: ``$NAME`` where it stands alone, and has no small letters: passwords have dollars in them, too.
_BARE = re.compile(r"(?<!\S)\$([A-Z_][A-Z0-9_]*)(?!\S)")
_SEED_FORM = re.compile(r"env:([A-Za-z_][A-Za-z0-9_]*)\Z")

_FILE_NAME = re.compile(r"(?:\A|_)(?:FILE|PATH|DIR|DIRECTORY|FOLDER|SOCK|SOCKET|CREDENTIALS)\Z")
_PATH = re.compile(r"(?:/|~|\.{1,2}/|[A-Za-z]:\\)[^\s=]*\Z")
_SWITCHES = frozenset({"true", "false", "yes", "no", "on", "off"})
_SCHEME = re.compile(r"(?:bearer|basic|token|digest|apikey)[ \t]+", re.IGNORECASE)
#: How the credentials of well-known services begin, and other shapes that are nothing else.
_SHAPES = re.compile(
    r"\b(?:sk|pk|rk|ak)[-_][A-Za-z0-9_-]{8,}|\bgh[pousr]_\w{8,}|\bgithub_pat_|\bglpat-|\bxox[a-z]-|\bx?app-\d-\w"
    r"|\b(?:AKIA|ASIA)[0-9A-Z]{12,}|\bAIza[\w-]{10,}|\bya29\.|\beyJ[\w-]{8,}|\b(?:hf|npm|figd|ntn|lin_api)_\w{8,}"
    r"|\bsecret_\w{8,}|\b(?:tvly|pplx|fc|gsk|dop_v1|shpat|whsec|re)[-_][\w-]{16,}|-----BEGIN "
    r"|\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b",
    re.IGNORECASE,
)
_BEARER = re.compile(r"\b(?:bearer|basic)\s+[^\s\"']", re.IGNORECASE)
_USER = re.compile(r"://([^\s/?#]*)@|://([^\s/:@?#]*:[^\s]*)@")
_OPTION = re.compile(r"(-{0,2}([A-Za-z][\w.-]*)=)(.*)\Z", re.DOTALL)
_HEADER = re.compile(r"(([A-Za-z][\w-]*):[ \t]*)(?!//)(.*)\Z", re.DOTALL)
#: Values are looked at, not taken: one may hold names and values again.
_ASSIGNMENT = re.compile(r"([A-Za-z][\w.-]*)=(?=([^\s&;,]+))")
_FIELD = re.compile(r"([A-Za-z][\w-]*)[\"']?:\s*(?=([^\s/,;}][^\s,;}]*))")
_RUN = re.compile(r"[A-Za-z0-9+=]{20,}")
_LOOSE_RUN = re.compile(r"[A-Za-z0-9+=_-]{24,}")
#: Bits for each character, from which on a long run counts as random.
_ENTROPY = 3.0


@dataclasses.dataclass(frozen=True, slots=True)
class Reference:
    """A place for the value of a variable. ``written`` is how it stood in the file, without its default."""

    name: str
    written: str
    defaulted: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Secret:
    """A text that must not be shown, nor written."""

    value: str = dataclasses.field(repr=False)


Part: TypeAlias = str | Reference | Secret


def read_value(name: str, value: str, *, bare: bool = True) -> tuple[Part, ...]:
    """The parts of a value that has a name: text, references, and what looks secret.

    ``bare``: whether ``$NAME`` refers to a variable even beside other words.
    """
    parts = find_references(value, bare=bare)
    text = "".join(part for part in parts if isinstance(part, str))
    named = is_secret_name(name)
    if any(isinstance(part, Reference) for part in parts):
        hidden = looks_secret(text) or (named and _SCHEME.sub("", text).strip() not in ("", ":", "://:@"))
        return (Secret(value),) if hidden else parts
    if not looks_secret(value) and (not named or _is_plain(name, value)):
        return parts
    scheme = _SCHEME.match(value)
    return (scheme[0], Secret(value[scheme.end() :])) if scheme else (Secret(value),)


def read_arguments(arguments: Sequence[str]) -> Iterator[tuple[str, tuple[Part, ...]]]:
    """Each argument of a program: a name for what it holds (or ""), and its parts."""
    option = ""
    for argument in arguments:
        name, literal, value = _split_argument(argument)
        if option and not argument.startswith("-"):
            name, literal, value = option, "", argument
        lone = argument.startswith("-") and not literal and is_secret_name(argument)
        option = argument.strip("-") if lone else ""
        parts = read_value(name, value, bare=False)
        # An address has no name of its own.
        yield name or ("url" if "://" in value else ""), ((literal, *parts) if literal else parts)


def _split_argument(argument: str) -> tuple[str, str, str]:
    """Name, literal beginning and value: of ``--name=value``, ``NAME=value`` and ``Name: value``, or of it all."""
    found = _OPTION.match(argument)
    if found and not looks_secret(found[1]):
        name, literal, value = ("", "", "") if is_secret_name(found[2]) else _split_argument(found[3])
        # What only looks like a name may be the beginning of a secret, whose end is "=".
        return (name, found[1] + literal, value) if is_secret_name(name) else (found[2], found[1], found[3])
    found = _HEADER.match(argument)
    if found and is_secret_name(found[2]) and not looks_secret(found[1]):
        return found[2], found[1], found[3]
    return "", "", argument


def find_references(text: str, *, bare: bool = True) -> tuple[str | Reference, ...]:
    """The text with its references: ``${NAME}``, ``${env:NAME}``, ``${input:id}``, ``${NAME:-default}``, ``$NAME``."""
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
    """What ``${content}`` stands for. What is no variable of a process gets the name of one."""
    content, colon, _ = content.partition(":-")
    if looks_secret(content) or not content.strip():
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
    """A name of a variable, made of whatever characters: ``my-api.key`` is ``MY_API_KEY``."""
    name = re.sub(r"[^A-Z0-9]+", "_", _snake(text).upper()).strip("_")
    return name if _NAME.match(name) else f"VALUE_{name}".rstrip("_")


def is_secret_name(name: str) -> bool:
    """Whether what has this name is likely to be a secret."""
    return SECRET_NAME.search(_normal(name)) is not None


def looks_secret(value: str) -> bool:
    """Whether a value is likely to be, or to hold, a credential, whatever its name is."""
    if _SHAPES.search(value) or _BEARER.search(value) or any(map(_is_user, _USER.finditer(value))):
        return True
    pairs = [*_ASSIGNMENT.findall(value), *_FIELD.findall(value)]
    if any(is_secret_name(name) and not _is_plain(name, inner) for name, inner in pairs):
        return True
    if _PATH.match(value):
        return False
    return any(map(_is_random, _RUN.findall(value))) or any(map(_is_mixed, _LOOSE_RUN.findall(value)))


def _is_plain(name: str, value: str) -> bool:
    """Whether it is no secret, though its name sounds so: a switch, a number of tokens, the path of a file."""
    normal = _normal(name)
    if value.lower() in _SWITCHES:
        return True
    if normal.endswith("TOKENS") and value.isdecimal():
        return True
    return _FILE_NAME.search(normal) is not None and _PATH.match(value) is not None


def _is_user(found: re.Match[str]) -> bool:
    user, colon, password = (found[1] or found[2] or "").partition(":")
    return bool(password) if colon else user not in ("", "git")


def _is_random(run: str) -> bool:
    digits = any(map(str.isdigit, run))
    letters = any(map(str.isalpha, run))
    both = any(map(str.isupper, run)) and any(map(str.islower, run))
    return letters and (digits or (both and len(run) >= 32)) and _entropy(run) >= _ENTROPY


def _is_mixed(run: str) -> bool:
    return all(any(map(kind, run)) for kind in (str.isdigit, str.isupper, str.islower)) and _entropy(run) >= _ENTROPY


def _entropy(text: str) -> float:
    """Bits for each character, after Shannon."""
    shares = [count / len(text) for count in Counter(text).values()]
    return -sum(share * math.log2(share) for share in shares)


def _snake(text: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text)


def _normal(name: str) -> str:
    return re.sub(r"[^A-Z0-9]+", "_", _snake(name).upper()).strip("_")
