"""The playground in a browser: streamed at once, paused, stepped, reset, and without a process once it is closed."""

import json
import os
import time

PLAYGROUND = "section[data-playground]"
SMALL = "dataset=wine&batch_size=16&epochs=50"
LONG = "dataset=digits&model=mlp&batch_size=45&epochs=25"  # seconds on a fast machine


def opened(page, address, query=SMALL):
    """Open the playground and end the training that begins by itself."""
    page.goto(f"{address}/playground?{query}")
    page.wait_for_selector(f"{PLAYGROUND}[data-count]", timeout=180_000)
    press(page, "Reset")
    page.wait_for_selector(in_state("idle"))
    # The numbers of the training stand there until those of the plan alone have come.
    page.wait_for_selector('.details .numbers dd[data-value="not yet measured"]', state="attached")


def press(page, name):
    page.get_by_role("button", name=name, exact=True).click()


def in_state(*states):
    return ", ".join(f'{PLAYGROUND}[data-state="{state}"]' for state in states)


def workers():
    found = []
    for number in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{number}/cmdline", "rb") as command:
                if b"ferrodp.explorer.model.worker" in command.read():
                    found.append(number)
        except OSError:
            pass
    return found


def wait_until(holds, seconds=20):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_steps_are_taken_one_by_one_and_the_training_is_reset(page, address):
    opened(page, address)
    press(page, "Step")
    page.wait_for_selector(f'{PLAYGROUND}[data-step="1"]')
    press(page, "Step")
    page.wait_for_selector(f'{PLAYGROUND}[data-step="2"]')

    steps = page.locator(".details .numbers div", has_text="Steps").locator("dd")
    assert steps.get_attribute("data-value") == "2"
    press(page, "Reset")
    page.wait_for_selector(f'{PLAYGROUND}[data-state="idle"]')
    assert page.locator("progress").is_hidden()


def test_a_training_runs_is_paused_and_goes_on(page, address):
    opened(page, address, LONG)
    press(page, "Train")
    page.wait_for_selector(in_state("running"))
    press(page, "Pause")
    page.wait_for_selector(in_state("paused"))
    page.wait_for_timeout(500)
    place = page.locator(PLAYGROUND).get_attribute("data-step")
    page.wait_for_timeout(500)

    assert page.locator(PLAYGROUND).get_attribute("data-step") == place
    press(page, "Go on")
    page.wait_for_selector(in_state("ended"), timeout=180_000)
    assert int(page.locator(PLAYGROUND).get_attribute("data-step")) > int(place)


def test_a_pause_answered_after_the_end_leaves_the_training_ended(page, address):
    held = []
    page.route("**/api/train/*/pause", lambda route: held.append(route))
    opened(page, address, LONG)
    press(page, "Train")
    page.wait_for_selector(in_state("running"))
    press(page, "Pause")
    page.wait_for_selector(in_state("ended"), timeout=180_000)
    with page.expect_response("**/api/train/*/pause"):
        held[0].fulfill(json={"schema": 1})
    page.wait_for_timeout(200)

    assert page.locator(PLAYGROUND).get_attribute("data-state") == "ended"
    press(page, "Train")
    page.wait_for_selector(in_state("running"))


def test_closing_the_page_ends_its_process(context, address):
    page = context.new_page()
    opened(page, address)
    wait_until(lambda: len(workers()) >= 1)
    resting = len(workers())
    press(page, "Step")
    page.wait_for_selector(f'{PLAYGROUND}[data-step="1"]')
    wait_until(lambda: len(workers()) > resting)
    page.close()

    wait_until(lambda: len(workers()) <= resting)


def test_without_noise_the_page_says_no_guarantee_and_shows_no_epsilon(page, address):
    opened(page, address, f"{SMALL}&noise_by=noise&noise_multiplier=0")

    assert "no guarantee" in page.locator(f"{PLAYGROUND} .warning").first.inner_text()
    numbers = page.locator(".details .numbers").text_content()
    assert numbers.count("no guarantee") == 2


def test_what_is_exported_is_what_is_shown(page, address):
    opened(page, address)
    shown = page.locator(".details .numbers dd").evaluate_all("all => all.map(each => each.dataset.value)")
    with page.expect_download() as download:
        press(page, "JSON")

    with open(download.value.path()) as file:
        assert list(json.load(file)["numbers"].values()) == shown
    with page.expect_download() as download:
        press(page, "CSV")
    with open(download.value.path()) as file:
        assert file.readline().startswith("plot,series,")
    with page.expect_download() as download:
        press(page, "SVG")
    with open(download.value.path()) as file:
        assert "<svg" in file.read(200)


def test_a_training_begins_at_once_with_three_curves_and_begins_anew_after_a_change(page, address):
    page.goto(f"{address}/playground?{SMALL}")
    page.wait_for_selector(in_state("ended"), timeout=180_000)
    names = page.locator(".picture .legend li").all_inner_texts()
    assert [name.strip() for name in names if "range" not in name] == [
        "without privacy",
        "clipped, without noise",
        "private: clipped and noised",
    ]
    assert "Clipping costs" in page.locator(".sentence").inner_text()
    page.get_by_label("Target ε", exact=True).fill("8")
    page.get_by_label("Target ε", exact=True).press("Tab")
    page.wait_for_selector(in_state("running", "starting"))
    page.wait_for_selector(in_state("ended"), timeout=180_000)


def test_records_are_shown_before_and_after_a_training_with_what_the_model_says(page, address):
    opened(page, address, "dataset=digits&epochs=1")
    plots = page.locator(".details .plot")
    before = plots.filter(has_text="Some of the test records")

    assert before.locator("svg.pixels").count() == 8
    assert all(name in {f"a {digit}" for digit in range(10)} for name in before.locator("li span").all_inner_texts())
    press(page, "Train")
    page.wait_for_selector(in_state("ended"), timeout=180_000)
    after = plots.filter(has_text="what a private model says of them")
    names = after.locator("li span").all_inner_texts()
    assert after.locator("svg.pixels").count() == len(names)
    assert [name for name in names if ", right" in name]
    assert [name for name in names if ", called" in name]


def test_the_noise_is_given_or_follows_from_a_target_and_only_one_of_both_is_an_input(page, address):
    opened(page, address)
    assert page.get_by_label("Target ε", exact=True).is_visible()
    assert not page.get_by_label("Noise multiplier σ", exact=True).is_visible()
    page.locator("details.settings > summary").click()
    page.get_by_label("Noise from").select_option("noise")
    assert not page.get_by_label("Target ε", exact=True).is_visible()
    assert page.get_by_label("Noise multiplier σ", exact=True).is_visible()
