"""The table of linters, type checkers and formatters: their projects, their commands, and their readers."""

from collections.abc import Callable, Sequence
from typing import Literal

from ripieno.toolset.checks.diagnostics import (
    Diagnostic,
    read_cargo,
    read_eslint,
    read_lines,
    read_pyright,
    read_ruff,
    read_typescript,
)
from ripieno.toolset.programs.projects import Project, has_file, is_python
from ripieno.values import Value

Kind = Literal["lint", "typecheck", "format"]
Fits = Callable[[Project], bool]


class Checker(Value):
    """A tool of one kind, whose name begins with its program.

    Its ``arguments`` are followed by those of ``check`` or ``write``, then by the targets: ``default`` if a call names
    none; with ``default`` None it takes none and checks the whole project. ``configured``: the project has settings for
    it; by default it does if it ``fits``. ``read`` is None if its output has no diagnostics.
    """

    name: str
    kind: Kind
    fits: Fits
    arguments: Sequence[str]
    default: Sequence[str] | None = None
    configured: Fits | None = None
    read: Callable[[str], list[Diagnostic] | None] | None = None
    check: Sequence[str] = ()
    write: Sequence[str] = ()

    @property
    def program(self) -> str:
        """The program that runs it."""
        return self.name.partition(" ")[0]

    def command(self, targets: Sequence[str], *, check: bool) -> list[str]:
        """The arguments of its program."""
        return [*self.arguments, *(self.check if check else self.write), *(targets or self.default or ())]

    def is_configured(self, project: Project) -> bool:
        """Whether the project uses it."""
        return (self.configured or self.fits)(project)


_node, _rust, _go = has_file("package.json"), has_file("Cargo.toml"), has_file("go.mod")


def _tool(name: str, *files: str) -> Fits:
    """Whether the project configures a tool: in pyproject.toml, in package.json, or in its own file."""
    return lambda project: name in project.python or project.depends_on(name) or bool(project.files & set(files))


def _run(kind: Kind) -> tuple[Checker, ...]:
    """The project's own scripts and targets of that name; these come last."""
    return (
        Checker(f"npm run {kind}", kind, lambda project: project.script(kind) is not None, ["run", "--silent", kind]),
        Checker(f"make {kind}", kind, lambda project: kind in project.targets, [kind]),
    )


_MYPY_OPTIONS = (
    *("--no-pretty", "--no-color-output", "--no-error-summary", "--show-column-numbers", "--show-error-codes"),
    *("--hide-error-context", "--"),
)
_TSC_OPTIONS = ("--noEmit", "--pretty", "false")
_CARGO_OPTIONS = ("--message-format=json", "--all-targets")
#: Default targets: the directory, and Go's packages beneath it.
_HERE, _PACKAGES = (".",), ("./...",)
_IS_RUFF = _tool("ruff", "ruff.toml", ".ruff.toml")
_IS_ESLINT = _tool("eslint", "eslint.config.js", "eslint.config.mjs", ".eslintrc.json")
_IS_PRETTIER = _tool("prettier", ".prettierrc", ".prettierrc.json", "prettier.config.js")
_IS_PYRIGHT = _tool("pyright", "pyrightconfig.json")

CHECKERS: tuple[Checker, ...] = (
    Checker("ruff", "lint", is_python, ("check", "--output-format=json", "--no-fix", "--"), _HERE, _IS_RUFF, read_ruff),
    Checker("flake8", "lint", is_python, ("--format=default", "--"), _HERE, _tool("flake8", ".flake8"), read_lines),
    Checker("eslint", "lint", _node, ("--format=json", "--"), _HERE, _IS_ESLINT, read_eslint),
    Checker("cargo clippy", "lint", _rust, ("clippy", *_CARGO_OPTIONS), read=read_cargo),
    Checker("go vet", "lint", _go, ("vet",), _PACKAGES, read=read_lines),
    *_run("lint"),
    Checker("mypy", "typecheck", is_python, _MYPY_OPTIONS, _HERE, _tool("mypy", "mypy.ini", ".mypy.ini"), read_lines),
    Checker("pyright", "typecheck", is_python, ("--outputjson",), (), _IS_PYRIGHT, read_pyright),
    Checker("tsc", "typecheck", _node, _TSC_OPTIONS, None, _tool("typescript", "tsconfig.json"), read_typescript),
    Checker("cargo check", "typecheck", _rust, ("check", *_CARGO_OPTIONS), read=read_cargo),
    Checker("go build", "typecheck", _go, ("build", "-o", "/dev/null"), _PACKAGES, read=read_lines),
    *_run("typecheck"),
    Checker("ruff format", "format", is_python, ("format",), _HERE, _IS_RUFF, check=("--check", "--"), write=("--",)),
    Checker("black", "format", is_python, (), _HERE, _tool("black"), check=("--check", "--"), write=("--",)),
    Checker(
        "prettier", "format", _node, (), _HERE, _IS_PRETTIER, check=("--list-different", "--"), write=("--write", "--")
    ),
    Checker("cargo fmt", "format", _rust, ("fmt",), check=("--", "--check", "-l")),
    Checker("gofmt", "format", _go, ("-l",), _HERE, write=("-w",)),
)
