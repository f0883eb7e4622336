"""The ensemble ``network``: HTTP requests to allowed hosts, downloads into the workspace and uploads from it.

Source of the names: seed 000, sections 11.2 and 11.3. ``http_get`` and ``http_post`` are presets of ``http_request``.
"""

import hashlib
import json
import os
import urllib.parse
from collections.abc import Iterable, Mapping
from typing import Any

from ripieno.ensembles import Context, Outcome
from ripieno.ensembles.threads import run_in_thread
from ripieno.exceptions import InputError, PermissionFault, ResourceFault, ValidationFault
from ripieno.execution.retries import explain_status
from ripieno.jsonvalues import is_list
from ripieno.origins.http.client import Fetched, Request, Url, Wording, parse_url
from ripieno.toolset.arguments import encoded, several
from ripieno.toolset.files.session import changes, learn, not_kept, open_workspace
from ripieno.toolset.network.grants import Network

#: Bytes of a file that can be sent.
SEND_CAP = 10 * 1024 * 1024


async def http_request(context: Context, arguments: dict[str, Any]) -> str:
    """Status, URL, redirects and headers of a response, an empty line, and its text or a description.

    Errors: those of ``Fetcher``; those of ``explain_status`` for a status from 400.
    """
    return _describe(await _fetch(context, arguments), context)


async def curl(context: Context, arguments: dict[str, Any]) -> str | Outcome:
    """``http_request`` or ``download`` with the names of curl's options."""
    data, given = arguments.get("data"), arguments.get("json")
    body = data if data is not None else given
    method = arguments.get("request") or ("HEAD" if arguments.get("head") else "GET" if body is None else "POST")
    headers = dict(_split_header(line) for line in arguments.get("header", ()))
    if "user_agent" in arguments:
        headers["User-Agent"] = arguments["user_agent"]
    if data is not None and given is None and not any(name.lower() == "content-type" for name in headers):
        headers["Content-Type"] = "application/x-www-form-urlencoded"
    options = {
        "url": arguments["url"],
        "method": method,
        "headers": headers,
        "follow_redirects": arguments.get("location", False),
        **({} if data is None else {"body": data}),
        **({} if given is None else {"json": given}),
    }
    if "output" in arguments:
        return await download(context, {**options, "path": arguments["output"]})
    return await http_request(context, options)


async def wget(context: Context, arguments: dict[str, Any]) -> Outcome:
    """``download`` with the names of wget's options; the default file name is from the URL."""
    url = _url(arguments)
    name = urllib.parse.unquote(url.path.rpartition("/")[2])
    if not name or name in (".", "..") or "/" in name or not name.isprintable():
        name = "index.html"
    options = {
        "url": arguments["url"],
        "headers": dict(_split_header(line) for line in arguments.get("header", ())),
        "path": arguments.get("output_document", name),
        "overwrite": not arguments.get("no_clobber", False),
    }
    return await download(context, options)


async def download(context: Context, arguments: dict[str, Any]) -> Outcome:
    """Fetches a URL into a file of the workspace, which is replaced atomically.

    Errors: those of ``Workspace`` and ``Fetcher``; those of ``explain_status`` for an unsuccessful status.
    """
    path: str = arguments["path"]
    fetched = await _fetch(context, arguments)
    wording = _word(fetched, context)
    if not 200 <= fetched.status < 300:
        message = f"Nothing was written: the server did not send the file.\n{wording.head}\n\n{wording.content}"
        raise explain_status(message, fetched.status, fetched.headers)
    if wording.leaks():
        raise PermissionFault(
            "Nothing was written: the answer repeats a credential that was sent with the request.", code="credential"
        )
    return await run_in_thread(
        _keep, context, path, fetched, wording, arguments.get("overwrite", True), name="download"
    )


async def upload(context: Context, arguments: dict[str, Any]) -> str:
    """Sends a file of the workspace, as the body or as a form field.

    Errors: those of ``Workspace`` and ``Fetcher``; those of ``explain_status`` for a status from 400.
    """
    path: str = arguments["path"]
    data = await run_in_thread(_read, context, path, name="upload", patient=False)
    kind = arguments.get("content_type", "application/octet-stream")
    field = arguments.get("field")
    sent = f"Sent {path}: {several(len(data), 'byte')}, sha256:{hashlib.sha256(data).hexdigest()}"
    if field is not None:
        kind, data = _form(field, os.path.basename(path), kind, data)
    options = {**arguments, "method": arguments.get("method", "PUT" if field is None else "POST")}
    fetched = await _fetch(context, options, body=data, kind=kind)
    return _describe(fetched, context, sent)


async def _fetch(
    context: Context, arguments: Mapping[str, Any], *, body: bytes | None = None, kind: str | None = None
) -> Fetched:
    network = _network(context)
    if body is None:
        body, kind = _body(arguments)
    headers = tuple((str(name), str(value)) for name, value in arguments.get("headers", {}).items())
    if kind is not None and not any(name.lower() == "content-type" for name, _ in headers):
        headers = (*headers, ("Content-Type", kind))
    for name, value in (("Accept", "*/*"), ("User-Agent", "ripieno")):
        if not any(one.lower() == name.lower() for one, _ in headers):
            headers = (*headers, (name, value))
    query = urllib.parse.urlencode(list(_pairs(arguments.get("query", {}))), quote_via=urllib.parse.quote, safe="")
    request = Request(
        method=arguments.get("method", "GET"),
        url=_url(arguments).with_query(query),
        headers=headers,
        body=body,
        credentials=network.credentials,
        redactor=network.redactor,
        follow=arguments.get("follow_redirects", True),
    )
    return await network.fetcher.fetch(request)


def _network(context: Context) -> Network:
    if not isinstance(context.connection, Network):
        raise ResourceFault("The network is not available here.", code="network")
    return context.connection


def _url(arguments: Mapping[str, Any]) -> Url:
    try:
        return parse_url(arguments["url"])
    except InputError as error:
        raise ValidationFault(
            f"The request was not sent: {error}.",
            code="invalid_url",
            details={"parameter": "url"},
            suggestion="Give the complete URL, such as https://api.example.org/path.",
        ) from None


def _body(arguments: Mapping[str, Any]) -> tuple[bytes | None, str | None]:
    """The body of a request and its media type."""
    text, value = arguments.get("body"), arguments.get("json")
    if text is not None and value is not None:
        raise ValidationFault("A request has one body: give text or JSON, not both.", code="invalid_value")
    if text is None and value is None:
        return None, None
    if arguments.get("method", "GET") in ("GET", "HEAD"):
        raise ValidationFault(
            f"A {arguments.get('method', 'GET')} has no body.",
            code="invalid_value",
            suggestion="Use query, or another method.",
        )
    written = text if text is not None else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return encoded(written, "body"), "text/plain; charset=utf-8" if text is not None else "application/json"


def _pairs(query: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """The parameters of a query as text: in JSON's form, strings without quotes; a list repeats the name."""
    for name, value in query.items():
        for one in value if is_list(value) else [value]:
            if isinstance(one, str):
                encoded(one, f"query's {name!r}")
            yield name, one if isinstance(one, str) else json.dumps(one)


def _split_header(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    if not colon:
        raise ValidationFault(
            f"{line[:80]!r} is not a header.", code="invalid_header", suggestion='Write "Name: value".'
        )
    return name, value.strip(" \t")


def _word(fetched: Fetched, context: Context) -> Wording:
    return Wording(fetched=fetched, redactor=_network(context).redactor)


def _describe(fetched: Fetched, context: Context, sent: str = "") -> str:
    """A response as text, after what was ``sent``. Errors: those of ``explain_status`` for a status from 400."""
    wording = _word(fetched, context)
    text = f"{wording.head}\n\n{wording.content}" if fetched.body else wording.head
    text = f"{sent}\n{text}" if sent else text
    if fetched.status >= 400:
        raise explain_status(f"The server refused the request, or failed.\n{text}", fetched.status, fetched.headers)
    return text


def _keep(context: Context, path: str, fetched: Fetched, wording: Wording, overwrite: bool) -> Outcome:
    with open_workspace(context) as workspace:
        written = workspace.write_file(path, fetched.body, new=not overwrite)
        lost = not_kept(workspace, written.steps)
    learn(context, written.steps)
    digest = f"sha256:{hashlib.sha256(fetched.body).hexdigest()}"
    return Outcome(
        content=f"{wording.head}\n\nWrote {several(written.size, 'byte')} to {path}, {digest}.{lost}",
        changes=changes(written.steps),
    )


def _read(context: Context, path: str) -> bytes:
    with open_workspace(context) as workspace, workspace.open_file(path) as file:
        data = file.read(SEND_CAP + 1) or b""
    if len(data) > SEND_CAP:
        raise ResourceFault(
            f"{path!r} has more than {SEND_CAP} bytes, the most that can be sent.",
            code="too_large",
            details={"limit": SEND_CAP},
        )
    return data


def _form(field: str, name: str, kind: str, data: bytes) -> tuple[str, bytes]:
    """A form with one file (RFC 7578): its media type and its bytes."""
    for part in (field, name, kind):
        if not part.isprintable() or '"' in part or "\\" in part:
            raise ValidationFault(f"{part[:80]!r} is not allowed in a form.", code="invalid_value")
    boundary = hashlib.sha256(b"form" + data).hexdigest()
    head = (
        f"--{boundary}\r\n"
        f'Content-Disposition: form-data; name="{field}"; filename="{name}"\r\nContent-Type: {kind}\r\n\r\n'
    )
    return f"multipart/form-data; boundary={boundary}", head.encode() + data + f"\r\n--{boundary}--\r\n".encode()
