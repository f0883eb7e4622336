"""A program that edits the text of a file as one line at the terminal: ``python line_editor.py FILE PROMPT``.

It is a program of its own, because a thread that waits in readline cannot be ended, and another program can.
"""

import pathlib
import readline
import signal
import sys


def main(file: pathlib.Path, prompt: str) -> None:
    """Writes the edited line back. An empty line, or the end of input, leaves the file as it is."""
    text = file.read_text(encoding="utf-8")
    readline.set_startup_hook(lambda: readline.insert_text(text))
    try:
        line = input(prompt).strip()
    except EOFError:
        return
    if line:
        file.write_text(line, encoding="utf-8")


if __name__ == "__main__":
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        # Ctrl-C ends it at once, also between the prompt and the first key, where readline loses it.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    main(pathlib.Path(sys.argv[1]), sys.argv[2])
