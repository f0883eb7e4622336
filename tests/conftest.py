"""What all tests stand on: signals as a shell would give them, and laws that know no clock."""

import signal

from hypothesis import HealthCheck, settings

# How long an example takes is the machine's affair: a loaded one would break laws that hold.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


def pytest_configure() -> None:
    """In the background of some shells an interrupt is ignored, and processes that tests start would inherit that."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
