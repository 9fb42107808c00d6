"""Central and local placements: bounded influence of whatever a client sends, noise that is there, public records."""

import csv
import io
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ferrodp as fd
from ferrodp.federated import FederatedRun, LocalNoise
from ferrodp.plan import (
    AdaptiveClipping,
    ConstantNoise,
    FixedSizeSampling,
    FlatClipping,
    FullBatch,
    PerGroupClipping,
    PoissonSampling,
    PrivacyPlan,
)

SEED = bytes(range(32))
GRID = 2.0**-12
"""Of releases whose noise has a standard deviation of 1."""
MODEL = {"w": np.zeros((2, 3), np.float32), "b": [np.zeros((), np.float32)]}


def plan(**changes):
    options = {
        "unit": "client",
        "population_size": 3,
        "sampling": FullBatch(),
        "num_steps": 4,
        "clipping": FlatClipping(1.0),
        "noise": ConstantNoise(1.0),
    }
    return PrivacyPlan(**(options | changes))


def like(value, model=MODEL):
    return {"w": np.full((2, 3), value, np.float32), "b": [np.array(value, np.float32)]}


def flat(tree):
    return np.concatenate([tree["w"].ravel(), tree["b"][0].ravel()]).astype(np.float64)


def released(updates, weights=None, **changes):
    """What a round of seeded noise releases, as a vector: the same noise in every call."""
    with FederatedRun(plan(**changes), MODEL, source=fd.testing.seeded(SEED)) as run:
        round_ = next(run)
        for update, weight in zip(updates, weights or [1.0] * len(updates), strict=True):
            round_.add(update, weight=weight)
        round_.add_missing(3 - len(updates))
        return flat(round_.release(denominator=1))


HONEST = [like(0.1), like(-0.2)]
ADVERSARIAL = {
    "huge": like(1e38),
    "infinite": like(np.inf),
    "not a number": like(np.nan),
    "one of them": {"w": np.full((2, 3), 0.1, np.float32), "b": [np.array(np.nan, np.float32)]},
    "zeros": like(0.0),
    "tiny": like(1e-45),
    "all equal": like(7.0),
}


@pytest.mark.parametrize("update", ADVERSARIAL.values(), ids=ADVERSARIAL)
@pytest.mark.parametrize("weight", [0.0, 1.0, 3.5, 1e30, 1e300])
def test_no_client_moves_the_sum_by_more_than_the_clip_norm(update, weight):
    difference = released([*HONEST, update], [1.0, 1.0, weight]) - released(HONEST)

    # The two releases are rounded to a grid of 2⁻¹²: half a step at most each, in each of 7 coordinates.
    assert np.linalg.norm(difference) <= 1.0 + math.sqrt(7) * GRID


def test_weights_of_updates_within_the_bound_are_weights():
    twice = released([like(0.1)], [2.0]) - released([])

    assert np.allclose(twice, 0.2, rtol=0, atol=GRID + 1e-7)


@pytest.mark.parametrize("weight", [-1.0, math.nan, math.inf, "1"])
def test_weights_that_are_none_are_refused(weight):
    with pytest.raises((fd.errors.InvalidParameter, fd.errors.InvalidType)):
        released([like(0.1)], [weight])


def test_every_round_has_noise_of_the_stated_size():
    """The sum of squares of 30 000 values, against 7 standard deviations of it: 3e-12."""
    model = np.zeros(30_000)
    with FederatedRun(plan(noise=ConstantNoise(2.0), clipping=FlatClipping(3.0)), model) as run:
        for round_ in run:
            round_.add_missing(3)
            squares = np.square(round_.release(denominator=1)).sum()
            assert abs(squares / (30_000 * 36) - 1) < 7 * math.sqrt(2 / 30_000)


def test_a_short_round_divides_by_the_same_number():
    short = released([like(0.2)], population_size=3)
    run = FederatedRun(plan(), MODEL, source=fd.testing.seeded(SEED))
    round_ = next(run)
    round_.add(like(0.2))
    round_.add_missing(2)

    assert np.allclose(flat(round_.release()) * 3, short, rtol=1e-5)


def test_rounds_with_another_number_of_clients_than_were_drawn_are_refused():
    run = FederatedRun(plan(sampling=FixedSizeSampling(2)), MODEL)
    round_ = next(run)
    assert len(round_.clients) == 2
    round_.add(like(0.1))
    with pytest.raises(fd.errors.FerroError):
        round_.release()
    round_.add(like(0.1))
    round_.release()


def test_adaptive_clipping_goes_toward_the_quantile():
    """All updates have norm 4: the bound rises to it from below, and falls to it from above."""
    update = like(4 / math.sqrt(7))
    for initial in (0.5, 32.0):
        adaptive = plan(
            population_size=200,
            num_steps=40,
            clipping=AdaptiveClipping(
                initial=initial, target_quantile=0.5, learning_rate=0.2, count_noise_multiplier=10.0
            ),
        )
        with FederatedRun(adaptive, MODEL, source=fd.testing.seeded(SEED)) as run:
            for round_ in run:
                for _ in round_.clients:
                    round_.add(update)
                round_.release()
            norms = [record.clip_norm for record in run.records]
        assert abs(math.log(norms[-1] / 4)) < abs(math.log(initial / 4)) / 4


# ------------------------------------------------------------------------------------------------------ trees


def test_mixed_dtypes_are_cast_and_come_back_as_they_were():
    model = {"half": np.zeros(2, np.float16), "more": (np.zeros(3), [np.zeros((), np.float32)])}
    update = {"half": np.ones(2, np.float16), "more": (np.full(3, 0.1), [np.float32(0.5)])}
    for cast in ("float32", np.float64):
        round_ = next(FederatedRun(plan(), model, cast=cast))
        round_.add(update)
        round_.add_missing(2)
        found = round_.release()

        assert (found["half"].dtype, found["more"][0].dtype, found["more"][1][0].dtype) == (
            np.float16,
            np.float64,
            np.float32,
        )
        assert [type(found), type(found["more"]), found["more"][1][0].shape] == [dict, tuple, ()]


def test_noise_beyond_the_range_of_float16_is_its_largest_number():
    round_ = next(FederatedRun(plan(clipping=FlatClipping(1e7)), np.zeros(50, np.float16), cast="float32"))
    round_.add_missing(3)

    assert set(np.abs(round_.release(denominator=1)).tolist()) >= {65504.0}


@pytest.mark.parametrize("model", [np.zeros(2, np.float16), [np.zeros(2), np.zeros(2, np.float32)]])
def test_what_has_to_be_cast_is_refused_unless_it_is_said_to_what(model):
    with pytest.raises(fd.errors.InvalidParameter, match="cast must be given"):
        FederatedRun(plan(), model)


def test_counters_are_refused_or_left_out_by_key():
    model = {"bn.weight": np.zeros(3), "bn.num_batches_tracked": np.array(5), "steps": np.array([1, 2])}
    with pytest.raises(fd.errors.InvalidArrayType, match="num_batches_tracked"):
        FederatedRun(plan(), model, skip={"steps"})
    round_ = next(FederatedRun(plan(), model, skip={"num_batches_tracked", "steps"}))
    round_.add({"bn.weight": np.ones(3), "bn.num_batches_tracked": np.array(9), "steps": "anything"})
    round_.add({"bn.weight": np.ones(3)})
    round_.add_missing(1)

    assert list(round_.release()) == ["bn.weight"]


@pytest.mark.parametrize(
    "update",
    [
        {"w": np.zeros((2, 3), np.float32)},
        {"w": np.zeros((2, 3)), "b": [np.zeros((), np.float32)]},
        {"w": np.zeros((3, 2), np.float32), "b": [np.zeros((), np.float32)]},
        {"w": np.zeros((2, 3), np.float32), "b": []},
        None,
        np.zeros(7, np.float32),
    ],
)
def test_updates_that_are_not_like_the_model_are_refused(update):
    round_ = next(FederatedRun(plan(), MODEL))
    with pytest.raises(fd.errors.InvalidArray):
        round_.add(update)


def test_groups_of_arrays_keep_their_names():
    clipping = PerGroupClipping({"w": 1.0, "b": 0.5})
    round_ = next(FederatedRun(plan(clipping=clipping), MODEL))
    for _ in range(3):
        round_.add(like(0.1))

    assert round_.release()["w"].shape == (2, 3)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"plan": plan(unit="record")}, fd.errors.InvalidParameter),
        ({"plan": "plan"}, fd.errors.InvalidType),
        ({"delta": 0.0}, fd.errors.InvalidParameter),
        ({"cast": "float16"}, fd.errors.InvalidParameter),
        ({"skip": "w"}, fd.errors.InvalidType),
        ({"skip": {"w", "b"}}, fd.errors.InvalidArray),
        ({"skip": [1]}, fd.errors.InvalidType),
    ],
)
def test_what_is_not_accepted_is_refused(changes, error):
    options = {"plan": plan(), "template": MODEL} | changes
    with pytest.raises(error):
        FederatedRun(options.pop("plan"), options.pop("template"), **options)


# ------------------------------------------------------------------------------------------------------ records


def test_records_say_what_each_round_cost_and_nothing_of_the_updates():
    texts = []
    for value in (0.0, np.nan):
        sampled = plan(sampling=PoissonSampling(0.5), population_size=20)
        with FederatedRun(sampled, MODEL, delta=1e-6) as run:
            for round_ in run:
                for _ in round_.clients:
                    round_.add(like(value))
                round_.release()
        texts.append((run.to_json(), run.to_csv()))
        records = json.loads(run.to_json())

        assert [record["epsilon"] for record in records] == [sampled.epsilon_after(n, 1e-6) for n in range(1, 5)]
        assert records[-1]["epsilon"] == run.epsilon(1e-6) == sampled.epsilon(1e-6)
        rows = list(csv.DictReader(io.StringIO(run.to_csv())))
        assert [float(row["epsilon"]) for row in rows] == [record["epsilon"] for record in records]
    assert texts[0] == texts[1]


def test_a_seeded_run_says_that_nothing_is_private():
    run = FederatedRun(plan(), MODEL, source=fd.testing.seeded(SEED))
    round_ = next(run)
    round_.add_missing(3)
    round_.release()

    assert run.records[0].epsilon == math.inf


def test_rounds_end_before_the_one_that_would_exceed_the_target():
    whole = plan(num_steps=10)
    target = whole.epsilon_after(6, 1e-5)
    with FederatedRun(whole, MODEL, delta=1e-5, max_epsilon=target) as run:
        for round_ in run:
            round_.add_missing(3)
            round_.release()

        assert (len(run.records), run.stopped, run.round_number) == (6, "target", 6)
        assert run.epsilon(1e-5) == target
        assert next(run, None) is None


def test_rounds_end_at_the_target_however_often_the_server_starts_again(tmp_path):
    whole = plan(num_steps=10)
    target = whole.epsilon_after(6, 1e-5)
    released = []

    def rounds(run, most=10):
        for _, round_ in zip(range(most), run, strict=False):
            round_.add_missing(3)
            round_.release()
            released.append(round_.number)

    with fd.PrivacyLedger.open(tmp_path / "b.db") as ledger:
        ledger.create("a", epsilon=100.0, delta=1e-5)
        options = {"delta": 1e-5, "max_epsilon": target, "ledger": ledger, "scope": "a", "key": "t"}
        rounds(FederatedRun(whole, MODEL, **options), 2)
        beside = FederatedRun(whole, MODEL, **options)  # knows of two rounds, and not of those that follow
        for _ in range(3):
            with FederatedRun(whole, MODEL, **options) as run:
                rounds(run)
                assert (run.stopped, run.round_number, run.epsilon(1e-5)) == ("target", 6, target)
        rounds(beside)
        assert beside.stopped == "target"
        assert len(ledger.tickets("a", states=["spent"])) == 6
    assert released == [0, 1, 2, 3, 4, 5]


def test_records_state_a_renyi_epsilon_where_there_is_one():
    with FederatedRun(plan(num_steps=2), MODEL, delta=1e-5) as run:
        for round_ in run:
            round_.add_missing(3)
            round_.release()
    assert (
        run.records[1].renyi_epsilon == run.plan.epsilon(1e-5, accountant="rdp") == run.epsilon(1e-5, accountant="rdp")
    )
    assert run.records[1].renyi_epsilon > run.records[1].epsilon


def test_records_are_appended_to_a_file_whose_first_line_is_names(tmp_path):
    file = tmp_path / "rounds.csv"
    with FederatedRun(plan(num_steps=2), MODEL) as run:
        for round_ in run:
            round_.add_missing(3)
            round_.release()
            run.records[-1].append_to(file)

    assert file.read_text() == run.to_csv()


def test_a_budget_ends_the_rounds_before_the_one_that_does_not_fit(tmp_path):
    whole = plan(num_steps=10)
    with fd.PrivacyLedger.open(tmp_path / "budget.db") as ledger:
        ledger.create("cohort", epsilon=whole.epsilon_after(4, 1e-5) * 1.05, delta=1e-5)
        with pytest.warns(UserWarning, match="of 10 steps fit"):
            run = FederatedRun(whole, MODEL, delta=1e-5, ledger=ledger, scope="cohort", key="study")
        with run:
            for round_ in run:
                round_.add_missing(3)
                round_.release()
        first = len(run.records)

        assert (run.stopped, ledger.report("cohort").held) == ("budget", 0)
        assert 1 <= first <= 4
        with pytest.warns(UserWarning, match=f"^0 of {10 - first} steps fit"):
            again = FederatedRun(whole, MODEL, delta=1e-5, ledger=ledger, scope="cohort", key="study")
        assert list(again) == []
        report = ledger.report("cohort")
        assert report.spent + report.armed == first


# ------------------------------------------------------------------------------------------------------ local


def test_a_local_message_has_the_noise_of_its_event():
    """The sum of squares of 30 000 values, against 7 standard deviations of it: 3e-12."""
    local = LocalNoise(clip_norm=2.0, noise_multiplier=3.0)
    message = local.privatize(np.zeros(30_000))

    assert abs(np.square(message).sum() / (30_000 * 36) - 1) < 7 * math.sqrt(2 / 30_000)
    assert local.event == fd.events.GaussianEvent(noise_multiplier=1.5)
    assert local.epsilon(1e-5, count=4) == fd.accounting.gaussian_epsilon(noise_multiplier=0.75, delta=1e-5)


@given(first=st.sampled_from(list(ADVERSARIAL)), second=st.sampled_from(list(ADVERSARIAL)))
def test_two_local_updates_are_at_most_two_clip_norms_apart(first, second):
    local = LocalNoise(clip_norm=1.0, noise_multiplier=1.0)
    messages = [flat(local.privatize(ADVERSARIAL[name], source=fd.testing.seeded(SEED))) for name in (first, second)]

    # rounded to float32, values below 8: 2⁻²² in each of 7 coordinates
    assert np.linalg.norm(messages[0] - messages[1]) <= 2.0 + 2 * 7 * 2.0**-22


def test_a_local_message_is_paid_in_a_scope_of_replacement_alone(tmp_path):
    local = LocalNoise(clip_norm=1.0, noise_multiplier=8.0)
    relations = fd.events.NeighboringRelation
    with fd.PrivacyLedger.open(tmp_path / "budget.db") as ledger:
        ledger.create("own", epsilon=5.0, delta=1e-6, neighboring_relation=relations.REPLACE_ONE)
        ledger.create("other", epsilon=5.0, delta=1e-6)
        ticket = ledger.reserve("own", local.event)
        assert local.privatize(np.zeros(3), ticket=ticket).shape == (3,)
        with pytest.raises(fd.errors.InvalidParameter, match="REPLACE_ONE"):
            local.privatize(np.zeros(3), ticket=ledger.reserve("other", local.event))
        with pytest.raises(fd.errors.TicketError):
            local.privatize(np.zeros(3), ticket=ticket)
    with pytest.raises(fd.errors.InvalidType):
        local.privatize(np.zeros(3), ticket="paid")
