"""Exit codes of the command line, and their description in ``ripieno --help``."""

#: Everything went well.
GOOD = 0
#: The result of the tool is an error, a tool with a bug ended the run, or a person said no to what the command asked.
REFUSED = 1
#: A mistake in the command line or the configuration; nothing was done.
INPUT = 2
#: A model's endpoint could not be reached, or answered with an error.
PROVIDER = 3
#: The run waits: a call needs an answer, or the caller runs it.
WAITING = 10
#: A limit ended the run.
LIMIT = 11
#: The run ended without an answer, such as one that was cut off.
UNANSWERED = 12
#: The run has its answer, and a call was denied because there was no terminal to ask at.
DENIED = 13
#: A bug in ripieno. The number is that of sysexits.h, EX_SOFTWARE.
INTERNAL = 70
#: Interrupted by a signal: this and its number, as shells count (130 for Ctrl-C).
SIGNAL = 128

HELP = """\
Exit codes: 0 success · 1 the tool or the run failed, or you declined what the command asked · 2 a mistake in the
command line or configuration · 3 the model's endpoint failed · 10 the run waits for an answer to a call · 11 a limit
ended the run · 12 the run ended without an answer · 13 a call was denied because no one could be asked ·
70 a bug in ripieno · 130 interrupted (128 + the number of the signal)."""
