"""A person with a browser: log in by a link, look at the heatmap, roll a drifted bias back.

A real control-plane process, a contract engine that sends it frames, Debian's chromium.
"""

import re
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.support.running_plane import RunningPlane, running_plane

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
PATIENCE_MS = 60_000
PAGES = (
    "/", "/engines/engine-0", "/engines/engine-0/rollback", "/findings", "/actions", "/decisions",
    "/slos", "/policies", "/policies/fast", "/audit", "/settings", "/api", "/glossary",
    "/nothing-here",
)  # fmt: skip

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not CHROMIUM.exists(), reason="Debian's chromium is not installed"),
]


@pytest.fixture(scope="module")
def plane(tmp_path_factory) -> Iterator[RunningPlane]:
    """Drift is left to the human: the governor's own hand is off the bias."""
    with running_plane(tmp_path_factory.mktemp("plane")) as running:
        wish = {"policy": "fast", "modes": {"router_bias": "off"}}
        running.api("PUT", "/api/v1/engines/engine-0/policy", json=wish)
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=str(CHROMIUM), args=list(FLAGS))
        yield chromium
        chromium.close()


class Visit:
    """One person's window, and what it complained of."""

    def __init__(self, browser: Browser, plane: RunningPlane, role: str, **context) -> None:
        self.context = browser.new_context(**context)
        self.page: Page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE_MS)
        self.complaints: list[str] = []
        self.outside: list[str] = []
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", self._on_console)
        self.page.on(
            "request",
            lambda request: (
                None
                if request.url.startswith((plane.url, "data:"))
                else self.outside.append(request.url)
            ),
        )
        self.page.goto(plane.login_link(role))
        self.page.wait_for_url(f"{plane.url}/")

    def _on_console(self, message) -> None:
        if message.type == "error":
            self.complaints.append(message.text)


@pytest.fixture
def visit(browser, plane) -> Iterator[Visit]:
    made = Visit(browser, plane, "operator", viewport={"width": 1280, "height": 900})
    yield made
    made.context.close()
    assert not made.outside
    assert not made.complaints


def drift(plane: RunningPlane, size: float) -> str:
    """The bias drifts; gives the last known good once the control plane knows of it."""
    plane.engine.drift(size)
    live = plane.engine.live_bias
    plane.wait(
        40, "the drifted bias",
        lambda: plane.api("GET", "/api/v1/fleet")[0]["live_bias"] == live,
    )  # fmt: skip
    return str(plane.engine.last_known_good)


def colours(page: Page) -> int:
    """Distinct colours of the heatmap."""
    return int(
        page.evaluate(
            """() => { const c = document.getElementById('heatmap');
            const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
            const seen = new Set();
            for (let i = 0; i < d.length; i += 4) seen.add((d[i] << 16) | (d[i+1] << 8) | d[i+2]);
            return seen.size; }"""
        )
    )


def test_an_operator_rolls_the_bias_back_and_sees_it_succeed(plane, visit):
    good = drift(plane, 0.5)
    page = visit.page
    expect(page.get_by_role("heading", name="Fleet")).to_be_visible()
    page.get_by_role("link", name="engine-0").first.click()
    expect(page.locator("#heat-readout")).to_contain_text("2 layers × 8 experts")
    expect(page.locator("[data-live-state]")).to_have_text("live")
    assert colours(page) > 4
    page.locator("#heatmap").hover(position={"x": 60, "y": 12})
    expect(page.locator("#heat-readout")).to_contain_text("layer 0 · expert 0")
    expect(page.locator("[data-chart=ttft] canvas")).to_be_visible()

    page.get_by_role("button", name="Roll back to the last known good").click()
    expect(page.get_by_role("dialog", name="Roll engine-0 back?")).to_be_visible()
    expect(page.locator("#rollback-go")).to_be_focused()
    expect(page.locator("#rollback-reason")).not_to_have_value("")
    page.keyboard.press("Enter")

    page.wait_for_url("**/actions/act-*")
    expect(page.locator(".facts .pill").first).to_contain_text("succeeded", timeout=PATIENCE_MS)
    expect(page.get_by_role("heading", name="Verification")).to_be_visible()
    assert plane.engine.live_bias == good
    assert plane.engine.document.cause.actor == "anna"
    page.locator("#audit-link").click()
    expect(page.get_by_text("action.succeeded")).to_be_visible()
    expect(page.get_by_text("action.proposed")).to_be_visible()
    page.get_by_role("button", name="Verify the chain").click()
    expect(page.locator("#chain")).to_contain_text("whole")


def test_the_versions_are_compared_before_one_is_rolled_back_to(plane, visit):
    good = drift(plane, 0.4)
    page = visit.page
    page.goto(f"{plane.url}/engines/engine-0")
    page.locator("#s-compare").click()
    expect(page.get_by_text("sampled steps")).to_be_visible()
    expect(page.locator("#roll-back")).to_have_text("Roll engine-0 back to bias version 1")
    page.locator("#roll-back").click()
    page.wait_for_url("**/actions/act-*")
    plane.wait(30, "the rollback", lambda: plane.engine.live_bias == good)


def test_what_is_being_confirmed_stays_while_the_page_renews_itself(plane, visit):
    drift(plane, 0.3)
    page = visit.page
    page.goto(f"{plane.url}/engines/engine-0")
    page.locator("#s-rollback-now").click()
    page.locator("#rollback-reason").fill("typed by hand")
    plane.engine.change(chunk_size=256)  # which makes the last known good live again
    expect(page.locator("[data-live-html=config]")).to_contain_text("256", timeout=PATIENCE_MS)
    expect(page.locator("#rollback-reason")).to_have_value("typed by hand")
    page.keyboard.press("Escape")
    expect(page.locator("#rollback-go")).to_be_hidden()
    expect(page.locator("#bias")).to_contain_text("✓ last known good")
    expect(page.locator("#s-rollback-now")).to_have_count(0)


def test_an_idle_engine_shows_no_traffic_and_no_colour_of_load(plane, visit):
    page = visit.page
    plane.plant.idle = True
    try:
        page.goto(f"{plane.url}/engines/engine-0?load=10")
        expect(page.locator("#heat-readout")).to_contain_text("no traffic", timeout=PATIENCE_MS)
        low = page.evaluate(
            """() => { const c = document.getElementById('heatmap');
            const [r, g, b] = getComputedStyle(document.documentElement)
              .getPropertyValue('--heat-low').split(',').map(Number);
            const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
            for (let i = 0; i < d.length; i += 4)
              if (d[i] === r && d[i+1] === g && d[i+2] === b) return true;
            return false; }"""
        )
        assert not low
        tab_to(page, "heatmap")
        expect(page.locator("#heat-readout")).to_contain_text("expert 0 · no traffic")
    finally:
        plane.plant.idle = False


def test_charts_say_iso_dates_a_24_hour_clock_and_utc(plane, browser):
    visit = Visit(browser, plane, "viewer", locale="en-US", timezone_id="America/New_York")
    visit.page.goto(f"{plane.url}/engines/engine-0")
    plot = visit.page.locator("[data-chart=ttft] .u-over")
    plot.hover()
    at = visit.page.locator("[data-chart=ttft] .u-legend .u-value").first
    expect(at).to_have_text(re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC$"))
    assert abs(datetime.fromisoformat(at.inner_text()[:-4] + "Z").timestamp() - time.time()) < 1800
    visit.context.close()


def tab_to(page: Page, element_id: str, *, presses: int = 60) -> None:
    for _ in range(presses):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == element_id:
            outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert outline != "none", f"the focus of {element_id} cannot be seen"
            return
    raise AssertionError(f"{element_id} is not reached by {presses} presses of Tab")


def test_the_keyboard_is_enough(plane, visit):
    good = drift(plane, 0.25)
    page = visit.page
    tab_to(page, "e-1-1")
    page.keyboard.press("Enter")
    page.wait_for_url("**/engines/engine-0")
    expect(page.locator("#heat-readout")).to_contain_text("experts")
    expect(page.locator("#s-rollback-now")).to_be_visible()
    tab_to(page, "heatmap")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("End")
    expect(page.locator("#heat-readout")).to_contain_text("layer 1 · expert 7")
    page.locator("h1").click()
    page.keyboard.press("Home")
    tab_to(page, "s-rollback-now")
    page.keyboard.press("Enter")
    expect(page.locator("#rollback-go")).to_be_focused()
    page.keyboard.press("Enter")
    page.wait_for_url("**/actions/act-*")
    plane.wait(30, "the rollback", lambda: plane.engine.live_bias == good)


def test_a_chart_is_read_by_keyboard(plane, visit):
    page = visit.page
    page.goto(f"{plane.url}/engines/engine-0")
    expect(page.locator("[data-chart=tpot] canvas")).to_be_visible()
    page.locator("#charts-title").click()
    tab_to(page, "chart-ttft")
    said = page.locator("[data-chart=ttft] output")
    point = re.compile(
        r"^Time to first token: (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) UTC: "
        r"p50 ([\d.]+ (µs|ms|s)|not measured), p99 ([\d.]+ (µs|ms|s)|not measured)"
    )
    expect(said).to_have_text(re.compile(point.pattern + r"; objective [\d.]+ m?s$"))
    assert said.get_attribute("aria-live") == "polite"

    def told() -> str:
        found = point.match(said.inner_text())
        assert found is not None, said.inner_text()
        return found.group(1)

    newest = told()
    page.keyboard.press("ArrowLeft")
    before = told()
    assert before < newest
    page.keyboard.press("ArrowRight")
    assert told() == newest
    page.keyboard.press("Home")
    assert told() <= before
    shown = page.locator("[data-chart=ttft] .u-legend .u-value").first
    expect(shown).to_have_text(f"{told()} UTC")
    page.keyboard.press("2")
    expect(said).to_have_text("Time to first token: p99 is hidden")
    page.keyboard.press("End")
    expect(said).not_to_contain_text("p99")
    page.keyboard.press("2")
    page.keyboard.press("+")
    expect(said).to_contain_text("points are shown")
    page.keyboard.press("0")
    page.keyboard.press("Escape")
    expect(said).to_have_text("")
    assert page.evaluate("document.activeElement === document.body")


@pytest.mark.parametrize("width", [360, 375])
def test_no_page_scrolls_sideways(plane, browser, tmp_path, width):
    visit = Visit(browser, plane, "admin", viewport={"width": width, "height": 760})
    good = plane.engine.last_known_good
    for index, path in enumerate((*PAGES, f"/engines/engine-0/rollback?to={good}")):
        visit.page.goto(plane.url + path)
        if width == 375:
            visit.page.screenshot(path=tmp_path / f"{index}.png")
        wide = visit.page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        assert wide <= 0, f"{path} is {wide} px too wide at {width} px"
    visit.context.close()
    assert not visit.outside


def test_dark_mode_and_reduced_motion_are_respected(plane, browser):
    visit = Visit(browser, plane, "viewer", color_scheme="dark", reduced_motion="reduce")
    style = "getComputedStyle(document.documentElement)"
    background = visit.page.evaluate(f"{style}.backgroundColor")
    assert sum(int(part) for part in background[4:-1].split(",")) < 150
    moving = visit.page.evaluate(
        "[...document.querySelectorAll('*')].filter((el) => getComputedStyle(el)"
        ".transitionDuration !== '0s' || getComputedStyle(el).animationName !== 'none').length"
    )
    assert moving == 0
    visit.context.close()
