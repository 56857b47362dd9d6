"""The built site in Chromium: searching, reading, copying, narrow screens, from file:// addresses.

``make docs`` builds it. ``SITE_PICTURES=1`` writes the pictures of docs/pictures again.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SITE = ROOT / "build" / "site"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
SEARCHES = {
    "softmax": "reference/ops/softmax.html",
    "Dense": "reference/api/mxlite.gluon.nn.html",
    "DataLoader": "reference/api/mxlite.gluon.data.html",
    "quantize a network int8": "howto/quantization.html",
    "save and continue a training": "howto/checkpoints.html",
    "use a GPU": "howto/gpus.html",
    "environment variables": "reference/environment.html",
    "Pooling": "reference/ops/Pooling.html",
}
PICTURES = {
    "landing": "index.html",
    "operator": "reference/ops/softmax.html",
    "howto": "howto/deployment.html",
    "compat": "migrate/compat.html",
}

if os.environ.get("CI") is None:
    if CHROMIUM is None:
        pytest.skip("no Chromium: apt-get install chromium", allow_module_level=True)
    if not (SITE / "index.html").is_file():
        pytest.skip("no site: make docs builds it", allow_module_level=True)
    pytest.importorskip("playwright", reason="no playwright: pip install --group docs")

from playwright.sync_api import Page, sync_playwright  # noqa: E402

COPIED = """document.addEventListener("copy", () => {
    window.copied = document.activeElement.value;
})"""
pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def browser():
    """Return a headless Chromium of the system."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser):
    """Return a page that fails its test on console errors and on requests to hosts."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    opened = context.new_page()
    faults: list[str] = []
    opened.on("console", lambda m: faults.append(m.text) if m.type == "error" else None)
    opened.on("pageerror", lambda error: faults.append(str(error)))
    opened.on("requestfailed", lambda request: faults.append(f"failed: {request.url}"))
    context.route("http*://**", lambda route: (faults.append(route.request.url), route.abort()))
    yield opened
    context.close()
    assert not faults


def visit(page: Page, path: str) -> None:
    """Open a page of the site."""
    page.goto(f"{SITE.as_uri()}/{path}")


def pages(limit: int) -> list[str]:
    """Return pages of every folder of the site, the largest first."""
    folders: dict[Path, list[Path]] = {}
    for path in SITE.rglob("*.html"):
        if "_" not in str(path.relative_to(SITE))[0]:
            folders.setdefault(path.parent, []).append(path)
    largest = (sorted(f, key=lambda p: -p.stat().st_size)[:limit] for f in folders.values())
    return sorted(str(p.relative_to(SITE)) for chosen in largest for p in chosen)


@pytest.mark.parametrize("words", SEARCHES)
def test_search_finds_the_page(page, words):
    visit(page, f"search.html?q={words}")
    page.wait_for_selector("#search-results li a")
    page.wait_for_function(
        "document.querySelector('#search-results p').innerText.includes('found')"
    )
    links = page.locator("#search-results li > a").evaluate_all("all => all.map(a => a.href)")
    found = [a.removeprefix(f"{SITE.as_uri()}/").split("#")[0].split("?")[0] for a in links]
    assert SEARCHES[words] in list(dict.fromkeys(found))[:3]


def test_tutorial_is_reached_from_the_landing_page(page):
    visit(page, "index.html")
    page.locator(".sd-card", has_text="Tutorials").click()
    lesson = page.locator(".bd-article .toctree-wrapper a").first
    title = lesson.inner_text()
    lesson.click()
    assert page.locator("h1").inner_text().startswith(title)
    page.locator("a.right-next").first.click()
    assert page.locator("h1").inner_text() != title


@pytest.mark.parametrize("width", [1280, 375])
def test_no_page_scrolls_sideways(page, width):
    page.set_viewport_size({"width": width, "height": 800})
    wide = {}
    for path in pages(2):
        visit(page, path)
        excess = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        if excess > 0:
            wide[path] = excess
    assert not wide


def test_copying_leaves_prompts_and_results_out(page):
    visit(page, "reference/ops/softmax.html")
    page.evaluate(COPIED)
    page.locator("button.copybtn").first.click(force=True)
    text = page.wait_for_function("window.copied").json_value()
    assert "mx.nd.softmax" in text
    assert ">>>" not in text
    assert not any(line.startswith("array(") for line in text.splitlines())


def test_theme_can_be_changed(page):
    visit(page, "index.html")
    page.locator("button.theme-switch-button:visible").first.click()
    page.locator("button.theme-change-button[data-mode=dark]:visible").first.click()
    assert page.locator("html").get_attribute("data-theme") == "dark"


def test_version_menu_leads_to_this_version(page):
    visit(page, "howto/deployment.html")
    menu = page.locator("select.version-menu").first
    names = [v["name"] for v in json.loads((ROOT / "docs/_static/switcher.json").read_text())]
    assert menu.locator("option").all_inner_texts() == names
    assert menu.evaluate("menu => menu.value") == "../index.html"


def test_old_addresses_lead_to_the_new_ones(page):
    redirects = json.loads((ROOT / "docs" / "redirects.json").read_text())
    for old, new in redirects.items():
        assert (SITE / f"{new}.html").is_file()
        assert f'content="1; url={new}.html"' in (SITE / f"{old}.html").read_text()
    visit(page, "distributed.html#stores")
    page.wait_for_url("**/howto/distributed.html#stores")


def test_headings_and_images_serve_screen_readers(page):
    faults = []
    for path in pages(1):
        visit(page, path)
        levels = page.locator("main :is(h1, h2, h3, h4)").evaluate_all(
            "all => all.filter(h => h.checkVisibility()).map(h => +h.tagName[1])"
        )
        steps = [b - a for a, b in zip(levels, levels[1:])]
        bare = page.locator("img:not([alt])").count()
        if levels[:1] != [1] or max(steps, default=0) > 1 or bare:
            faults.append((path, levels[:12], bare))
    assert not faults


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_are_small(page, name):
    picture = ROOT / "docs" / "pictures" / f"{name}.png"
    if os.environ.get("SITE_PICTURES"):
        page.set_viewport_size({"width": 900, "height": 560})
        visit(page, PICTURES[name])
        page.screenshot(path=picture)
    assert 5_000 < picture.stat().st_size < 80_000
