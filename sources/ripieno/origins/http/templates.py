"""Templates of a request: a URL with a fixed host and fixed literal parts, and JSON with placeholders."""

import re
import urllib.parse
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from ripieno.descriptors.reader.kinds import INVALID, plain
from ripieno.descriptors.reader.positions import Path
from ripieno.descriptors.reader.problems import Problems
from ripieno.descriptors.templates import Complaint, Template
from ripieno.descriptors.templates.checks import Declared
from ripieno.exceptions import InputError, ValidationFault
from ripieno.jsonvalues import is_list, is_table, thaw
from ripieno.origins.http.client import Url, parse_url
from ripieno.origins.http.client.addresses import refuse_address
from ripieno.origins.settings import ParsedText
from ripieno.values import Value

_PARTS = re.compile(r"([^/?#]*//[^/?#]*)([^?#]*)(.*)", re.DOTALL)
#: A literal part of a segment: complete percent-encodings only, so that no value can complete one.
_LITERAL = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})*")
#: Servers decode once, some twice.
_DECODINGS = 3


class UrlTemplate(Value, kw_only=True):
    """A URL with placeholders in its path. ``base`` has an empty path; each segment follows a slash."""

    base: Url
    segments: tuple[Template, ...]

    @classmethod
    def parse(cls, text: str) -> "UrlTemplate":
        """Errors: ``InputError``."""
        match = _PARTS.fullmatch(text)
        if match is None:
            raise InputError(f"{text[:80]!r} is not a URL that begins with http:// or https://")
        if match[3]:
            raise InputError(
                "the url must end with its path: write the part after ? under query, and leave out the part after #"
            )
        if "{" in match[1] or "}" in match[1]:
            raise InputError("an argument cannot set the scheme, the host or the port")
        base = parse_url(f"{match[1]}/")
        why = None if base.host.address is None else refuse_address(base.host.address, local=True)
        if why is not None:
            raise InputError(f"{base.host} is {why}; it is never contacted")
        segments = tuple(Template.parse(segment) for segment in match[2].split("/")[1:])
        for segment in segments:
            for part in segment.parts:
                if isinstance(part, str) and _LITERAL.fullmatch(part) is None:
                    raise InputError(f"{part[:80]!r} must be percent-encoded in a path, such as %20 for a space")
            if segment.literal is not None and _climbs(segment.literal):
                raise InputError(f"the segment {segment.literal[:80]!r} is relative: write the resolved path")
        return cls(base=base, segments=segments)

    def check(self, schema: Mapping[str, Any], given: Collection[str] = ()) -> tuple[Complaint, ...]:
        """Defects of its placeholders for arguments of this JSON Schema; ``given`` always have a value."""
        return tuple(complaint for segment in self.segments for complaint in segment.check(schema, given))

    @property
    def placeholders(self) -> tuple[str, ...]:
        """The arguments that it uses."""
        return tuple(name for segment in self.segments for name in segment.placeholders)

    def fill(self, arguments: Mapping[str, Any]) -> Url:
        """The URL of a call. Errors: ``ValidationFault`` with the name of the invalid argument."""
        path = "".join(f"/{_fill_segment(segment, arguments)}" for segment in self.segments)
        try:
            return parse_url(f"{self.base.origin}{path}")
        except InputError as error:
            raise ValidationFault(f"The request was not sent: {error}.", code="invalid_value") from None


def _fill_segment(segment: Template, arguments: Mapping[str, Any]) -> str:
    text = segment.segment(arguments)
    if segment.placeholders and _climbs(text):
        name = segment.placeholders[0]
        raise ValidationFault(
            f"The argument {name!r} is not allowed in a path: a server could read {text[:80]!r} as another path.",
            code="invalid_value",
            details={"parameter": name},
        )
    return text


def _climbs(segment: str) -> bool:
    """Whether a server that decodes a segment, even repeatedly, could find ``.`` or ``..`` in it."""
    for _ in range(1 + _DECODINGS):
        if not {".", ".."}.isdisjoint(re.split(r"[/\\]", segment)):
            return True
        segment = urllib.parse.unquote(segment)
    return False


#: A URL with placeholders in its path.
URL_TEXT = ParsedText(
    expected="a URL that begins with http:// or https://, with {argument} in its path where values go",
    parse=UrlTemplate.parse,
    pattern="^https?://",
)


class JsonTemplate(Value, kw_only=True):
    """A JSON value whose strings are templates. A string that is a single placeholder becomes the argument itself."""

    value: Any

    @classmethod
    def parse(cls, value: Any) -> "JsonTemplate":
        """Errors: ``InputError``."""
        return cls(value=_parse(value))

    def check(self, schema: Mapping[str, Any], given: Collection[str] = ()) -> tuple[Complaint, ...]:
        """Defects of its placeholders; an entry with an absent argument is left out, so it may be absent."""
        declared = Declared.of(schema, {*given, *schema.get("properties", {})})
        return tuple(_complain(self.value, declared, ()))

    @property
    def placeholders(self) -> tuple[str, ...]:
        """The arguments that it uses."""
        return tuple(_names(self.value))

    def fill(self, arguments: Mapping[str, Any]) -> Any:
        """The value of a call. Errors: ``ValidationFault`` with the name of the invalid argument."""
        return _fill(self.value, arguments)


def _parse(value: Any) -> Any:
    if isinstance(value, str):
        return Template.parse(value)
    if is_table(value):
        return {name: _parse(one) for name, one in value.items()}
    return [_parse(one) for one in value] if is_list(value) else value


def _names(value: Any) -> Iterator[str]:
    if isinstance(value, Template):
        yield from value.placeholders
    elif is_table(value) or is_list(value):
        for one in value.values() if is_table(value) else value:
            yield from _names(one)


def _alone(template: Template) -> str | None:
    """The argument, if a template is a single placeholder."""
    return template.placeholders[0] if len(template.parts) == 1 and template.placeholders else None


def _complain(value: Any, declared: Declared, path: tuple[str | int, ...]) -> Iterator[Complaint]:
    if isinstance(value, Template):
        alone = _alone(value)
        if alone is not None:
            yield from declared.complain(alone, path, anything=True)
        else:
            yield from declared.complain_all(value.placeholders, path)
    elif is_table(value):
        for name, one in value.items():
            yield from _complain(one, declared, (*path, name))
    elif is_list(value):
        for index, one in enumerate(value):
            yield from _complain(one, declared, (*path, index))


def _fill(value: Any, arguments: Mapping[str, Any]) -> Any:
    if isinstance(value, Template):
        alone = _alone(value)
        return value.text(arguments) if alone is None else arguments.get(alone)
    if is_table(value):
        return {name: _fill(one, arguments) for name, one in value.items() if _present(one, arguments)}
    return [_fill(one, arguments) for one in value if _present(one, arguments)] if is_list(value) else value


def _present(value: Any, arguments: Mapping[str, Any]) -> bool:
    if not isinstance(value, Template):
        return True
    alone = _alone(value)
    # Null is a value as an entry of its own, and absent within a text.
    return alone in arguments if alone else all(arguments.get(name) is not None for name in value.placeholders)


class AnyJson(Value, kw_only=True):
    """A JSON value with placeholders in its strings, stored parsed."""

    expected: str = "a JSON value, with {argument} in its strings where values go"

    def read(self, value: Any, path: Path, problems: Problems) -> Any:
        frozen = plain(value, path, problems)
        if frozen is INVALID:
            return INVALID
        try:
            return JsonTemplate.parse(thaw(frozen))
        except InputError as error:
            problems.add(path, str(error))
            return INVALID

    def schema(self) -> dict[str, Any]:
        return {}
