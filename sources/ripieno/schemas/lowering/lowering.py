"""The walk that lowers a schema: each subschema once, references as references, and never without end."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ripieno.schemas.cost import groups_of
from ripieno.schemas.graph import REFERENCES, Graph, Node, is_mapping, is_sequence
from ripieno.schemas.lowering.arrays import say_array
from ripieno.schemas.lowering.conjunctions import ABOUT, ANNOTATIONS, STRICTEST, Conjunction, own
from ripieno.schemas.lowering.dialects import Dialect
from ripieno.schemas.lowering.literals import accepts_null, say_literals
from ripieno.schemas.lowering.losses import Loss, Lowered, Outcome, Refusal, check_limits, told, words
from ripieno.schemas.lowering.objects import say_object
from ripieno.schemas.lowering.roots import plain_root, united
from ripieno.schemas.lowering.walk import SCALARS, either, unique
from ripieno.schemas.schema import Schema

#: Subschemas that a lowering may make: what applies together is said together, and may so repeat itself.
_MOST = 4_000
#: How deep what applies together may stand inside itself, before it becomes a definition.
_DEEPEST = 40
_STRUCTURED = frozenset({"object", "array"})
#: Look-around and references back, which no automaton has.
_ODD = re.compile(r"[^A-Za-z0-9_.-]")
_UNBOUNDED = ("(?=", "(?!", "(?<=", "(?<!", "\\1", "\\k<")


def lower(schema: Schema, dialect: Dialect) -> Lowered:
    """The schema as a dialect can say it. Never raises, and never says what the original does not, but by a loss."""
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
    """One lowering. ``losses`` are in the order in which they were met, each once."""

    def __init__(self, graph: Graph, dialect: Dialect) -> None:
        self.dialect = dialect
        self.losses: dict[Loss, None] = {}
        self.recursive = _recursive(graph)
        self._graph = graph
        self._definitions: dict[str, Mapping[str, Any]] = {}
        self._names: dict[tuple[Node, ...], str] = {(graph.root,): ""}
        self._open: set[tuple[Node, ...]] = set()
        #: Definitions that are named, and not said yet.
        self._waiting: list[tuple[Node, ...]] = []
        self._left = _MOST
        self._met: set[Node] = set()

    def whole(self) -> dict[str, Any]:
        """The root, with its definitions. Errors: ``Refusal``."""
        root = self._conjunction((self._graph.root,), root=True)
        if root is None or root.get("type") != "object":
            raise Refusal("", "", "its root is no object of named properties")
        for key in self._waiting:
            target = _target(key[0]) if len(key) == 1 else None
            said = self._conjunction(key) if target is None else self._referred(key[0], target)
            self._definitions[self._names[key]] = said or {"type": "null"}
        for pointer, node in self._graph.nodes.items():
            keyword, _, name = pointer[1:].partition("/")
            if keyword in ("$defs", "definitions") and "/" not in name and node not in self._met:
                self.report("", pointer, "dropped", "nothing refers to it any more")
        used = _used(root, self._definitions)
        return {**root, "$defs": used} if used else root

    def report(self, keyword: str, place: Node | str, outcome: Outcome, note: str = "") -> None:
        """Notes a loss."""
        pointer = place if isinstance(place, str) else place.pointer
        self.losses[Loss(keyword=keyword, pointer=pointer, outcome=outcome, note=note)] = None

    def report_all(self, together: Conjunction, keyword: str, outcome: Outcome, note: str) -> None:
        """Notes what became of a keyword wherever it stands, and takes it."""
        for node, _ in together.values(keyword):
            self.report(keyword, node, outcome, note)
        together.take(keyword)

    def lower(self, nodes: Sequence[Node]) -> Mapping[str, Any] | None:
        """What several subschemas say of one value; None when no value fits. Errors: ``Refusal``."""
        self._left -= 1
        if self._left < 0:
            raise Refusal("", "", f"it unfolds into more than {_MOST} subschemas")
        key = tuple(dict.fromkeys(nodes))
        if key in self._names or key in self._open or len(self._open) >= _DEEPEST:
            return self._defined(key)
        if len(key) == 1 and (target := _target(key[0])) is not None:
            return self._referred(key[0], target)
        self._open.add(key)
        said = self._conjunction(key)
        self._open.discard(key)
        if key not in self._names:
            return said
        self._definitions[self._names[key]] = said or {"type": "null"}
        return self._defined(key)

    def _referred(self, node: Node, target: Node) -> Mapping[str, Any] | None:
        """A subschema that does nothing but refer, though it may describe itself."""
        self._met.update((node, target))
        annotated = Conjunction(()) if node.replaced else _annotations(node)
        if not target.edges and annotated.pending:
            return self._conjunction((node, target))
        if node.replaced:
            for keyword in node.schema:
                if keyword not in REFERENCES:
                    self.report(keyword, node, "dropped", "the reference beside it hides it in this dialect")
        for keyword in REFERENCES[1:]:
            if keyword in node.schema:
                self.report(keyword, node, "kept", "as $ref")
        said = self._defined((target,))
        out: dict[str, Any] = {}
        self._annotate(out, annotated)
        return {"anyOf": [said], **out} if out else said

    def _defined(self, key: tuple[Node, ...]) -> Mapping[str, Any]:
        """A reference to a definition, which is made if it is not there yet."""
        if self.dialect.cycles == "nowhere" and (key in self._open or not self.recursive.isdisjoint(key)):
            raise Refusal("$ref", key[0].pointer, "it refers to itself, which this dialect cannot say")
        if key not in self._names:
            name = self._names[key] = self._name(key[0].pointer)
            self._definitions[name] = {}
            if key not in self._open:
                self._waiting.append(key)
        name = self._names[key]
        return {"$ref": f"#/$defs/{name}" if name else "#"}

    def _name(self, pointer: str) -> str:
        last = _ODD.sub("_", pointer.rpartition("/")[2]) or "whole"
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
                    self.report(keyword, node, "dropped", "the reference beside it hides it in this dialect")
        for keyword in ("allOf", *REFERENCES):
            self.report_all(together, keyword, "kept", "its parts are said as one")
        said: dict[str, Any] | None = None
        if not together.never:
            chosen = together.choice()
            if chosen is None:
                said = self._said(together)
            elif root:
                node, keyword, below = chosen
                self.report(keyword, node, "kept", "as one object with the properties of all its forms")
                merged = united(node, keyword, below)
                said = self._conjunction((*_stripped(together, node, keyword), merged), root=True)
                together.pending = {one: value for one, value in together.pending.items() if one[1] in ANNOTATIONS}
                together.notes.extend(filter(None, [words(keyword, own(node)[keyword])]))
            else:
                said = self._choice(together, *chosen)
        if said is None:
            for node in together.nodes:
                self.report("", node, "dropped", "no value fits: it is left out")
            return None
        self._annotate(said, together)
        return said

    def _choice(self, together: Conjunction, node: Node, keyword: str, forms: Sequence[Node]) -> dict[str, Any] | None:
        """A choice among forms, each with what holds for all of them."""
        if keyword == "oneOf":
            self.report(keyword, node, "kept", "as anyOf: that only one of them fits is not said")
        base = _stripped(together, node, keyword)
        together.pending = {one: value for one, value in together.pending.items() if one[1] in ANNOTATIONS}
        said = unique([self.lower((*base, form)) for form in forms])
        if not said:
            return None
        lone = len(said) == 1 and not together.annotated
        if lone:
            self.report(keyword, node, "kept", "as the only form that is left")
        return dict(said[0]) if lone else {"anyOf": said}

    def _said(self, together: Conjunction) -> dict[str, Any] | None:
        """Keywords without a choice among them; None when no value fits."""
        types = together.types()
        literals = together.literals()
        if literals is not None:
            together.take("type")
            return say_literals(self, together, literals, types)
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
        """What is said of values of these types, at most one of them structured; None is any type."""
        out: dict[str, Any] = {}
        if types is not None:
            out["type"] = types[0] if len(types) == 1 else list(types)
        if types is None or "object" in types:
            say_object(self, together, out)
        if types is None or "array" in types:
            say_array(self, together, out)
        for keyword in [*STRICTEST, "pattern", "format", "multipleOf"]:
            if keyword in together and (types is None or not set(types).isdisjoint(ABOUT[keyword])):
                self._say(together, keyword, out)
        return out

    def _say(self, together: Conjunction, keyword: str, out: dict[str, Any]) -> None:
        """One keyword with a simple value, if the dialect has it; of several values the strictest, or the first."""
        found = [(node, value) for node, value in together.values(keyword) if not isinstance(value, bool)]
        if keyword not in self.dialect.keywords or not found or (keyword in ABOUT and "$ref" in out):
            return
        if ABOUT[keyword] == ("object",) or (ABOUT[keyword] == ("array",) and out.get("type") == "string"):
            return
        strictest = STRICTEST.get(keyword)
        values = [value for _, value in found]
        value = values[0] if strictest is None else strictest([*values, *([out[keyword]] if keyword in out else [])])
        if not self._sayable(keyword, value):
            return
        out[keyword] = value
        for node, other in found:
            if strictest is not None or other == value:
                together.pending.pop((node, keyword), None)

    def _sayable(self, keyword: str, value: Any) -> bool:
        if keyword == "format":
            return value in self.dialect.formats
        if keyword == "pattern":
            return not any(part in value for part in _UNBOUNDED)
        return keyword not in self.dialect.values or value in self.dialect.values[keyword]

    def _annotate(self, said: dict[str, Any], together: Conjunction) -> None:
        """Title and description, and in the latter whatever could not be said otherwise."""
        descriptions = [str(value) for _, value in together.values("description") if value]
        notes = together.notes
        if titles := together.values("title"):
            said.setdefault("title", titles[0][1])
            together.pending.pop((titles[0][0], "title"), None)
        together.take("description")
        for (node, keyword), value in together.pending.items():
            if keyword in ("$defs", "definitions"):
                continue  # Each definition is said, or reported by itself.
            note = words(keyword, value)
            if note is not None:
                notes.append(note)
            self.report(keyword, node, "moved" if note else "dropped", "into the description" if note else "")
        together.pending.clear()
        if "description" in said:
            descriptions.append(said["description"])
        text = told(" ".join(dict.fromkeys(descriptions)), notes)
        if text:
            said["description"] = text

    def optional(self, said: Mapping[str, Any]) -> Mapping[str, Any]:
        """What may be null as well, for a property that may be absent where every property must be sent."""
        if accepts_null(said):
            return said
        kind = said.get("type")
        if kind is not None and "const" not in said and not (_STRUCTURED & {kind} if isinstance(kind, str) else False):
            out = {**said, "type": [*([kind] if isinstance(kind, str) else kind), "null"]}
            if "enum" in said:
                out["enum"] = [*said["enum"], None]
            return out
        kept = {key: said[key] for key in ("description", "title") if key in said}
        rest = {key: value for key, value in said.items() if key not in kept}
        forms = rest["anyOf"] if rest.keys() == {"anyOf"} else [rest]
        return {"anyOf": [*forms, {"type": "null"}], **kept}


def _used(root: Mapping[str, Any], definitions: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """The definitions that the root leads to, in their order; others were left behind with what was left out."""
    found: set[str] = set()
    waiting: list[Any] = [root]
    for one in waiting:
        if is_mapping(one):
            reference = one.get("$ref")
            if (
                isinstance(reference, str)
                and (name := reference.rpartition("/")[2]) not in found
                and name in definitions
            ):
                found.add(name)
                waiting.append(definitions[name])
            waiting.extend(one.values())
        elif is_sequence(one):
            waiting.extend(one)
    return {name: said for name, said in definitions.items() if name in found}


def _target(node: Node) -> Node | None:
    """Where a subschema leads that only refers."""
    if not is_mapping(node.schema) or not any(keyword in node.schema for keyword in REFERENCES):
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
    """What holds beside a choice, whichever form is chosen."""
    found: list[Node] = []
    for node in together.nodes:
        left_out = {*ANNOTATIONS, *REFERENCES, "allOf", *((keyword,) if node is chosen else ())}
        schema = {key: value for key, value in own(node).items() if key not in left_out}
        if schema:
            found.append(Node(node.pointer, schema, edges=[edge for edge in node.edges if edge[0] in schema]))
    return tuple(found)


def _recursive(graph: Graph) -> frozenset[Node]:
    """The subschemas that lead to themselves."""
    if not graph.refers:
        return frozenset()
    return frozenset(_looping(graph))


def _looping(graph: Graph) -> Iterator[Node]:
    for group in groups_of(graph):
        if len(group) > 1 or any(below is group[0] for _, _, below in group[0].edges):
            yield from group
