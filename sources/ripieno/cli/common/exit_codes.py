"""Exit codes of the command line, and what ``ripieno --help`` says of them."""

#: Everything went well.
GOOD = 0
#: The tool or the model said no: the result is an error, or the run ended without an answer.
REFUSED = 1
#: A mistake in what was typed or configured; nothing was done.
INPUT = 2
#: A model's endpoint could not be reached, or answered with an error.
PROVIDER = 3
#: A bug in ripieno. The number is that of sysexits.h, EX_SOFTWARE.
INTERNAL = 70
#: Interrupted by a signal: this and its number, as shells count (130 for Ctrl-C).
SIGNAL = 128

HELP = """\
Exit codes: 0 good · 1 the tool or the model said no · 2 a mistake in what was typed or configured ·
3 the model's endpoint failed · 70 a bug in ripieno · 130 interrupted (128 and the number of the signal)."""
