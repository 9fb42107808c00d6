"""The lessons: their numbers are the library's, their cells print them, and they cover what is taught."""

import contextlib
import io
import re
import warnings
from itertools import pairwise

import numpy as np
import pytest

from ferrodp.explorer.figures import Answer, Figure, shown, upper
from ferrodp.explorer.lessons import LESSONS
from ferrodp.plan import ConstantNoise, FlatClipping, FullBatch, PoissonSampling, PrivacyPlan

pytest.importorskip("sklearn")

BY_NAME = {lesson.name: lesson for lesson in LESSONS}
NUMBERS = {name: lesson.figure for name, lesson in BY_NAME.items()}

TAUGHT = {
    "anonymization": r"[Aa]nonymi[sz]ation|anonymous",
    "plausible deniability": r"plausible deniability",
    "randomized response": r"randomized response",
    "(ε, δ) definition": r"\(ε, δ\)-differentially private",
    "Laplace mechanism": r"Laplace mechanism",
    "Gaussian mechanism": r"Gaussian mechanism",
    "exponential mechanism": r"Exponential mechanism",
    "composition": r"[Cc]omposition",
    "basic composition": r"Basic composition",
    "advanced composition": r"Advanced composition",
    "SGD": r"[Ss]tochastic gradient descent",
    "per-sample gradients": r"[Pp]er-sample gradients",
    "gradient clipping": r"[Cc]lip",
    "noise": r"noise",
    "hyper-parameters": r"parameter",
    "ranges of hyper-parameters": r"Often (from )?0\.01 (to|and) 10",
    "moments accountant": r"[Mm]oments accountant",
    "RDP": r"Rényi differential privacy",
    "filters": r"privacy filter",
    "odometers": r"odometer",
}
"""What the earlier learning pages taught."""

ADDED = {
    "adjacency": r"adjacency",
    "unit of privacy": r"unit of privacy|<em>unit</em>|<em>Unit",
    "sampling assumptions": r"sampling that the\s+theorem is about",
    "choice of δ": r"δ\.</em>",
    "tuning cost": r"tune|search",
    "auditing": r"auditing",
    "user-level privacy": r"user-level",
    "federated learning": r"[Ff]ederated learning",
    "secure aggregation": r"[Mm]asks",
    "membership inference": r"membership inference",
    "post-processing": r"post-processing",
    "group privacy": r"Groups",
}
"""What they lacked."""


def run(cell: str) -> str:
    """Run a cell as a reader would, in a namespace of its own, and return what it printed."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(cell, "cell", "exec"), {"__name__": "cell"})
    return printed.getvalue()


def written(answer: Answer) -> str:
    return "".join(f"{label}: {shown(value)}\n" for label, value in answer.numbers.items())


def some_queries(figure: Figure, count: int) -> list[dict[str, str]]:
    """Return the defaults, then places drawn within the range of every control, then both ends of all at once."""
    generator = np.random.default_rng(3)

    def value(control: object, place: float) -> str:
        if control.choices:
            return control.choices[min(int(place * len(control.choices)), len(control.choices) - 1)][0]
        low, high = control.low, control.high
        at = low * (high / low) ** place if control.scale == "log" else low + (high - low) * place
        at = min(max(at, low), high)
        return repr(round(at) if control.integer else float(at))

    drawn = [{c.name: value(c, generator.random()) for c in figure.inputs} for _ in range(count)]
    return [{}, *drawn, *({c.name: value(c, end) for c in figure.controls} for end in (0.0, 1.0))]


def test_there_are_twelve_lessons_with_names_of_their_own():
    assert len(LESSONS) == len(BY_NAME) == len({lesson.figure.name for lesson in LESSONS}) == 12


@pytest.mark.parametrize("name", BY_NAME)
def test_the_cell_of_a_lesson_prints_the_numbers_on_its_page(name):
    for query in some_queries(NUMBERS[name], 3):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of weak privacy, at the ends of ranges
            answer = NUMBERS[name].answer(query)
            printed = run(answer.cell)

        assert printed == written(answer)
        assert answer.sentence.endswith(".")


@pytest.mark.parametrize("name", BY_NAME)
def test_every_control_of_a_lesson_accepts_both_ends_of_its_range(name):
    for query in some_queries(NUMBERS[name], 0)[1:]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert NUMBERS[name].answer(query).plots


@pytest.mark.parametrize("name", BY_NAME)
def test_a_figure_gives_the_same_answer_again(name):
    figure = NUMBERS[name]

    assert figure.answer({}).as_json() == figure.answer({}).as_json()


@pytest.mark.parametrize("name", BY_NAME)
def test_a_plot_holds_at_most_a_few_thousand_numbers_and_all_series_have_equal_lengths(name):
    for plot in NUMBERS[name].answer({}).plots:
        for series in plot.series:
            lengths = {len(each) for each in (series.x, series.y, series.x2, series.y2) if each is not None}
            assert series.kind == "image" or len(lengths) == 1
            assert max(lengths) <= 4000


@pytest.mark.parametrize("name", BY_NAME)
def test_text_is_of_plain_elements_that_are_closed(name):
    lesson = BY_NAME[name]
    for text in (lesson.text, lesson.why):
        opened = []
        for slash, tag, rest in re.findall(r"<(/?)(\w+)([^>]*)>", text):
            assert tag in {"p", "em", "strong", "ul", "ol", "li", "code", "sub", "sup", "h3"}
            assert not rest
            if slash:
                assert opened.pop() == tag
            else:
                opened.append(tag)
        assert not opened


@pytest.mark.parametrize("name", BY_NAME)
def test_a_lesson_names_the_source_of_its_theorem(name):
    assert re.search(r"(19|20)\d\d", BY_NAME[name].why)


@pytest.mark.parametrize("term", [*TAUGHT, *ADDED])
def test_every_term_is_covered_by_a_lesson_that_says_so(term):
    pattern = (TAUGHT | ADDED)[term]
    covering = [lesson for lesson in LESSONS if term in lesson.terms]

    assert covering
    assert all(re.search(pattern, lesson.text + lesson.why) for lesson in covering)


def test_no_sentence_grades_epsilon():
    grades = re.compile(
        r"\b(strong|weak|good|bad|moderate|safe|excellent|acceptable) (privacy|ε|epsilon)", re.IGNORECASE
    )
    for lesson in LESSONS:
        assert not grades.search(lesson.figure.answer({}).sentence + lesson.text)


def test_epsilon_of_lesson_six_is_that_of_the_plan_for_200_settings():
    generator = np.random.default_rng(6)
    for _ in range(200):
        noise = float(np.exp(generator.uniform(np.log(0.4), np.log(50))))
        probability = float(np.exp(generator.uniform(np.log(1e-4), 0))) if generator.random() < 0.9 else 1.0
        steps = int(np.exp(generator.uniform(0, np.log(10**6))))
        delta = float(10 ** generator.uniform(-10, -3))
        plan = PrivacyPlan(
            sampling=FullBatch() if probability == 1 else PoissonSampling(probability),
            population_size=10**6,
            num_steps=steps,
            clipping=FlatClipping(1.0),
            noise=ConstantNoise(noise),
        )
        query = {"noise_multiplier": noise, "probability": probability, "steps": steps, "delta": delta}

        numbers = NUMBERS["composition"].answer({name: repr(value) for name, value in query.items()}).numbers

        assert numbers["ε, privacy loss distribution"] == upper(plan.epsilon(delta))


def test_theorems_of_lesson_six_stand_in_their_order():
    numbers = NUMBERS["composition"].answer({}).numbers
    values = [
        float(numbers[f"ε, {name}"]) for name in ("moments accountant", "Rényi (RDP)", "privacy loss distribution")
    ]

    assert values == sorted(values, reverse=True)
    assert float(numbers["ε is at least"]) <= values[-1]


def test_the_share_of_clipped_gradients_falls_as_the_clip_norm_rises():
    by_hand = [
        NUMBERS["by-hand"].answer({"clip_norm": repr(norm)}).numbers["Clipped, of 100 gradients"]
        for norm in (0.05, 0.4, 0.8, 1.2, 5.0)
    ]
    swept = [
        NUMBERS["knobs"].answer({"knob": "clip_norm", "position": str(place)}).numbers["Clipped, of 100 gradients"]
        for place in range(1, 10)
    ]

    assert by_hand[0] == 100
    assert by_hand[-1] == 0
    assert all(more >= less for more, less in pairwise(by_hand))
    assert swept[0] > 99
    assert swept[-1] == 0
    assert swept[2] > swept[4] > swept[6]


def test_float_noise_gives_its_value_away_and_noise_on_the_grid_does_not():
    for scale in (0.5, 1.0, 3.0):
        numbers = NUMBERS["leak"].answer({"scale": repr(scale), "draws": "5000"}).numbers

        assert numbers["Releases of 0 that give themselves away, float"] > 100
        assert numbers["Releases of 1 that have such a bit, float"] == 0
        assert numbers["Releases of 0 that give themselves away, grid"] == 0
        assert numbers["Releases of 1 that have such a bit, grid"] == 0


def test_a_process_that_is_killed_leaves_every_answer_it_gave_in_the_ledger():
    figure = NUMBERS["spending"]
    answer = figure.action.run(figure.read({"queries": "7"}))

    assert answer.numbers["How the process ended"] == "signal 9"
    assert answer.numbers["Answers that were seen before the end"] == 7
    assert answer.numbers["Charged in the ledger, after the end"] == 8
    assert answer.numbers["Of these, paid for and not drawn"] == 1
    assert run(answer.cell) == written(answer)


def test_a_budget_without_room_for_a_crash_is_refused_in_words():
    figure = NUMBERS["spending"]
    with pytest.raises(Exception, match="no room for two queries"):
        figure.action.run(figure.read({"budget": "0.2", "noise_multiplier": "1"}))


def test_queries_are_refused_from_the_first_that_exceeds_the_budget():
    numbers = NUMBERS["spending"].answer({"queries": "400"}).numbers

    assert numbers["Answered"] + numbers["Refused"] == 400
    assert numbers["Answered"] == next(iter(numbers.values()))
    assert numbers["Part of the budget that is used"] <= 1


def test_no_measured_attack_exceeds_the_proven_curve_beyond_its_band():
    # The seeded default: there is no chance in it. Each end of a band may fail with 2.5 %.
    (plot,) = NUMBERS["attack"].answer({"attackers": "both"}).plots
    bound = next(series for series in plot.series if series.role == "bound")
    bands = [series for series in plot.series if series.kind == "band"]
    assert len(bands) == 2
    for band in bands:
        assert all(low <= most for low, most in zip(band.y, bound.y, strict=True))


def test_a_sum_with_more_drop_outs_than_planned_is_refused():
    numbers = NUMBERS["parties"].answer({"lost": "4", "spare": "3"}).numbers

    assert numbers["Sum"] == "refused: too little noise"
    assert numbers["Coordinates still masked before the recovery"] > 0
    assert numbers["Coordinates still masked after it"] == 0


def test_the_area_that_is_delta_has_the_size_that_is_printed():
    for mechanism in ("laplace", "gaussian"):
        answer = NUMBERS["worlds"].answer({"mechanism": mechanism})
        band = next(series for series in answer.plots[0].series if series.kind == "band")
        area = np.trapezoid(np.asarray(band.y2) - np.asarray(band.y), band.x)

        # 401 points over 25 standard deviations: the trapezoidal rule errs by far less than a hundredth of the area.
        assert area == pytest.approx(float(answer.numbers["δ at ε = 0.5"]), rel=0.01)


def test_one_record_of_a_person_costs_a_part_of_what_the_person_costs():
    for noise, least in (("laplace", 0.125), ("gaussian", 0.05)):
        numbers = NUMBERS["choose"].answer({"rows": "4", "epsilon": "0.5", "noise": noise}).numbers
        record = float(str(numbers["Guarantee for one record"]).split("ε = ")[1].split(",")[0])

        assert least <= record <= 0.126


def test_the_best_guesser_is_right_as_often_as_bayes_says():
    from ferrodp.explorer.lessons.ideas.coin import _best

    for truth in (0.5, 0.7, 0.9):
        for share in (0.0, 0.2, 0.5, 1.0):
            yes, no = share * truth + (1 - share) * (1 - truth), share * (1 - truth) + (1 - share) * truth
            by_answer = [(yes, share * truth), (no, share * (1 - truth))]

            assert _best(truth, share) == pytest.approx(
                sum(max(cheated, total - cheated) for total, cheated in by_answer)
            )


@pytest.mark.parametrize("name", BY_NAME)
def test_a_lesson_begins_with_a_person_a_question_and_what_to_try(name):
    lesson = BY_NAME[name]

    assert lesson.person
    assert lesson.question is not None
    assert 0 <= lesson.question.right < len(lesson.question.options) >= 2
    for each in lesson.tries:
        lesson.figure.read(dict(each.values))  # no control is misspelt, no value outside of its range
    for plot in lesson.figure.answer({}).plots:
        inputs = {control.name for control in lesson.figure.inputs}
        assert {plot.drag, plot.pick} <= inputs | {""}
