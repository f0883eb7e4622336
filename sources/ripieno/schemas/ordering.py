"""The order in which subschemas can be weighed: what they lead to first, recursion set aside."""

from collections.abc import Iterator, Mapping, Sequence

from ripieno.exceptions import SchemaInvalidity
from ripieno.schemas.walking import IN_PLACE, Graph, Node


def groups_of(graph: Graph) -> Iterator[Sequence[Node]]:
    """Groups of subschemas that lead to each other; each after the groups that it leads to.

    Within a group each comes after those that it applies in place. Errors: ``SchemaInvalidity`` when a subschema
    applies itself in place.
    """
    if not graph.refers:
        return ((node,) for node in reversed(graph.nodes.values()))  # A tree, and parents were visited first.
    ranks = _ranks_in_place(graph)
    return (sorted(group, key=lambda node: ranks[node]) for group in _components(graph))


def _components(graph: Graph) -> Iterator[list[Node]]:
    """Strongly connected components. Source: Tarjan, 1972."""
    index: dict[Node, int] = {}
    lowest: dict[Node, int] = {}
    path: list[Node] = []
    done: set[Node] = set()
    for start in graph.nodes.values():
        stack = [] if start in index else [(start, 0)]
        while stack:
            node, position = stack.pop()
            if position:
                before = node.edges[position - 1][2]
                if before not in done:
                    lowest[node] = min(lowest[node], lowest[before])
            else:
                index[node] = lowest[node] = len(index)
                path.append(node)
            if position < len(node.edges):
                stack.append((node, position + 1))
                if (below := node.edges[position][2]) not in index:
                    stack.append((below, 0))
            elif lowest[node] == index[node]:
                group = [path.pop()]
                while group[-1] is not node:
                    group.append(path.pop())
                done.update(group)
                yield group


def _ranks_in_place(graph: Graph) -> Mapping[Node, int]:
    """Subschemas by the order in which they can be applied to the same value, innermost first."""
    waiting = {node: sum(1 for _ in node.follow(*IN_PLACE)) for node in graph.nodes.values()}
    above: dict[Node, list[Node]] = {}
    for node, count in waiting.items():
        for below in node.follow(*IN_PLACE) if count else ():
            above.setdefault(below, []).append(node)
    ready = [node for node, count in waiting.items() if not count]
    for node in ready:
        for upper in above.get(node, ()):
            waiting[upper] -= 1
            if not waiting[upper]:
                ready.append(upper)
    if stuck := next((node for node, count in waiting.items() if count), None):
        raise SchemaInvalidity("The schema applies itself to the same value, without end.", pointer=stuck.pointer)
    return {node: rank for rank, node in enumerate(ready)}
