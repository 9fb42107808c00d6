"""The address holds the state: links, history, reloads, tabs; and how fast an answer is on the screen."""

import statistics
import time

from browser_pages import settled

from ferrodp.explorer.figures import upper
from ferrodp.plan import ConstantNoise, FlatClipping, PoissonSampling, PrivacyPlan

FIGURE = "section[data-figure]"


def number(page, label):
    """Return a number with all its digits."""
    return page.locator(".details .numbers div", has_text=label).locator("dd").get_attribute("data-value")


def test_an_unknown_lesson_leads_to_the_first(page, address):
    for path in ("/learn/no-such-lesson", "/learn", "/"):
        page.goto(address + path)
        settled(page)

        assert page.url.split("?")[0].endswith("/learn/coin")


def test_a_link_with_its_state_shows_the_epsilon_of_the_plan(page, address):
    page.goto(f"{address}/learn/composition?noise_multiplier=2&probability=0.02&steps=500&delta=1e-6")
    settled(page)
    plan = PrivacyPlan(
        sampling=PoissonSampling(0.02),
        population_size=1000,
        num_steps=500,
        clipping=FlatClipping(1.0),
        noise=ConstantNoise(2.0),
    )

    assert number(page, "privacy loss distribution") == upper(plan.epsilon(1e-6))


def test_back_and_reload_keep_what_was_chosen(page, address):
    page.goto(f"{address}/learn/composition")
    settled(page)
    field = page.get_by_label("Noise multiplier σ", exact=True)
    for value in ("2", "3"):
        field.fill(value)
        field.press("Tab")
        settled(page)
    third = number(page, "privacy loss distribution")
    page.reload()
    settled(page)

    assert field.input_value() == "3"
    assert number(page, "privacy loss distribution") == third

    page.go_back()
    page.wait_for_timeout(200)
    settled(page)

    assert field.input_value() == "2"
    assert number(page, "privacy loss distribution") != third

    page.get_by_role("link", name="Sampling").first.click()
    page.wait_for_url("**/learn/sampling*")
    page.go_back()
    page.wait_for_url("**/learn/composition*")
    settled(page)

    assert field.input_value() == "2"


def test_two_tabs_do_not_disturb_each_other(context, address):
    one, other = context.new_page(), context.new_page()
    for page, value in ((one, "2"), (other, "5")):
        page.goto(f"{address}/learn/composition")
        settled(page)
        field = page.get_by_label("Noise multiplier σ", exact=True)
        field.fill(value)
        field.press("Tab")
        settled(page)
    shown = [number(page, "privacy loss distribution") for page in (one, other)]
    one.reload()
    settled(one)

    assert shown[0] != shown[1]
    assert number(one, "privacy loss distribution") == shown[0]
    assert other.get_by_label("Noise multiplier σ", exact=True).input_value() == "5"


def test_what_a_busy_server_puts_off_is_asked_again(browser, address):
    page = browser.new_page()  # not watched for errors: the browser itself reports each refusal
    refused = []

    def answer(route):
        if len(refused) < 2:
            refused.append(route.request.url)
            route.fulfill(status=429, json={"schema": 1, "error": {"code": "too_many", "message": "", "remedy": ""}})
        else:
            route.continue_()

    page.route("**/api/f*/composition?*", answer)
    page.goto(f"{address}/learn/composition")
    settled(page)

    assert len(refused) == 2
    assert float(number(page, "privacy loss distribution")) > 0
    page.close()


def test_progress_is_kept_on_this_machine(page, address):
    for name in ("coin", "worlds"):
        page.goto(f"{address}/learn/{name}")
        settled(page)
    page.goto(f"{address}/learn/choose")
    settled(page)

    seen = page.locator("nav.side a[data-seen]").evaluate_all("links => links.map(a => a.dataset.entry)")
    assert seen == ["coin", "worlds", "choose"]


def test_embedders_hear_which_lesson_was_opened(page, address):
    page.add_init_script(
        """window.heard = [];
        window.ferrodpExplorer = { onLessonOpen: (step) => window.heard.push(["hook", step.name, step.number]) };
        document.addEventListener("learning_step_open", ({ detail }) =>
            window.heard.push(["event", detail.name, detail.number]));"""
    )
    page.goto(f"{address}/learn/leak")
    settled(page)

    assert page.evaluate("window.heard") == [["event", "leak", 4], ["hook", "leak", 4]]


def test_a_lesson_answers_soon_after_it_is_opened_and_after_every_change(page, address, record_property):
    started = time.perf_counter()
    page.goto(f"{address}/learn/composition")
    settled(page)
    first = time.perf_counter() - started
    slider = page.get_by_label("Noise multiplier σ, slider")
    screen, server = [], []
    for place in range(300, 900, 6):
        count = int(page.locator(FIGURE).get_attribute("data-count"))
        slider.evaluate("(e, v) => { e.value = v; e.dispatchEvent(new Event('input', { bubbles: true })); }", place)
        page.wait_for_selector(f'{FIGURE}[data-count="{count + 1}"]:not([aria-busy])')
        screen.append(float(page.locator(FIGURE).get_attribute("data-milliseconds")))
        server.append(1000 * float(page.locator(FIGURE).get_attribute("data-seconds")))
    measured = {
        "first answer, ms": 1000 * first,
        "change to screen, median ms": statistics.median(screen),
        "change to screen, 99 % ms": sorted(screen)[98],
        "server, median ms": statistics.median(server),
    }
    for name, value in measured.items():
        record_property(name, round(value, 1))
    print({name: round(value, 1) for name, value in measured.items()})

    # On an idle machine 50 ms, 16 ms and 1.5 s are kept. A machine that does other work at the same time may take four
    # times as long; what takes longer than that is a defect.
    assert measured["change to screen, median ms"] < 200
    assert measured["server, median ms"] < 64
    assert measured["first answer, ms"] < 6000
