"""The ensemble ``execution``: a shell, a program without a shell, and code in Python and JavaScript.

Source of ``bash``'s arguments: seed 000, section 3.2.1. The text of a command never decides about its permissions; the
sandbox limits its access.
"""

from typing import Any

from ripieno.ensembles import Context, Outcome
from ripieno.ensembles.requirements import has_command
from ripieno.exceptions import ValidationFault
from ripieno.toolset.programs.projects import find_program
from ripieno.toolset.programs.settings import execute


async def bash(context: Context, arguments: dict[str, Any]) -> Outcome:
    """Runs ``command`` in bash, or in sh without one. The only tool whose arguments a shell reads."""
    command = _text(arguments, "command")
    shell = ["bash", "--noprofile", "--norc"] if has_command("bash") else ["sh"]
    return await execute(context, arguments, [*shell, "-c", "--", command])


async def run_command(context: Context, arguments: dict[str, Any]) -> Outcome:
    """Runs ``argv``, a program and its arguments."""
    stdin: str | None = arguments.get("stdin")
    return await execute(
        context,
        arguments,
        [str(word) for word in arguments["argv"]],
        stdin=None if stdin is None else _text(arguments, "stdin").encode(),
    )


async def python_exec(context: Context, arguments: dict[str, Any]) -> Outcome:
    """Runs Python code with the project's own interpreter, if it has one."""
    python = find_program(context, arguments.get("working_directory", "."), "python3", "python")
    return await execute(context, arguments, [python, "-"], stdin=_text(arguments, "code").encode())


async def node_exec(context: Context, arguments: dict[str, Any]) -> Outcome:
    """Runs JavaScript."""
    return await execute(context, arguments, ["node", "-"], stdin=_text(arguments, "code").encode())


def _text(arguments: dict[str, Any], name: str) -> str:
    """An argument that can be encoded as UTF-8. Errors: ``ValidationFault``."""
    text: str = arguments[name]
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValidationFault(f"{name} contains half of a surrogate pair, at position {error.start}.") from None
    return text
