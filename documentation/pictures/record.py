"""Records the demo as a picture: ``make pictures`` runs it and writes ``demo.svg`` beside this file."""

import io
import pathlib
import re
import subprocess
import sys

from rich.console import Console
from rich.text import Text

PICTURE = pathlib.Path(__file__).parent / "demo.svg"
COLUMNS = 110
#: What differs from run to run: times, durations, ports, and the tier of the sandbox.
CHANGING = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00"), "2026-11-01T09:30:00+00:00"),
    (re.compile(r"\(\d+ ms"), "(4 ms"),
    (re.compile(r"\d+\.\d\d s"), "1.20 s"),
    (re.compile(r"127\.0\.0\.1:\d+"), "127.0.0.1:8700"),
    (re.compile(r"tier \d \([^)]*\)"), "tier 2 (bubblewrap, seccomp, proc)"),
)
STYLES = {"user:": "bold green", ">": "cyan", "<": "dim", "---": "yellow", "===": "bold"}


def lines_of_the_demo() -> list[str]:
    """What ``ripieno demo`` prints about its first conversation, without what changes from run to run."""
    demo = [sys.executable, "-m", "ripieno", "demo"]
    printed = subprocess.run(demo, capture_output=True, text=True, check=True, timeout=120).stdout
    text = re.sub(r"^(--- \d+ turns, .*?)\n.*", r"\1", printed[printed.index("===") :], flags=re.DOTALL | re.MULTILINE)
    for pattern, same in CHANGING:
        text = pattern.sub(same, text)
    return text.rstrip().splitlines()


def draw(lines: list[str]) -> str:
    """The lines as SVG."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text("$ ripieno demo", style="bold"))
    for line in lines:
        console.print(Text(line, style=STYLES.get(line.partition(" ")[0], ""), overflow="ellipsis", no_wrap=True))
    drawn = console.export_svg(title="ripieno demo", unique_id="demo")
    # Fonts of a foreign host would tell it who reads the page.
    return re.sub(r"@font-face \{[^}]*\}\s*", "", drawn)


if __name__ == "__main__":
    PICTURE.write_text(draw(lines_of_the_demo()), encoding="utf-8")
    print(f"Written: {PICTURE}")
