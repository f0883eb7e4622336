"""Files as the documentation shows them, and whole files made of every key's own example."""

import copy
import tomllib
from collections.abc import Callable, Mapping
from typing import Any

from ripieno.descriptors import ConfigurationDescriptor, EnsembleDescriptor, InvokerDescriptor
from ripieno.descriptors.configuration import combine, read_parts
from ripieno.descriptors.ensembles import read_ensemble
from ripieno.descriptors.profiles import read_profile
from ripieno.descriptors.providers import read_provider
from ripieno.descriptors.reader.keys import UNSET, Key, Table
from ripieno.descriptors.reader.kinds import Named, Several
from ripieno.descriptors.reader.problems import Source
from ripieno.descriptors.reader.references import OrReference, Reader
from ripieno.exceptions import Problem
from ripieno.jsonvalues import thaw

IO = """
[ensemble]
name = "io"
enabled = true
module = "ripieno.toolset.files"

[defaults]
timeout = 30
max_retries = 3

[[invokers]]
source = "io/invokers/read_file.toml"
"""
READ_FILE = """
[invoker]
name = "read_file"
enabled = true
description = "Reads contents of a file"
effect = "read"

[arguments]
type = "object"
required = ["path"]

[arguments.properties.path]
type = "string"
description = "Path of the file"
"""
SEARCH = """
[ensemble]
name = "search"

[[invokers]]
name = "search"
description = "Searches files"
effect = "read"
output = "2 MiB"

[invokers.arguments]
type = "object"
required = ["pattern"]

[invokers.arguments.properties]
pattern = { type = "string" }
path = { type = "string", default = "." }
context = { type = "integer", minimum = 0 }

[invokers.invocable]
origin = "command"
argv = ["rg", "--json", { when = "context", argv = ["-C", "{context}"] }, "--", "{pattern}", "{path}"]
"""
WEATHER = """
[ensemble]
name = "weather"

[[invokers]]
name = "forecast"
description = "Says what the weather will be"
effect = "read"

[invokers.arguments]
type = "object"
required = ["city"]

[invokers.arguments.properties]
city = { type = "string" }
units = { type = "string", enum = ["metric", "imperial"] }
seconds = { type = "number", minimum = 1, maximum = 60 }

[invokers.invocable]
origin = "http"
method = "GET"
url = "https://api.example.org/v1/{city}"
query = { units = "{units}" }
headers = { Authorization = "Bearer {env:TOKEN}" }
presets = { units = "metric" }
timeout_argument = "seconds"
"""
TIME = """
[ensemble]
name = "time"

[connection]
origin = "mcp"
transport = "stdio"
command = ["python", "-m", "mcp_server_time"]
environment = { TOKEN = "{env:TIME_TOKEN}" }

[overrides.get_current_time]
effect = "read"
description = "Tells the time"
"""
ENSEMBLES = {"io": IO, "search": SEARCH, "weather": WEATHER, "time": TIME}
PROVIDER = """
[provider]
name = "house"
protocol = "example-chat"
base_url = "http://localhost:8080/v1"
api_key = "{env:HOUSE_KEY}"

[capabilities]
strict = true
output_tokens = 8192

[[models]]
match = "small-1*"
parallel_calls = false

[[models]]
match = "small-*"
function_calling = false
output_tokens = 1024
"""
PROFILE = """
[profile]
name = "minimal"
description = "Files, and nothing else"
ensembles = ["io"]
"""
CONFIGURATION = """
[ensembles]
paths = ["ensembles", "/srv/ensembles"]
enabled = ["io", "git"]

[plugins]
allow = ["ripieno-weather"]

[providers.house]
base_url = "http://localhost:9090/v1"

[providers.house.capabilities]
strict = false

[model]
default = "house/small-1"
temperature = 0.2

[agents.reader]
model = "house/small-2"
instructions = "Read, and do nothing else."
controls = { temperature = 0 }
limits = { turns = 5 }
tools = ["io.read_file", "git.*"]

[limits]
turns = 50
output = "32 KiB"

[confirmation]
approve = ["git.commit"]
deny = ["shell"]

[environment]
allow = ["HOUSE_KEY"]

[workspace]
root = "work"

[sandbox]
level = "required"
tier = 1
provider = "containers"
readable = ["~/.cargo", "shared"]
writable = ["cache"]
network = false
"""


def read_configuration(*given: Any, **keys: Any) -> tuple[ConfigurationDescriptor | None, tuple[Problem, ...]]:
    """The configuration of one file."""
    parts, problems = read_parts(*given, **keys)
    return (None if problems else combine((parts,))), problems


def files(**texts: str) -> Reader:
    """A reader of files that are held here; dots of names are written as two underscores."""
    held = {name.replace("__", "."): text for name, text in texts.items()}

    def read(relative: str) -> tuple[Mapping[str, Any], Source]:
        text = held[relative.rpartition("/")[2]]
        return tomllib.loads(text), Source(file=relative, text=text)

    return read


def ensemble(text: str, read: Reader | None = None) -> tuple[EnsembleDescriptor | None, tuple[Problem, ...]]:
    """Reads the text of an ensemble's file."""
    return read_ensemble(tomllib.loads(text), Source(file="x.toml", text=text), read=read)


def good(text: str, read: Reader | None = None) -> EnsembleDescriptor:
    """The descriptor of a text that has no problems."""
    descriptor, problems = ensemble(text, read)
    assert problems == ()
    assert descriptor is not None
    return descriptor


def only(descriptor: EnsembleDescriptor) -> InvokerDescriptor:
    """Its one invoker."""
    (invoker,) = descriptor.invokers
    return invoker


def within(key: Key) -> tuple[Any, Callable[[Any], Any], tuple[str | int, ...]]:
    """The kind of a key, or what it holds; how one value of that stands in the key; and the path to it."""
    kind: Any = key.kind
    wrap, path = lambda value: value, (key.name,)
    if isinstance(kind, Named):
        kind, wrap, path = kind.kind, lambda value: {"one": value}, (key.name, "one")
    elif isinstance(kind, Several):
        kind, wrap, path = kind.item, lambda value: [value], (key.name, 0)
    return kind.kind if isinstance(kind, OrReference) else kind, wrap, path


def whole(table: Table) -> dict[str, Any]:
    """A table in which every declared key has its example, and every table in it likewise."""
    filled: dict[str, Any] = {}
    for key in table.keys:
        kind, wrap, _ = within(key)
        if key.example is not UNSET:
            filled[key.name] = copy.deepcopy(thaw(key.example))
        elif isinstance(kind, Table):
            filled[key.name] = wrap(whole(kind))
        elif key.name in ("arguments", "results"):
            strings = {name: {"type": "string"} for name in ("units", "invocation")}
            properties = {**strings, "timeout": {"type": "number"}}
            filled[key.name] = {"type": "object", "required": ["units"], "properties": properties}
        elif key.name == "ensembles":
            filled[key.name] = {"paths": ["ensembles"], "enabled": ["io"], "profile": "minimal"}
        else:
            raise AssertionError(f"{table.title} {key.name} has no example")
    return filled


READERS: dict[str, Callable[..., tuple[Any, tuple[Problem, ...]]]] = {
    "ensemble": read_ensemble,
    "provider": read_provider,
    "profile": read_profile,
    "config": read_configuration,
}
