"""The words of settings that may be paths, and whether their place in a command shows that they are code."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ripieno.jsonvalues import is_list, is_table
from ripieno.lazy.expressions import expression

_FUNCTION = expression(r"(?P<file>.+\.py):[A-Za-z_][\w.]*")
_MODULE = expression(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
#: What separates words in a text for a shell, and paths in a word.
_SEPARATORS = expression(r"[\s;|&()<>`\"'$]+")
_LISTED = expression(r"[:,=@]+")
#: An option with its value in one word, such as ``-frules``.
_ATTACHED = expression(r"-[A-Za-z](?P<value>.+)")
#: Shells; interpreters with their option before the text of a program; those whose first file is the program.
_SHELL = expression(r"(?:ba|da|z|k|fi|c|tc|a)?sh", re.IGNORECASE)
_TEXTS = expression(
    rf"(?:{_SHELL.pattern}|(?:i?python|pypy)[\d.]*) -(?![mwx])[a-z]*c|php[\d.]* -r"
    r"|(?:perl|ruby|node|lua|julia|rscript)[\d.]* (?:-(?![imrx])[a-z\d]*e|--eval|-p|--print)"
    r"|(?:nodejs|luajit|bun) (?:-e|--eval|-p)",
    re.IGNORECASE,
)
_OF_FILES = expression(
    rf"{_SHELL.pattern}|source|\.|(?:i?python|pypy|ruby|perl|php|lua|node|tclsh|guile)[\d.]*|nodejs|luajit|rscript|julia"
    r"|tsx|ts-node",
    re.IGNORECASE,
)
#: Programs that read data by the text of a program, and their option before a file with one.
_FILTER = expression(r"[gmn]?awk|sed")
_PROGRAM_OF_FILTER = expression(r"-f|--file")
#: All programs that run the files after them.
_INTERPRETERS = expression(
    rf"{_OF_FILES.pattern}|{_FILTER.pattern}|busybox|deno|bun|npx|pnpx|uvx?|pipx|poetry|hatch|octave|java|jshell|scala"
    r"|groovy|kotlinc?|dotnet|pwsh|powershell|g?make|just|task|env|nice|nohup|setsid|timeout|sudo|xargs"
    r"|go|cargo|run(?:ghc|haskell)|ocaml|elixir|escript|expect|wish|emacs|[gn]?vim?|gdb|lldb|swift|dart|sbcl|clojure|clj"
    r"|crystal|nim|zig|racket|raku|nu|xonsh|osascript|ansible-playbook|cmake|gradlew?|rake|bundle"
    r"|stdbuf|ionice|chrt|taskset|unshare|chroot|ld-linux.*|ld-musl.*",
    re.IGNORECASE,
)
#: In a text for a shell: what is between two commands, files that one reads or writes, and words before its program.
_BETWEEN = expression(r"[;|&(){}`\n]")
_REDIRECTION = expression(r"[0-9]*(?:&>>?|>>|>\||>&?|<<<|<<-?|<&?)\s*[^\s;|&()<>]*")
_BEFORE = expression(r"if|then|else|elif|do|while|until|!|time|exec|eval|command|builtin|[A-Za-z_]\w*=.*")
#: Options of such programs whose value, the next word, is not the script, as a regular expression. A flag of that name
#: makes one more word code. The values of ``-o`` are no code: settings of a shell, or results.
_VALUED = expression(
    r"-[WXrCIf]|-cp|-classpath|--(?:require|import|loader|experimental-loader|conditions|class-path|module-path"
    r"|add-modules|file|makefile|with|env-file|directory|rcfile|init-file)"
)
_PLAIN = frozenset({"-o", "+o", "-O", "+O"})
#: Variables whose values make programs run code, and those with folders in which Python looks for code at its start.
_LOADING = expression(
    r"(?:BASH_)?ENV|LD_(?:PRELOAD|AUDIT)|DYLD_INSERT_LIBRARIES|PYTHONSTARTUP|PERL5OPT|PERL5DB|RUBYOPT|CLASSPATH"
    r"|(?:NODE|JAVA_TOOL|_JAVA|JDK_JAVA|MAVEN|GRADLE)_OP(?:TION|T)S|MAKEFILES|EDITOR|VISUAL|PAGER"
    r"|GIT_(?:SSH|SSH_COMMAND|EDITOR|PAGER|EXTERNAL_DIFF|ASKPASS|CONFIG_GLOBAL|CONFIG_SYSTEM)"
)
_SITES = ("sitecustomize.py", "usercustomize.py")
#: Files that programs run, or that decide what they run.
_CODE = expression(
    r".*\.(?:py|pyw|pyz|pth|sh|bash|zsh|ksh|fish|[cm]?[jt]s|[jt]sx|rb|pl|pm|php|lua|r|jl|tcl|scm|ps1|bat|cmd|jar|class"
    r"|groovy|kts?|scala|awk|sed|mk|so|dylib|dll|wasm|sql|j2|jinja|toml|ini|cfg|conf|ya?ml|rc|properties"
    r"|go|rs|hs|mli?|swift|dart|exs?|erl|clj[cs]?|lisp|el|exp|nim|zig|cr|rkt|raku|nu|xsh|c|cc|cpp|cxx|cs|fsx?|vim"
    r"|ipynb|cmake|gradle|ninja|tf)"
    r"|(?:gnu)?makefile|justfile|rakefile|dockerfile|gemfile|cmakelists\.txt|package\.json|go\.mod|pom\.xml|\..*rc",
    re.IGNORECASE,
)


def words_of(value: Any) -> Iterator[tuple[str, bool]]:
    """The words that may be paths, and whether their place shows that they are code."""
    if is_table(value):
        for name, one in value.items():
            if name in ("argv", "command") and is_list(one):
                yield from _argv(one)
            elif name == "environment" and is_table(one):
                yield from _variables(one)
            else:
                yield from words_of(one)
    elif is_list(value):
        for one in value:
            yield from words_of(one)
    elif isinstance(value, str):
        yield from _parts(value, code=False)


def _variables(environment: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    """The words of environment variables."""
    for name, value in environment.items():
        if not isinstance(value, str):
            yield from words_of(value)
            continue
        yield from _parts(value, code=_LOADING.fullmatch(name) is not None)
        if name == "PYTHONPATH":
            yield from ((f"{folder or '.'}/{site}", True) for folder in value.split(":") for site in _SITES)


def _argv(argv: Sequence[Any]) -> Iterator[tuple[str, bool]]:
    """The words of a command. Code are its first, and those after an interpreter up to its second that is no option.

    It is only one if that is a module, or named as code is. Values of options are code, too, but do not count. After
    the text of a program, such as that of ``sh -c``, words are its data; so are those after ``awk`` and ``sed``, but
    for the files of their programs.
    """
    program, option, scripts = "", "", 1
    for at, element in enumerate(argv):
        if not isinstance(element, str):
            yield from words_of(element)
            continue
        if _TEXTS.fullmatch(f"{program} {option}") is not None:
            yield from _parts(element, code=False)
            if _SHELL.fullmatch(program) is not None:
                yield from _commands(element)
            yield from words_of(argv[at + 1 :])
            return
        filters = _FILTER.fullmatch(program) is not None
        code = any(map(_PROGRAM_OF_FILTER.match, (option, element))) if filters else scripts > 0
        yield from _parts(element, code=code and option not in _PLAIN)
        if option in _PLAIN or _VALUED.fullmatch(option) is not None:
            option = ""
            continue
        name = os.path.basename(element)
        if not filters and _INTERPRETERS.fullmatch(name) is not None:
            program, scripts = name, 2
        elif not element.startswith("-"):
            named = _OF_FILES.fullmatch(program) is not None and (option == "-m" or is_named_code(element))
            scripts = 0 if named else scripts - 1
        option = element if element.startswith("-") else ""


def program_texts(words: Sequence[str]) -> Iterator[tuple[int, str]]:
    """The positions of words that are texts of programs, as after ``sh -c``, each with its interpreter."""
    program = ""
    for at, word in enumerate(words[:-1]):
        name = os.path.basename(word)
        if _INTERPRETERS.fullmatch(name) is not None:
            program = name
        elif _TEXTS.fullmatch(f"{program} {word}") is not None:
            yield at + 1, program
            return


def is_shell(program: str) -> bool:
    """Whether a program is a shell, by its name."""
    return _SHELL.fullmatch(program) is not None


def is_named_code(path: str) -> bool:
    """Whether a file is code by its name."""
    return _CODE.fullmatch(os.path.basename(path)) is not None


def _commands(text: str) -> Iterator[tuple[str, bool]]:
    """The words of the commands in a text for a shell. Files to read from and to write to are data."""
    for command in _BETWEEN.split(_REDIRECTION.sub(" ", text)):
        words = [one for one in re.split(r"[\s\"']+", command) if one]
        while words and _BEFORE.fullmatch(words[0]) is not None:
            del words[0]
        yield from _argv(words)


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
