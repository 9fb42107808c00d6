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


def trained(page: Page) -> None:
    """Wait until a page that trains has ended it: before that, it is drawn anew and its buttons change."""
    if page.locator("section[data-playground]").count():
        page.wait_for_selector('section[data-playground][data-state="ended"]', timeout=180_000)


def opened(page: Page) -> None:
    """Open everything that can be opened, and wait for the tables, which are made then."""
    trained(page)
    page.locator("details").evaluate_all("all => all.forEach(each => { each.open = true; })")
    page.wait_for_selector("details.data:not(:has(table))", state="detached")


HIDE_REPEATED_ROWS = """() => {
    const shape = row => [row, ...row.querySelectorAll('*')]
        .map(e => [e.tagName, ...[...e.attributes].map(a => `${a.name}=${a.value}`)].join(' ')).join('|');
    for (const body of document.querySelectorAll('tbody')) {
        const seen = new Map();
        for (const row of body.rows) {
            const count = (seen.get(shape(row)) ?? 0) + 1;
            seen.set(shape(row), count);
            if (count > 4) row.style.display = 'none';
        }
    }
}"""
SHOW_ROWS = "() => document.querySelectorAll('tbody tr').forEach(row => row.style.removeProperty('display'))"


def violations(page: Page, *, every_rule: bool = False) -> list[str]:
    """Return what axe finds against the rules of WCAG 2.2 AA, or against all that it knows."""
    only = {} if every_rule else {"runOnly": {"type": "tag", "values": RULES}}
    return _found(page, only | {"rules": {"color-contrast": {"enabled": False}}}) + too_little_contrast(page)


def too_little_contrast(page: Page) -> list[str]:
    """Return the texts that axe cannot tell from their ground well enough.

    Rows of a table whose elements and attributes are the same have the same colors: four of each kind are looked at,
    two where stripes alternate. A row takes as long as a button, and a table of data has hundreds.
    """
    page.evaluate(HIDE_REPEATED_ROWS)
    found = _found(page, {"runOnly": {"type": "rule", "values": ["color-contrast"]}})
    page.evaluate(SHOW_ROWS)
    return found


def _found(page: Page, options: dict[str, object]) -> list[str]:
    """Run axe for violations alone: otherwise half of its time goes to the places of what passes."""
    response = Axe().run(page, options=options | {"resultTypes": ["violations"]}).response
    return [f"{each['id']}: {[node['html'][:160] for node in each['nodes'][:3]]}" for each in response["violations"]]


def all_pages(page: Page, address: str) -> list[str]:
    """Return the paths of all pages, as the navigation lists them, each once."""
    page.goto(f"{address}/")
    paths = []
    for section in page.locator("header nav a").evaluate_all("links => links.map(a => a.pathname)"):
        page.goto(address + section)
        entries = page.locator("nav.side a").evaluate_all("links => links.map(a => a.pathname)")
        paths += entries or [section]
    return list(dict.fromkeys(paths))
