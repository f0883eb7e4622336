"""Checks of a workspace: it does not contain the user's state, and the code in it that ensembles name is known."""

import pathlib
from collections.abc import Sequence

from ripieno.descriptors import EnsembleDescriptor
from ripieno.descriptors.named_files import NamedFiles
from ripieno.descriptors.sandbox import SandboxDescriptor
from ripieno.exceptions import InputError, RipienoError

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
