"""Makes pictures of all pages of the explorer, at three widths and in both themes, to be looked at.

    PYTHON tests/integrations/explorer/screenshots.py FOLDER            all pages
    PYTHON tests/integrations/explorer/screenshots.py FOLDER PATH ...   these, such as /learn/coin
    PYTHON tests/integrations/explorer/screenshots.py --readme FILE     the picture in README.md

PYTHON is that of an environment with requirements.txt beside this file. Chromium is the system's, or the one that the
environment variable CHROMIUM names.
"""

import re
import subprocess
import sys
from io import BytesIO
from pathlib import Path

from browser_pages import CHROMIUM, all_pages, settled
from PIL import Image
from playwright.sync_api import Page, sync_playwright

WIDTHS, THEMES = (1440, 768, 320), ("light", "dark")
SHOWN = "/learn/composition"
COLORS = 255


def readme_picture(page: Page, address: str) -> bytes:
    """Return a lesson as PNG, with few colors so that it is small."""
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto(address + SHOWN)
    settled(page)
    page.evaluate("document.activeElement.blur()")
    shot = Image.open(BytesIO(page.screenshot())).convert("RGB")
    found = BytesIO()
    shot.quantize(COLORS, method=Image.Quantize.MAXCOVERAGE, kmeans=3, dither=Image.Dither.NONE).save(
        found, "PNG", optimize=True
    )
    return found.getvalue()


def pictures(page: Page, address: str, folder: Path, paths: list[str]) -> None:
    """Write a picture of each page, width and theme."""
    for path in paths or all_pages(page, address):
        for theme in THEMES:
            page.emulate_media(color_scheme=theme)
            for width in WIDTHS:
                page.set_viewport_size({"width": width, "height": 900})
                page.goto(address + path)
                settled(page)
                name = path.strip("/").replace("/", "-")
                page.screenshot(path=folder / f"{name}-{width}-{theme}.png", full_page=True)
                if path == "/playground":
                    page.wait_for_selector('section.figure[data-state="ended"]', timeout=120_000)
                    page.screenshot(path=folder / f"{name}-trained-{width}-{theme}.png", full_page=True)


def main(arguments: list[str]) -> None:
    """Start a server and a browser, and write what is asked for."""
    command = [sys.executable, "-m", "ferrodp", "explore", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server, sync_playwright() as playwright:
        found = next(filter(None, (re.search(r"http://\S+/", line) for line in server.stdout)))
        address = found.group().rstrip("/")
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            page = browser.new_page()
            if arguments[0] == "--readme":
                Path(arguments[1]).write_bytes(readme_picture(page, address))
            else:
                folder = Path(arguments[0])
                folder.mkdir(parents=True, exist_ok=True)
                pictures(page, address, folder, arguments[1:])
        finally:
            browser.close()
            server.terminate()


if __name__ == "__main__":
    main(sys.argv[1:])
