"""The one template grammar of descriptors: text with places for arguments and variables. Pure.

``{name}`` is an argument, ``{env:NAME}`` a variable (only where the caller allows variables), ``{{`` and ``}}`` are
braces. A template fills exactly one place (an element of argv, a segment of a path, a value of a query or header),
whatever the values are: no value can add an element, a segment, a host or an option.

Values are written as JSON would write them, strings without quotes. An argument that is null counts as absent.
"""

from ripieno.templates.argvs import ArgvTemplate
from ripieno.templates.checking import Complaint
from ripieno.templates.places import Placeholder
from ripieno.templates.texts import Template

__all__ = ["ArgvTemplate", "Complaint", "Placeholder", "Template"]
