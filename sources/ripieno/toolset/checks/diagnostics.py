"""Reports of linters, type checkers and compilers as one kind of value: file, line, message. Pure."""

import re
from typing import Any

from ripieno.jsonvalues import is_list, is_table
from ripieno.toolset.programs.foreign_json import number, parse, table, tables
from ripieno.toolset.programs.foreign_json import text as text_of
from ripieno.values import Value

#: Problems shown, and characters of each message.
MAX_PROBLEMS, MAX_MESSAGE = 100, 1000
_GENERAL = re.compile(
    r"^(?P<file>[^\s:(][^:\n(]{0,500}):(?P<line>\d{1,7})(?::(?P<column>\d{1,5}))?:?\s+"
    r"(?:(?P<severity>error|warning|note|info)(?:\[(?P<number>\w+)\])?:?\s+)?"
    r"(?P<message>.{1,2000}?)(?:\s+\[(?P<code>[\w./-]+)\])?$",
    re.MULTILINE,
)
_TYPESCRIPT = re.compile(
    r"^(?P<file>[^\n(]{1,500})\((?P<line>\d{1,7}),(?P<column>\d{1,5})\): "
    r"(?P<severity>error|warning) (?P<code>TS\d+): (?P<message>.{1,2000})$",
    re.MULTILINE,
)


class Diagnostic(Value, kw_only=True):
    """One problem. ``line`` and ``column`` count from 1."""

    file: str
    message: str
    line: int | None = None
    column: int | None = None
    severity: str = "error"
    code: str | None = None

    def mapping(self, beneath: str = "") -> dict[str, Any]:
        """The JSON form of the known fields. Files beneath a folder are relative to it."""
        fields = {
            "file": self.file.removeprefix(beneath)[:500],
            "line": self.line,
            "column": self.column,
            "severity": self.severity,
            "code": self.code,
            "message": self.message[:MAX_MESSAGE],
        }
        return {key: value for key, value in fields.items() if value is not None}


def read_lines(text: str) -> list[Diagnostic] | None:
    """Lines such as ``file:1:2: error: message [code]``, as mypy, gcc, go vet and flake8 write them."""
    return [_matched(one) for one in _GENERAL.finditer(text) if one["severity"] != "note"]


def read_typescript(text: str) -> list[Diagnostic] | None:
    """Lines of ``tsc --pretty false``."""
    return [_matched(one) for one in _TYPESCRIPT.finditer(text)]


def _matched(found: re.Match[str]) -> Diagnostic:
    values = found.groupdict()
    return Diagnostic(
        file=values["file"],
        line=int(values["line"]),
        column=None if values["column"] is None else int(values["column"]),
        severity=values["severity"] or "error",
        code=values.get("code") or values.get("number"),
        message=values["message"].strip(),
    )


def read_ruff(text: str) -> list[Diagnostic] | None:
    """The JSON of ``ruff check``; None for other text."""
    report = parse(text)
    if not is_list(report):
        return None
    return [
        Diagnostic(
            file=str(one.get("filename", "")),
            line=number(table(one.get("location")).get("row")),
            column=number(table(one.get("location")).get("column")),
            code=text_of(one.get("code")),
            message=str(one.get("message", "")),
        )
        for one in tables(report)
    ]


def read_eslint(text: str) -> list[Diagnostic] | None:
    """The JSON of eslint; None for other text."""
    report = parse(text)
    if not is_list(report):
        return None
    return [
        Diagnostic(
            file=str(file.get("filePath", "")),
            line=number(one.get("line")),
            column=number(one.get("column")),
            severity="error" if one.get("severity") == 2 else "warning",
            code=text_of(one.get("ruleId")),
            message=str(one.get("message", "")),
        )
        for file in tables(report)
        for one in tables(file.get("messages"))
    ]


def read_pyright(text: str) -> list[Diagnostic] | None:
    """The JSON of pyright, whose lines count from 0; None for other text."""
    report = parse(text)
    if not is_table(report) or "generalDiagnostics" not in report:
        return None
    found: list[Diagnostic] = []
    for one in tables(report["generalDiagnostics"]):
        start = table(table(one.get("range")).get("start"))
        line, column = number(start.get("line")), number(start.get("character"))
        found.append(
            Diagnostic(
                file=str(one.get("file", "")),
                line=None if line is None else line + 1,
                column=None if column is None else column + 1,
                severity=str(one.get("severity", "error")),
                code=text_of(one.get("rule")),
                message=str(one.get("message", "")),
            )
        )
    return found


def read_cargo(text: str) -> list[Diagnostic] | None:
    """The JSON lines of ``cargo --message-format=json``; None without any."""
    found: list[Diagnostic] = []
    seen = False
    for line in text.splitlines():
        event = table(parse(line) if line.startswith("{") else None)
        seen = seen or "reason" in event
        message = table(event.get("message"))
        if event.get("reason") != "compiler-message" or message.get("level") not in ("error", "warning"):
            continue
        span = next((one for one in tables(message.get("spans")) if one.get("is_primary")), None)
        if span is not None:
            found.append(
                Diagnostic(
                    file=str(span.get("file_name", "")),
                    line=number(span.get("line_start")),
                    column=number(span.get("column_start")),
                    severity=str(message["level"]),
                    code=text_of(table(message.get("code")).get("code")),
                    message=str(message.get("message", "")),
                )
            )
    return found if seen else None
