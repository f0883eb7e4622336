"""How Sphinx builds this documentation: ``make docs``. A warning is an error, and nothing is downloaded."""

import pathlib
import sys
import tomllib

ROOT = pathlib.Path(__file__).parents[1]
METADATA = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

project = "Ripieno"
author = METADATA["authors"][0]["name"]
project_copyright = f"2026, {author}"
release = version = METADATA["version"]

sys.path.insert(0, str(ROOT / "documentation" / "extensions"))
extensions = ["generated", "sphinx.ext.autodoc", "sphinx.ext.doctest"]
exclude_patterns = ["examples/**", "extensions/**"]  # they are projects of their own; pages include their files

# Every reference must lead somewhere. Names of other projects cannot, since no inventory of theirs is downloaded;
# and the last part of a dotted name of ours is how autodoc spells a type that a module imported.
nitpicky = True
nitpick_ignore_regex = [(r"py:.*", r"(?!ripieno\.).*")]

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100

html_theme = "furo"
html_title = f"Ripieno {release}"
html_copy_source = False
