"""A client of the page's API, which has signed in."""

import contextlib
import pathlib
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import httpx2
import pytest

from ripieno.ensembles import Definition
from ripieno.models import Model
from tests.support.web_pages import ServedPage, serving_page

#: Serves the page over a model and tools; gives it, and a client of the owner "".
Connect = Callable[..., AbstractAsyncContextManager[tuple[ServedPage, httpx2.AsyncClient]]]


@pytest.fixture
def connect(tmp_path: pathlib.Path) -> Connect:
    @contextlib.asynccontextmanager
    async def connecting(
        model: Model, *definitions: Definition, **settings: Any
    ) -> AsyncGenerator[tuple[ServedPage, httpx2.AsyncClient], None]:
        async with (
            serving_page(tmp_path, model, *definitions, **settings) as served,
            httpx2.AsyncClient(base_url=served.url, headers=served.headers()) as client,
        ):
            yield served, client

    return connecting
