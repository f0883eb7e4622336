"""What all tests stand on: signals as a shell would give them."""

import signal


def pytest_configure() -> None:
    """In the background of some shells an interrupt is ignored, and processes that tests start would inherit that."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
