"""The ensemble ``network``: what a model can ask for, what an operator has to grant, and what becomes of it."""

import contextlib
import gzip
import hashlib
import os
import pathlib
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import pytest

from ripieno.ensembles import Ensemble, Outcome
from ripieno.exceptions import (
    ConfigurationInvalidity,
    ExecutionFault,
    NameAbsence,
    NetworkFault,
    PermissionFault,
    QuotaFault,
    ResourceFault,
    ToolFault,
    ValidationFault,
)
from ripieno.toolset.network.grants import read_grants
from tests.support.raw_http_servers import answer, redirect, web
from tests.support.toml_ensembles import call
from tests.toolset.bundled_tools import tools_of

SECRET = "open-sesame-0123"
HOME: Mapping[str, Any] = {"hosts": ["127.0.0.1:*"], "local": True}


@contextlib.asynccontextmanager
async def network(workspace: pathlib.Path, configuration: Mapping[str, Any] = HOME) -> AsyncGenerator[Ensemble, None]:
    """The bundled ensemble, with what an operator's configuration lays over it."""
    async with tools_of("network", workspace, configuration, secrets={"TOKEN": SECRET}) as tools:
        yield tools.ensemble


async def test_nothing_is_reached_before_somebody_lists_it(tmp_path: pathlib.Path) -> None:
    for nothing in ({}, {"hosts": []}):
        with pytest.raises(NameAbsence, match="the network is not granted: set hosts"):
            async with network(tmp_path, nothing):
                pass
    async with web() as one:
        place = f"http://127.0.0.1:{one.port}/"
        for configuration, part in (
            ({"hosts": ["elsewhere.example"]}, 'hosts = ["api.example.org"'),
            ({"hosts": ["*:*"]}, "local = true under [configuration.network]"),
        ):
            async with network(tmp_path, configuration) as ensemble:
                for tool, more in (("http_get", {}), ("wget", {}), ("curl", {}), ("download", {"path": "x"})):
                    with pytest.raises(PermissionFault) as raised:
                        await call(ensemble, tool, url=place, **more)
                    assert part in (raised.value.suggestion or "")
        async with network(tmp_path, {"hosts": ["*:*"], "local": True}) as ensemble:
            with pytest.raises(PermissionFault, match="a cloud gives credentials"):
                await call(ensemble, "http_get", url="http://169.254.169.254/latest/meta-data/")
        assert one.connections == 0


async def test_get(tmp_path: pathlib.Path) -> None:
    def say(head: bytes, _: bytes) -> bytes:
        packed = gzip.compress(b"hello")
        return redirect("/there?x") if b"/here" in head else answer(packed, "Content-Encoding: gzip", "X-Own: 1")

    async with web(say) as one, network(tmp_path) as ensemble:
        place = f"http://127.0.0.1:{one.port}"
        said = await call(
            ensemble, "http_get", url=f"{place}/here", query={"a b": ["é", 1, True], "c": "&"}, headers={"X-A": "b"}
        )
        assert said == (
            f"HTTP 200 OK\nurl: {place}/there?x\nredirected: 302 to {place}/there?x\ncontent-length: 25\n\nhello"
        )
        assert one.targets == ["/here?a%20b=%C3%A9&a%20b=1&a%20b=true&c=%26", "/there?x"]
        assert b"X-A: b\r\n" in one.heads[1]
        said = await call(ensemble, "http_get", url=f"{place}/here", follow_redirects=False)
        assert said.startswith("HTTP 302 Elsewhere\n")
        assert "location: /there?x" in said
        with pytest.raises(ValidationFault):
            await call(ensemble, "http_get", url=place, method="POST")


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        ("404 Not Found", ResourceFault),
        ("403 Forbidden", PermissionFault),
        ("429 Too Many Requests", QuotaFault),
        ("503 Service Unavailable", NetworkFault),
        ("500 Internal Server Error", ExecutionFault),
    ],
)
@pytest.mark.parametrize("name", ["http_get", "http_post", "http_request", "curl", "upload"])
async def test_a_refusal_of_the_server_is_a_fault_with_its_answer(
    tmp_path: pathlib.Path, name: str, status: str, kind: type[ToolFault]
) -> None:
    (tmp_path / "file").write_text("x")
    given = {"http_post": {"body": "x"}, "upload": {"path": "file"}}.get(name, {})
    respond = answer(b"why it is so", "Retry-After: 7", status=status)
    async with web(lambda *_: respond) as one, network(tmp_path) as ensemble:
        with pytest.raises(kind) as caught:
            await call(ensemble, name, url=f"http://127.0.0.1:{one.port}/", **given)
    assert f"HTTP {status}\n" in str(caught.value)
    assert str(caught.value).endswith("\n\nwhy it is so")
    assert caught.value.details["status"] == int(status[:3])
    assert caught.value.details.get("retry_after") == (7 if status[:3] in ("429", "503") else None)


async def test_a_redirect_that_is_not_followed_is_an_answer(tmp_path: pathlib.Path) -> None:
    async with web(lambda *_: redirect("/other")) as one, network(tmp_path) as ensemble:
        said = await call(ensemble, "http_get", url=f"http://127.0.0.1:{one.port}/", follow_redirects=False)
    assert said.startswith("HTTP 302 Elsewhere\n")


async def test_post_and_other_methods(tmp_path: pathlib.Path) -> None:
    async with web() as one, network(tmp_path) as ensemble:
        place = f"http://127.0.0.1:{one.port}/"
        await call(ensemble, "http_post", url=place, json={"a": "é"})
        await call(ensemble, "http_post", url=place, body="text", headers={"Content-Type": "text/x-own"})
        await call(ensemble, "http_request", url=place, method="DELETE")
        await call(ensemble, "http_request", url=place, method="HEAD")
        assert one.bodies == ['{"a":"é"}'.encode(), b"text", b"", b""]
        assert [head.split(b" ")[0] for head in one.heads] == [b"POST", b"POST", b"DELETE", b"HEAD"]
        assert b"Content-Type: application/json\r\n" in one.heads[0]
        assert b"Content-Type: text/x-own\r\n" in one.heads[1]
        for wrong in ({"method": "GET", "body": "x"}, {"method": "POST", "body": "x", "json": 1}):
            with pytest.raises(ValidationFault):
                await call(ensemble, "http_request", url=place, **wrong)
        for url in ("example.org", "file:///etc/passwd", "http://a b/", "http://u:p@127.0.0.1/"):
            with pytest.raises(ValidationFault, match="The request was not sent"):
                await call(ensemble, "http_request", url=url)


async def test_download(tmp_path: pathlib.Path) -> None:
    data = bytes(range(256)) * 100
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    async with web(lambda head, _: answer(data)) as one, network(tmp_path) as ensemble:
        place = f"http://127.0.0.1:{one.port}/a/data.bin"
        outcome = await call(ensemble, "download", url=place, path="sub/data.bin")
        assert isinstance(outcome, Outcome)
        assert (tmp_path / "sub" / "data.bin").read_bytes() == data
        assert str(outcome.content).endswith(f"Wrote 25600 bytes to sub/data.bin, {digest}.")
        assert [change.mapping() for change in outcome.changes] == [
            {"type": "DirectoryCreated", "path": "sub"},
            {"type": "FileCreated", "path": "sub/data.bin", "after": digest},
        ]
        (tmp_path / "data.bin").write_bytes(b"old")
        outcome = await call(ensemble, "wget", url=place)
        assert (tmp_path / "data.bin").read_bytes() == data
        assert outcome.changes[0].mapping() == {
            "type": "FileModified",
            "path": "data.bin",
            "before": f"sha256:{hashlib.sha256(b'old').hexdigest()}",
            "after": digest,
        }
        with pytest.raises(ResourceFault, match="exists already"):
            await call(ensemble, "wget", url=place, no_clobber=True)
        with pytest.raises(ResourceFault, match="exists already"):
            await call(ensemble, "download", url=place, path="data.bin", overwrite=False)
        await call(ensemble, "curl", url=place, output="c.bin", header=["X-A: b"])
        assert (tmp_path / "c.bin").read_bytes() == data
        for path in ("../x", "/etc/x", ".git/config", "a/../../x"):
            with pytest.raises(ToolFault):
                await call(ensemble, "download", url=place, path=path)
        assert not (tmp_path.parent / "x").exists()


@pytest.mark.parametrize("path", ["", "..", ".", "%2e%2e", "a%2Fb", "..%2f..%2fx", "%00", "%0a"])
async def test_a_url_names_no_file_elsewhere(tmp_path: pathlib.Path, path: str) -> None:
    async with web() as one, network(tmp_path) as ensemble:
        await call(ensemble, "wget", url=f"http://127.0.0.1:{one.port}/{path}")
    assert os.listdir(tmp_path) == ["index.html"]


async def test_what_is_no_success_or_too_large_is_not_written(tmp_path: pathlib.Path) -> None:
    async with web(lambda *_: answer(b"not here", status="404 No")) as one, network(tmp_path) as ensemble:
        with pytest.raises(ResourceFault, match="Nothing was written") as raised:
            await call(ensemble, "download", url=f"http://127.0.0.1:{one.port}/", path="x")
        assert "not here" in str(raised.value)
    bomb = answer(gzip.compress(bytes(10**6)), "Content-Encoding: gzip")
    async with web(lambda *_: bomb) as one, network(tmp_path, {**HOME, "size": "64 KiB"}) as ensemble:
        with pytest.raises(ResourceFault, match="more than 65536 bytes"):
            await call(ensemble, "download", url=f"http://127.0.0.1:{one.port}/", path="x")
    assert os.listdir(tmp_path) == []


async def test_upload(tmp_path: pathlib.Path) -> None:
    (tmp_path / "data.txt").write_bytes(b"data\r\n")
    digest = hashlib.sha256(b"data\r\n").hexdigest()
    async with web() as one, network(tmp_path) as ensemble:
        place = f"http://127.0.0.1:{one.port}/"
        said = await call(ensemble, "upload", url=place, path="data.txt", content_type="text/plain")
        assert said.startswith(f"Sent data.txt: 6 bytes, sha256:{digest}\nHTTP 200 OK\n")
        assert one.heads[0].startswith(b"PUT / ")
        assert b"Content-Type: text/plain\r\n" in one.heads[0]
        assert one.bodies[0] == b"data\r\n"
        await call(ensemble, "upload", url=place, path="data.txt", field="file")
        assert one.heads[1].startswith(b"POST / ")
        boundary = one.heads[1].partition(b"boundary=")[2].split(b"\r\n")[0]
        assert one.bodies[1] == (
            b"--" + boundary + b'\r\nContent-Disposition: form-data; name="file"; filename="data.txt"\r\n'
            b"Content-Type: application/octet-stream\r\n\r\ndata\r\n\r\n--" + boundary + b"--\r\n"
        )
        for wrong in ({"field": 'a"b'}, {"field": "a\r\nb"}, {"content_type": "a\r\nX: y"}, {"path": "../x"}):
            with pytest.raises(ToolFault):
                await call(ensemble, "upload", **{"url": place, "path": "data.txt", **wrong})
        assert len(one.heads) == 2


async def test_curl_as_it_is_known(tmp_path: pathlib.Path) -> None:
    def say(head: bytes, _: bytes) -> bytes:
        return redirect("/on") if b" /off " in head else answer()

    async with web(say) as one, network(tmp_path) as ensemble:
        place = f"http://127.0.0.1:{one.port}"
        await call(ensemble, "curl", url=f"{place}/a", data="a=b", header=["X-A: b", "Accept:text/plain"])
        await call(ensemble, "curl", url=f"{place}/a", json=[1], request="PUT", user_agent="me")
        await call(ensemble, "curl", url=f"{place}/a", head=True)
        assert (await call(ensemble, "curl", url=f"{place}/off")).startswith("HTTP 302")
        assert (await call(ensemble, "curl", url=f"{place}/off", location=True)).startswith("HTTP 200")
        for wrong in (["no header"], ["A: b\r\nC: d"], ["Host: x"]):
            with pytest.raises(ToolFault):
                await call(ensemble, "curl", url=place, header=wrong)
        with pytest.raises(ValidationFault):
            await call(ensemble, "curl", url=place, insecure=True)
    assert [head.split(b" ")[0] for head in one.heads] == [b"POST", b"PUT", b"HEAD", b"GET", b"GET", b"GET"]
    assert b"Content-Type: application/x-www-form-urlencoded\r\n" in one.heads[0]
    assert b"X-A: b\r\nAccept: text/plain\r\n" in one.heads[0]
    assert b"User-Agent: me\r\n" in one.heads[1]
    assert one.bodies[:2] == [b"a=b", b"[1]"]


async def test_credentials_are_for_one_origin_and_no_model(tmp_path: pathlib.Path) -> None:
    def say(head: bytes, _: bytes) -> bytes:
        return redirect(f"http://127.0.0.1:{other.port}/") if b" /away " in head else answer(head)

    async with web() as other, web(say) as one:
        place = f"http://127.0.0.1:{one.port}"
        credentials = {place: {"Authorization": "Bearer {env:TOKEN}"}}
        async with network(tmp_path, {**HOME, "credentials": credentials}) as ensemble:
            said = await call(ensemble, "http_get", url=f"{place}/", headers={"authorization": "mine"})
            assert f"Authorization: Bearer {SECRET}".encode() in one.heads[0]
            assert b"mine" not in one.heads[0]
            assert SECRET not in said
            assert "Bearer [hidden]" in said
            await call(ensemble, "http_get", url=f"{place}/away", headers={"X-Key": "mine-alone", "Cookie": "c"})
            await call(ensemble, "http_get", url=f"http://127.0.0.1:{other.port}/")
            for head in other.heads:
                assert SECRET.encode() not in head
                assert b"mine-alone" not in head
                assert b"ookie" not in head
            with pytest.raises(PermissionFault, match="repeats a credential"):
                await call(ensemble, "download", url=f"{place}/", path="x")
            assert SECRET not in repr(ensemble.connection)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("configuration", "message"),
    [
        ({"hosts": "a.b"}, "must be a list of hosts"),
        ({"hosts": ["http://a.b"]}, "is not a port"),
        ({"hosts": ["0x7f.1"]}, "looks like an address"),
        ({"host": ["a.b"]}, "has no key host"),
        ({"local": "yes"}, "must be true or false"),
        ({"size": 0}, "must be a size"),
        ({"credentials": {"https://a.b/x": {}}}, "an origin has no path"),
        ({"credentials": {"https://a@b": {}}}, "user or a password"),
        ({"credentials": {"https://a.b": {"Host": "x"}}}, "set by the connection itself"),
        ({"credentials": {"https://a.b": {"K": "{x}"}}}, "arguments are not allowed here"),
        ({"credentials": {"https://a.b": {"K": "{env:MISSING}"}}}, "MISSING is not set"),
        ({"credentials": {"https://a.b": {"K": "{env:BROKEN}"}}}, "BROKEN has characters"),
    ],
)
def test_what_is_wrong_with_a_grant(configuration: Mapping[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationInvalidity, match=message) as raised:
        read_grants(configuration, {"BROKEN": "secret\r\nvalue"})
    assert "secret" not in str(raised.value)
