"""``ripieno doctor`` on the sandbox: which tier, what is in it, why no higher; and what the configuration changes."""

import json
from collections.abc import Callable

import pytest

from tests.support.command_line import User
from tests.support.users import Done

Call = Callable[..., Done]


def test_what_holds_here(call: Call, user: User) -> None:
    done = call("doctor", "--no-connect", "--format", "json")
    shown = call("doctor", "--no-connect")
    assert done.code == 0, done.err
    facts = json.loads(done.out)["sandbox"]
    assert facts["name"].startswith(f"tier {facts['tier']} (")
    assert (facts["missing"] is None) == (facts["tier"] > 0 or facts["level"] != "required")
    assert facts["tier"] == 2 or facts["reason"]
    assert "\nSandbox\n" in shown.out
    assert facts["name"] in shown.out
    assert facts["network"] == "for tools that declare it"


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ('level = "off"\nnetwork = false', {"level": "off", "tier": 0, "network": "for no tools", "missing": None}),
        ('provider = "cubes"\nnetwork = true', {"tier": 3, "name": "tier 3 (cubes)", "network": "for all tools"}),
        ('readable = ["/srv/x"]\nwritable = ["y"]\nlevel = "off"', {"readable": ["/srv/x"]}),
    ],
)
def test_what_the_user_configures(table: str, expected: dict[str, object], call: Call, user: User) -> None:
    user.configure(f"[sandbox]\n{table}\n")
    done = call("doctor", "--no-connect", "--format", "json")
    facts = json.loads(done.out)["sandbox"]
    assert {name: facts[name] for name in expected} == expected
    assert all(path.startswith("/") for path in facts["writable"])
    shown = call("doctor", "--no-connect")
    assert "\nnetwork" in shown.out
