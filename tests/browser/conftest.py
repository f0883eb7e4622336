"""One browser for all tests of a worker; visitors with an own storage for each test, which are watched."""

import contextlib
import pathlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, async_playwright

from ripieno.ensembles import Definition
from ripieno.models import Model
from tests.support.browsers import Visitor, find_chromium, launch
from tests.support.web_pages import ServedPage, serving_page

HERE = pathlib.Path(__file__).parent
#: Makes a visitor; keyword arguments are those of a browser's context, such as ``color_scheme="dark"``.
Visit = Callable[..., Awaitable[Visitor]]
#: Serves the page over a model and tools; keyword arguments are those of ``serving_page``.
ServePage = Callable[..., Awaitable[ServedPage]]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run all of them in one loop, which is the browser's."""
    for item in items:
        if item.path.is_relative_to(HERE) and isinstance(item, pytest.Function):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def browser() -> AsyncGenerator[Browser, None]:
    """A browser, which ends with these tests: later ones fork, and a child ends what its parent's loop watches."""
    find_chromium()
    async with async_playwright() as playwright:
        one = await launch(playwright)
        yield one
        await one.close()


@pytest_asyncio.fixture(loop_scope="session")
async def serve_page(tmp_path: pathlib.Path) -> AsyncGenerator[ServePage, None]:
    """Serves pages, which end after the visitors: a page without its server reports errors."""
    async with contextlib.AsyncExitStack() as stack:

        async def serve(model: Model, *definitions: Definition, **settings: Any) -> ServedPage:
            return await stack.enter_async_context(serving_page(tmp_path, model, *definitions, **settings))

        yield serve


@pytest_asyncio.fixture(loop_scope="session")
async def visit(browser: Browser, serve_page: ServePage) -> AsyncGenerator[Visit, None]:
    """Makes visitors. At the end, none of their pages may have reported an error or asked another host."""
    visitors: list[Visitor] = []

    async def make(**settings: Any) -> Visitor:
        visitors.append(Visitor(await browser.new_context(**settings)))
        visitors[-1].watch()
        return visitors[-1]

    yield make
    for one in visitors:
        await one.context.close()
    for one in visitors:
        one.check()


@pytest_asyncio.fixture(loop_scope="session")
async def visitor(visit: Visit) -> Visitor:
    """One visitor."""
    return await visit()
