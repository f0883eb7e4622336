"""``python -m tests.conformance``: runs the suite, shows what passed, and compares it with what is expected."""

import argparse
import concurrent.futures
import fnmatch
import os
import pathlib
import shlex
import sys
from collections.abc import Iterator, Sequence

from tests.conformance.expecting import Verdict, idle, judge, read
from tests.conformance.serving import serving
from tests.conformance.suite import ERAS, Finding, Side, Suite, Unavailable

HERE = pathlib.Path(__file__).parent
SIDES: tuple[Side, ...] = ("server", "client")
_SIGNS: dict[Verdict, str] = {"passed": "passed", "expected": "-", "hollow": "hollow", "news": "NEW"}


def main() -> int:
    """0 when everything is as expected, 1 when something is not, 2 when the suite cannot be had."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("patterns", nargs="*", metavar="SCENARIO", help="only these, such as 'tools-*'")
    parser.add_argument("--side", choices=SIDES, help="only our server, or only our client")
    parser.add_argument("--era", choices=ERAS, help="only this version of the protocol")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path(".build/conformance"))
    parser.add_argument("--verbose", action="store_true", help="say what was wrong where that was expected, too")
    chosen = parser.parse_args()
    suite = Suite(chosen.folder.absolute())
    findings: list[Finding] = []
    try:
        suite.install()
        for side in [chosen.side] if chosen.side else SIDES:
            for era in [chosen.era] if chosen.era else ERAS:
                found = list(_find(suite, side, era, chosen.patterns))
                _show(found, verbose=chosen.verbose)
                findings += found
    except Unavailable as error:
        print(error, file=sys.stderr)
        return 2
    whole = not (chosen.side or chosen.era or chosen.patterns)
    return _conclude(findings, whole=whole)


def _find(suite: Suite, side: Side, era: str, patterns: Sequence[str]) -> Iterator[Finding]:
    names = suite.names(side, era)
    wanted = {
        name: required
        for name, required in names.items()
        if not patterns or any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
    }
    if side == "server":
        with serving() as url:
            yield from suite.serve(era, url, wanted)
        return
    command = f"{shlex.quote(sys.executable)} {shlex.quote(str(HERE / 'client.py'))}"

    def play(name: str) -> Finding:
        return suite.play(era, command, name, required=wanted[name])

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        yield from pool.map(play, wanted)


def _show(findings: Sequence[Finding], *, verbose: bool) -> None:
    """A table: the scenario, whether the era requires it, and what became of it."""
    expectations = read(HERE / "expected.toml")
    if findings:
        print(f"\n{findings[0].side}, {findings[0].era}")
    for finding in findings:
        verdict, text = judge(finding, expectations)
        kind = "required" if finding.required else "beyond"
        print(f"  {finding.scenario:<48} {kind:<9} {_SIGNS[verdict]}")
        if text:
            print(f"      {text}")
        elif verbose:
            for name, why in finding.wrong:
                print(f"      {name}: {why[:200]}")
    sys.stdout.flush()


def _conclude(findings: Sequence[Finding], *, whole: bool) -> int:
    """The sums, and the exit code. A list that names what is not there is out of date."""
    expectations = read(HERE / "expected.toml")
    verdicts = [(finding, judge(finding, expectations)[0]) for finding in findings]
    print()
    for side in SIDES:
        for era in ERAS:
            ones = [verdict for one, verdict in verdicts if (one.side, one.era, one.required) == (side, era, True)]
            if ones:
                passed = ones.count("passed")
                hollow = f", {ones.count('hollow')} more prove nothing" if "hollow" in ones else ""
                print(f"{side}, {era}: {passed} of {len(ones)} required scenarios pass{hollow}")
    news = sum(verdict == "news" for _, verdict in verdicts)
    stale = idle(expectations, findings) if whole else []
    for one in stale:
        print(f"expected.toml names a scenario that is not there: {one}")
    print("All else is expected: tests/conformance/expected.toml says why." if not news else f"Not expected: {news}")
    return 1 if news or stale else 0


if __name__ == "__main__":
    sys.exit(main())
