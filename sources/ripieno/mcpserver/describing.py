"""Invokers as tools of the protocol: name, description, schemas, and hints about their effect."""

from typing import Any

from mcp_types import Tool, ToolAnnotations

from ripieno.descriptors import Policy
from ripieno.ensembles import Invoker
from ripieno.jsonvalues import thaw


def describe(invoker: Invoker, *, modern: bool) -> Tool:
    """The tool that a client sees. ``modern``: of 2026-07-28 and later, where results may have any schema."""
    return Tool(
        name=invoker.exposed,
        description=invoker.description or None,
        input_schema=thaw(invoker.arguments_schema),
        output_schema=output_schema(invoker, modern=modern),
        annotations=_hints(invoker.policy),
    )


def output_schema(invoker: Invoker, *, modern: bool) -> dict[str, Any] | None:
    """The schema of structured results; the handshake era knows only objects."""
    schema = invoker.results_schema
    if schema is None or not (modern or schema.get("type") == "object"):
        return None
    thawed: dict[str, Any] = thaw(schema)
    return thawed


def _hints(policy: Policy) -> ToolAnnotations:
    """What the policy knows. ``write`` says nothing of destruction: what is not declared counts as a write.

    A hint that is missing is read as the dangerous one (specification, ``ToolAnnotations``).
    """
    if policy.harmless:
        # What only looks at its arguments meets nobody; what reads may read anything.
        closed = False if policy.effect == "none" else None
        return ToolAnnotations(
            read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=closed
        )
    return ToolAnnotations(
        read_only_hint=False,
        destructive_hint=True if policy.effect == "destructive" else None,
        idempotent_hint=policy.idempotent,
    )
