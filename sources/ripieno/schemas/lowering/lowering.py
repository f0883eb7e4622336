"""The walk that lowers a schema: each subschema once, references as references, with a limit."""

from collections.abc import Mapping, Sequence
from typing import Any

from ripieno.jsonvalues import is_list, is_table
from ripieno.lazy.expressions import expression
from ripieno.schemas.cost import groups_of
from ripieno.schemas.graph import REFERENCES, Graph, Node
from ripieno.schemas.lowering.arrays import lower_array
from ripieno.schemas.lowering.conjunctions import ABOUT, ANNOTATIONS, STRICTEST, Conjunction, own
from ripieno.schemas.lowering.dialects import Dialect
from ripieno.schemas.lowering.literals import accepts_null, lower_literals
from ripieno.schemas.lowering.losses import Loss, Lowered, Outcome, Refusal, check_limits, with_notes, words
from ripieno.schemas.lowering.lowerer import SCALARS, either, unique
from ripieno.schemas.lowering.objects import lower_object
from ripieno.schemas.lowering.roots import plain_root, united
from ripieno.schemas.schema import Schema

#: Subschemas that one lowering may produce. Subschemas that apply together are merged, which can repeat them.
_MAX_SUBSCHEMAS = 4_000
#: Levels of merged subschemas before one becomes a definition.
_MAX_LEVELS = 40
_STRUCTURED = frozenset({"object", "array"})
_HIDDEN = "the reference beside it hides it in this dialect"
_NOT_IN_NAMES = expression(r"[^A-Za-z0-9_.-]")
#: Look-around and back-references, which no automaton supports.
_UNBOUNDED = ("(?=", "(?!", "(?<=", "(?<!", "\\1", "\\k<")


def lower(schema: Schema, dialect: Dialect) -> Lowered:
    """The schema in a dialect. Every difference is a loss. Raises nothing."""
    from ripieno.schemas.validator import dialect_of

    graph = Graph(schema.mapping, dialect=dialect_of(schema.mapping))
    whole, losses = plain_root(graph)
    plain = Lowered(schema=whole, losses=losses)
    if not dialect.keywords:
        return plain
    walk = Walk(graph, dialect)
    try:
        mapping = walk.whole()
        if dialect.limits is not None:
            check_limits(mapping, dialect.limits)
    except Refusal as refusal:
        return Lowered(schema=whole, losses=(*losses, refusal.loss), reason=refusal.reason)
    return Lowered(schema=mapping, losses=tuple(walk.losses), strict=dialect.strict)


class Walk:
    """One lowering. ``losses`` are in the order of discovery, each once."""

    def __init__(self, graph: Graph, dialect: Dialect) -> None:
        self.dialect = dialect
        self.losses: dict[Loss, None] = {}
        self.recursive = _recursive(graph)
        self._graph = graph
        self._definitions: dict[str, Mapping[str, Any]] = {}
        self._names: dict[tuple[Node, ...], str] = {(graph.root,): ""}
        self._open: set[tuple[Node, ...]] = set()
        #: Definitions that have a name but are not lowered yet.
        self._waiting: list[tuple[Node, ...]] = []
        self._left = _MAX_SUBSCHEMAS
        self._met: set[Node] = set()

    def whole(self) -> dict[str, Any]:
        """The root, with its definitions. Errors: ``Refusal``."""
        root = self._conjunction((self._graph.root,), root=True)
        if root is None or root.get("type") != "object":
            raise Refusal("", "", "its root is not an object of named properties")
        for key in self._waiting:
            target = _target(key[0]) if len(key) == 1 else None
            lowered = self._conjunction(key) if target is None else self._referred(key[0], target)
            self._definitions[self._names[key]] = lowered or {"type": "null"}
        for pointer, node in self._graph.nodes.items():
            keyword, _, name = pointer[1:].partition("/")
            if keyword in ("$defs", "definitions") and "/" not in name and node not in self._met:
                self.report("", pointer, "dropped", "it is no longer referred to")
        used = _used(root, self._definitions)
        return {**root, "$defs": used} if used else root

    def report(self, keyword: str, place: Node | str, outcome: Outcome, note: str = "") -> None:
        pointer = place if isinstance(place, str) else place.pointer
        self.losses[Loss(keyword=keyword, pointer=pointer, outcome=outcome, note=note)] = None

    def report_all(self, together: Conjunction, keyword: str, outcome: Outcome, note: str) -> None:
        for node, _ in together.values(keyword):
            self.report(keyword, node, outcome, note)
        together.take(keyword)

    def lower(self, nodes: Sequence[Node]) -> Mapping[str, Any] | None:
        """Several subschemas of one value, lowered to one; None if no value fits. Errors: ``Refusal``."""
        self._left -= 1
        if self._left < 0:
            raise Refusal("", "", f"it unfolds into more than {_MAX_SUBSCHEMAS} subschemas")
        key = tuple(dict.fromkeys(nodes))
        if key in self._names or key in self._open or len(self._open) >= _MAX_LEVELS:
            return self._defined(key)
        if len(key) == 1 and (target := _target(key[0])) is not None:
            return self._referred(key[0], target)
        self._open.add(key)
        lowered = self._conjunction(key)
        self._open.discard(key)
        if key not in self._names:
            return lowered
        self._definitions[self._names[key]] = lowered or {"type": "null"}
        return self._defined(key)

    def _referred(self, node: Node, target: Node) -> Mapping[str, Any] | None:
        self._met.update((node, target))
        annotated = Conjunction(()) if node.replaced else _annotations(node)
        if not target.edges and annotated.pending:
            return self._conjunction((node, target))
        if node.replaced:
            for keyword in node.schema:
                if keyword not in REFERENCES:
                    self.report(keyword, node, "dropped", _HIDDEN)
        for keyword in REFERENCES[1:]:
            if keyword in node.schema:
                self.report(keyword, node, "kept", "as $ref")
        lowered = self._defined((target,))
        out: dict[str, Any] = {}
        self._annotate(out, annotated)
        return {"anyOf": [lowered], **out} if out else lowered

    def _defined(self, key: tuple[Node, ...]) -> Mapping[str, Any]:
        """A reference to a definition, which is created if it does not exist."""
        if self.dialect.cycles == "nowhere" and (key in self._open or not self.recursive.isdisjoint(key)):
            raise Refusal("$ref", key[0].pointer, "it refers to itself, which this dialect cannot express")
        if key not in self._names:
            name = self._names[key] = self._name(key[0].pointer)
            self._definitions[name] = {}
            if key not in self._open:
                self._waiting.append(key)
        name = self._names[key]
        return {"$ref": f"#/$defs/{name}" if name else "#"}

    def _name(self, pointer: str) -> str:
        last = _NOT_IN_NAMES.sub("_", pointer.rpartition("/")[2]) or "whole"
        name, number = last, 2
        while name in self._definitions:
            name, number = f"{last}_{number}", number + 1
        return name

    def _conjunction(self, key: tuple[Node, ...], *, root: bool = False) -> dict[str, Any] | None:
        together = Conjunction(key, root=root)
        self._met.update(together.nodes)
        for node in together.nodes:
            if node.replaced:
                for keyword in node.schema.keys() - own(node).keys() - {"$ref"}:
                    self.report(keyword, node, "dropped", _HIDDEN)
        for keyword in ("allOf", *REFERENCES):
            self.report_all(together, keyword, "kept", "its parts are merged")
        lowered: dict[str, Any] | None = None
        if not together.never:
            chosen = together.choice()
            if chosen is None:
                lowered = self._lower_keywords(together)
            elif root:
                node, keyword, below = chosen
                self.report(keyword, node, "kept", "as one object with the properties of all its forms")
                merged = united(node, keyword, below)
                lowered = self._conjunction((*_stripped(together, node, keyword), merged), root=True)
                together.pending = {one: value for one, value in together.pending.items() if one[1] in ANNOTATIONS}
                together.notes.extend(filter(None, [words(keyword, own(node)[keyword])]))
            else:
                lowered = self._choice(together, *chosen)
        if lowered is None:
            for node in together.nodes:
                self.report("", node, "dropped", "no value fits, so it is left out")
            return None
        self._annotate(lowered, together)
        return lowered

    def _choice(self, together: Conjunction, node: Node, keyword: str, forms: Sequence[Node]) -> dict[str, Any] | None:
        """A choice among forms, each merged with the keywords beside the choice."""
        if keyword == "oneOf":
            self.report(keyword, node, "kept", "as anyOf, without the rule that only one of them fits")
        base = _stripped(together, node, keyword)
        together.pending = {one: value for one, value in together.pending.items() if one[1] in ANNOTATIONS}
        lowered = unique([self.lower((*base, form)) for form in forms])
        if not lowered:
            return None
        lone = len(lowered) == 1 and not together.annotated
        if lone:
            self.report(keyword, node, "kept", "as the only form that is left")
        return dict(lowered[0]) if lone else {"anyOf": lowered}

    def _lower_keywords(self, together: Conjunction) -> dict[str, Any] | None:
        """Keywords without a choice; None if no value fits."""
        types = together.types()
        literals = together.literals()
        if literals is not None:
            together.take("type")
            return lower_literals(self, together, literals, types)
        if types is None and self.dialect.strict:
            types = together.inferred()
            if not types:
                self.report("", together.nodes[0] if together.nodes else "", "kept", f"as {' or '.join(SCALARS)}")
                return {"type": list(SCALARS)}
        if types == ():
            return None
        together.take("type")
        if types is None or not self.dialect.strict or _STRUCTURED.isdisjoint(types) or len(types) == 1:
            return self.typed(together, types)
        together.textual, together.listed = "string" in types, "array" in types
        split = unique([self.typed(together, (one,)) or None for one in types if one in _STRUCTURED])
        if rest := tuple(one for one in types if one not in _STRUCTURED):
            split.append(self.typed(together, rest))
        return dict(either(split))

    def typed(self, together: Conjunction, types: tuple[str, ...] | None) -> dict[str, Any]:
        """The schema of values of these types, at most one of them structured; None is any type."""
        out: dict[str, Any] = {}
        if types is not None:
            out["type"] = types[0] if len(types) == 1 else list(types)
        if types is None or "object" in types:
            lower_object(self, together, out)
        if types is None or "array" in types:
            lower_array(self, together, out)
        for keyword in [*STRICTEST, "pattern", "format", "multipleOf"]:
            if keyword in together and (types is None or not set(types).isdisjoint(ABOUT[keyword])):
                self._lower_keyword(together, keyword, out)
        return out

    def _lower_keyword(self, together: Conjunction, keyword: str, out: dict[str, Any]) -> None:
        """Lowers a keyword with a simple value if the dialect has it; of several values, the strictest or the first."""
        found = [(node, value) for node, value in together.values(keyword) if not isinstance(value, bool)]
        if keyword not in self.dialect.keywords or not found or (keyword in ABOUT and "$ref" in out):
            return
        if ABOUT[keyword] == ("object",) or (ABOUT[keyword] == ("array",) and out.get("type") == "string"):
            return
        strictest = STRICTEST.get(keyword)
        values = [value for _, value in found]
        value = values[0] if strictest is None else strictest([*values, *([out[keyword]] if keyword in out else [])])
        if keyword == "format":
            expressible = value in self.dialect.formats
        elif keyword == "pattern":
            expressible = not any(part in value for part in _UNBOUNDED)
        else:
            expressible = keyword not in self.dialect.values or value in self.dialect.values[keyword]
        if not expressible:
            return
        out[keyword] = value
        for node, other in found:
            if strictest is not None or other == value:
                together.pending.pop((node, keyword), None)

    def _annotate(self, lowered: dict[str, Any], together: Conjunction) -> None:
        """Adds title and description; the description gets all keywords that the dialect lacks."""
        descriptions = [str(value) for _, value in together.values("description") if value]
        notes = together.notes
        if titles := together.values("title"):
            lowered.setdefault("title", titles[0][1])
            together.pending.pop((titles[0][0], "title"), None)
        together.take("description")
        for (node, keyword), value in together.pending.items():
            if keyword in ("$defs", "definitions"):
                continue  # Each definition is lowered or reported separately.
            note = words(keyword, value)
            if note is not None:
                notes.append(note)
            self.report(keyword, node, "moved" if note else "dropped", "into the description" if note else "")
        together.pending.clear()
        if "description" in lowered:
            descriptions.append(lowered["description"])
        text = with_notes(" ".join(dict.fromkeys(descriptions)), notes)
        if text:
            lowered["description"] = text

    def optional(self, lowered: Mapping[str, Any]) -> Mapping[str, Any]:
        """The schema with null allowed: an optional property, in a dialect where every property must be sent."""
        if accepts_null(lowered):
            return lowered
        kind = lowered.get("type")
        if kind is not None and "const" not in lowered and (not isinstance(kind, str) or kind not in _STRUCTURED):
            out = {**lowered, "type": [*([kind] if isinstance(kind, str) else kind), "null"]}
            if "enum" in lowered:
                out["enum"] = [*lowered["enum"], None]
            return out
        kept = {key: lowered[key] for key in ("description", "title") if key in lowered}
        rest = {key: value for key, value in lowered.items() if key not in kept}
        forms = rest["anyOf"] if rest.keys() == {"anyOf"} else [rest]
        return {"anyOf": [*forms, {"type": "null"}], **kept}


def _used(root: Mapping[str, Any], definitions: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """The definitions that the root leads to, in their order."""
    found: set[str] = set()
    waiting: list[Any] = [root]
    for one in waiting:
        if is_table(one):
            reference = one.get("$ref")
            name = reference.rpartition("/")[2] if isinstance(reference, str) else ""
            if name in definitions and name not in found:
                found.add(name)
                waiting.append(definitions[name])
            waiting.extend(one.values())
        elif is_list(one):
            waiting.extend(one)
    return {name: lowered for name, lowered in definitions.items() if name in found}


def _target(node: Node) -> Node | None:
    """The target of a subschema that only refers."""
    if not is_table(node.schema) or not any(keyword in node.schema for keyword in REFERENCES):
        return None
    rest = () if node.replaced else node.schema.keys() - ANNOTATIONS - set(REFERENCES)
    targets = tuple(node.follow(*REFERENCES))
    return targets[0] if len(targets) == 1 and not rest else None


def _annotations(node: Node) -> Conjunction:
    schema = {key: value for key, value in node.schema.items() if key in ANNOTATIONS}
    together = Conjunction((Node(node.pointer, schema),))
    together.pending = {(node, keyword): value for (_, keyword), value in together.pending.items()}
    return together


def _stripped(together: Conjunction, chosen: Node, keyword: str) -> tuple[Node, ...]:
    """The keywords beside a choice, which apply to every form."""
    found: list[Node] = []
    for node in together.nodes:
        left_out = {*ANNOTATIONS, *REFERENCES, "allOf", *((keyword,) if node is chosen else ())}
        schema = {key: value for key, value in own(node).items() if key not in left_out}
        if schema:
            found.append(Node(node.pointer, schema, edges=[edge for edge in node.edges if edge[0] in schema]))
    return tuple(found)


def _recursive(graph: Graph) -> frozenset[Node]:
    return frozenset(
        node
        for group in (groups_of(graph) if graph.refers else ())
        if len(group) > 1 or any(below is group[0] for _, _, below in group[0].edges)
        for node in group
    )
