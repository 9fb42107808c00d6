"""A real browser walks through every page: by mouse, by keyboard, and with the rules of WCAG."""

import subprocess
import sys

import pytest
from browser_pages import opened, settled, too_little_contrast, trained, violations

from ferrodp.explorer.lessons import LESSONS
from ferrodp.explorer.lessons.exam import EXAM
from ferrodp.explorer.lessons.questions import QUESTIONS

FIGURE = "section.figure"
PLACES = """() => [getComputedStyle(document.body).color,
    ...[...document.querySelectorAll('*')].map(e => { const r = e.getBoundingClientRect();
        return [e.tagName, r.x, r.y, r.width, r.height].join(' '); })]"""
"""The color of text, and the place of every element."""
LESSON_PATHS = [f"/learn/{lesson.name}" for lesson in LESSONS]


def numbers_on(page):
    """Return all numbers with all digits: those among the details, where the picture comes first."""
    place = ".details .numbers" if page.locator(".details .numbers").count() else f"{FIGURE} .numbers"
    return dict(
        page.locator(f"{place} div").evaluate_all(
            "rows => rows.map(row => [row.querySelector('dt').textContent, row.querySelector('dd').dataset.value])"
        )
    )


def answered_after(page, act):
    """Do something that asks the server, and wait for its answer."""
    before = int(page.locator(FIGURE).get_attribute("data-count"))
    act()
    for _ in range(200):
        settled(page)
        if int(page.locator(FIGURE).get_attribute("data-count")) > before:
            return True
        page.wait_for_timeout(50)
    return False


def use_by_mouse(page, most=None):
    """Use the controls of a page, all or so many, and open what can be opened."""
    if page.locator("details.settings").count():
        page.locator("details.settings > summary").click()
    for control in page.locator(f"{FIGURE} .control:not([hidden])").all()[:most]:
        if control.locator("select").count():
            assert control.locator("option").count() > 1
            control.locator("select").select_option(index=1)
            settled(page)
            continue
        field, slider = control.locator("input[type=number]"), control.locator("input[type=range]")
        if "idle" in control.get_attribute("class").split():  # the choice before leaves it without effect
            assert field.is_disabled()
            assert "No effect while" in control.locator(".hint").inner_text()
            continue
        assert field.count() == slider.count() == 1
        old, place = field.input_value(), slider.input_value()
        word = "more" if float(old) < float(field.get_attribute("max")) else "less"
        assert answered_after(page, control.get_by_role("button", name=word).click)
        assert field.input_value() != old or slider.input_value() != place
        slider.scroll_into_view_if_needed()
        box = slider.bounding_box()
        page.mouse.click(box["x"] + 0.6 * box["width"], box["y"] + box["height"] / 2)
        settled(page)
        assert 400 < int(slider.input_value()) < 800 or field.get_attribute("step") == "1"
    page.locator("details.why > summary").click()
    assert page.locator("details.why p").first.is_visible()
    if page.locator("details.data").count():
        page.locator("details.data summary").first.click()
        page.wait_for_selector("article table thead tr")
    if page.locator("details.cell:not([hidden])").count():
        page.locator("details.cell summary").click()
        assert page.locator("details.cell pre").is_visible()


def walk_by_keyboard(page):
    """Reach everything on a page by Tab, each with a visible focus, and move the first slider."""
    trained(page)
    expected = page.evaluate(
        """() => [...document.querySelectorAll('a[href], button, input, select, summary, [tabindex="0"]')]
            .filter(each => each.checkVisibility() && !each.disabled
                && !(each.closest('details:not([open])') && each.tagName !== 'SUMMARY')).length"""
    )
    reached, moved, seen = 0, False, None
    for _ in range(expected + 5):
        page.keyboard.press("Tab")
        now = page.evaluate(
            """() => { const e = document.activeElement;
                if (e === document.body) return null;
                const r = e.getBoundingClientRect(), o = getComputedStyle(e);
                const top = document.elementFromPoint(r.left + r.width / 2, r.top + r.height / 2);
                return { tag: e.tagName, type: e.type, rel: e.rel, name: e.innerText, value: e.value,
                    outline: o.outlineStyle !== 'none',
                    visible: r.bottom > 0 && r.top < innerHeight
                        && (top === null || e.contains(top) || top.contains(e)) }; }"""
        )
        if now is None:
            break
        seen = now
        reached += 1
        assert seen["outline"], seen
        assert seen["visible"], seen
        if seen["type"] == "range" and not moved:
            key = "ArrowLeft" if int(seen["value"]) > 900 else "ArrowRight"
            assert answered_after(page, lambda key=key: [page.keyboard.press(key) for _ in range(3)])
            moved = page.evaluate("document.activeElement.value") != seen["value"]
            assert moved
            trained(page)
        if seen["rel"] == "next" and page.evaluate("Boolean(document.activeElement.closest('nav.steps'))"):
            break
    assert moved or not page.locator(f"{FIGURE} input[type=range]").count()
    assert reached >= expected - 2, (page.url, reached, expected)  # what the slider changed may hide a link or two
    return seen


def test_every_lesson_is_walked_by_mouse(page, address):
    page.goto(f"{address}/learn")
    for path in LESSON_PATHS:
        name = path.rpartition("/")[2]
        page.locator(f'nav.side a[data-entry="{name}"]').click()
        page.wait_for_url(f"**{path}*")
        settled(page)
        assert page.locator("nav.side a[aria-current]").get_attribute("data-entry") == name
        use_by_mouse(page)


def test_every_lesson_is_walked_by_keyboard_alone(page, address):
    page.goto(address + LESSON_PATHS[0])
    for path in LESSON_PATHS:
        page.wait_for_url(f"**{path}*")
        settled(page)
        last = walk_by_keyboard(page)
        if path != LESSON_PATHS[-1]:
            assert last["rel"] == "next"
            page.keyboard.press("Enter")


def test_every_other_page_is_walked_by_mouse_and_by_keyboard(page, address, paths):
    others = [path for path in paths if path not in LESSON_PATHS]
    assert {path.split("/")[1] for path in others} == {"playground", "exam", "account", "attack", "audit"}
    for path in others:
        page.goto(address + path)
        settled(page)
        walk_by_keyboard(page)
        page.goto(address + path)
        settled(page)
        use_by_mouse(page, most=2 if path.startswith("/attack") else None)  # every answer of an attack trains anew


def test_the_playground_trains_pauses_steps_and_resets(page, address):
    page.goto(f"{address}/playground?model=mlp&batch_size=45&epochs=25")
    settled(page)
    page.wait_for_selector(f'{FIGURE}[data-state="running"]', timeout=60_000)  # at once, without a press
    page.get_by_role("button", name="Pause", exact=True).click()
    page.wait_for_selector(f'{FIGURE}[data-state="paused"], {FIGURE}[data-state="ended"]')
    page.get_by_role("button", name="Reset", exact=True).click()
    page.wait_for_selector(f'{FIGURE}[data-state="idle"]')
    page.get_by_role("button", name="Step", exact=True).click()
    page.wait_for_selector(f'{FIGURE}[data-step="1"][data-state="paused"]', timeout=60_000)
    assert float(numbers_on(page)["ε of one training, certified"]) > 0


@pytest.mark.parametrize("width", [1440, 768, 320])
def test_no_page_breaks_a_rule_of_wcag_or_scrolls_sideways(page, address, paths, width):
    """In both themes; the dark one has other colors and is in all else the same page, as its sizes show."""
    page.set_viewport_size({"width": width, "height": 900})
    for path in paths:
        page.emulate_media(color_scheme="light", reduced_motion="reduce")  # colors change at once
        page.goto(address + path)
        settled(page)
        opened(page)
        assert violations(page) == [], path
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
        small = page.evaluate(
            """() => [...document.querySelectorAll('button, select, input, nav a, summary')]
                .filter(e => e.checkVisibility()).map(e => [e.getBoundingClientRect(), e.outerHTML])
                .filter(([r]) => r.width < 24 || r.height < 24).map(([, html]) => html)"""
        )
        assert small == [], path
        light = page.evaluate(PLACES)
        page.emulate_media(color_scheme="dark")
        assert too_little_contrast(page) == [], path
        dark = page.evaluate(PLACES)
        assert dark[0] != light[0]
        assert dark[1:] == light[1:], path


def test_axe_finds_nothing_on_any_page_by_any_of_its_rules(page, address, paths):
    """Those that are advice included: the order of headings, landmarks, regions."""
    for path in paths:
        page.goto(address + path)
        settled(page)
        opened(page)
        assert violations(page, every_rule=True) == [], path


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_text_without_contrast_is_found_in_every_place(page, address, theme):
    """Among rows as well that are like no other, wherever they stand in their table."""
    page.emulate_media(color_scheme=theme)
    page.goto(f"{address}/learn/worlds")
    settled(page)
    opened(page)
    assert page.locator("article tbody tr").count() > 50
    assert too_little_contrast(page) == []
    shown = page.locator("article tbody tr").evaluate_all("rows => rows.map(row => row.checkVisibility())")
    assert all(shown)

    for place in ("article tbody tr:nth-last-child(3) td", "article h1, main h1", "nav.side a"):
        element = page.locator(place).last
        element.evaluate("e => { e.style.color = '#808080'; e.style.backgroundColor = '#858585'; }")
        found = too_little_contrast(page)
        assert len(found) == 1, place
        assert "background-color" in found[0]
        assert violations(page) == found
        element.evaluate("e => { e.style.color = e.style.backgroundColor = ''; }")
    assert too_little_contrast(page) == []


def test_the_list_of_lessons_is_behind_a_button_where_there_is_no_room(page, address):
    page.set_viewport_size({"width": 320, "height": 700})
    page.goto(address + LESSON_PATHS[1])
    settled(page)
    menu = page.locator("nav.side .menu")

    assert menu.inner_text().split() == ["2", "of", "12", "Two", "worlds"]
    assert not page.locator("nav.side li a").first.is_visible()
    assert page.locator("h1").bounding_box()["y"] < 200  # the lesson begins within the first screen
    menu.focus()
    page.keyboard.press("Enter")
    assert menu.get_attribute("aria-expanded") == "true"
    assert violations(page) == []
    page.keyboard.press("Escape")
    assert menu.get_attribute("aria-expanded") == "false"
    assert menu.evaluate("e => e === document.activeElement")
    page.keyboard.press("Space")
    for _ in range(3):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{LESSON_PATHS[2]}*")


def test_a_simulation_follows_what_is_certain(page, address):
    page.goto(f"{address}/learn/knobs?seed=77")
    page.wait_for_selector(f"{FIGURE} dd.pending")  # trainings that were not made yet
    known = numbers_on(page)["ε at δ = 10⁻⁵"]
    settled(page)

    assert page.locator(f"{FIGURE} dd.pending").count() == 0
    assert numbers_on(page)["ε at δ = 10⁻⁵"] == known
    assert page.locator("article svg.graph").count() == 2


def test_lecture_mode_is_large_follows_keys_and_breaks_no_rule(page, address):
    page.goto(address + LESSON_PATHS[0])
    settled(page)
    before = page.locator("h1").evaluate("e => parseFloat(getComputedStyle(e).fontSize)")
    page.get_by_role("button", name="Lecture").click()
    assert page.locator("h1").evaluate("e => parseFloat(getComputedStyle(e).fontSize)") > 1.3 * before
    for path in LESSON_PATHS[1:]:
        page.keyboard.press("PageDown")
        page.wait_for_url(f"**{path}*")
        settled(page)
    assert violations(page) == []
    page.keyboard.press("ArrowLeft")
    page.wait_for_url(f"**{LESSON_PATHS[-2]}*")
    settled(page)
    page.locator("input[type=range]").first.press("ArrowRight")  # keys of inputs keep their meaning
    assert LESSON_PATHS[-2] in page.url


@pytest.mark.parametrize("path", LESSON_PATHS)
def test_the_cell_on_the_page_prints_the_numbers_on_the_page(page, address, path):
    page.goto(address + path)
    settled(page)
    cell = page.locator("details.cell pre").text_content()

    run = subprocess.run([sys.executable, "-c", cell], capture_output=True, text=True, check=True)

    assert run.stdout == "".join(f"{label}: {value}\n" for label, value in numbers_on(page).items())


def test_the_crash_button_kills_a_process_and_the_ledger_is_right(page, address):
    page.goto(f"{address}/learn/spending?queries=5")
    settled(page)
    page.get_by_role("button", name="End a process").click()
    page.wait_for_selector(f"{FIGURE}[data-acted]")
    numbers = numbers_on(page)

    assert numbers["How the process ended"] == "signal 9"
    assert numbers["Answers that were seen before the end"] == "5"
    assert numbers["Charged in the ledger, after the end"] == "6"


def test_the_exam_counts_right_answers_and_remembers_them(page, address):
    for entry, question in list(zip(EXAM, QUESTIONS, strict=True))[:3]:
        numbers = entry.figure.action.run(entry.figure.read({})).numbers
        page.goto(f"{address}/exam/{entry.name}")
        settled(page)
        assert question.ask  # the words are on the page; the answer is not
        assert "the library computes" not in page.locator("article").inner_text()
        answered_after(
            page, lambda right=numbers["Answer"]: page.locator(".control input[type=number]").fill(f"{right:.4g}")
        )
        page.get_by_role("button", name="Check the answer").click()
        page.wait_for_selector(f"{FIGURE}[data-acted]")
        assert page.locator(".verdict").inner_text().startswith("Right")
        assert page.locator(".sentence").inner_text().endswith("?")  # the question can still be read
    assert "3 of 10" in page.locator(".score").inner_text()
    page.reload()
    assert "3 of 10" in page.locator(".score").inner_text()
