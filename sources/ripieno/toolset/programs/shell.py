"""The ensemble ``execution``: a shell, a program without a shell, and code in Python and JavaScript.

Source of ``bash``'s arguments: seed 000, section 3.2.1. The text of a command never decides about its permissions; the
sandbox limits its access.
"""

from typing import Any

from ripieno.ensembles import Context, Outcome
from ripieno.ensembles.requirements import has_command
from ripieno.toolset.arguments import encoded
from ripieno.toolset.programs.projects import find_program
from ripieno.toolset.programs.settings import execute


async def bash(context: Context, arguments: dict[str, Any]) -> Outcome:
    """Runs ``command`` in bash, or in sh without one. The only tool whose arguments a shell reads."""
    command = encoded(arguments["command"], "command").decode()
    shell = ["bash", "--noprofile", "--norc"] if has_command("bash") else ["sh"]
    return await execute(context, arguments, [*shell, "-c", "--", command], command=command)


async def run_command(context: Context, arguments: dict[str, Any]) -> Outcome:
    """Runs ``argv``, a program and its arguments."""
    stdin = None if arguments.get("stdin") is None else encoded(arguments["stdin"], "stdin")
    return await execute(context, arguments, [str(word) for word in arguments["argv"]], stdin=stdin)


async def python_exec(context: Context, arguments: dict[str, Any]) -> Outcome:
    """Runs Python code with the project's own interpreter, if it has one."""
    python = find_program(context, arguments.get("working_directory", "."), "python3", "python")
    return await execute(context, arguments, [python, "-"], stdin=encoded(arguments["code"], "code"))


async def node_exec(context: Context, arguments: dict[str, Any]) -> Outcome:
    """Runs JavaScript."""
    return await execute(context, arguments, ["node", "-"], stdin=encoded(arguments["code"], "code"))
