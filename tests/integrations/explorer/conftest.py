"""A server of the explorer, and pages of a real browser that are watched for errors and foreign requests."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from browser_pages import CHROMIUM, all_pages
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    """Start `ferrodp explore` on a free port, and end it by Ctrl-C's signal."""
    command = [sys.executable, "-m", "ferrodp", "explore", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        found = None
        for line in server.stdout:
            found = re.search(r"http://\S+/", line)
            if found:
                break
        assert found, "the server says where it is"
        try:
            yield found.group().rstrip("/")
        finally:
            server.send_signal(2)
            assert server.wait(20) == 0


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        if os.environ.get("CI"):
            pytest.fail("chromium is not installed")
        pytest.skip("chromium is not installed")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture(scope="session")
def paths(browser: Browser, address: str) -> list[str]:
    """Return the paths of all pages, which the navigation lists: found once."""
    found = browser.new_context()
    try:
        return all_pages(found.new_page(), address)
    finally:
        found.close()


@pytest.fixture
def context(browser: Browser, address: str) -> Iterator[BrowserContext]:
    """Return a fresh profile, all of whose pages stay without an error and on this host."""
    errors: list[str] = []
    foreign: list[str] = []

    def watch(page: Page) -> None:
        page.on("console", lambda said: errors.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda request: foreign.append(request.url) if is_foreign(request.url) else None)

    def is_foreign(url: str) -> bool:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https", "ws", "wss") and parts.netloc != urlsplit(address).netloc

    found = browser.new_context(viewport={"width": 1440, "height": 900})
    found.set_default_timeout(20_000)
    found.on("page", watch)
    yield found
    found.close()
    assert errors == []
    assert foreign == []


@pytest.fixture
def page(context: BrowserContext) -> Page:
    return context.new_page()
