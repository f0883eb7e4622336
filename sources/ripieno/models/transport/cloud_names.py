"""The names of the clouds that host models, and what each needs."""

from collections.abc import Mapping

#: The SDK for each cloud.
CLOUDS: Mapping[str, str] = {"azure": "openai", "bedrock": "anthropic", "vertex": "anthropic"}
#: The further module that an SDK needs, and the extra that installs it.
EXTRAS: Mapping[str, tuple[str, str]] = {"bedrock": ("boto3", "bedrock"), "vertex": ("google.auth", "vertex")}
#: Clouds whose SDK finds addresses and credentials itself.
HOMES = frozenset(EXTRAS)
