"""What tests in a browser ask of a page."""

import os
import shutil

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]


def settled(page: Page) -> None:
    """Wait until the page's figure shows an answer to its present inputs."""
    if page.locator("section.figure").count():
        page.wait_for_selector("section.figure[data-count]:not([aria-busy])", timeout=120_000)


def violations(page: Page, *, every_rule: bool = False) -> list[str]:
    """Return what axe finds against the rules of WCAG 2.2 AA, or against all that it knows."""
    options = {} if every_rule else {"runOnly": {"type": "tag", "values": RULES}}
    found = Axe().run(page, options=options).response["violations"]
    return [f"{each['id']}: {[node['html'][:160] for node in each['nodes'][:3]]}" for each in found]


def all_pages(page: Page, address: str) -> list[str]:
    """Return the paths of all pages, as the navigation lists them."""
    page.goto(f"{address}/")
    paths = []
    for section in page.locator("header nav a").evaluate_all("links => links.map(a => a.pathname)"):
        page.goto(address + section)
        entries = page.locator("nav.side a").evaluate_all("links => links.map(a => a.pathname)")
        paths += entries or [section]
    return paths
