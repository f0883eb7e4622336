"""Settings of all tests: default signals, fixed examples for laws, checked answers of the Responses wire."""

import functools
import gc
import importlib.abc
import importlib.machinery
import pathlib
import signal
import sys
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from msgspec.structs import force_setattr

from tests.counts import ATTACK

pytest_plugins = ["tests.support.users", "tests.support.postgresql"]

# No deadlines: a loaded machine would break laws that hold. `make test` has the same examples in each run.
untimed = settings(
    deadline=None,
    max_examples=2000 if ATTACK else 25,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
settings.register_profile("fresh", untimed)
settings.register_profile("fixed", untimed, derandomize=True, database=None)
settings.load_profile("fresh" if ATTACK else "fixed")
if not ATTACK:
    # Otherwise it also draws constants of our modules, so that examples depend on what earlier tests have imported.
    providers._get_local_constants = lambda: providers._local_constants


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector away from what collecting makes: it lives until the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_configure() -> None:
    """Restore default signals, and check the answers of the Responses wire."""
    # Some shells, and nohup, start programs that ignore a signal. Processes that tests start would inherit that.
    defaults = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGHUP: signal.SIG_DFL,
        signal.SIGQUIT: signal.SIG_DFL,
    }
    for number, handler in defaults.items():
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, handler)
    assert _WIRE not in sys.modules
    sys.meta_path.insert(0, _Watcher())


# Every answer of the Responses wire that is made here is checked against the public schema and its grammar.

_WIRE = "ripieno.models.protocols.openai_responses"
#: The faults of answers in the current test.
_faults: list[str] = []


def _noted(check: Callable[[bytes], object], data: bytes) -> bool:
    """Checks an answer and notes its fault. Its sender goes on: a server would report an error only to its client."""
    try:
        check(data)
    except Exception as error:  # An error of the checker is a fault, too.
        _faults.append(f"{type(error).__name__}: {error}")
        return False
    return True


def _checked_write(write: Callable[..., bytes]) -> Callable[..., bytes]:
    """Checks each write. An unfinished answer is allowed: its client may have disconnected."""

    @functools.wraps(write)
    def wrapped(encoder: Any, *arguments: Any) -> bytes:
        data = write(encoder, *arguments)
        if data:
            seen = vars(encoder)
            if "check" not in seen:
                from tests.support.openresponses_checker import StreamChecker

                seen["ended"] = False
                seen["check"] = StreamChecker(seed=type(encoder).__name__ == "SeedEncoder").write
            # Only the first fault of an answer counts. An end that a failure follows was not sent: it was not stored.
            if write.__name__ == "fail" and seen["ended"]:
                return data
            seen["ended"] = data.endswith(b"data: [DONE]\n\n")
            if not _noted(seen["check"], data):
                seen["check"] = bool
        return data

    return wrapped


def _checked_body(make: Callable[..., bytes]) -> Callable[..., bytes]:
    @functools.wraps(make)
    def wrapped(*arguments: Any) -> bytes:
        from tests.support.openresponses_checker import check_body

        data = make(*arguments)
        _noted(check_body, data)
        return data

    return wrapped


def _watch(wire: Any) -> None:
    """Checks the answers of the wire's encoder from now on."""
    encoder, protocol = wire.Encoder, wire.PROTOCOL
    for name in ("feed", "wait", "fail"):
        setattr(encoder, name, _checked_write(getattr(encoder, name)))
    for name in ("encode", "refuse"):
        # The protocol is frozen, and shared.
        force_setattr(protocol, name, _checked_body(getattr(protocol, name)))


class _Watcher(importlib.abc.MetaPathFinder):
    """Watches the wire from its first import on, without a cost for tests that do not import it."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        spec = importlib.machinery.PathFinder.find_spec(fullname, path) if fullname == _WIRE else None
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def execute_and_watch(module: Any) -> None:
            execute(module)
            _watch(module)

        spec.loader.exec_module = execute_and_watch  # type: ignore[method-assign]
        return spec


@pytest.fixture(scope="session", autouse=True)
def authorities() -> Iterator[None]:
    """Trust one certificate: reading all those of the system takes 20 ms for each client with TLS."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(pathlib.Path(__file__).parent / "data" / "tls" / "certificate.pem"))
        yield


@pytest.fixture(autouse=True)
def _answers_are_right() -> Iterator[None]:
    """A test fails if an answer during it was bad."""
    _faults.clear()
    yield
    if _faults:
        faults = "\n\n".join(_faults[:3])
        pytest.fail(f"{len(_faults)} answers of the Responses wire were bad:\n{faults}", pytrace=False)
