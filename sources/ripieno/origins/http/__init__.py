"""The origin ``http``: a request as method, URL template, query, headers and body.

Arguments never change the scheme, the host or a literal part of the path: each fills one path segment or one value,
percent-encoded. A host in the URL is consent to contact it, for this tool only; redirects must stay on it. The result
is the text of the response, or its image, sound or PDF; an unsuccessful status is a failure. A variable is sent to the
origin of the URL alone, and no later message has its value.
"""

import contextlib
import json
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from frozendict import frozendict

from ripieno.canisters.contents import Content
from ripieno.descriptors import EnsembleDescriptor, InvokerDescriptor
from ripieno.descriptors.reader.alternatives import TemplateText
from ripieno.descriptors.reader.keys import Key, Table
from ripieno.descriptors.reader.kinds import INVALID, Flag, Named, Text
from ripieno.descriptors.reader.positions import Path
from ripieno.descriptors.reader.problems import Problems
from ripieno.descriptors.templates import Template
from ripieno.ensembles import Connected, Context, Origin, Surroundings
from ripieno.exceptions import ConnectionFailure, InputError, Problem, ValidationFault
from ripieno.execution.retries import explain_status
from ripieno.origins.http.client import METHODS, Fetcher, HostPattern, Reach, Request, Wording, check_header
from ripieno.origins.http.client.addresses import is_local
from ripieno.origins.http.templates import URL_TEXT, AnyJson, JsonTemplate, UrlTemplate
from ripieno.origins.settings import add_complaints, check_invocables, read_invocable, require_variables
from ripieno.storage.redaction import Redactor
from ripieno.values import Value

_HEADER_NAME = Text(pattern=r"[A-Za-z0-9!#$%&'*+.^`|~-]{1,128}", shape="the name of a header")
_QUERY_NAME = Text(pattern=r"[^\x00-\x1f\x7f]{1,128}", shape="a name")
REQUEST = Table(
    "[invocable]",
    "An HTTP request. {name} is replaced by an argument.",
    (
        Key("method", Text(choices=METHODS), "The method.", "GET", "POST"),
        Key(
            "url",
            URL_TEXT,
            "Scheme, host and path; an argument fills one segment of the path.",
            required=True,
            example="https://api.example.org/v1/{city}",
        ),
        Key(
            "query",
            Named(_QUERY_NAME, TemplateText(variables=True), expected="a table of values"),
            "Query parameters; one whose argument is absent is left out.",
            example={"units": "{units}"},
        ),
        Key(
            "headers",
            Named(_HEADER_NAME, TemplateText(variables=True), expected="a table of headers"),
            "Headers; one whose argument is absent is left out.",
            example={"Authorization": "Bearer {env:TOKEN}"},
        ),
        Key("body", TemplateText(), "The body, as text.", example="{text}"),
        Key(
            "json",
            AnyJson(),
            "The body, as JSON. A string that is only {name} becomes the argument, or is left out.",
            example={"city": "{city}"},
        ),
        Key("local", Flag(), "Whether the host's name may resolve to this machine or a private network.", False, True),
    ),
)


class HttpCall(Value, kw_only=True):
    """The settings of one invoker."""

    method: str = "GET"
    url: UrlTemplate
    query: frozendict[str, Template] = frozendict()
    headers: frozendict[str, Template] = frozendict()
    body: Template | None = None
    json: JsonTemplate | None = None
    local: bool = False

    @property
    def templates(self) -> Iterator[Template]:
        """The templates that may name variables."""
        yield from self.query.values()
        yield from self.headers.values()

    @property
    def reach(self) -> Reach:
        """The one host that it may contact, at its port, and at 443 if that is http's port 80."""
        base = self.url.base
        ports = (base.port, 443) if (base.scheme, base.port) == ("http", 80) else (base.port,)
        exact = base.host.address is not None and is_local(base.host.address)
        return Reach(
            hosts=tuple(HostPattern(host=base.host, port=port) for port in ports),
            local=self.local or exact or base.host.name == "localhost",
            advice="A tool contacts only the host of its url.",
            local_advice="The tool's author can allow private networks: local = true in its [invocable].",
        )


def _read(_: EnsembleDescriptor, invoker: InvokerDescriptor, path: Path, problems: Problems) -> HttpCall | None:
    settings = REQUEST.read(invoker.invocable.settings, path, problems)
    if settings is INVALID:
        return None
    call = HttpCall(**settings)
    schema, given = invoker.arguments, invoker.policy.presets
    add_complaints(call.url.check(schema, given), (*path, "url"), problems)
    declared: Mapping[str, Any] = schema.get("properties", {})
    # Templates with absent arguments are left out, so all arguments count as given.
    known = {*given, *declared}
    for table in ("query", "headers"):
        templates: Mapping[str, Template] = getattr(call, table)
        for name, template in templates.items():
            add_complaints(template.check(schema, known), (*path, table, name), problems)
    for name, template in call.headers.items():
        try:
            check_header(name, template.literal)
        except InputError as error:
            problems.add((*path, "headers", name), str(error))
    if call.body is not None:
        add_complaints(call.body.check(schema, given), (*path, "body"), problems)
    if call.json is not None:
        add_complaints(call.json.check(schema, given), (*path, "json"), problems)
    if call.body is not None and call.json is not None:
        problems.add((*path, "json"), "a request has one body, but body and json are both set", "Delete one of them.")
    elif (
        call.method in ("GET", "HEAD")
        and not problems.has((*path, "method"))
        and (call.body is not None or call.json is not None)
    ):
        key = "body" if call.body is not None else "json"
        problems.add((*path, key), f"a {call.method} has no body", 'Write method = "POST", or use query.')
    return call


class HttpOrigin(Origin):
    """``origin = "http"``."""

    name = "http"
    tables = MappingProxyType({"invocable": REQUEST})

    def check(self, descriptor: EnsembleDescriptor) -> Sequence[Problem]:
        return check_invocables(self.name, descriptor, _read)

    @contextlib.asynccontextmanager
    async def open(self, descriptor: EnsembleDescriptor, surroundings: Surroundings) -> AsyncGenerator[Connected, None]:
        yield self.at_once(descriptor, surroundings)

    def at_once(self, descriptor: EnsembleDescriptor, surroundings: Surroundings) -> Connected:
        def bind(invoker: InvokerDescriptor) -> Caller:
            call = read_invocable(descriptor, invoker, _read)
            require_variables(descriptor.name, call.templates, surroundings)
            for name in dict.fromkeys(name for template in call.headers.values() for name in template.variables):
                # A value that no header can hold is reported before the first call.
                try:
                    Template.parse(f"{{env:{name}}}", variables=True).header({}, surroundings.secrets)
                except InputError as error:
                    raise ConnectionFailure(descriptor.name, str(error)) from None
            return Caller(call, surroundings.secrets)

        return Connected(bind=bind)


class Caller:
    """The invocable of one request."""

    def __init__(self, call: HttpCall, variables: Mapping[str, str], fetcher: Fetcher | None = None) -> None:
        self._call = call
        self._variables = variables
        self._fetcher = fetcher or Fetcher(call.reach)
        self._redactor = Redactor(
            variables[name] for template in call.templates for name in template.variables if name in variables
        )

    async def __call__(self, _: Context, arguments: dict[str, Any]) -> str | Content:
        fetched = await self._fetcher.fetch(self._request(arguments))
        wording = Wording(fetched=fetched, redactor=self._redactor)
        if not 200 <= fetched.status < 300:
            message = f"The server answered {wording.status}.\n{wording.content if fetched.body else ''}".rstrip()
            raise explain_status(message, fetched.status, fetched.headers)
        return wording.media or wording.content

    def _request(self, arguments: Mapping[str, Any]) -> Request:
        call = self._call
        url = call.url.fill(arguments)
        query = "&".join(
            f"{Template(parts=(name,)).query({})}={template.query(arguments, self._variables)}"
            for name, template in _present(call.query, arguments)
        )
        own = tuple(
            (name, template.header(arguments, self._variables)) for name, template in _present(call.headers, arguments)
        )
        body, kind = self._body(arguments)
        plain = [("Accept", "*/*"), ("User-Agent", "ripieno"), *([] if kind is None else [("Content-Type", kind)])]
        names = {name.lower() for name, _ in own}
        try:
            target = url.with_query(query)
            for name, value in own:
                check_header(name, value)
        except InputError as error:
            raise ValidationFault(f"The request was not sent: {error}.", code="invalid_value") from None
        return Request(
            method=call.method,
            url=target,
            headers=tuple(one for one in plain if one[0].lower() not in names),
            body=body,
            # Any of its own headers may be a key, so all are for its own origin only.
            credentials={target.origin: own},
            redactor=self._redactor,
        )

    def _body(self, arguments: Mapping[str, Any]) -> tuple[bytes | None, str | None]:
        """The body and its media type."""
        if self._call.body is not None:
            return self._call.body.text(arguments).encode(), "text/plain; charset=utf-8"
        if self._call.json is None:
            return None, None
        written = json.dumps(self._call.json.fill(arguments), ensure_ascii=False, separators=(",", ":"))
        try:
            return written.encode(), "application/json"
        except UnicodeEncodeError:
            raise ValidationFault("An argument contains half of a surrogate pair.", code="invalid_value") from None


def _present(templates: Mapping[str, Template], arguments: Mapping[str, Any]) -> Iterator[tuple[str, Template]]:
    for name, template in templates.items():
        if all(arguments.get(one) is not None for one in template.placeholders):
            yield name, template


ORIGIN = HttpOrigin()
