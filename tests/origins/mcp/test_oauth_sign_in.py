"""Signing in at a server behind a URL: once by a person, then by what is kept, and never in a place it is not for."""

import asyncio
import json
import logging
import pathlib
import threading
import time
from collections.abc import Generator
from typing import Any

import pytest

from ripieno.canisters import TextualContent
from ripieno.descriptors import EnsembleDescriptor
from ripieno.ensembles import Surroundings
from ripieno.ensembles.threads import end_idle_threads
from ripieno.exceptions import ConnectionFailure, PermissionFault
from ripieno.origins.mcp.oauth.sign_in import SignedIn, SignInFailure, sign_in, sign_out
from ripieno.origins.mcp.oauth.tokens import TokenStore, resource_of
from ripieno.sandbox.processes import LocalSpawner
from ripieno.storage.pins import Pins, PinStore
from tests.support.authorization_server import MARK, Authority, Browser, Place, place
from tests.support.toml_ensembles import Alerts, call, describe, make_ensemble
from tests.support.virtual_time import MovableClock


class Home:
    """Somebody with a state of their own, and an ensemble that wants to be signed in to."""

    def __init__(self, folder: pathlib.Path, there: Place) -> None:
        self.state = folder / "state"
        self.alerts = Alerts()
        self.authority: Authority = there.authority
        self.other: Authority = there.other
        self.resource = there.resource
        self.browser = Browser()
        self.surroundings = Surroundings(
            workspace=folder,
            spawner=LocalSpawner(),
            secrets={"SECRET": f"{MARK}configured"},
            alert=self.alerts.append,
            pins=Pins(PinStore(self.state)),
        )

    def text(self, more: str = "") -> str:
        keys = more or 'grant = "authorization_code"'
        url = self.resource.url
        return f'[ensemble]\nname = "it"\n[connection]\norigin = "mcp"\nurl = "{url}"\n[connection.oauth]\n{keys}\n'

    def descriptor(self, more: str = "") -> EnsembleDescriptor:
        return describe(self.text(more))

    async def sign_in(self, more: str = "", *, patience: float = 20) -> SignedIn:
        return await sign_in(self.descriptor(more), self.surroundings, self.browser, patience=patience)

    async def ask(self, tool: str = "who", more: str = "") -> Any:
        """What a tool says to somebody who starts the ensemble, as every start does."""
        async with make_ensemble(self.text(more), self.surroundings, recovery=None) as ensemble:
            return await call(ensemble, tool)

    async def refused(self, says: str = "needs you to sign in") -> str:
        """What is told to somebody who cannot start the ensemble."""
        with pytest.raises(ConnectionFailure, match=says) as raised:
            await self.ask()
        return str(raised.value)

    async def expired(self, renews: int = 200) -> None:
        """Signs in, and lets the time of that be over."""
        await self.sign_in()
        self.change(expires_at=time.time() - 1)
        self.authority.renews = renews

    def files(self) -> list[pathlib.Path]:
        return sorted((self.state / "tokens").glob("*.json"))

    def stored(self) -> dict[str, Any]:
        (file,) = self.files()
        stored: dict[str, Any] = json.loads(file.read_text())
        return stored

    def change(self, **values: Any) -> None:
        """Makes what is kept say something else."""
        (file,) = self.files()
        file.write_text(json.dumps({**self.stored(), **values}))


@pytest.fixture(scope="module")
def there() -> Generator[Place, None, None]:
    with place() as one:
        yield one


@pytest.fixture
def home(tmp_path: pathlib.Path, there: Place) -> Home:
    there.reset()
    return Home(tmp_path, there)


ALICE = [TextualContent(text="alice")]


async def test_a_person_signs_in_once(home: Home) -> None:
    assert (await home.refused()).endswith("Run: ripieno login it")
    assert home.authority.asked == []
    assert home.files() == []

    done = await home.sign_in()
    assert done.tools == ("erase", "who")
    assert (done.sign_in.issuer, done.sign_in.resource) == (home.authority.url, home.resource.url)
    assert done.sign_in.scope == "read"
    assert abs((done.sign_in.expires_at or 0) - time.time() - 3600) < 60
    assert "You can close this window" in home.browser.pages[0]
    asked = home.authority.last("/authorize")
    assert asked["code_challenge_method"] == "S256"
    assert asked["resource"] == home.resource.url
    assert home.authority.last("/token")["resource"] == home.resource.url

    before = len(home.authority.asked)
    assert await home.ask() == ALICE
    assert len(home.authority.asked) == before
    assert len(home.browser.visited) == 1


async def test_only_its_user_can_read_what_is_kept(home: Home) -> None:
    await home.sign_in()
    (file,) = home.files()
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    assert {one.stat().st_mode & 0o777 for one in file.parent.iterdir()} == {0o600}
    assert {one.suffix for one in file.parent.iterdir()} == {".json", ".lock"}
    assert home.resource.url not in file.name
    stored = home.stored()
    assert (stored["issuer"], stored["resource"]) == (home.authority.url, home.resource.url)
    assert stored["client"]["redirect_uris"] == [home.authority.last("/authorize")["redirect_uri"]]


@pytest.mark.parametrize("how", ["known", "untold"])
async def test_what_is_over_is_renewed_in_silence(home: Home, how: str) -> None:
    await home.sign_in()
    first = home.stored()
    if how == "known":
        home.change(expires_at=time.time() - 1)
    else:
        home.authority.scopes.clear()  # The server takes the token no more, and its time is not over.
    seen = len(home.resource.tokens)
    assert await home.ask() == ALICE
    renewal = home.authority.last("/token")
    assert (renewal["grant_type"], renewal["refresh_token"]) == ("refresh_token", first["tokens"]["refresh_token"])
    assert renewal["authorization"].startswith("Basic ")
    assert home.stored()["tokens"] != first["tokens"]
    assert home.authority.count("/token") == 2
    assert home.authority.count("/register") == 1
    used = first["tokens"]["access_token"] in home.resource.tokens[seen:]
    assert used is (how == "untold")
    assert len(home.browser.visited) == 1


async def test_a_renewal_that_is_refused_asks_for_a_person(home: Home) -> None:
    await home.expired(renews=400)
    said = await home.refused("does not renew the sign-in")
    assert said.endswith("Run: ripieno login it")
    assert MARK not in said
    # One start asks in either era; what was refused once is not tried again.
    assert home.authority.count("/token") == 2
    home.authority.renews = 200
    await home.sign_in()
    assert await home.ask() == ALICE


async def test_an_authority_that_is_down_is_no_reason_to_sign_in(home: Home) -> None:
    await home.expired(renews=503)
    assert "login" not in await home.refused("authorization server answered 503")
    home.authority.renews = 200
    assert await home.ask() == ALICE


async def test_a_renewal_replaces_no_sign_in_that_came_meanwhile(home: Home) -> None:
    await home.expired()
    home.authority.scopes["hush-newer"] = "read"
    newer = {**home.stored()["tokens"], "access_token": "hush-newer"}
    home.authority.meanwhile = lambda: home.change(tokens=newer, expires_at=time.time() + 3600)
    assert await home.ask() == ALICE
    assert home.stored()["tokens"] == newer
    assert home.resource.tokens[-1] == "hush-newer"


async def test_calls_of_one_connection_and_a_loss_of_the_sign_in_is_told(home: Home) -> None:
    await home.sign_in()
    async with make_ensemble(home.text(), home.surroundings) as ensemble:
        assert await asyncio.gather(*(call(ensemble, "who") for _ in range(8))) == [ALICE] * 8
        home.authority.scopes.clear()
        home.authority.renews = 400
        for _ in range(2):
            with pytest.raises(PermissionFault, match="needs you to sign in again") as raised:
                await call(ensemble, "who")
        assert home.authority.count("/token") == 2
        assert raised.value.code == "sign_in_needed"
        assert raised.value.suggestion == "Run: ripieno login it"
        # Somebody signs in elsewhere, and the same connection goes on.
        home.authority.renews = 200
        await home.sign_in()
        assert await call(ensemble, "who") == ALICE


async def test_a_call_that_needs_more_says_so_and_the_next_sign_in_asks_for_it(home: Home) -> None:
    await home.sign_in()
    async with make_ensemble(home.text(), home.surroundings) as ensemble:
        with pytest.raises(PermissionFault, match="scope: write") as raised:
            await call(ensemble, "erase")
        assert raised.value.suggestion == "Run: ripieno login it"
        assert await call(ensemble, "who") == ALICE
        assert len(home.browser.visited) == 1
        await home.sign_in()
        assert home.authority.last("/authorize")["scope"] == "read write"
        assert await call(ensemble, "erase") == [TextualContent(text="erased")]
    assert "wanted" not in home.stored()


async def test_what_was_registered_is_used_again(home: Home) -> None:
    await home.sign_in()
    await home.sign_in()
    assert home.authority.count("/register") == 1
    first, second = (one for path, one in home.authority.asked if path == "/authorize")
    assert first["client_id"] == second["client_id"]
    assert first["redirect_uri"] == second["redirect_uri"]
    assert first["state"] != second["state"]


async def test_a_client_that_is_known_already(home: Home) -> None:
    more = f'client_id = "us"\nclient_secret = "{{env:SECRET}}"\nissuer = "{home.authority.url}"\nscope = "read write"'
    more = f'grant = "authorization_code"\n{more}'
    await home.sign_in(more)
    assert home.authority.count("/register") == 0
    asked = home.authority.last("/authorize")
    assert (asked["client_id"], asked["scope"]) == ("us", "read write")
    assert home.authority.last("/token")["authorization"].startswith("Basic ")
    assert f"{MARK}configured" not in json.dumps(home.stored())
    home.change(expires_at=time.time() - 1)
    assert await home.ask("erase", more) == [TextualContent(text="erased")]
    assert home.authority.last("/token")["authorization"].startswith("Basic ")


async def test_what_the_page_asks_already_stays(home: Home) -> None:
    home.authority.page = f"{home.authority.url}/authorize?tenant=a%26b"
    await home.sign_in()
    assert home.authority.last("/authorize")["tenant"] == "a&b"
    assert await home.ask() == ALICE


async def test_a_configured_issuer_is_the_only_one(home: Home) -> None:
    more = f'grant = "authorization_code"\nissuer = "{home.other.url}"'
    with pytest.raises(ConnectionFailure, match="configured issuer") as raised:
        await home.sign_in(more)
    assert home.other.url in str(raised.value)
    assert home.authority.asked == home.other.asked == []
    assert home.files() == []


async def test_another_issuer_gets_nothing_of_the_first(home: Home) -> None:
    await home.sign_in()
    first = home.stored()
    home.resource.authority = home.other
    await home.refused("needs you to sign in again")
    assert home.other.asked == []
    await home.sign_in()
    told = json.dumps(home.other.asked)
    held = [*first["tokens"].values(), first["client"]["client_secret"]]
    assert not [one for one in held if isinstance(one, str) and one.startswith(MARK) and one in told]
    assert home.other.count("/register") == 1
    assert await home.ask() == ALICE
    assert len(home.files()) == 2


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ({"denies": True}, "denied"),
        ({"iss": "http://elsewhere.example"}, "iss mismatch"),
        ({"page": "http://page.example/authorize"}, "was not opened: it begins with http:"),
        ({"page": "https://user@page.example/authorize"}, "was not opened: it contains a user"),
        ({"page": "file:///etc/passwd"}, "does not publish the required metadata"),
        ({"page": "javascript:alert(1)"}, "does not publish the required metadata"),
    ],
    ids=["denied", "iss", "http", "user", "file", "javascript"],
)
async def test_a_sign_in_that_goes_wrong(home: Home, fault: dict[str, Any], says: str) -> None:
    for name, value in fault.items():
        setattr(home.authority, name, value)
    with pytest.raises(ConnectionFailure, match=says) as raised:
        await home.sign_in()
    assert isinstance(raised.value, SignInFailure) is ("denies" in fault)
    assert "\x1b" not in str(raised.value)
    assert MARK not in str(raised.value)
    assert home.authority.count("/token") == 0
    assert home.files() == []
    assert len(home.browser.visited) == (0 if "page" in fault else 1)


async def test_a_stranger_cannot_answer_and_the_wait_ends(home: Home) -> None:
    home.authority.state = "guessed"
    clock = MovableClock()

    async def show(url: str) -> None:
        await home.browser(url)
        await clock.move(20)

    says = r"no sign-in was completed within 20 s\. Answers of other sign-ins: 1\."
    with pytest.raises(SignInFailure, match=says):
        await sign_in(home.descriptor(), home.surroundings, show, patience=20)
    assert "another sign-in" in home.browser.pages[0]
    assert home.authority.count("/token") == 0


async def test_a_cancelled_sign_in_leaves_nothing(home: Home) -> None:
    came = asyncio.Event()
    pages: list[str] = []

    async def show(url: str) -> None:
        pages.append(url)
        came.set()

    end_idle_threads()
    threads = threading.active_count()
    task = asyncio.create_task(sign_in(home.descriptor(), home.surroundings, show))
    await came.wait()
    port = int(home.authority.last("/register")["redirect_uri"].split(":")[2].split("/")[0])
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    writer.close()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)
    assert {one for one in asyncio.all_tasks() if one is not asyncio.current_task()} == set()
    end_idle_threads()
    assert threading.active_count() <= threads
    assert home.files() == []


async def test_the_listener_takes_nothing_else(home: Home) -> None:
    answers: list[bytes] = []

    async def show(url: str) -> None:
        port = int(home.authority.last("/register")["redirect_uri"].split(":")[2].split("/")[0])
        state = url.partition("state=")[2].partition("&")[0]
        for request in (
            f"GET /other?code=1&state={state} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n",
            f"POST /callback?code=1&state={state} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n",
            f"GET /callback?code=1&state={state} HTTP/1.1\r\nHost: evil.example\r\n\r\n",
            f"GET /callback?code=1&code=2&state={state} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n",
            "nonsense\r\n\r\n",
            "GET //[ HTTP/1.1\r\n\r\n",
            "x" * 40_000,
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request.encode())
            try:
                answers.append(await reader.read())
            except ConnectionResetError:
                answers.append(b"")
            writer.close()
        await home.browser(url)

    await sign_in(home.descriptor(), home.surroundings, show, patience=20)
    assert [one[9:12] for one in answers] == [b"404", b"405", b"404", b"400", b"404", b"", b""]


DAMAGES = (b"", b"\xff\xfe", b'{"version": 1, "issuer": "x"', b"[]", b'{"version": 2}', b"[" * 100_000)
#: What is kept says something else than was written.
CHANGES: tuple[dict[str, Any], ...] = (
    *({"expires_at": "soon"}, {"expires_at": float("nan")}, {"expires_at": True}, {"metadata": []}, {"more": 1}),
    *({"tokens": {}}, {"tokens": {"access_token": 1}}, {"client": {}}),
    *({name: "https://other.example"} for name in ("issuer", "resource")),
)


async def test_what_is_damaged_or_changed_counts_as_none(home: Home) -> None:
    await home.sign_in()
    (file,) = home.files()
    good = home.stored()
    for damaged in (*DAMAGES, *(json.dumps(good | values).encode() for values in CHANGES)):
        file.write_bytes(damaged)
        await home.refused()
        assert str(file) in home.alerts[-1].message
        assert MARK not in home.alerts[-1].message
        assert damaged in DAMAGES or "is not used" in home.alerts[-1].message
        home.alerts.clear()
    await home.sign_in()
    assert await home.ask() == ALICE


async def test_what_others_can_read_or_replace_counts_as_none(home: Home, tmp_path: pathlib.Path) -> None:
    await home.sign_in()
    (file,) = home.files()
    file.chmod(0o640)
    await home.refused()
    assert "others can read or write it" in home.alerts[0].message
    file.chmod(0o600)
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    await home.refused()
    await home.sign_in()
    assert not file.is_symlink()


async def test_no_secret_is_told(home: Home, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    done = await home.sign_in()
    home.authority.renews = 400
    home.change(expires_at=time.time() - 1)
    said = await home.refused()
    out = await sign_out(home.descriptor(), home.surroundings)
    told = [repr(done), said, repr(out), caplog.text, *map(repr, home.alerts), *home.browser.pages]
    assert MARK not in "".join(told)


async def test_signing_out_revokes_and_forgets(home: Home) -> None:
    await home.sign_in()
    held = home.stored()["tokens"]["refresh_token"]
    out = await sign_out(home.descriptor(), home.surroundings)
    assert (out.issuers, out.files, out.revoked, out.problems) == ((home.authority.url,), 1, 1, ())
    revoked = home.authority.last("/revoke")
    assert (revoked["token"], revoked["token_type_hint"]) == (held, "refresh_token")
    assert revoked["authorization"].startswith("Basic ")
    assert home.files() == []
    await home.refused()
    assert (await sign_out(home.descriptor(), home.surroundings)).files == 0


@pytest.mark.parametrize(("revokes", "says"), [(None, "does not support it"), (500, "answered 500")])
async def test_what_cannot_be_revoked_is_forgotten_all_the_same(home: Home, revokes: int | None, says: str) -> None:
    home.authority.revokes = revokes
    await home.sign_in()
    out = await sign_out(home.descriptor(), home.surroundings)
    assert out.revoked == 0
    assert says in out.problems[0]
    assert home.files() == []


async def test_a_taken_port_is_said(home: Home) -> None:
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(ConnectionFailure, match=f"port {port}"):
            await home.sign_in(f'grant = "authorization_code"\nredirect_port = {port}')


async def test_two_ensembles_with_one_url_share_a_sign_in(home: Home) -> None:
    await home.sign_in()
    store = TokenStore.of(home.surroundings)
    assert store.find(resource_of(home.resource.url.replace("http:", "HTTP:"))) is not None
    assert store.find(resource_of(home.resource.url), "https://other.example") is None
    assert store.find(resource_of(home.resource.url), home.authority.url + "/") is not None
