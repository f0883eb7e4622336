"""JSON Schemas of arguments and results: validation, explanation, coercion, and lowering to the dialect of a wire.

Schemas come from servers, callers and plugins, arguments from models. Neither can make validation fetch, hang or crash.
"""

from ripieno.schemas.description import Code, SchemaProblem
from ripieno.schemas.schema import Schema

__all__ = ["Code", "Schema", "SchemaProblem"]
