"""The reference servers of the npm world: everything that the protocol has, files, and a memory."""

import json
import pathlib
import zlib

from ripieno.approvals import Edit
from ripieno.canisters import DocumentContent, ImageContent, TextualContent
from tests.real.playing import Stage
from tests.support.scripted_models import Person

PNG = b"\x89PNG\r\n\x1a\n"


def structure(contents: tuple[object, ...]) -> object:
    """The JSON of the last text."""
    last = contents[-1]
    assert isinstance(last, TextualContent)
    return json.loads(last.text)


async def test_everything_that_a_server_can_answer(stage: Stage, node_servers: pathlib.Path) -> None:
    async with stage.play("everything", [node_servers / "mcp-server-everything", "stdio"], COLOUR="blue") as played:
        assert {"echo", "get-sum", "get-tiny-image", "get-structured-content", "get-env"} <= set(played.tools)
        assert played.ensemble.connection.name.startswith("mcp-servers/everything ")
        assert (await played.call("echo", message="Grüße")).text == "Echo: Grüße"
        assert (await played.call("get-sum", a=1.5, b=2)).text == "The sum of 1.5 and 2 is 3.5."
        assert "`b` must be a number, not a string" in await played.fail("get-sum", a=1, b="two")
        # Its variables are those that were declared, beside the few that every server gets.
        variables = json.loads((await played.call("get-env")).text)
        assert variables["COLOUR"] == "blue"
        assert "RIPIENO_CONFIG_HOME" not in variables
        assert set(variables) <= {"PATH", "LANG", "TZ", "TMPDIR", "HOME", "COLOUR", "RIPIENO_TESTS_MARK"}
        first, image, last = (await played.call("get-tiny-image")).content
        assert isinstance(first, TextualContent)
        assert isinstance(last, TextualContent)
        assert isinstance(image, ImageContent)
        assert (image.mime_type, image.data[:8]) == ("image/png", PNG)
        weather = (await played.call("get-structured-content", location="Chicago")).content
        assert len(weather) == 1
        assert structure(weather) == {"temperature": 36, "conditions": "Light rain / drizzle", "humidity": 82}
        annotated = (await played.call("get-annotated-message", messageType="error", includeImage=True)).content
        assert isinstance(annotated[0], TextualContent)
        assert annotated[0].text == "Error: Operation failed"
        assert isinstance(annotated[1], ImageContent)
        links = (await played.call("get-resource-links", count=2)).content
        assert [one.text.count("<demo://resource/") for one in links if isinstance(one, TextualContent)] == [0, 1, 1]
        embedded = (await played.call("get-resource-reference", resourceType="Text", resourceId=1)).content
        assert "Resource 1: This is a plaintext resource" in "".join(
            one.text for one in embedded if isinstance(one, TextualContent)
        )
        (zipped,) = (
            await played.call("gzip-file-as-resource", data="data:text/plain,hello", outputType="resource")
        ).content
        assert isinstance(zipped, DocumentContent)
        assert zipped.data is not None
        assert zlib.decompress(zipped.data, 31) == b"hello"


async def test_a_long_operation_tells_its_progress(stage: Stage, node_servers: pathlib.Path) -> None:
    async with stage.play("everything", [node_servers / "mcp-server-everything", "stdio"]) as played:
        result = await played.call("trigger-long-running-operation", duration=1, steps=4)
        assert "Steps: 4" in result.text
        assert played.progress == [(1, 4), (2, 4), (3, 4), (4, 4)]


async def test_what_a_server_may_not_ask(stage: Stage, node_servers: pathlib.Path) -> None:
    async with stage.play("everything", [node_servers / "mcp-server-everything", "stdio"]) as played:
        # This server offers what asks for a model, or for folders, only to clients that say they answer.
        assert [tool for tool in played.tools if "sampling" in tool or "roots" in tool] == []
        # Nobody is there to fill the form in, and a URL is opened for no server.
        assert '"action": "decline"' in (await played.call("trigger-elicitation-request")).text
        if "trigger-url-elicitation" in played.tools:
            declined = await played.call("trigger-url-elicitation", url="https://example.org/")
            assert '"action": "decline"' in declined.text


async def test_a_form_that_a_person_fills_in(stage: Stage, node_servers: pathlib.Path) -> None:
    person = Person(Edit({"name": "Ada", "check": True}))
    command = [node_servers / "mcp-server-everything", "stdio"]
    async with stage.play("everything", command, confirmer=person) as played:
        answer = (await played.call("trigger-elicitation-request")).text
    (request,) = person.requests
    assert request.question is not None
    assert "name" in request.question.schema["properties"]
    assert '"action": "accept"' in answer
    assert "- Name: Ada" in answer


async def test_files_in_one_folder_and_nowhere_else(stage: Stage, node_servers: pathlib.Path) -> None:
    outside = stage.folder / "secret.txt"
    outside.write_text("secret")
    async with stage.play("files", [node_servers / "mcp-server-filesystem", stage.workspace]) as played:
        file = stage.workspace / "notes.txt"
        await played.call("write_file", path=str(file), content="one\ntwo\n")
        assert file.read_text() == "one\ntwo\n"
        read = (await played.call("read_text_file", path=str(file))).content
        assert read[0] == TextualContent(text="one\ntwo\n")
        edits = [{"oldText": "two", "newText": "2"}]
        assert "+2" in (await played.call("edit_file", path=str(file), edits=edits)).text
        assert file.read_text() == "one\n2\n"
        await played.call("create_directory", path=str(stage.workspace / "sub"))
        await played.call("move_file", source=str(file), destination=str(stage.workspace / "sub" / "notes.txt"))
        assert (await played.call("list_directory", path=str(stage.workspace))).text.startswith("[DIR] sub")
        found = await played.call("search_files", path=str(stage.workspace), pattern="**/*.txt")
        assert str(stage.workspace / "sub" / "notes.txt") in found.text
        (stage.workspace / "dot.png").write_bytes(PNG)
        media = (await played.call("read_media_file", path=str(stage.workspace / "dot.png"))).content
        assert ImageContent(data=PNG, mime_type="image/png") in media
        for path in (str(outside), str(stage.workspace / ".." / "secret.txt"), "/etc/hostname"):
            refusal = await played.fail("read_text_file", path=path)
            assert "Access denied" in refusal
            assert "secret\n" not in refusal
        assert "Access denied" in await played.fail("write_file", path=str(outside), content="mine")
        assert outside.read_text() == "secret"
        assert "`path`" in await played.fail("read_text_file")


async def test_a_memory_that_outlives_its_server(stage: Stage, node_servers: pathlib.Path) -> None:
    command = [node_servers / "mcp-server-memory"]
    file = str(stage.folder / "memory.jsonl")
    vivaldi = {"name": "Vivaldi", "entityType": "composer", "observations": ["wrote concerti grossi"]}
    corelli = {"name": "Corelli", "entityType": "composer", "observations": []}
    async with stage.play("memory", command, MEMORY_FILE_PATH=file) as played:
        await played.call("create_entities", entities=[vivaldi, corelli])
        relation = {"from": "Vivaldi", "to": "Corelli", "relationType": "learned from"}
        await played.call("create_relations", relations=[relation])
        found = structure((await played.call("search_nodes", query="concerti")).content)
        assert isinstance(found, dict)
        assert [one["name"] for one in found["entities"]] == ["Vivaldi"]
        assert "`entities`" in await played.fail("create_entities", entities="Vivaldi")
    async with stage.play("memory", command, MEMORY_FILE_PATH=file) as played:
        graph = structure((await played.call("read_graph")).content)
        assert isinstance(graph, dict)
        assert graph["entities"] == [vivaldi, corelli]
        assert graph["relations"] == [relation]
        await played.call("delete_entities", entityNames=["Vivaldi"])
        emptied = structure((await played.call("read_graph")).content)
        assert emptied == {"entities": [corelli], "relations": []}
