"""The page about retries and the result cache is correct."""

import tomllib

from ripieno.assembly.configuration import Places, load_configuration
from ripieno.descriptors import RetryPolicy
from tests.documentation.code_blocks import texts
from tests.support.command_line import User


def test_retry_and_reuse(user: User) -> None:
    usual, weather = texts("tutorials/retry-and-reuse", "toml", "toml")
    assert (
        RetryPolicy(**{**tomllib.loads(usual)["retry"], "categories": ("timeout", "network", "quota")}) == RetryPolicy()
    )
    tables = {"retry": {"max_backoff": 30}, "ensembles": [tomllib.loads(weather)]}
    loaded = load_configuration(tables, places=Places(configuration=user.configuration, state=user.state))
    assert loaded.failures == ()
    (ensemble,) = [one for one in loaded.ensembles if one.name == "weather"]
    (forecast,) = ensemble.invokers
    assert forecast.policy.retry == RetryPolicy(
        max_retries=5, initial_backoff=0.5, max_backoff=30, categories=("network",)
    )
    assert ensemble.discovered("other").policy.retry == RetryPolicy(max_retries=1, initial_backoff=0.5, max_backoff=30)
    assert (forecast.policy.cache, forecast.policy.repeatable) == (300, True)


def test_a_result_that_cannot_be_reused_is_a_problem(user: User) -> None:
    _, weather = texts("tutorials/retry-and-reuse", "toml", "toml")
    for old, new, message in (
        ("cache = 300", 'cache = 300\neffect = "write"', "a result of effect 'write' cannot be reused"),
        ("max_retries = 5,", "max_backoff = 1, initial_backoff = 2,", "initial_backoff is longer than max_backoff"),
        ("initial_backoff = 0.5", "max_retries = 2", "max_retries is given here and in retry"),
        ('["network"]', '["denied"]', "categories[0] must be one of"),
    ):
        tables = {"ensembles": [tomllib.loads(weather.replace(old, new))]}
        loaded = load_configuration(tables, places=Places(configuration=user.configuration, state=user.state))
        assert message in "\n".join(map(str, loaded.failures)), old
