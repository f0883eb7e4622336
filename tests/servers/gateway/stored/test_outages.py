"""A PostgreSQL server that goes away under background responses: the log has one line, and one when it is back."""

import asyncio
import logging
import pathlib
from typing import Any

import openai
import pytest

from ripieno.descriptors.gateway import StoreDescriptor
from ripieno.servers.gateway.stored import background
from ripieno.servers.gateway.stored.background import BackgroundRuns
from ripieno.servers.gateway.stored.library import Library
from ripieno.servers.gateway.stored.use import StoreUnusable
from ripieno.storage.databases.opening import database_at
from tests.support.interruptions import way_to
from tests.support.postgresql import address_of_schema
from tests.support.stores import storing

#: Seconds after which a test counts as hung.
HANG = 60
SECRET = b"a secret of sixteen bytes or more"


class _Counting(Library):
    """A store that counts the beats that failed and those that did not."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.failed, self.went = asyncio.Semaphore(0), asyncio.Semaphore(0)

    async def run(self, *given: Any, **more: Any) -> Any:
        try:
            result = await super().run(*given, **more)
        except StoreUnusable:
            self.failed.release()
            raise
        self.went.release()
        return result


async def test_an_outage_is_one_line_of_the_log(
    postgresql_server: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(background, "_BEAT", 0.01)
    monkeypatch.setattr(background, "_SWEPT", 0.0)
    caplog.set_level(logging.WARNING, "ripieno")
    with way_to(postgresql_server) as way:
        library = _Counting(database_at(address_of_schema(way.address)), StoreDescriptor(), SECRET)
        runs = BackgroundRuns(library)
        async with asyncio.timeout(HANG):
            runs.keep()
            await library.went.acquire()
            way.cut()
            for _ in range(4):
                await library.failed.acquire()
            assert [one.exc_info for one in caplog.records] == [None]
            assert caplog.messages[0].startswith("The store of responses cannot be used. The ")
            way.restore()
            while library.failure is not None:
                await library.went.acquire()
            await runs.close()
    assert caplog.messages[1:] == ["The store of responses can be used again."]


async def test_what_needs_the_store_may_be_asked_again_later(postgresql_server: str, tmp_path: pathlib.Path) -> None:
    with way_to(postgresql_server) as way:
        place = address_of_schema(way.address)
        async with asyncio.timeout(HANG), storing(tmp_path, place=place) as gateway, gateway.client() as client:
            first = await client.responses.create(model="any", input="One.")
            way.cut()
            for asking in (
                client.responses.retrieve(first.id),
                client.responses.create(model="any", input="Two.", previous_response_id=first.id),
                client.responses.create(model="any", input="Two.", background=True),
            ):
                with pytest.raises(openai.InternalServerError) as caught:
                    await asking
                assert (caught.value.status_code, caught.value.code) == (503, "store_unusable")
                assert caught.value.response.headers["retry-after"] == "5"
            way.restore()
            assert (await client.responses.retrieve(first.id)).id == first.id
