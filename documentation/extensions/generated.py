"""Directives for text that is generated from the program: commands, data, the packages."""

import pathlib
import tomllib
from typing import Any

import click
import packages
import toolpages
from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.nodes import nested_parse_with_titles

from ripieno.cli.common import group

ROOT = pathlib.Path(__file__).parents[2]


class Generated(SphinxDirective):
    """Parses the reStructuredText that ``text`` returns at build time."""

    def text(self) -> str:
        return ""

    def run(self) -> list[nodes.Node]:
        section = nodes.section()
        section.document = self.state.document
        nested_parse_with_titles(self.state, StringList(self.text().splitlines(), "generated"), section)
        return section.children


class PackageDiagram(SphinxDirective):
    """``.. package-diagram::`` All packages, top down."""

    def run(self) -> list[nodes.Node]:
        path = ROOT / "pyproject.toml"
        self.env.note_dependency(str(path))
        picture = packages.svg(packages.layers(path.read_text(encoding="utf-8")))
        return [nodes.raw("", picture, format="html")]


class CommandReference(Generated):
    """``.. command-reference::`` Every command with its help."""

    def text(self) -> str:
        context = click.Context(group.GROUP, info_name="ripieno")
        blocks = [_block("ripieno", group.GROUP.get_help(context))]
        for name in group.COMMANDS:
            command = group.GROUP.get_command(context, name)
            if command is not None:
                child = click.Context(command, info_name=f"ripieno {name}")
                blocks.append(_block(f"ripieno {name}", command.get_help(child)))
        return "\n".join(blocks)


class ProviderTable(Generated):
    """``.. provider-table::`` The bundled providers and their capabilities."""

    def text(self) -> str:
        rows = []
        for file in sorted((ROOT / "data" / "providers").glob("*.toml")):
            data: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
            provider, can = data["provider"], data.get("capabilities", {})
            words = [name for name, value in can.items() if value is True]
            lacks = [name for name, value in can.items() if value is False]
            cells = (f"``{provider['name']}``", provider["protocol"], ", ".join(words), ", ".join(lacks))
            rows.append("   * - " + "\n     - ".join(cells))
        heads = ("provider", "protocol", "supports", "does not support")
        rows.insert(0, "   * - " + "\n     - ".join(heads))
        return ".. list-table::\n   :header-rows: 1\n\n" + "\n".join(rows) + "\n"


class ToolTable(Generated):
    """``.. tool-table::`` The bundled ensembles, and where their tools are described."""

    def text(self) -> str:
        return toolpages.overview()


class ToolReference(Generated):
    """``.. tool-reference:: ensemble`` Each tool of a bundled ensemble, with an example that the tests run."""

    required_arguments = 1

    def text(self) -> str:
        return toolpages.reference(self.arguments[0])


def _block(title: str, text: str) -> str:
    body = "\n".join(f"    {line}".rstrip() for line in text.splitlines())
    return f"``{title}``\n{'-' * (len(title) + 4)}\n\n.. code-block:: text\n\n{body}\n"


def setup(app: Sphinx) -> dict[str, Any]:
    """Registers the directives."""
    app.add_directive("package-diagram", PackageDiagram)
    app.add_directive("command-reference", CommandReference)
    app.add_directive("provider-table", ProviderTable)
    app.add_directive("tool-table", ToolTable)
    app.add_directive("tool-reference", ToolReference)
    return {"parallel_read_safe": True}
