"""A server that dies in its first call, and answers after it was started again. ``changed``: with another tool then."""

import os
import pathlib
import sys
from typing import Any

from mcp.server import MCPServer

app: Any = MCPServer("dying", version="1.0")
flag = pathlib.Path(os.environ["FLAG"])
description = "Answers, but differently." if sys.argv[1] == "changed" and flag.exists() else "Answers."


@app.tool(description=description)
def answer() -> str:
    if flag.exists():
        return "alive"
    flag.touch()
    os._exit(3)


app.run(transport="stdio")
