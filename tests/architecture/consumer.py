"""A consumer's file, which type checkers read as a user's would be: the face, a plugin, a test."""

import asyncio
from typing import Any

import ripieno
from ripieno.ensembles import Context
from ripieno.exceptions import ResourceFault
from ripieno.testing import call, turn
from ripieno.testing.wires import model_of


async def find_city(context: Context, arguments: dict[str, Any]) -> dict[str, Any]:
    """An invocable of a plugin."""
    context.progress(1, 2)
    if arguments["city"] == "Atlantis":
        raise ResourceFault("It is under water.", suggestion="Ask for another.")
    return {"city": arguments["city"]}


def add(first: int, second: int = 2) -> int:
    """Adds two numbers."""
    return first + second


async def embed() -> str:
    """What an application writes."""
    async with ripieno.assemble({"model": {"default": "anthropic/claude-sonnet-4-5"}}) as assembly:
        run = assembly.conduct("What is in README.rst?", controls=ripieno.Controls(stream=False))
        async for event in run:
            ripieno.show(event)
        conversation = await run
        conversation = await assembly.conduct(conversation.say("And who wrote it?"))
        return conversation.text


async def rehearse() -> ripieno.Conversation:
    """What a test of a user writes."""
    mine = ripieno.Ensemble.of_functions("mine", [add])
    model = model_of([turn(calls=[call("add", first=1)]), turn("Done.")])
    execution = ripieno.Execution(rules=ripieno.Rules(approve=("mine.*",)))
    return await ripieno.conduct(model, "Add.", ensembles=[mine], execution=execution)


if __name__ == "__main__":
    print(asyncio.run(rehearse()).text)
