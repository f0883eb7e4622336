"""Reports of test runners as one value: counts, and the failed tests with their messages. Pure.

The tested project writes its report, so it is not trusted: sizes are bounded, and XML with its own declarations, such
as entities that expand to gigabytes, is refused.
"""

import re
from typing import Any
from xml.etree import ElementTree

from ripieno.jsonvalues import is_list, is_table
from ripieno.toolset.programs.foreign_json import parse, tables
from ripieno.values import Value

#: Failures shown, and characters of each message.
MAX_FAILURES, MAX_MESSAGE = 50, 2000


class Failure(Value, kw_only=True):
    """A test that failed or could not run. ``line`` counts from 1."""

    name: str
    message: str = ""
    file: str | None = None
    line: int | None = None

    def mapping(self) -> dict[str, Any]:
        """The JSON form of the known fields."""
        message = self.message.strip()
        if len(message) > MAX_MESSAGE:
            # The end of a traceback has the error.
            message = f"[…] {message[len(message) - MAX_MESSAGE :]}"
        fields = {"name": self.name[:500], "file": self.file, "line": self.line, "message": message}
        return {key: value for key, value in fields.items() if value not in (None, "")}


class Tally(Value, kw_only=True):
    """The counts of a test run. ``errors`` are tests that could not run."""

    passed: int = 0
    failed: int = 0
    errors: int = 0
    skipped: int = 0
    failures: tuple[Failure, ...] = ()

    @property
    def total(self) -> int:
        """The number of all tests."""
        return self.passed + self.failed + self.errors + self.skipped

    def mapping(self) -> dict[str, Any]:
        """The JSON form, with the first failures only if there are many."""
        counts = {name: getattr(self, name) for name in ("passed", "failed", "errors", "skipped")}
        shown = [one.mapping() for one in self.failures[:MAX_FAILURES]]
        more = len(self.failures) - len(shown)
        return {**counts, "failures": shown, **({"failures_left_out": more} if more else {})}


def read_junit(data: bytes) -> Tally | None:
    """A report in JUnit's XML, as pytest writes it; None for other data."""
    if b"<!DOCTYPE" in data or b"<!ENTITY" in data:
        return None
    try:
        root = ElementTree.fromstring(data)
    except (ElementTree.ParseError, ValueError, RecursionError):
        return None
    counts: dict[str, int] = dict.fromkeys(("passed", "failed", "errors", "skipped"), 0)
    failures: list[Failure] = []
    for case in root.iter("testcase"):
        kind, found = next(((kind, one) for tag, kind in _JUNIT for one in case if one.tag == tag), ("passed", None))
        counts[kind] += 1
        if found is not None and kind in ("failed", "errors"):
            name = "::".join(part for part in (case.get("classname", ""), case.get("name", "")) if part)
            message = (found.text or "").strip() or found.get("message", "")
            file, line = _place(message) if case.get("file") is None else (case.get("file"), None)
            failures.append(Failure(name=name, message=message, file=file, line=line))
    return Tally(**counts, failures=tuple(failures))


_JUNIT = (("failure", "failed"), ("error", "errors"), ("skipped", "skipped"))


def _place(message: str) -> tuple[str | None, int | None]:
    """The place that pytest reports: the last line of the form ``file.py:12: Error``."""
    found = re.findall(r"^([^\s:][^:\n]{0,300}):(\d{1,7}): ", message, flags=re.MULTILINE)
    return (found[-1][0], int(found[-1][1])) if found else (None, None)


def read_jest(data: bytes) -> Tally | None:
    """The JSON of ``jest --json``; None for other data."""
    report = parse(data)
    if not is_table(report) or not is_list(report.get("testResults")):
        return None
    counts: dict[str, int] = dict.fromkeys(("passed", "failed", "errors", "skipped"), 0)
    failures: list[Failure] = []
    for file in tables(report["testResults"]):
        name = str(file.get("name", ""))
        cases = list(tables(file.get("assertionResults")))
        if not cases and file.get("status") == "failed":
            counts["errors"] += 1
            failures.append(Failure(name=name, file=name, message=_plain(str(file.get("message", "")))))
        for case in cases:
            kind = {"passed": "passed", "failed": "failed"}.get(str(case.get("status")), "skipped")
            counts[kind] += 1
            if kind == "failed":
                messages = case.get("failureMessages")
                message = "\n".join(map(str, messages)) if is_list(messages) else ""
                failures.append(Failure(name=str(case.get("fullName", "")), file=name, message=_plain(message)))
    return Tally(**counts, failures=tuple(failures))


def read_cargo(text: str) -> Tally | None:
    """The output of ``cargo test``, whose lines are its only stable form; None without any."""
    results = re.findall(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored;", text, flags=re.MULTILINE)
    if not results:
        return None
    passed, failed, ignored = (sum(int(one[index]) for one in results) for index in range(3))
    outputs = dict(re.findall(r"^---- (\S.*?) stdout ----\n(.*?)(?=^---- |^failures:|\Z)", text, flags=re.M | re.S))
    names = dict.fromkeys(re.findall(r"^test (\S.*?) \.\.\. FAILED$", text, flags=re.MULTILINE))
    failures: list[Failure] = []
    for name in names:
        message = outputs.get(name, "")
        place = re.search(r"panicked at (?:'.*', )?([^\s:]+):(\d+):\d+", message)
        file, line = (place[1], int(place[2])) if place else (None, None)
        failures.append(Failure(name=name, message=message, file=file, line=line))
    return Tally(passed=passed, failed=failed, skipped=ignored, failures=tuple(failures))


def read_go(text: str) -> Tally | None:
    """The JSON lines of ``go test -json``; None without any."""
    counts: dict[str, int] = dict.fromkeys(("passed", "failed", "errors", "skipped"), 0)
    outputs: dict[tuple[str, str], list[str]] = {}
    failures: list[Failure] = []
    seen = False
    for line in text.splitlines():
        event = parse(line.encode()) if line.startswith("{") else None
        if not is_table(event) or "Action" not in event:
            continue
        seen = True
        key = (str(event.get("Package", event.get("ImportPath", ""))), str(event.get("Test", "")))
        action = event["Action"]
        if action in ("output", "build-output"):
            outputs.setdefault(key, []).append(str(event.get("Output", "")))
        elif action in ("pass", "fail", "skip") and key[1]:
            counts[{"pass": "passed", "fail": "failed", "skip": "skipped"}[str(action)]] += 1
            if action == "fail":
                failures.append(_go_failure(key, outputs))
        elif action == "fail" and not any(one.name.startswith(f"{key[0]}.") for one in failures):
            counts["errors"] += 1
            failures.append(Failure(name=key[0], message="".join(outputs.get(key, []))))
    return Tally(**counts, failures=tuple(failures)) if seen else None


def _go_failure(key: tuple[str, str], outputs: dict[tuple[str, str], list[str]]) -> Failure:
    message = "".join(outputs.get(key, []))
    place = re.search(r"^\s+([^\s:]+\.go):(\d+): ", message, flags=re.MULTILINE)
    file, line = (place[1], int(place[2])) if place else (None, None)
    return Failure(name=".".join(key), message=message, file=file, line=line)


def _plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)
