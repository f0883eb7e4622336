"""A small MCP server over standard input and output for the demo: ``python -m ripieno.testing.rehearsal.clock``."""

import datetime
import zoneinfo

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations

READ_ONLY = ToolAnnotations(read_only_hint=True)
server = MCPServer("clock", version="1", log_level="WARNING")


@server.tool(annotations=READ_ONLY)
def tell_time(zone: str = "UTC") -> str:
    """Tells the time in a zone such as Europe/Vienna, as an ISO 8601 text."""
    if zone == "UTC":
        # UTC needs no time zone database, which small systems lack.
        return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    try:
        place = zoneinfo.ZoneInfo(zone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ToolError(f"There is no time zone {zone!r}. Try UTC, or a name such as Europe/Vienna.") from error
    return datetime.datetime.now(place).isoformat(timespec="seconds")


@server.tool(annotations=READ_ONLY)
def add_days(date: str, days: int) -> str:
    """Adds days to a date such as 2026-02-27, and tells the day of the week too."""
    try:
        day = datetime.date.fromisoformat(date) + datetime.timedelta(days=days)
    except (ValueError, OverflowError) as error:
        raise ToolError(f"{date!r} and {days} days do not make a valid date: {error}.") from error
    return f"{day.isoformat()} ({day:%A})"


if __name__ == "__main__":
    server.run()
