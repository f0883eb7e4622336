"""The origin ``python``: Python functions, imported at their first call.

``function = "package.module:name"``, or ``"./tools.py:name"``: a file beneath the descriptor's folder, imported once
under a private name. The default is the function with the invoker's name in the ensemble's ``module``. ``preview``,
written in the same way, or the bare name of another function of the ensemble's module, returns what a call would
change, from the same context and arguments. A connection's ``factory = "package.module:open"`` is called with the
ensemble's configuration and the surroundings, and returns an async context manager with the connection.
"""

import contextlib
import dataclasses
import hashlib
import importlib
import importlib.util
import inspect
import os
import pathlib
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import CodeType, MappingProxyType, ModuleType
from typing import Any

from ripieno.descriptors import EnsembleDescriptor, InvokerDescriptor
from ripieno.descriptors.loading import locate
from ripieno.descriptors.named_files import NamedFiles
from ripieno.descriptors.reader.keys import Key, Table
from ripieno.descriptors.reader.kinds import INVALID, Flag, Text
from ripieno.descriptors.reader.positions import Path
from ripieno.descriptors.reader.problems import Problems, Source
from ripieno.ensembles import Connected, Context, Foresight, Invocable, Origin, Surroundings, is_asynchronous
from ripieno.ensembles.threads import run_in_thread
from ripieno.exceptions import ConfigurationInvalidity, ConnectionFailure, InputError, Problem, nearest
from ripieno.origins.settings import check_connection, check_invocables, read_invocable
from ripieno.values import Value

_NAME = r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*"
_OBJECT = Text(
    pattern=rf"(?:{_NAME}|\./(?!(?:[^:]*/)?\.\./)[^:\x00-\x1f\\]+\.py):{_NAME}",
    shape='a function such as "package.module:name" or "./tools.py:name"',
)
FUNCTION = Table(
    "[invocable]",
    "A Python function, called with the context and the arguments.",
    (
        Key(
            "function",
            _OBJECT,
            "The function. Default: the invoker's name in the ensemble's module.",
            example="package.module:name",
        ),
        Key(
            "preview",
            Text(pattern=rf"{_OBJECT.pattern}|{_NAME}", shape=f"{_OBJECT.shape}, or a name in the module"),
            "A function that returns what a call would change, for people, and changes nothing.",
            example="package.module:foresee",
        ),
        Key(
            "project",
            Flag(),
            "Whether it runs the project's own programs, as in .venv/bin, which then fulfil its requirements.",
            False,
            True,
        ),
    ),
)
FACTORY = Table(
    "[connection]",
    "A connection opened by a Python function.",
    (
        Key(
            "factory",
            _OBJECT,
            "A function of configuration and surroundings that returns an async context manager.",
            required=True,
            example="package.module:open",
        ),
    ),
)


class Reference(Value, kw_only=True):
    """A name in a module, or in a file beneath a folder. ``source`` has the bytes of the file, once they are read."""

    place: str
    name: str
    folder: str | None = None
    source: bytes | None = None

    def read(self, files: NamedFiles) -> "Reference":
        """The reference with the bytes of its file, if it has one. Errors: ``InputError``."""
        if not self.place.startswith("./"):
            return self
        return dataclasses.replace(self, source=files.read(str(_path(self.place, self.folder))))

    def module(self) -> ModuleType:
        """Imports the module. Errors: ``InputError`` when there is none; any error of the module itself."""
        return _import_file(self) if self.place.startswith("./") else _import(self.place)

    def load(self) -> Callable[..., Any]:
        """Imports the module and returns the named function.

        Errors: those of ``module``; ``InputError`` when it has no such function.
        """
        value: Any = self.module()
        for part in self.name.split("."):
            if not hasattr(value, part):
                near = nearest(part, (name for name in dir(value) if not name.startswith("__")))
                hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
                raise InputError(f"{self.place} has no {self.name!r}.{hint}")
            value = getattr(value, part)
        if not callable(value):
            raise InputError(f"{self.place}:{self.name} is not a function, but {type(value).__name__}.")
        function: Callable[..., Any] = value
        return function


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # The module exists, and one of its own imports is missing.
        raise InputError(f"There is no Python module {error.name!r}. Install it in this environment.") from error


#: Each file is imported once.
_IMPORTING = threading.RLock()


class _Loader(SourceFileLoader):
    """Compiles a module from given bytes. No cache of compiled code is read or written: it could be anyone's."""

    def __init__(self, name: str, path: str, source: bytes) -> None:
        super().__init__(name, path)
        self._source = source

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002
        code: CodeType = self.source_to_code(self._source, self.path)
        return code


def _path(place: str, folder: str | None) -> pathlib.Path:
    root = pathlib.Path(folder or "").resolve()
    path = (root / place).resolve()
    if folder is None or not path.is_relative_to(root):
        raise InputError(f"{place} is outside of the folder of its descriptor.")
    return path


def _import_file(reference: Reference) -> ModuleType:
    path = _path(reference.place, reference.folder)
    source = NamedFiles().read(str(path)) if reference.source is None else reference.source
    name = f"ripieno_file_{path.stem}_{hashlib.sha256(os.fsencode(path) + source).hexdigest()[:12]}"
    with _IMPORTING:
        if name in sys.modules:
            return sys.modules[name]
        loader = _Loader(name, str(path), source)
        module = importlib.util.module_from_spec(ModuleSpec(name, loader, origin=str(path)))
        module.__file__ = str(path)
        # Dataclasses and pickles look their module up while it is being imported.
        sys.modules[name] = module
        try:
            loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
        return module


def _refer(value: str, descriptor: EnsembleDescriptor, path: Path, problems: Problems) -> Reference | None:
    place, _, name = value.rpartition(":")
    if place.startswith("./") and descriptor.folder is None:
        hint = 'Use its module: "package.module:name".'
        problems.add(path, f"{value} needs a folder, but this ensemble has no file", hint)
        return None
    return Reference(place=place, name=name, folder=descriptor.folder)


def read_function(
    descriptor: EnsembleDescriptor, invoker: InvokerDescriptor, path: Path, problems: Problems
) -> Reference | None:
    """The reference to an invoker's function; None after problems were added."""
    settings = FUNCTION.read(invoker.invocable.settings, path, problems)
    if settings is INVALID:
        return None
    if "function" not in settings and descriptor.module is None:
        hint = 'Add function = "package.module:name", or module = "package.module" to [ensemble].'
        problems.add(path, f"the function of {invoker.name!r} is not given", hint)
        return None
    _refer_preview(settings, descriptor, path, problems)
    function = settings.get("function", f"{descriptor.module}:{invoker.name}")
    return _refer(function, descriptor, (*path, "function"), problems)


def _refer_preview(
    settings: Mapping[str, Any], descriptor: EnsembleDescriptor, path: Path, problems: Problems
) -> Reference | None:
    """The reference to an invoker's preview, if any; None also after problems were added."""
    preview = settings.get("preview")
    if preview is None:
        return None
    if ":" not in preview and descriptor.module is None:
        hint = 'Write preview = "package.module:name".'
        problems.add((*path, "preview"), f"the module of {preview!r} is not given", hint)
        return None
    place = preview if ":" in preview else f"{descriptor.module}:{preview}"
    return _refer(place, descriptor, (*path, "preview"), problems)


def _read(descriptor: EnsembleDescriptor, invoker: InvokerDescriptor, surroundings: Surroundings) -> Reference:
    return _load(read_invocable(descriptor, invoker, read_function), descriptor, invoker, surroundings)


def _load(
    reference: Reference, descriptor: EnsembleDescriptor, invoker: InvokerDescriptor, surroundings: Surroundings
) -> Reference:
    """The reference with the bytes of its file. Errors: ``ConfigurationInvalidity``."""
    try:
        return reference.read(surroundings.named)
    except InputError as error:
        file, path, what = locate_function(descriptor, invoker, in_module=False)
        problems = Problems(Source(file=file))
        problems.add(path, f"{what} cannot be used: {error}")
        raise ConfigurationInvalidity(locate(problems.finished())) from None


def locate_function(
    descriptor: EnsembleDescriptor, invoker: InvokerDescriptor, *, in_module: bool
) -> tuple[str | None, Path, str]:
    """The file and the path that name an invoker's function, and what they name, for an error.

    ``in_module``: whether its module could be imported. If not, the ensemble's ``module`` is wrong, unless the invoker
    names another one.
    """
    # The reader of descriptors writes the default into the settings.
    if not in_module and invoker.invocable.settings.get("function") == f"{descriptor.module}:{invoker.name}":
        return descriptor.file, ("ensemble", "module"), f"the module of {descriptor.name!r}"
    place = next((path for one, path in descriptor.located() if one is invoker), ())
    return invoker.file, (*place, "invocable"), f"the function of {invoker.name!r}"


def _foresight(
    descriptor: EnsembleDescriptor, invoker: InvokerDescriptor, surroundings: Surroundings
) -> Foresight | None:
    """The preview of an invoker, if any. Its module is imported at the first use, in that thread."""
    problems = Problems(Source(file=descriptor.file))
    settings = FUNCTION.read(invoker.invocable.settings, ("invocable",), problems)
    reference = None if settings is INVALID else _refer_preview(settings, descriptor, ("invocable",), problems)
    if reference is None:
        return None
    loaded = _load(reference, descriptor, invoker, surroundings)

    def foresee(context: Context, arguments: Mapping[str, Any]) -> str | None:
        preview: str | None = loaded.load()(context, arguments)
        return preview

    return foresee


def _read_factory(descriptor: EnsembleDescriptor, problems: Problems) -> Reference | None:
    connection = descriptor.connection
    settings = INVALID if connection is None else FACTORY.read(connection.settings, ("connection",), problems)
    if settings is INVALID:
        return None
    return _refer(settings["factory"], descriptor, ("connection", "factory"), problems)


def make_invocable(reference: Reference) -> Invocable:
    """The function as an invocable. Its module is imported in the first call, in a thread."""
    function: Callable[..., Any] | None = None

    async def invoke(context: Context, arguments: dict[str, Any]) -> Any:
        nonlocal function
        if function is None:
            function = await run_in_thread(reference.load, patient=False, name=f"import of {reference.place}")
        if is_asynchronous(function):
            result = function(context, arguments)
        else:
            result = await run_in_thread(function, context, arguments, name=context.invoker.identity)
        return await result if inspect.isawaitable(result) else result

    return invoke


class PythonOrigin(Origin):
    """``origin = "python"``, the default origin."""

    name = "python"
    tables = MappingProxyType({"connection": FACTORY, "invocable": FUNCTION})

    def check(self, descriptor: EnsembleDescriptor) -> Sequence[Problem]:
        return (
            *check_connection(self.name, descriptor, _read_factory),
            *check_invocables(self.name, descriptor, read_function),
        )

    @contextlib.asynccontextmanager
    async def open(self, descriptor: EnsembleDescriptor, surroundings: Surroundings) -> AsyncGenerator[Connected, None]:
        if not self._connects(descriptor):
            yield self._bound(descriptor, surroundings, None)
            return
        async with _make_connection(descriptor, surroundings) as connection:
            yield self._bound(descriptor, surroundings, connection)

    def at_once(self, descriptor: EnsembleDescriptor, surroundings: Surroundings) -> Connected | None:
        return None if self._connects(descriptor) else self._bound(descriptor, surroundings, None)

    def _connects(self, descriptor: EnsembleDescriptor) -> bool:
        return descriptor.connection is not None and descriptor.connection.origin == self.name

    def _bound(self, descriptor: EnsembleDescriptor, surroundings: Surroundings, connection: Any) -> Connected:
        return Connected(
            connection=connection,
            bind=lambda invoker: make_invocable(_read(descriptor, invoker, surroundings)),
            foresee=lambda invoker: _foresight(descriptor, invoker, surroundings),
        )


@contextlib.asynccontextmanager
async def _make_connection(descriptor: EnsembleDescriptor, surroundings: Surroundings) -> AsyncGenerator[Any, None]:
    problems = Problems(Source(file=descriptor.file))
    reference = _read_factory(descriptor, problems)
    if reference is None:
        raise ConfigurationInvalidity(problems.finished())
    try:
        reference = reference.read(surroundings.named)
        factory = await run_in_thread(reference.load, patient=False, name=f"import of {reference.place}")
    except InputError as error:
        raise ConnectionFailure(descriptor.name, f"[connection] factory: {error}") from error
    opened: Any = factory(descriptor.configuration, surroundings)
    if not hasattr(opened, "__aenter__"):
        raise ConnectionFailure(
            descriptor.name,
            f"{reference.place}:{reference.name} returned {type(opened).__name__} instead of an async context manager.",
            hint="Decorate it with contextlib.asynccontextmanager.",
        )
    async with opened as connection:
        yield connection


ORIGIN = PythonOrigin()
