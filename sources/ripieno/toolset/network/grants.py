"""The operator's grants to the network tools: hosts and ports, private networks, and credentials.

They are in the ensemble's ``[configuration]`` and are read when it connects. Models cannot change them.
"""

import contextlib
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from frozendict import frozendict

from ripieno.descriptors.reader.keys import Key, Table
from ripieno.descriptors.reader.kinds import Flag, Named, Several, Size, Text
from ripieno.descriptors.reader.positions import Path
from ripieno.descriptors.reader.problems import Problems
from ripieno.descriptors.templates import Template
from ripieno.ensembles import Surroundings
from ripieno.exceptions import InputError
from ripieno.origins.http.client import Fetcher, HostPattern, Limits, Reach, check_header, parse_url
from ripieno.origins.settings import VARIABLE_TEXT, ParsedText, read_configuration
from ripieno.storage.redaction import NO_SECRETS, Redactor
from ripieno.values import Value, unprinted

_WHERE = "[configuration.network]"
_ADVICE = f'The operator can allow hosts: hosts = ["api.example.org", "*.example.com"] under {_WHERE}.'
_LOCAL_ADVICE = f"The operator can allow this machine and private networks: local = true under {_WHERE}."


_HOST = ParsedText(
    expected='a host such as "api.example.org", "*.example.com" or "localhost:8080"',
    parse=HostPattern.parse,
    hint="Write a host without scheme and path, with its port unless that is the default.",
)
GRANTS = Table(
    title="[configuration]",
    documentation="The hosts that the network tools may contact. All others are refused.",
    keys=(
        Key(
            name="hosts",
            kind=Several(item=_HOST, items="hosts", once=True),
            documentation="Hosts by name, *. for all subdomains, or * for all public ones; with :port, or :* for all.",
            default=(),
            example=["api.example.org", "*.example.com", "localhost:8080"],
        ),
        Key("local", Flag(), "Whether hosts may be this machine or in a private network.", default=False, example=True),
        Key("size", Size(), "The largest answer in bytes, decompressed.", default=10 * 2**20, example="50 MiB"),
        Key(
            name="credentials",
            kind=Named(
                name=Text(pattern=r"https?://\S+", shape='an origin such as "https://api.example.org"'),
                kind=Named(name=Text(), kind=VARIABLE_TEXT, expected="a table of headers"),
                expected="a table of origins",
            ),
            documentation="Headers that only the named origin receives; models do not see them.",
            default=frozendict(),
            example={"https://api.example.org": {"Authorization": "Bearer {env:TOKEN}"}},
        ),
    ),
)


@unprinted("credentials", "redactor")
class Network(Value, kw_only=True):
    """The connection of the network tools: their fetcher, and the credentials of each origin."""

    fetcher: Fetcher
    credentials: frozendict[str, tuple[tuple[str, str], ...]] = frozendict()
    redactor: Redactor = NO_SECRETS


def read_grants(configuration: Mapping[str, Any], secrets: Mapping[str, str]) -> Network:
    """The grants of a configuration. Errors: ``ConfigurationInvalidity`` with all problems."""
    credentials: dict[str, tuple[tuple[str, str], ...]] = {}
    values: set[str] = set()

    def fill(read: Mapping[str, Any], problems: Problems) -> None:
        for origin, headers in read.get("credentials", {}).items():
            path: Path = ("configuration", "credentials", origin)
            filled = [_fill(name, one, secrets, (*path, name), problems) for name, one in headers.items()]
            values.update(secrets[name] for one in headers.values() for name in one.variables if name in secrets)
            place = _origin(origin, path, problems)
            if place is not None:
                credentials[place] = tuple(one for one in filled if one is not None)

    read = read_configuration(GRANTS, configuration, fill, file=_WHERE)
    reach = Reach(
        hosts=read.get("hosts", ()), local=read.get("local", False), advice=_ADVICE, local_advice=_LOCAL_ADVICE
    )
    limits = Limits(size=read.get("size", Limits().size))
    return Network(
        fetcher=Fetcher(reach, limits=limits), credentials=frozendict(credentials), redactor=Redactor(values)
    )


@contextlib.asynccontextmanager
async def open_network(configuration: Mapping[str, Any], surroundings: Surroundings) -> AsyncGenerator[Network, None]:
    """The factory of the ensemble's connection. Nothing is contacted before a call."""
    yield read_grants(configuration, surroundings.secrets)


def _origin(text: str, path: Path, problems: Problems) -> str | None:
    try:
        url = parse_url(text)
    except InputError as error:
        problems.add(path, str(error))
        return None
    if url.target != "/":
        problems.add(path, "an origin has no path", f'Write "{url.origin}".')
        return None
    return url.origin


def _fill(
    name: str, template: Template, secrets: Mapping[str, str], path: Path, problems: Problems
) -> tuple[str, str] | None:
    missing = [one for one in template.variables if one not in secrets]
    if missing:
        problems.add(
            path,
            f"the variable {', '.join(missing)} is not set",
            "Set it in the environment; if [environment] allow is given, it must list it.",
        )
        return None
    try:
        value = template.header({}, secrets)
        check_header(name, value)
    except InputError as error:
        problems.add(path, str(error))
        return None
    return name, value
