"""``syntax_check``: whether files can be parsed. Nothing in them is run.

The standard library parses Python, JSON, TOML and XML in a separate process, since a file may stall or crash a parser.
Other languages are parsed by the system's own program, if installed. Programs of the workspace are not run, because
this tool only reads and asks for no confirmation.
"""

import json
import os
import re
import sys
from typing import Any

from ripieno.ensembles import Context, Outcome
from ripieno.ensembles.requirements import has_command
from ripieno.exceptions import ValidationFault
from ripieno.origins.command.outcomes import failure
from ripieno.origins.command.programs import GRACE, run, surroundings_of, true_path
from ripieno.sandbox import ProcessLimits
from ripieno.toolset.checks.diagnostics import Diagnostic
from ripieno.toolset.workspace.workspace import Workspace

_KINDS = {
    **dict.fromkeys((".py", ".pyi"), "python"),
    **dict.fromkeys((".json", ".webmanifest"), "json"),
    ".toml": "toml",
    **dict.fromkeys((".xml", ".svg", ".xsd"), "xml"),
}
_PROGRAMS = {
    **dict.fromkeys((".js", ".mjs", ".cjs"), ("node", "--check")),
    **dict.fromkeys((".sh", ".bash"), ("bash", "-n")),
    ".rb": ("ruby", "-c"),
    ".php": ("php", "-l"),
    ".go": ("gofmt", "-e", "-l"),
}
_LIMITS = ProcessLimits(output_bytes=2**20, grace=GRACE)
#: Bytes of the largest file that is checked.
_FILE = 2 * 2**20
#: Reads [kind, text] from standard input; writes [line, column, message], or null.
_SCRIPT = """
import json, re, sys
kind, text = json.load(sys.stdin)
said = None
try:
    if kind == "python":
        compile(text, "it", "exec", dont_inherit=True)
    elif kind == "json":
        json.loads(text)
    elif kind == "toml":
        import tomllib
        tomllib.loads(text)
    else:
        from xml.parsers import expat
        expat.ParserCreate().Parse(text.encode(), True)
except SyntaxError as error:
    said = [error.lineno, error.offset, error.msg]
except json.JSONDecodeError as error:
    said = [error.lineno, error.colno, error.msg]
except (ValueError, RecursionError, MemoryError) as error:
    place = re.search(r"at line (\\d+), column (\\d+)", str(error))
    said = [int(place[1]) if place else None, int(place[2]) if place else None, str(error) or type(error).__name__]
except Exception as error:
    said = [getattr(error, "lineno", None), getattr(error, "offset", None), str(error)]
print(json.dumps(said))
"""
_PLACE = re.compile(r"(?::|: line | on line )(?P<line>\d{1,7})(?::(?P<column>\d{1,5}))?")


async def syntax_check(context: Context, arguments: dict[str, Any]) -> Outcome:
    """Checks the syntax of files. Mistakes and unsupported files are results, not failures."""
    problems: list[Diagnostic] = []
    left_out: list[dict[str, str]] = []
    paths: list[str] = list(dict.fromkeys(arguments["paths"]))
    for path in paths:
        ending = os.path.splitext(path)[1].lower()
        if ending in _KINDS:
            problem = await _parse(context, path, _KINDS[ending])
        elif ending in _PROGRAMS and has_command(_PROGRAMS[ending][0]):
            problem = await _ask(context, path, _PROGRAMS[ending])
        else:
            _read(context, path)
            name = _PROGRAMS[ending][0] if ending in _PROGRAMS else None
            reason = f"there is no program {name!r}" if name else f"files that end in {ending!r} are not supported"
            left_out.append({"file": path, "reason": reason})
            continue
        if problem is not None:
            problems.append(problem)
    checked = len(paths) - len(left_out)
    content: dict[str, Any] = {"checked": checked, "clean": not problems and not left_out}
    content["problems"] = [one.mapping() for one in problems]
    return Outcome(content={**content, "left_out": left_out} if left_out else content)


async def _parse(context: Context, path: str, kind: str) -> Diagnostic | None:
    data = _read(context, path)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return Diagnostic(file=path, message=f"It is not UTF-8: {error.reason} at byte {error.start}.")
    # Never the project's own interpreter, although it knows the project's syntax best: it is not trusted.
    done = await run(
        context,
        [sys.executable, "-I", "-S", "-W", "ignore", "-c", _SCRIPT],
        stdin=json.dumps([kind, text]).encode(),
        write=False,
        limits=_LIMITS,
    )
    try:
        result: Any = json.loads(done.stdout.text)
    except ValueError:
        if done.exit_code >= 0:
            raise failure(sys.executable, done, context.invoker.policy.output) from None
        result = [None, None, f"The parser crashed (signal {-done.exit_code})."]
    if result is None:
        return None
    line, column, message = result
    return Diagnostic(file=path, line=line, column=column, message=str(message))


async def _ask(context: Context, path: str, command: tuple[str, ...]) -> Diagnostic | None:
    _read(context, path)
    place = true_path(context, path)
    done = await run(context, [*command, place], write=False, limits=_LIMITS)
    if done.exit_code == 0 and not done.flooded:
        return None
    output = (done.stderr.text.strip() or done.stdout.text.strip()).replace(place, path)
    found = _PLACE.search(output)
    line, column = (found["line"], found["column"]) if found else (None, None)
    reason = re.search(r"^\w*(?:Error|error): .*$", output, re.MULTILINE)
    return Diagnostic(
        file=path,
        line=None if line is None else int(line),
        column=None if column is None else int(column),
        message=reason[0] if reason else output or f"{command[0]} ended with exit code {done.exit_code}.",
    )


def _read(context: Context, path: str) -> bytes:
    """The content of a file. Errors: ``ToolFault``."""
    with Workspace(surroundings_of(context).workspace) as workspace, workspace.open_file(path) as file:
        data = file.read(_FILE + 1) or b""
    if len(data) > _FILE:
        raise ValidationFault(f"{path!r} has more than {_FILE // 2**20} MiB.", code="too_large")
    return data
