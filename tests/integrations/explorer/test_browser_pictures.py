"""What is on the screen when a lesson opens, and what can be done in its picture."""

import pytest
from browser_pages import settled

from ferrodp.explorer.lessons import LESSONS

SIZES = ((1440, 900), (1280, 720), (1024, 768), (390, 844))
STAGE = "section.figure"
LEAST_SHARE = 0.9

IN_VIEW = """() => {
    const seen = (box) => Math.max(0, Math.min(innerHeight, box.bottom) - Math.max(0, box.top)) / box.height;
    const sliders = [...document.querySelectorAll(".controls.main input[type=range]")];
    return [seen(document.querySelector(".picture .plot").getBoundingClientRect()),
            Math.max(...sliders.map((each) => seen(each.getBoundingClientRect())))];
}"""


def answers(page):
    return int(page.locator(STAGE).get_attribute("data-count"))


def answered(page, before):
    """Wait for an answer that came after `before`."""
    page.wait_for_function("before => document.querySelector('section.figure').dataset.count > before", arg=before)
    settled(page)


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda each: each.name)
def test_the_picture_and_its_slider_are_on_the_screen_together(page, address, lesson):
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        page.goto(f"{address}/learn/{lesson.name}")
        settled(page)
        at_load = page.evaluate(IN_VIEW)
        slider = page.locator(".controls.main input[type=range]").first
        box = slider.bounding_box()
        page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + box["height"] / 2)
        page.mouse.down()
        page.mouse.move(box["x"] + 0.7 * box["width"], box["y"] + box["height"] / 2, steps=4)
        settled(page)
        while_dragging = page.evaluate(IN_VIEW)
        page.mouse.up()

        assert min(at_load) >= LEAST_SHARE, (width, at_load)
        assert min(while_dragging) >= LEAST_SHARE, (width, while_dragging)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), width


def test_a_lesson_shows_three_numbers_and_keeps_the_others_among_the_details(page, address):
    for lesson in LESSONS:
        page.goto(f"{address}/learn/{lesson.name}")
        settled(page)

        assert page.locator(f"{STAGE} .numbers > div").count() == 3
        assert page.locator(".details .numbers > div").count() >= 3
        assert page.locator(".person").inner_text()
        assert page.locator(f"{STAGE} .controls.main .control").count() <= 2


@pytest.mark.parametrize("lesson", LESSONS[:-1], ids=lambda each: each.name)
def test_the_next_lesson_is_few_keys_away(page, address, lesson):
    page.goto(f"{address}/learn/{lesson.name}")
    settled(page)
    stops = 0
    while stops < 8 and page.evaluate("document.activeElement.dataset.turn") != "next":
        page.keyboard.press("Tab")
        stops += 1

    assert page.evaluate("document.activeElement.dataset.turn") == "next"
    page.keyboard.press("Enter")
    following = LESSONS[LESSONS.index(lesson) + 1].name
    page.wait_for_url(f"**/learn/{following}*")


def test_people_are_pressed_and_guessed_and_the_truth_and_a_score_are_told(page, address):
    page.goto(f"{address}/learn/coin")
    settled(page)
    before = answers(page)
    page.locator(".picture .series.role-a > g").nth(5).click()
    answered(page, before)
    asked = page.locator(".guess .asked").inner_text()
    assert "answered yes" in asked
    for made in (1, 2, 3):
        before = answers(page)
        page.locator(".guess button").first.click()
        answered(page, before)
        told = page.locator(".guess .truth").inner_text()
        assert told.startswith(("Right", "Wrong"))
        assert f"of {made} times" in told


def test_an_income_is_dragged_in_the_picture(page, address):
    page.goto(f"{address}/learn/sensitivity")
    settled(page)
    field = page.get_by_label("Income of the last person", exact=True)
    old = float(field.input_value())
    box = page.locator(".picture svg.graph").bounding_box()
    page.mouse.move(box["x"] + 0.9 * box["width"], box["y"] + 0.5 * box["height"])
    page.mouse.down()
    page.mouse.move(box["x"] + 0.9 * box["width"], box["y"] + 0.1 * box["height"], steps=5)
    page.mouse.up()
    settled(page)

    assert float(field.input_value()) > 1.5 * old


def test_a_pointer_over_a_curve_shows_its_values(page, address):
    page.goto(f"{address}/learn/choose")
    settled(page)
    point = page.locator(".picture svg.graph .series.points circle").first.bounding_box()
    page.mouse.move(point["x"] + point["width"] / 2, point["y"] + point["height"] / 2)

    assert "ε 0.5" in page.locator(".picture .note-at text").text_content()
    page.mouse.move(5, 5)
    assert page.locator(".note-at").count() == 0


def test_every_lesson_asks_before_it_tells(page, address):
    for lesson in LESSONS:
        page.goto(f"{address}/learn/{lesson.name}")
        settled(page)
        truth = page.locator(".question .truth")
        assert truth.inner_text() == ""
        page.locator(".question [data-option]").nth(lesson.question.right).click()
        assert truth.inner_text().startswith("Yes. ")


def test_a_button_sets_the_controls_of_the_figure(page, address):
    page.goto(f"{address}/learn/coin")
    settled(page)
    before = answers(page)
    page.get_by_role("button", name="ε = 0.2").click()
    answered(page, before)

    assert page.get_by_label("ε of one answer", exact=True).input_value() == "0.2"


def test_the_last_lesson_leads_on(page, address):
    page.goto(f"{address}/learn/choose")
    settled(page)

    assert page.locator("nav.steps a").evaluate_all("links => links.map(a => a.pathname)")[1:] == [
        "/exam",
        "/playground",
        "/audit",
    ]


def test_an_answer_that_was_shown_gives_no_point(page, address):
    page.goto(f"{address}/exam/truth")
    settled(page)
    check = page.get_by_role("button", name="Check the answer")
    field = page.locator(".control input[type=number]")
    field.fill("0.51")
    field.press("Tab")
    settled(page)
    check.click()
    page.wait_for_selector(f"{STAGE}[data-acted]")
    right = page.locator(".verdict").inner_text().rpartition("computes ")[2].rstrip(".")
    before = answers(page)
    field.fill(right)
    field.press("Tab")
    answered(page, before)
    check.click()
    page.wait_for_selector(f"{STAGE}[data-acted='2']")

    assert page.locator(".score").inner_text().startswith("0 of 10")


def test_no_label_of_a_mark_stands_over_what_is_drawn(page, address):
    """At load, in the picture of every lesson: labels end above the frame, so no curve or bar reaches them."""
    for lesson in LESSONS:
        page.goto(f"{address}/learn/{lesson.name}")
        settled(page)
        below, frame = page.evaluate("""() => {
            const graph = document.querySelector(".picture svg.graph"), axes = graph.querySelector("path.axes");
            const labels = [...graph.querySelectorAll(".mark text")].map((each) => each.getBoundingClientRect().bottom);
            return [labels, axes ? axes.getBoundingClientRect().top : Infinity];
        }""")

        assert all(each <= frame + 1 for each in below), (lesson.name, below, frame)


def opacity(page, place):
    return float(page.locator(place).first.evaluate("each => getComputedStyle(each).opacity"))


def test_a_control_without_effect_is_dimmed_and_says_why(page, address):
    page.goto(f"{address}/learn/choose")
    settled(page)
    page.locator("details.settings > summary").click()
    field = page.get_by_label("δ, for Gaussian noise", exact=True)
    control = page.locator(".control", has=field)

    assert field.is_disabled()
    assert "idle" in control.get_attribute("class").split()
    assert control.locator(".hint").inner_text() == "No effect while “Noise” is “Laplace, δ = 0”."
    assert float(control.locator(".value").evaluate("each => getComputedStyle(each).opacity")) == 0.5
    before = answers(page)
    page.get_by_label("Noise", exact=True).select_option("gaussian")
    answered(page, before)

    assert field.is_enabled()
    assert control.locator(".hint").text_content() == ""
    page.reload()
    settled(page)
    assert field.is_enabled()


def test_what_is_solved_for_is_no_input(page, address):
    page.goto(f"{address}/account/solve")
    settled(page)
    labels = ("Noise multiplier σ", "Sampling rate q", "Steps T", "Target ε", "δ")
    for value, label in zip(
        ("noise_multiplier", "sampling_probability", "num_steps", "epsilon", "delta"), labels, strict=True
    ):
        page.get_by_label("Solve for", exact=True).select_option(value)
        settled(page)

        assert [page.get_by_label(each, exact=True).is_disabled() for each in labels] == [
            each == label for each in labels
        ]


@pytest.mark.parametrize("path", ["/learn/coin", "/playground?dataset=wine&batch_size=16&epochs=2"])
def test_an_answer_to_other_inputs_is_dimmed_while_a_field_is_out_of_range(page, address, path):
    page.goto(address + path)
    settled(page)
    label = "Target ε" if "playground" in path else "ε of one answer"
    field = page.get_by_label(label, exact=True)
    old = field.input_value()
    field.fill("1000")
    page.wait_for_selector(f"{STAGE}.failed")

    hint = page.locator(".control", has=field).locator(".hint")
    assert hint.inner_text().startswith("Enter a number from")
    assert [opacity(page, f"{STAGE} {each}") for each in (".sentence", ".numbers", ".picture")] == [0.45] * 3
    field.fill(old)
    page.wait_for_selector(f"{STAGE}:not(.failed)")
    assert opacity(page, f"{STAGE} .sentence") == 1.0
    assert hint.text_content() == ""
