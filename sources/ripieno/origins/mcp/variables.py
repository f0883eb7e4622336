"""Values of ``[connection]`` that may name variables: templates without arguments."""

import re
from typing import Any

from ripieno.descriptors.reader.kinds import INVALID, refuse
from ripieno.descriptors.reader.positions import Path
from ripieno.descriptors.reader.problems import Problems
from ripieno.descriptors.templates import Template
from ripieno.origins.settings import TemplateText

_SEED_FORM = re.compile(r"env:([A-Za-z_][A-Za-z0-9_]*)\Z")


class Variable:
    """The value of a variable: a template without arguments, or the seed's form ``env:NAME``."""

    expected = "a string, with {env:NAME} where a variable goes"

    def read(self, value: Any, path: Path, problems: Problems) -> Any:
        if not isinstance(value, str):
            return refuse(self, value, path, problems)
        match = _SEED_FORM.match(value)
        template = TemplateText(variables=True).read(f"{{env:{match[1]}}}" if match else value, path, problems)
        if isinstance(template, Template) and template.placeholders:
            message = f"{{{template.placeholders[0]}}} is the place of an argument, and a server has none"
            problems.add(path, message, 'Variables are "{env:NAME}"; write "{{" for a brace that is text.')
            return INVALID
        return template

    def schema(self) -> dict[str, Any]:
        return {"type": "string"}
