"""The argv template of a program: strings, and tables that expand to any number of elements."""

import dataclasses
import json
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from ripieno.descriptors.templates.checks import Complaint, Declared
from ripieno.descriptors.templates.placeholders import Placeholder, refusal, scalar
from ripieno.descriptors.templates.text import Template
from ripieno.exceptions import InputError
from ripieno.jsonvalues import is_list, is_table
from ripieno.values import Value


class When(Value, kw_only=True):
    """``{ when = "name", argv = [...] }``: left out if the argument is absent, null or false."""

    name: str
    argv: tuple[Template, ...]

    def chosen(self, arguments: Mapping[str, Any]) -> tuple[Template, ...]:
        """Its elements, or none. An empty string, an empty list and 0 count as present."""
        value = arguments.get(self.name)
        return () if value is None or value is False else self.argv


class Each(Value, kw_only=True):
    """``{ each = "name" }``: one element for each item of an argument; none if it is absent."""

    name: str


Element: TypeAlias = Template | When | Each


class ArgvTemplate(Value, kw_only=True):
    """The argv template of a program."""

    elements: tuple[Element, ...]

    @classmethod
    def parse(cls, argv: Sequence[Any]) -> "ArgvTemplate":
        """Parses an argv. Errors: ``InputError`` with all problems and their places."""
        template, complaints = cls.read(argv)
        if template is None:
            raise InputError("\n".join(map(str, complaints)))
        return template

    @classmethod
    def read(cls, argv: Any) -> tuple["ArgvTemplate | None", tuple[Complaint, ...]]:
        """The template, or None and all problems."""
        if not is_list(argv) or not argv:
            hint = as_list("argv", argv, example=("wc", "-w", "{path}"))
            return None, (Complaint("argv must be a list that names a program and its arguments", hint),)
        complaints: list[Complaint] = []
        read = (_read_element(item, (index,), complaints) for index, item in enumerate(argv))
        elements = tuple(element for element in read if element is not None)
        if not complaints:
            complaints.extend(_check_options(elements))
        return (None, tuple(complaints)) if complaints else (cls(elements=elements), ())

    @property
    def placeholders(self) -> tuple[str, ...]:
        """The arguments that it uses, each once, in order."""
        names: dict[str, None] = {}
        for element in self.elements:
            inner = (element,) if isinstance(element, Template) else element.argv if isinstance(element, When) else ()
            names.update(dict.fromkeys(() if isinstance(element, Template) else (element.name,)))
            names.update(dict.fromkeys(name for template in inner for name in template.placeholders))
        return tuple(names)

    @property
    def templates(self) -> tuple[tuple[tuple[str | int, ...], Template], ...]:
        """All templates of single elements with their places, as if every argument was given."""
        return tuple(
            (place, template)
            for index, element in enumerate(self.elements)
            for place, template in (
                [((index,), element)]
                if isinstance(element, Template)
                else [((index, "argv", at), one) for at, one in enumerate(element.argv)]
                if isinstance(element, When)
                else []
            )
        )

    @property
    def program(self) -> str:
        """The first element, which is always literal."""
        first = self.elements[0]
        return (first.literal or "") if isinstance(first, Template) else ""

    def expand(self, arguments: Mapping[str, Any]) -> list[str]:
        """The argv for these arguments. Errors: ``ValidationFault`` that names the argument which does not fit."""
        argv: list[str] = []
        terminated = False
        for element in self.elements:
            if isinstance(element, Each):
                argv.extend(_items(element.name, arguments))
                continue
            for template in (element,) if isinstance(element, Template) else element.chosen(arguments):
                argv.append(template.element(arguments, terminated=terminated))
                terminated = terminated or template.literal == "--"
        return argv

    def check(self, schema: Mapping[str, Any], given: Collection[str] = ()) -> tuple[Complaint, ...]:
        """The problems of its placeholders with a JSON Schema of arguments; those in ``given`` always have a value."""
        declared = Declared.of(schema, given, argv=True)
        complaints: list[Complaint] = []
        for index, element in enumerate(self.elements):
            if isinstance(element, Template):
                complaints.extend(declared.complain_all(element.placeholders, (index,)))
            elif isinstance(element, Each):
                complaints.extend(declared.complain(element.name, (index, "each"), listed=True))
            else:
                complaints.extend(declared.complain(element.name, (index, "when"), anything=True))
                inside = dataclasses.replace(declared, given=declared.given | {element.name})
                for position, template in enumerate(element.argv):
                    complaints.extend(inside.complain_all(template.placeholders, (index, "argv", position)))
        return tuple(complaints)


def as_list(key: str, value: Any, *, example: Sequence[str]) -> str:
    """A hint with the list that a command line in one string means, or else with an example."""
    try:
        words = shlex.split(value) if isinstance(value, str) else []
    except ValueError:
        words = []
    return f"Write: {key} = {json.dumps(words or [*example], ensure_ascii=False)}"


def _read_element(item: Any, path: tuple[str | int, ...], complaints: list[Complaint]) -> Element | None:
    if isinstance(item, str):
        return _read_string(item, path, complaints)
    table: Mapping[str, Any] = item if is_table(item) else {}
    each, when, argv = table.get("each"), table.get("when"), table.get("argv")
    if path != (0,) and table.keys() == {"each"} and isinstance(each, str):
        return Each(name=each)
    if path != (0,) and table.keys() == {"when", "argv"} and isinstance(when, str) and is_list(argv) and argv:
        templates = [_read_string(one, (*path, "argv", index), complaints) for index, one in enumerate(argv)]
        return When(name=when, argv=tuple(one for one in templates if one is not None))
    hint = 'Write a string, { when = "argument", argv = ["--flag", "{argument}"] } or { each = "argument" }.'
    if path == (0,):
        hint = "Write the program's name, as a string."
    complaints.append(Complaint("this is not an element of an argv", hint=hint, path=path))
    return None


def _read_string(item: Any, path: tuple[str | int, ...], complaints: list[Complaint]) -> Template | None:
    if not isinstance(item, str):
        complaints.append(Complaint("this must be a string", hint="Write numbers in quotes.", path=path))
        return None
    try:
        template = Template.parse(item)
    except InputError as error:
        complaints.append(Complaint(str(error), path=path))
        return None
    if path == (0,) and not (template.literal or "").strip():
        hint = "An argument cannot choose the program."
        complaints.append(Complaint("the program must be a literal name", hint=hint, path=path))
    if "\0" in item:
        complaints.append(Complaint("an argument of a program cannot contain NUL", path=path))
    return template


def _check_options(elements: Sequence[Element]) -> Iterator[Complaint]:
    """Checks that before ``--`` no value names an option, and no list changes the number of elements."""
    for index, element in enumerate(elements):
        if isinstance(element, Template):
            if element.literal == "--":
                return
            yield from _check_option(element, (index,))
        elif isinstance(element, When):
            for position, template in enumerate(element.argv):
                if template.literal == "--":
                    break
                yield from _check_option(template, (index, "argv", position))
        else:
            hint = 'Write "--" before it, so that no item is read as an option.'
            yield Complaint("{ each = ... } is allowed only after a literal --", hint=hint, path=(index,))


def _check_option(template: Template, path: tuple[str | int, ...]) -> Iterator[Complaint]:
    beginning = template.beginning
    if template.literal is None and (beginning == "-" or (beginning.startswith("--") and "=" not in beginning)):
        hint = 'Write "--option={argument}", or the argument as an element of its own.'
        yield Complaint("an argument would name the option", hint=hint, path=path)


def _items(name: str, arguments: Mapping[str, Any]) -> list[str]:
    value = arguments.get(name)
    if value is None:
        return []
    if not is_list(value):
        raise refusal(name, "must be a list", code="invalid_type")
    return [scalar(Placeholder(name=name), item) for item in value]
