"""The files that ensembles name: Python files, programs, scripts and their settings, wherever a string may be a path.

Code runs as it was at start-up: a Python file is compiled from the bytes that were read then, and a program starts only
while the code that its ensemble names is as it was. A trusted project's code must also be as it was trusted.
"""

import errno
import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping

from ripieno.descriptors.command_words import is_named_code, words_of
from ripieno.descriptors.ensembles import EnsembleDescriptor
from ripieno.descriptors.reader.regular_files import open_regular
from ripieno.exceptions import InputError
from ripieno.jsonvalues import EMPTY

#: The largest file that is checked, in bytes. It is read at each start.
LARGEST = 256 * 1024 * 1024
_CHUNK = 256 * 1024
#: Strings longer than this, in characters, name no file.
_LONGEST = 1024


def paths_named(descriptor: EnsembleDescriptor, workspace: str | os.PathLike[str]) -> dict[str, bool]:
    """Each path that a string of an ensemble may mean, existing or not, and whether its place shows that it is code.

    Relative ones begin at the ensemble's folder, at the workspace, and at each folder that a program of it runs in.
    """
    settings = [one.invocable.settings for one in descriptor.invokers]
    if descriptor.connection is not None:
        settings.append(descriptor.connection.settings)
    base = os.path.abspath(workspace)
    folders = [base, *(os.path.join(base, str(one["directory"])) for one in settings if "directory" in one)]
    if descriptor.folder is not None:
        folders.insert(0, os.path.abspath(descriptor.folder))
    found: dict[str, bool] = {}
    everything = (*settings, descriptor.configuration, *(one.configuration for one in descriptor.invokers))
    for word, code in ((descriptor.module or "", True), *words_of(everything)):
        if 0 < len(word) <= _LONGEST and "\x00" not in word:
            for folder in folders:
                joined = os.path.join(folder, word)
                # After a link, the system goes up from where it leads.
                for path in {os.path.normpath(joined), *([os.path.realpath(joined)] if ".." in word else ())}:
                    found[path] = found.get(path, False) or code
            if code and "/" not in word and (program := shutil.which(word)) is not None:
                found[program] = True
    return found


def is_code(path: str) -> bool:
    """Whether a file is code by its name, its first bytes or its rights. Errors: ``OSError``."""
    if is_named_code(path) or os.access(path, os.X_OK):
        return True
    with open(path, "rb", opener=open_regular) as stream:
        return stream.read(2) == b"#!"


def code_named(descriptor: EnsembleDescriptor, workspace: str | os.PathLike[str]) -> tuple[str, ...]:
    """The paths of the code that an ensemble names; also of code that is not there, where only code can be.

    Errors: ``InputError`` for a file that cannot be read.
    """
    try:
        named = paths_named(descriptor, workspace).items()
        return tuple(path for path, code in named if code or (os.path.isfile(path) and is_code(path)))
    except OSError as error:
        raise InputError(f"{error.filename} cannot be read: {error.strerror}.") from error


def digest_file(path: str | os.PathLike[str], most: int = LARGEST) -> str:
    """The SHA-256 of a file's bytes. Errors: ``OSError``, also for what is no regular file or larger than ``most``."""
    digest = hashlib.sha256()
    for chunk in _chunks(path, most):
        digest.update(chunk)
    return digest.hexdigest()


def _chunks(path: str | os.PathLike[str], most: int = LARGEST) -> Iterator[bytes]:
    """The bytes of a regular file."""
    with open(path, "rb", buffering=0, opener=open_regular) as stream:
        size, read = os.fstat(stream.fileno()).st_size, 0
        while max(size, read) <= most:
            chunk = stream.read(_CHUNK)
            if not chunk:
                return
            read += len(chunk)
            yield chunk
    raise OSError(errno.EFBIG, f"it is larger than {most / 2**20:.0f} MiB")


class NamedFiles:
    """The code that the ensembles of an application name, as it was when the application started.

    ``trusted`` are the digests of a trusted project's files. Only what is beneath ``workspace`` is kept: no tool can
    write the rest.
    """

    def __init__(self, workspace: str | os.PathLike[str] = "/", trusted: Mapping[str, str] = EMPTY) -> None:
        self._workspace = os.path.abspath(workspace)
        self._roots = tuple(root.rstrip("/") + "/" for root in (self._workspace, os.path.realpath(workspace)))
        self._trusted = {os.path.realpath(path): digest for path, digest in trusted.items()}
        self._digests: dict[str, str | None] = {}
        self._named: dict[str, tuple[str, ...]] = {}

    @property
    def files(self) -> tuple[str, ...]:
        """The paths of the files that were there."""
        return tuple(path for path, digest in self._digests.items() if digest is not None)

    def add(self, descriptor: EnsembleDescriptor) -> None:
        """Keeps the digest of each file of code that an ensemble names.

        Errors: ``InputError`` for one that has changed since it was trusted, or that cannot be read.
        """
        paths = [path for path in code_named(descriptor, self._workspace) if path.startswith(self._roots)]
        for path in paths:
            self._digests.setdefault(path, self._digest(path))
        self._named[descriptor.name] = tuple(paths)

    def read(self, path: str) -> bytes:
        """The bytes of a file, which are those that were there at start-up. Errors: ``InputError``."""
        path = os.path.normpath(path)
        try:
            data = b"".join(_chunks(path))
        except FileNotFoundError:
            raise InputError(f"There is no Python file {path}.") from None
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror}.") from error
        if path in self._digests and hashlib.sha256(data).hexdigest() != self._digests[path]:
            raise InputError(_changed(path))
        return data

    def check(self, ensemble: str) -> None:
        """Errors: ``InputError`` for code that the ensemble names and that is no longer as it was."""
        for path in self._named.get(ensemble, ()):
            if self._digest(path) != self._digests[path]:
                raise InputError(_changed(path))

    def _digest(self, path: str) -> str | None:
        """The digest of a file; None where there is none."""
        try:
            found = digest_file(path) if os.path.isfile(path) else None
        except FileNotFoundError:
            return None
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror}.") from error
        if self._trusted.get(os.path.realpath(path), found) != found:
            raise InputError(f"{path} has changed since you trusted it. Review it, then run: ripieno trust")
        return found


def _changed(path: str) -> str:
    return (
        f"{path} has changed since this program started, and an ensemble names it as code. Review it, then start "
        "again. A file of data does not count as code if its path is an argument of the tool."
    )
