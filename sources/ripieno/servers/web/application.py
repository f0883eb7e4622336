"""The ASGI application of the web page: its files, its sign-in, the chat, and what else the page shows."""

import importlib.metadata
from collections.abc import Callable, Sequence

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp

from ripieno.assembly import Assembly
from ripieno.ensembles.threads import run_in_thread
from ripieno.exceptions import RequestInvalidity
from ripieno.jsonvalues import is_list
from ripieno.models.protocol import Refusal
from ripieno.servers.chat.application import create_application as create_chat
from ripieno.servers.chat.chat import Chat
from ripieno.servers.chat.requests import Answered, Endpoint, RequestChecks, required
from ripieno.servers.http.hosts import Hosts
from ripieno.servers.http.limits import Refused
from ripieno.servers.web.cassettes import CassettePages, Cassettes
from ripieno.servers.web.guard import Guard
from ripieno.servers.web.journal import JournalPages
from ripieno.servers.web.markdown import MarkdownRenderer
from ripieno.servers.web.pages import Page
from ripieno.servers.web.sessions import Sessions
from ripieno.servers.web.tools import describe_tools

#: Bytes of a request to the API beside the chat's: texts to render are the largest.
_BODY_BYTES = 2 * 1024 * 1024
#: Texts that one request may render.
_TEXTS = 500


def create_application(
    assembly: Assembly,
    chat: Chat,
    sessions: Sessions,
    *,
    hosts: Hosts | None = None,
    page: Page | None = None,
    refused: Callable[[], None] | None = None,
    cassettes: Cassettes | None = None,
) -> ASGIApp:
    """The application over an entered assembly and chat.

    ``refused`` is called when a browser sends a code that is not valid, so that a new link can be offered.
    """

    def authenticate(request: Request) -> str | None:
        return sessions.owner_of(request.scope["headers"])

    checks = RequestChecks(authenticate, (), body_bytes=_BODY_BYTES)
    anyone = RequestChecks(lambda _: "", (), body_bytes=_BODY_BYTES)
    signing = _SignIn(sessions, anyone, refused)
    files = _Files(page or Page())
    about = _About(assembly)
    recorded = JournalPages(chat.journal, checks)
    replayed = CassettePages(cassettes)
    one = "/journal/{identifier}"
    routes: Sequence[tuple[str, str, Endpoint]] = [
        ("GET", "/models", about.models),
        ("GET", "/tools", about.tools),
        ("GET", "/journal", recorded.index),
        ("GET", one, recorded.transcript),
        ("GET", f"{one}/calls", recorded.calls),
        ("POST", f"{one}/verify", recorded.verify),
        ("POST", f"{one}/fork", recorded.fork),
        ("GET", "/cassettes", replayed.index),
        ("GET", "/cassettes/{name:path}", replayed.steps),
        ("POST", "/markdown", _Markdown(checks).render),
    ]
    application = Starlette(
        routes=[
            Route("/", files.document),
            Route("/static/{name:path}", files.file),
            Route("/api/session", anyone.checked(signing.exchange), methods=["POST"]),
            Mount("/api/chat", create_chat(chat, authenticate=authenticate)),
            Mount("/api", checks.application(routes)),
        ]
    )
    # No redirect to an address made from a request.
    application.router.redirect_slashes = False
    return Guard(application, hosts or Hosts())


class _Files:
    """The document and the files beside it, which anyone may read."""

    def __init__(self, page: Page) -> None:
        self._page = page

    async def document(self, request: Request) -> Response:
        return self._page.document(request.headers)

    async def file(self, request: Request) -> Response:
        return self._page.file(str(request.path_params["name"]), request.headers) or Response(status_code=404)


class _SignIn:
    """The exchange of a code for a token."""

    def __init__(self, sessions: Sessions, checks: RequestChecks, refused: Callable[[], None] | None) -> None:
        self._sessions = sessions
        self._body = checks.body
        self._refused = refused

    async def exchange(self, request: Request, _: str) -> Answered:
        token = self._sessions.exchange(required(await self._body(request), "code"))
        if token is None:
            if self._refused is not None:
                self._refused()
            message = "This link is not valid, was used, or has expired. The terminal of ripieno serve web has another."
            raise Refused(Refusal(status=401, code="invalid_code", message=message))
        return {"token": token}


class _Markdown:
    """The HTML of texts that models have written."""

    def __init__(self, checks: RequestChecks) -> None:
        self._body = checks.body
        self._renderer = MarkdownRenderer()

    async def render(self, request: Request, _: str) -> Answered:
        texts = (await self._body(request)).get("texts")
        if not is_list(texts) or len(texts) > _TEXTS or not all(isinstance(one, str) for one in texts):
            raise RequestInvalidity(f"texts is a list of at most {_TEXTS} texts.", parameter="texts")
        return {"html": await self._renderer.render(texts)}


class _About:
    """The parts of an assembly: models and agents that a person can choose, and tools."""

    def __init__(self, assembly: Assembly) -> None:
        self._assembly = assembly

    async def tools(self, _: Request, __: str) -> Answered:
        # In a thread: files of ensembles that are not enabled may be read for the first time.
        return await run_in_thread(describe_tools, self._assembly, name="tools", patient=False)

    async def models(self, _: Request, __: str) -> Answered:
        known = self._assembly.configuration
        agents = known.agents
        names = [known.model, *known.fallback, *(one.model for one in agents.values())]
        return {
            "models": [{"name": name, "default": name == known.model} for name in dict.fromkeys(filter(None, names))],
            "agents": sorted(agents),
            "version": importlib.metadata.version("ripieno"),
            "workspace": str(self._assembly.surroundings.workspace),
        }
