"""Checks of a workspace: it has no state of the user, its named code is known, its files and pins are trusted."""

import hashlib
import pathlib
from collections.abc import Mapping, Sequence

from ripieno.assembly.trust import Project, trust_command
from ripieno.descriptors import EnsembleDescriptor
from ripieno.descriptors.loading.layers import Layer
from ripieno.descriptors.named_files import NamedFiles
from ripieno.descriptors.reader.regular_files import read_regular
from ripieno.descriptors.sandbox import SandboxDescriptor
from ripieno.exceptions import InputError, RipienoError
from ripieno.storage.pins import PinRecord, read_pins

_PACKAGE = "package"


def keep_apart(
    state: pathlib.Path, workspace: pathlib.Path, sandbox: SandboxDescriptor, failures: list[RipienoError]
) -> None:
    """The folder of trust, pins, journal and waiting conversations must not be where tools may read."""
    real = state.resolve()
    for name, folder in (
        ("the workspace", workspace),
        *(("a readable folder of [sandbox]", pathlib.Path(one)) for one in sandbox.readable),
        *(("a writable folder of [sandbox]", pathlib.Path(one)) for one in sandbox.writable),
    ):
        if real.is_relative_to(folder.expanduser().resolve()):
            failures.append(
                InputError(
                    f"Your state, {state}, is inside {name}, {folder}, where tools could read it: conversations, pins "
                    "and sign-ins. Start in another folder, name one with --workspace, or set RIPIENO_STATE_HOME to a "
                    "folder that is not inside."
                )
            )


def keep_code(named: NamedFiles, ensembles: Sequence[EnsembleDescriptor], failures: list[RipienoError]) -> None:
    """Keeps the code that ensembles name, except the package's own, whose files are not in the workspace."""
    for descriptor in ensembles:
        if descriptor.layer != _PACKAGE:
            try:
                named.add(descriptor)
            except InputError as error:
                failures.append(error)


def changed_since_trusted(project: Project, layer: Layer, files: Mapping[str, str]) -> list[InputError]:
    """An error for each ensemble file of a trusted project that was read with another content than was trusted."""
    places = tuple(f"{path}/" for path in layer.paths)
    return [
        InputError(f"{path} has changed since you trusted it. Review it, then run: {trust_command(project.folder)}")
        for path, digest in files.items()
        if (path in project.files or path.startswith(places)) and project.files.get(path) != digest
    ]


def shared_pins(project: Project | None, failures: list[RipienoError]) -> Mapping[str, PinRecord]:
    """The pins of a trusted project. Unreadable ones are a failure, since they may forbid something."""
    if project is None or project.pins is None:
        return {}
    try:
        data = read_regular(project.pins)
        if hashlib.sha256(data).hexdigest() != project.files.get(str(project.pins)):
            raise InputError(f"{project.pins} was changed while it was read. Start again.")
        return read_pins(data, str(project.pins), "Delete it, or write it again: ripieno lock --export")
    except OSError as error:
        failures.append(InputError(f"{project.pins} cannot be read: {error.strerror or error}."))
    except InputError as error:
        failures.append(error)
    return {}
