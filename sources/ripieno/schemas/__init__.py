"""Argument schemas: bound, compiled, validated and explained.

Schemas come from strangers (servers, callers, plugins), and arguments from models. Nothing that either sends
makes this fetch, hang, crash, or accept what another reader would refuse.
"""

from ripieno.schemas.describing import Code, SchemaProblem
from ripieno.schemas.schema import Schema

__all__ = ["Code", "Schema", "SchemaProblem"]
