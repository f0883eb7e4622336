"""The files that ensembles name: Python files, programs, scripts and their settings, wherever a string may be a path.

Code runs as it was at start-up: a Python file is compiled from the bytes that were read then, and a program starts only
while the code that its ensemble names is as it was. A trusted project's code must also be as it was trusted.
"""

import errno
import hashlib
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ripieno.descriptors.ensembles import EnsembleDescriptor
from ripieno.descriptors.reader.regular_files import open_regular
from ripieno.exceptions import InputError
from ripieno.jsonvalues import EMPTY, is_list, is_table

#: The largest file that is checked, in bytes. It is read at each start.
LARGEST = 256 * 1024 * 1024
_CHUNK = 256 * 1024
#: Strings longer than this, in characters, name no file.
_LONGEST = 1024
_FUNCTION = re.compile(r"(?P<file>.+\.py):[A-Za-z_][\w.]*")
_MODULE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
#: What separates words in a text for a shell, and paths in a word.
_SEPARATORS = re.compile(r"[\s;|&()<>`\"'$]+")
_LISTED = re.compile(r"[:,=@]+")
#: An option with its value in one word, such as ``-frules``.
_ATTACHED = re.compile(r"-[A-Za-z](?P<value>.+)")
#: Programs that run the files after them.
_INTERPRETERS = re.compile(
    r"(?:ba|da|z|k|fi|c|tc|a)?sh|busybox|(?:python|pypy|ruby|perl|php|lua|node|tclsh|guile)[\d.]*|nodejs|luajit|deno|bun"
    r"|npx|pnpx|tsx|ts-node|uvx?|pipx|poetry|hatch|rscript|julia|octave|java|jshell|scala|groovy|kotlinc?|dotnet|pwsh"
    r"|powershell|g?make|just|task|[gmn]?awk|sed|env|nice|nohup|setsid|timeout|sudo|xargs|source|\."
    r"|go|cargo|run(?:ghc|haskell)|ocaml|elixir|escript|expect|wish|emacs|[gn]?vim?|gdb|lldb|swift|dart|sbcl|clojure|clj"
    r"|crystal|nim|zig|racket|raku|nu|xonsh|osascript|i?python[\d.]*|ansible-playbook|cmake|gradlew?|rake|bundle"
    r"|stdbuf|ionice|chrt|taskset|unshare|chroot|ld-linux.*|ld-musl.*",
    re.IGNORECASE,
)
#: Options of such programs whose value, the next word, is not the script, as a regular expression. A flag of that name
#: makes one more word code. The values of ``-o`` are no code: settings of a shell, or results.
_VALUED = re.compile(
    r"-[WXrCIf]|-cp|-classpath|--(?:require|import|loader|experimental-loader|conditions|class-path|module-path"
    r"|add-modules|file|makefile|with|env-file|directory|rcfile|init-file)"
)
_PLAIN = frozenset({"-o", "+o", "-O", "+O"})
#: Variables whose values make programs run code, and those with folders in which Python looks for code at its start.
_LOADING = re.compile(
    r"(?:BASH_)?ENV|LD_(?:PRELOAD|AUDIT)|DYLD_INSERT_LIBRARIES|PYTHONSTARTUP|PERL5OPT|PERL5DB|RUBYOPT|CLASSPATH"
    r"|(?:NODE|JAVA_TOOL|_JAVA|JDK_JAVA|MAVEN|GRADLE)_OP(?:TION|T)S|MAKEFILES|EDITOR|VISUAL|PAGER"
    r"|GIT_(?:SSH|SSH_COMMAND|EDITOR|PAGER|EXTERNAL_DIFF|ASKPASS|CONFIG_GLOBAL|CONFIG_SYSTEM)"
)
_SITES = ("sitecustomize.py", "usercustomize.py")
#: Files that programs run, or that decide what they run.
_CODE = re.compile(
    r".*\.(?:py|pyw|pyz|pth|sh|bash|zsh|ksh|fish|[cm]?[jt]s|[jt]sx|rb|pl|pm|php|lua|r|jl|tcl|scm|ps1|bat|cmd|jar|class"
    r"|groovy|kts?|scala|awk|sed|mk|so|dylib|dll|wasm|sql|j2|jinja|toml|ini|cfg|conf|ya?ml|rc|properties"
    r"|go|rs|hs|mli?|swift|dart|exs?|erl|clj[cs]?|lisp|el|exp|nim|zig|cr|rkt|raku|nu|xsh|c|cc|cpp|cxx|cs|fsx?|vim"
    r"|ipynb|cmake|gradle|ninja|tf)"
    r"|(?:gnu)?makefile|justfile|rakefile|dockerfile|gemfile|cmakelists\.txt|package\.json|go\.mod|pom\.xml|\..*rc",
    re.IGNORECASE,
)


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
    for word, code in ((descriptor.module or "", True), *_words(everything)):
        if 0 < len(word) <= _LONGEST and "\x00" not in word:
            for folder in folders:
                joined = os.path.join(folder, word)
                # After a link, the system goes up from where it leads.
                for path in {os.path.normpath(joined), *([os.path.realpath(joined)] if ".." in word else ())}:
                    found[path] = found.get(path, False) or code
            if code and "/" not in word and (program := shutil.which(word)) is not None:
                found[program] = True
    return found


def _words(value: Any) -> Iterator[tuple[str, bool]]:
    """The words that may be paths, and whether their place shows that they are code."""
    if is_table(value):
        for name, one in value.items():
            if name in ("argv", "command") and is_list(one):
                yield from _argv(one)
            elif name == "environment" and is_table(one):
                yield from _variables(one)
            else:
                yield from _words(one)
    elif is_list(value):
        for one in value:
            yield from _words(one)
    elif isinstance(value, str):
        yield from _parts(value, code=False)


def _variables(environment: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    """The words of environment variables."""
    for name, value in environment.items():
        if not isinstance(value, str):
            yield from _words(value)
            continue
        yield from _parts(value, code=_LOADING.fullmatch(name) is not None)
        if name == "PYTHONPATH":
            yield from ((f"{folder or '.'}/{site}", True) for folder in value.split(":") for site in _SITES)


def _argv(argv: Sequence[Any]) -> Iterator[tuple[str, bool]]:
    """The words of a command. Code are its first, and those after an interpreter up to its second that is no option.

    Values of options are code, too, but do not count.
    """
    scripts, option = 1, ""
    for element in argv:
        if not isinstance(element, str):
            yield from _words(element)
            continue
        yield from _parts(element, code=scripts > 0 and option not in _PLAIN)
        if option in _PLAIN or _VALUED.fullmatch(option) is not None:
            option = ""
            continue
        if _INTERPRETERS.fullmatch(os.path.basename(element)) is not None:
            scripts = 2
        elif not element.startswith("-"):
            scripts -= 1
        option = element


def _parts(text: str, *, code: bool) -> Iterator[tuple[str, bool]]:
    """A string, the file of a function, values in options and lists of paths, and the words of a text for a shell."""
    yield text, code
    if code and _MODULE.fullmatch(text) is not None:
        path = text.replace(".", "/")
        yield from ((path + end, True) for end in (".py", "/__main__.py"))
        # A module's packages are imported before it.
        yield from ((path[: end.start()] + "/__init__.py", True) for end in re.finditer("/|$", path))
    if (match := _FUNCTION.fullmatch(text)) is not None:
        yield match["file"], True
    for part in _SEPARATORS.split(text):
        yield part, code
        yield part.partition("=")[2], code
        if (attached := _ATTACHED.fullmatch(part)) is not None:
            yield attached["value"], code
        yield from ((one, code) for one in _LISTED.split(part))


def is_code(path: str) -> bool:
    """Whether a file is code by its name, its first bytes or its rights. Errors: ``OSError``."""
    if _CODE.fullmatch(os.path.basename(path)) is not None or os.access(path, os.X_OK):
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
    return f"{path} has changed since this program started. Review it, then start again."
