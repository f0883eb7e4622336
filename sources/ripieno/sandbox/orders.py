"""Orders to a supervisor, and the faults for failed starts."""

import contextlib
import errno
import json
import os
from collections.abc import Mapping, Sequence

from ripieno.exceptions import ResourceFault, ValidationFault
from ripieno.sandbox.bubblewrap import arrange
from ripieno.sandbox.paths import way_inside
from ripieno.sandbox.supervision.wire import Failure, Order
from ripieno.sandbox.tiers import Confinement


def make_order(argv: Sequence[str], environment: Mapping[str, str], confinement: Confinement | None) -> Order:
    """An order without its directory. Errors: ``ValidationFault`` for impossible arguments or variables."""
    if isinstance(argv, str) or not argv:
        raise ValidationFault(f"A program and its arguments must be a list of strings that is not empty, not {argv!r}.")
    try:
        words = [_encode(word) for word in argv]
        variables = {_encode(name): _encode(value) for name, value in environment.items()}
        if any(b"=" in name or not name for name in variables):
            raise ValueError("illegal environment variable name")
    except ValueError as error:
        # A NUL, a lone surrogate, or "=" in the name of a variable.
        raise ValidationFault(f"{argv[0]!r} cannot be given these arguments or this environment: {error}.") from error
    programs = [words[0]]
    if b"/" not in words[0]:
        folders = variables.get(b"PATH", os.fsencode(os.defpath)).split(b":")
        programs = [os.path.join(folder, words[0]) for folder in folders]
    if confinement is None:
        return Order(programs, words, variables, b"")
    settings = confinement.mapping()
    # Not among the settings: those of all conversations are the same, so that a prepared keeper is for any of them.
    writable = settings.pop("writable", ())
    return Order(programs, words, variables, b"", json.dumps(settings).encode(), writable=json.dumps(writable).encode())


def precede(order: Order, confinement: Confinement) -> None:
    """Lets bubblewrap start the ordered program. Errors: ``Failure`` when that is missing or unreachable."""
    paths = [os.path.join(os.fsdecode(order.directory), os.fsdecode(program)) for program in order.programs]
    existing = [path for path in paths if os.path.isfile(path)]
    if not existing:
        raise Failure("program", errno.ENOENT, "")
    # As in the system's own search, unreachable files are skipped.
    ways = (way_inside(path, (*confinement.readable, *confinement.writable)) for path in existing)
    reachable = [way for way in ways if way is not None and os.access(way, os.X_OK)]
    if not reachable:
        raise Failure("program", errno.EACCES, "")
    prefix = [os.fsencode(word) for word in arrange(confinement, os.fsdecode(order.directory))]
    order.argv = [*prefix, os.fsencode(reachable[0]), *order.argv[1:]]
    order.programs = prefix[:1]


def _encode(text: str) -> bytes:
    data = os.fsencode(text)
    if b"\0" in data:
        raise ValueError("embedded null byte")
    return data


class Place:
    """The program and the directory of a start, for its faults."""

    def __init__(self, program: str, directory: str, path: str, *, confined: bool = False) -> None:
        self._program = program
        self._directory = directory
        self._path = path
        self._confined = confined

    def open(self, order: Order, theirs: contextlib.ExitStack) -> int:
        """Opens the directory and completes the order with it. Errors: ``Failure``."""
        try:
            descriptor = os.open(self._directory, getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY)
        except OSError as error:
            raise Failure.of("directory", error) from error
        theirs.callback(os.close, descriptor)
        order.directory = os.fsencode(os.path.realpath(self._directory))
        return descriptor

    def _executable(self) -> bool:
        """Whether it could be executed without a confinement."""
        folders = [self._directory] if "/" in self._program else self._path.split(os.pathsep)
        files = [os.path.join(folder, self._program) for folder in folders]
        return any(os.path.isfile(one) and os.access(one, os.X_OK) for one in files)

    def fault(self, failure: Failure) -> ResourceFault:
        """The fault for a failure."""
        program, path = self._program, self._path
        details = {"program": program, "directory": self._directory, "PATH": path}
        suggestion = None
        # Some texts are sentences.
        why = os.strerror(failure.number) if failure.number else failure.text.rstrip(".")
        if failure.what == "directory":
            message = f"The directory {self._directory!r} for {program!r} cannot be entered: {why}."
        elif failure.what == "confinement":
            message = f"{program!r} was not started, because it could not be confined: {failure.text.rstrip('.')}."
            suggestion = "Run `ripieno doctor` to see which sandbox tiers this system supports."
        elif failure.what == "sandbox":
            message = f"{program!r} could not be started in the sandbox."
            suggestion = (
                "If the sandbox hides it, or the interpreter in its first line, add the folder to `[sandbox] readable` "
                "in the configuration."
            )
        elif failure.what != "program":
            message = f"{program!r} could not be started: {why}."
        elif failure.number == errno.ENOENT and "/" in program:
            message = f"There is no program {program!r}, or the interpreter in its first line is missing."
        elif failure.number == errno.ENOENT:
            message = f"There is no program {program!r} in any folder of PATH."
            suggestion = "Install it, add its folder to PATH, or give its absolute path."
        elif failure.number == errno.EACCES and self._confined and self._executable():
            message = f"{program!r} may not be executed: the sandbox does not permit reading it or its interpreter."
            suggestion = "Add its folder to `[sandbox] readable` in the configuration; home folders are not readable."
        elif failure.number == errno.EACCES:
            message = f"{program!r} may not be executed."
            suggestion = "It must be a file with execute permission."
        elif failure.number == errno.ENOEXEC:
            message = f"{program!r} is not a program that this system can execute."
            suggestion = "A script needs a first line such as #!/bin/sh."
        else:
            message = f"{program!r} could not be started: {why}."
        return ResourceFault(message, code="not_started", details=details, suggestion=suggestion)


def with_reason(fault: ResourceFault, written: str) -> ResourceFault:
    """The fault of a program that bubblewrap could not start, with what that has ``written`` instead of the program."""
    why = " ".join(written.split())[-300:].removeprefix("bwrap: ").rstrip(".")
    message = f"{fault.message.rstrip('.')}: {why}." if why else fault.message
    return ResourceFault(message, code=fault.code, details=fault.details, suggestion=fault.suggestion)
