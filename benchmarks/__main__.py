"""Runs the rows and prints them: ``python -m benchmarks [--json FILE] [--page] [ROW …]``."""

import argparse
import asyncio
import dataclasses
import json
import os
import pathlib
import platform

from benchmarks.measurement import Row
from benchmarks.page import CHART, PAGE, write_page
from benchmarks.rows import ROWS


def main() -> None:
    """Measures everything, or the rows that are named."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("rows", nargs="*", help=f"some of: {', '.join(one.__name__ for one in ROWS)}")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write the figures there, too")
    parser.add_argument("--page", action="store_true", help="write them into the documentation, with a chart")
    options = parser.parse_args()
    unknown = set(options.rows) - {one.__name__ for one in ROWS}
    if unknown:
        parser.error(f"no such row: {', '.join(sorted(unknown))}")
    print(f"Python {platform.python_version()}, {os.cpu_count()} processors, {platform.machine()}", flush=True)
    rows: list[Row] = []
    for measure in ROWS:
        if not options.rows or measure.__name__ in options.rows:
            for row in asyncio.run(measure()):
                rows.append(row)
                show(row)
    if options.json is not None:
        options.json.write_text(json.dumps([{**dataclasses.asdict(row), "kept": row.kept} for row in rows], indent=2))
    if options.page:
        write_page(rows)
        print(f"Written: {PAGE}, {CHART}")


def show(row: Row) -> None:
    """One line."""
    budget = "" if row.budget is None else f"≤ {row.budget:g}"
    word = {None: "", True: "kept", False: "MISSED"}[row.kept]
    if row.measured is None:
        print(f"{row.what:42} {row.detail}", flush=True)
        return
    print(f"{row.what:42} {row.measured:9.2f} {row.unit:12.30} {budget:8} {word:7} {row.detail}", flush=True)


if __name__ == "__main__":
    main()
