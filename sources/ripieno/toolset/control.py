"""Bundled invocables for the course of a task: ending it, asking the person behind it, and marking a place in it.

That ``submit`` and ``abort`` end the run, and that ``retry`` runs an earlier call, is the matter of their policies.

Bundled invocables for thinking aloud. They only record: what was said stands in the conversation, as a call.
"""

from typing import Any

from ripieno.ensembles import Context
from ripieno.exceptions import ResourceFault
from ripieno.toolset.workspace.undo import mark


async def submit(_: Context, arguments: dict[str, Any]) -> str:
    """Takes the answer; the conversation has it as its submission."""
    confidence = arguments.get("confidence")
    return "Submitted." if confidence is None else f"Submitted, with a confidence of {confidence:g}."


async def abort(_: Context, arguments: dict[str, Any]) -> str:
    """Takes the reason; the conversation has it as its submission."""
    return f"The task was given up: {arguments['reason']}"


async def ask_user(context: Context, arguments: dict[str, Any]) -> str:
    """Asks whoever is behind the call. What nobody answers, the model has to decide."""
    answer: dict[str, Any] = {"type": "string", "description": "Your answer"}
    if options := arguments.get("options"):
        answer["enum"] = options
    schema = {"type": "object", "properties": {"answer": answer}, "required": ["answer"]}
    values = await context.inquire(arguments["question"], schema)
    if values is None:
        return (
            "Nobody answered. Decide by yourself what is most likely wanted, choose what can be undone, and say in the "
            "end what you assumed."
        )
    return str(values["answer"])


async def retry(_: Context, arguments: dict[str, Any]) -> str:
    """Reached only by whoever calls it without the pipeline, which runs the call that is named."""
    raise ResourceFault(f"There is no conversation here in which {arguments['invocation']!r} could be found.")


def checkpoint(context: Context, arguments: dict[str, Any]) -> str:
    """Marks the undo journal. Errors: ``ResourceFault`` where none is kept."""
    number = mark(context, arguments["label"])
    if number is None:
        raise ResourceFault(
            "No journal of changes is kept here, so there is nothing to go back to.",
            code="no_journal",
            suggestion="Commit your work with git instead.",
        )
    return f"Checkpoint {arguments['label']!r} is entry {number} of the journal. ripieno undo --to goes back to it."


async def record(_: Context, arguments: dict[str, Any]) -> str:  # noqa: ARG001  recorded with the call
    """Says that it was taken down."""
    return "Recorded."
