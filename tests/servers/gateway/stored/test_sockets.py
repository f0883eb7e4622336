"""Stored responses on WebSockets: continued from any socket, and beside the memory of one."""

import pathlib

from tests.servers.gateway.test_sockets import complete, fail, opening, text_of
from tests.support.stores import KEYS, storing

HEADERS = {"authorization": f"Bearer {KEYS['ada']}"}


async def test_a_stored_response_is_continued_from_any_socket(tmp_path: pathlib.Path) -> None:
    async with storing(tmp_path) as gateway, gateway.client() as client:
        async with opening(gateway.front, additional_headers=HEADERS) as socket:
            first = await complete(socket, "One.")
            second = await complete(socket, "Two.", previous_response_id=first["id"])
            assert (second["store"], second["previous_response_id"]) == (True, first["id"])
        async with opening(gateway.front, additional_headers=HEADERS) as socket:
            # Another branch, on another socket, after the first one was closed.
            third = await complete(socket, "Three.", previous_response_id=first["id"])
            assert text_of(third) == "I read One. Three."
            over = await client.responses.create(model="any", input="Four.", previous_response_id=third["id"])
            assert over.output_text == "I read One. Three. Four."
            fifth = await complete(socket, "Five.", previous_response_id=over.id)
            assert text_of(fifth) == "I read One. Three. Four. Five."
        other = {"authorization": f"Bearer {KEYS['eve']}"}
        async with opening(gateway.front, additional_headers=other) as socket:
            failed = await fail(socket, "Six.", previous_response_id=first["id"])
            assert failed == (400, "previous_response_not_found")
        assert gateway.rows()["responses"] == 5


async def test_what_is_not_stored_is_in_the_memory_of_its_socket(tmp_path: pathlib.Path) -> None:
    async with storing(tmp_path) as gateway, gateway.client() as client:
        stored = await client.responses.create(model="any", input="One.")
        async with opening(gateway.front, additional_headers=HEADERS) as socket:
            second = await complete(socket, "Two.", previous_response_id=stored.id, store=False)
            third = await complete(socket, "Three.", previous_response_id=second["id"], store=False)
            assert text_of(third) == "I read One. Two. Three."
            assert third["previous_response_id"] == second["id"]
            # From here on it is stored, with all that came before.
            fourth = await complete(socket, "Four.", previous_response_id=third["id"])
        fifth = await client.responses.create(model="any", input="Five.", previous_response_id=fourth["id"])
        assert fifth.output_text == "I read One. Two. Three. Four. Five."
        assert gateway.rows()["responses"] == 3
