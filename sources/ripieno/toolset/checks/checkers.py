"""The table of linters, type checkers and formatters: their projects, their commands, and their readers."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Literal

from ripieno.toolset.checks import diagnostics
from ripieno.toolset.checks.diagnostics import Diagnostic
from ripieno.toolset.programs.projects import Project

Kind = Literal["lint", "typecheck", "format"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Checker:
    """A tool of one kind. ``arguments(targets, check)`` follow its program.

    ``configured``: the project has settings for it. ``read`` is None if its output has no diagnostics. ``whole``: it
    takes no targets and checks the whole project.
    """

    name: str
    kind: Kind
    program: str
    fits: Callable[[Project], bool]
    configured: Callable[[Project], bool]
    arguments: Callable[[Sequence[str], bool], list[str]]
    read: Callable[[str], list[Diagnostic] | None] | None = None
    whole: bool = False


def _python(project: Project) -> bool:
    return project.is_python


def _node(project: Project) -> bool:
    return "package.json" in project.files


def _rust(project: Project) -> bool:
    return project.is_rust


def _go(project: Project) -> bool:
    return project.is_go


def _tool(name: str, *files: str) -> Callable[[Project], bool]:
    """Whether the project configures a tool: in pyproject.toml, in package.json, or in its own file."""
    return lambda project: name in project.python or project.depends_on(name) or bool(project.files & set(files))


def _target(name: str) -> Callable[[Project], bool]:
    return lambda project: name in project.targets


def _script(name: str) -> Callable[[Project], bool]:
    return lambda project: project.script(name) is not None


def _run(kind: Kind) -> tuple[Checker, ...]:
    """The project's own scripts and targets of that name; these come last."""
    return (
        Checker(
            name=f"npm run {kind}",
            kind=kind,
            program="npm",
            fits=_script(kind),
            configured=_script(kind),
            arguments=lambda _, __: ["run", "--silent", kind],
            whole=True,
        ),
        Checker(
            name=f"make {kind}",
            kind=kind,
            program="make",
            fits=_target(kind),
            configured=_target(kind),
            arguments=lambda _, __: [kind],
            whole=True,
        ),
    )


CHECKERS: tuple[Checker, ...] = (
    Checker(
        name="ruff",
        kind="lint",
        program="ruff",
        fits=_python,
        configured=_tool("ruff", "ruff.toml", ".ruff.toml"),
        arguments=lambda targets, _: ["check", "--output-format=json", "--no-fix", "--", *(targets or ["."])],
        read=diagnostics.read_ruff,
    ),
    Checker(
        name="flake8",
        kind="lint",
        program="flake8",
        fits=_python,
        configured=_tool("flake8", ".flake8"),
        arguments=lambda targets, _: ["--format=default", "--", *(targets or ["."])],
        read=diagnostics.read_lines,
    ),
    Checker(
        name="eslint",
        kind="lint",
        program="eslint",
        fits=_node,
        configured=_tool("eslint", "eslint.config.js", "eslint.config.mjs", ".eslintrc.json"),
        arguments=lambda targets, _: ["--format=json", "--", *(targets or ["."])],
        read=diagnostics.read_eslint,
    ),
    Checker(
        name="cargo clippy",
        kind="lint",
        program="cargo",
        fits=_rust,
        configured=_rust,
        arguments=lambda _, __: ["clippy", "--message-format=json", "--all-targets"],
        read=diagnostics.read_cargo,
        whole=True,
    ),
    Checker(
        name="go vet",
        kind="lint",
        program="go",
        fits=_go,
        configured=_go,
        arguments=lambda targets, _: ["vet", *(targets or ["./..."])],
        read=diagnostics.read_lines,
    ),
    *_run("lint"),
    Checker(
        name="mypy",
        kind="typecheck",
        program="mypy",
        fits=_python,
        configured=_tool("mypy", "mypy.ini", ".mypy.ini"),
        arguments=lambda targets, _: [
            *("--no-pretty", "--no-color-output", "--no-error-summary", "--show-column-numbers", "--show-error-codes"),
            *("--hide-error-context", "--"),
            *(targets or ["."]),
        ],
        read=diagnostics.read_lines,
    ),
    Checker(
        name="pyright",
        kind="typecheck",
        program="pyright",
        fits=_python,
        configured=_tool("pyright", "pyrightconfig.json"),
        arguments=lambda targets, _: ["--outputjson", *targets],
        read=diagnostics.read_pyright,
    ),
    Checker(
        name="tsc",
        kind="typecheck",
        program="tsc",
        fits=_node,
        configured=_tool("typescript", "tsconfig.json"),
        arguments=lambda _, __: ["--noEmit", "--pretty", "false"],
        read=diagnostics.read_typescript,
        whole=True,
    ),
    Checker(
        name="cargo check",
        kind="typecheck",
        program="cargo",
        fits=_rust,
        configured=_rust,
        arguments=lambda _, __: ["check", "--message-format=json", "--all-targets"],
        read=diagnostics.read_cargo,
        whole=True,
    ),
    Checker(
        name="go build",
        kind="typecheck",
        program="go",
        fits=_go,
        configured=_go,
        arguments=lambda targets, _: ["build", "-o", "/dev/null", *(targets or ["./..."])],
        read=diagnostics.read_lines,
    ),
    *_run("typecheck"),
    Checker(
        name="ruff format",
        kind="format",
        program="ruff",
        fits=_python,
        configured=_tool("ruff", "ruff.toml", ".ruff.toml"),
        arguments=lambda targets, check: ["format", *(["--check"] if check else []), "--", *(targets or ["."])],
    ),
    Checker(
        name="black",
        kind="format",
        program="black",
        fits=_python,
        configured=_tool("black"),
        arguments=lambda targets, check: [*(["--check"] if check else []), "--", *(targets or ["."])],
    ),
    Checker(
        name="prettier",
        kind="format",
        program="prettier",
        fits=_node,
        configured=_tool("prettier", ".prettierrc", ".prettierrc.json", "prettier.config.js"),
        arguments=lambda targets, check: ["--list-different" if check else "--write", "--", *(targets or ["."])],
    ),
    Checker(
        name="cargo fmt",
        kind="format",
        program="cargo",
        fits=_rust,
        configured=_rust,
        arguments=lambda _, check: ["fmt", *(["--", "--check", "-l"] if check else [])],
        whole=True,
    ),
    Checker(
        name="gofmt",
        kind="format",
        program="gofmt",
        fits=_go,
        configured=_go,
        arguments=lambda targets, check: ["-l", *([] if check else ["-w"]), *(targets or ["."])],
    ),
)
