"""Where the workers of a gateway count together, so that each of them can tell the sum of all."""

import contextlib
import importlib
import os
import shutil
import tempfile
from collections.abc import Generator

from ripieno.descriptors import GatewayDescriptor

#: The variable by which the library that counts is told of the folder, before it is imported.
_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"


@contextlib.contextmanager
def counting_together(chosen: GatewayDescriptor) -> Generator[None, None, None]:
    """A folder for all workers that are forked inside; it goes with whoever made it.

    There is none where nobody counts, and where whoever runs this has named one.
    """
    from ripieno.servers.gateway.request_log import is_countable

    if not chosen.metrics or not is_countable() or os.environ.get(_VARIABLE):
        yield
        return
    maker = os.getpid()
    folder = tempfile.mkdtemp(prefix="ripieno-metrics-")
    os.environ[_VARIABLE] = folder
    try:
        # What all workers need is imported once.
        importlib.import_module("ripieno.servers.gateway.metrics")
        yield
    finally:
        if os.getpid() == maker:
            del os.environ[_VARIABLE]
            shutil.rmtree(folder, ignore_errors=True)
