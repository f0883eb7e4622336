"""The template grammar of descriptors: text with placeholders for arguments and variables. Without I/O.

``{name}`` is an argument, ``{env:NAME}`` a variable (only where the caller allows variables), ``{{`` and ``}}`` are
braces. A template fills exactly one place (an element of argv, a segment of a path, a value of a query or header):
no value can add an element, a segment, a host or an option. Values are written as JSON, strings without quotes. An
argument that is null counts as absent.
"""

from ripieno.descriptors.templates.argv import ArgvTemplate
from ripieno.descriptors.templates.checks import Complaint
from ripieno.descriptors.templates.placeholders import Placeholder
from ripieno.descriptors.templates.text import Template

__all__ = ["ArgvTemplate", "Complaint", "Placeholder", "Template"]
