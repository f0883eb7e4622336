"""Bundled invocables for the course of a task, and for recorded thoughts.

The policies of ``submit`` and ``abort`` end the run, and that of ``retry`` runs an earlier call. Thoughts stay in the
conversation as calls.
"""

import shlex
from typing import Any

from ripieno.ensembles import Context
from ripieno.exceptions import ResourceFault, SchemaInvalidity, ValidationFault
from ripieno.toolset.workspace.undo import mark


async def submit(_: Context, arguments: dict[str, Any]) -> str:
    """Accepts the answer, which becomes the conversation's submission."""
    confidence = arguments.get("confidence")
    return "Submitted." if confidence is None else f"Submitted, with a confidence of {confidence:g}."


async def abort(_: Context, arguments: dict[str, Any]) -> str:
    """Accepts the reason, which becomes the conversation's submission."""
    return f"The task was given up: {arguments['reason']}"


async def ask_user(context: Context, arguments: dict[str, Any]) -> str:
    """Asks the person behind the call. Without an answer, the model decides.

    Errors: ``ValidationFault`` for options that are too long.
    """
    answer: dict[str, Any] = {"type": "string", "description": "Your answer"}
    if options := arguments.get("options"):
        answer["enum"] = options
    schema = {"type": "object", "properties": {"answer": answer}, "required": ["answer"]}
    try:
        values = await context.inquire(arguments["question"], schema)
    except SchemaInvalidity as error:
        raise ValidationFault(
            f"The options cannot be shown: {error}", suggestion="Give fewer and shorter ones."
        ) from None
    if values is None:
        return (
            "There is no answer. Decide yourself what is most likely wanted, prefer actions that can be undone, and "
            "state your assumptions at the end."
        )
    return str(values["answer"])


async def retry(_: Context, arguments: dict[str, Any]) -> str:
    """Reached only without the pipeline, which runs the named call."""
    raise ResourceFault(f"There is no conversation here in which {arguments['invocation']!r} could be found.")


def checkpoint(context: Context, arguments: dict[str, Any]) -> str:
    """Marks the undo log. Errors: ``ResourceFault`` where none is kept."""
    number = mark(context, arguments["label"])
    if number is None:
        raise ResourceFault(
            "No journal of changes is kept here, so a checkpoint is not possible.",
            code="no_journal",
            suggestion="Commit your work with git instead.",
        )
    label = arguments["label"]
    command = f"ripieno undo --to {shlex.quote(label)}"
    return f"Checkpoint {label!r} is entry {number} of the journal. To return to it, the user runs: {command}"


async def record(_: Context, arguments: dict[str, Any]) -> str:  # noqa: ARG001  recorded with the call
    """Confirms the recording."""
    return "Recorded."
