"""Completion in bash, which splits words at ``:`` and ``=``, and replaces only what comes after these."""

from click.shell_completion import BashComplete, CompletionItem, add_completion_class

#: What is not yet a whole word is not followed by a space.
_NO_SPACE = "    [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *[:=/] ]] && compopt -o nospace\n"
_END = "    return 0\n"


class _Bash(BashComplete):
    """Reads and writes whole words, such as ``score:demo.toml`` and ``path=README.rst``."""

    source_template = BashComplete.source_template.replace(_END, _NO_SPACE + _END)
    #: The part of the word that bash keeps.
    _kept = ""

    def get_completion_args(self) -> tuple[list[str], str]:
        args, incomplete = super().get_completion_args()
        words: list[str] = []
        joins = False
        for word in (*args, incomplete):
            breaks = word != "" and not word.strip(":=")
            if words and (breaks or (joins and word)):
                self._kept = words[-1] + word * breaks
                words[-1] += word
            else:
                self._kept = ""
                words.append(word)
            joins = breaks
        return words[:-1], words[-1]

    def format_completion(self, item: CompletionItem) -> str:
        return f"{item.type},{item.value.removeprefix(self._kept)}"


def register() -> None:
    """Makes it the completion for bash."""
    add_completion_class(_Bash)
