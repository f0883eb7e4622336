"""Argument schemas: checked, compiled, validated, explained, and lowered to what a wire understands.

Schemas come from servers, callers and plugins, and arguments from models. Neither can make validation fetch, hang or
crash.
"""

from ripieno.schemas.description import Code, SchemaProblem
from ripieno.schemas.schema import Schema

__all__ = [
    "Code",
    "Schema",
    "SchemaProblem",
]
