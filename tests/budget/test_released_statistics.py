"""Each charge says what it was for: statistic, column, bounds and unit, in the transaction of the charge."""

import contextlib
import hashlib
import json

import numpy as np
import pytest

import ferrodp as fd
from ferrodp.accounting import ComposedEvent, EpsilonDeltaEvent, LaplaceEvent
from ferrodp.budget import PrivacyLedger, import_ledger, migrate_ledger
from ferrodp.budget import records as _records
from ferrodp.budget.log.replay import Replay
from ferrodp.errors import InvalidParameter, InvalidType, KeyUsed, LedgerError, ScopeFrozen, TicketError
from ferrodp.statistics import models
from ferrodp.tickets import ReleasedStatistic, TicketState, describing
from ferrodp.tickets.statistic import recorded_statistic
from support.tickets import CASES

TENTH = EpsilonDeltaEvent(epsilon=0.1)
WORDS = ReleasedStatistic(statistic="mean", column="age", bounds="[0, 120]", unit="one patient")
OTHER = ReleasedStatistic(statistic="sum", column="age")
AGES = np.array([31.0, 47.0, 62.0, 18.0])


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budget.db"


@pytest.fixture
def ledger(path):
    with PrivacyLedger.open(path) as opened:
        opened.create("survey", epsilon=100.0, delta=1e-2, measure="pure")
        yield opened


def said(ledger, **options):
    return [each.statistics for each in ledger.releases(**options)]


def bodies(ledger):
    return [json.loads(json.loads(line)["record"]) for line in list(ledger.export())[1:]]


OF_STATISTICS = [case for case in CASES if getattr(case.owner, "__module__", "").startswith("ferrodp.statistics")]


@pytest.mark.parametrize("case", OF_STATISTICS, ids=lambda case: case.name)
def test_every_statistic_says_what_it_is_in_the_record_that_spends_its_ticket(ledger, case):
    ticket = None
    for measure in ("rdp", "pure"):  # Gaussian noise has no pure ε, and a stated (ε, δ) no Rényi divergence
        scope = f"in {measure}"
        ledger.create(scope, epsilon=100.0, delta=1e-2, measure=measure, neighboring_relation=case.relation)
        with contextlib.suppress(fd.errors.UnsupportedEventError):
            ticket = ledger.reserve(scope, case.event)
            break
    assert ticket is not None
    case.release(ticket=ticket)

    (words,) = ledger.releases(scope)[0].statistics
    assert words.statistic.strip(", ") == words.statistic != ""
    assert words.unit
    assert "statistics" not in bodies(ledger)[-2]
    assert bodies(ledger)[-1]["statistics"] == [words.to_dict()]


FRAME = {"region": ["north", "south"] * 300, "age": np.tile([30.0, 50.0], 300), "person": list(range(300)) * 2}
GROUPS = fd.private_group_by(FRAME, "region", keys=["north", "south"], unit="person", rows_per_unit=2)
UNIT = "one unit of person, with all of its rows, of at most 2 rows a unit"
BOUNDS = {"bounds": (0, 120)}
ONE = {"epsilon": 0.5}
RELEASES = {
    "count": (lambda: fd.private_count(AGES, **ONE), ("count of values", None, None, "one row")),
    "histogram": (
        lambda: fd.private_histogram(AGES, bins=[0, 40, 120], **ONE),
        ("counts by bin, 2 of them", None, "[0, 120]", "one row"),
    ),
    "sum": (
        lambda: fd.private_sum(AGES, max_contributions=3, **BOUNDS, **ONE),
        ("sum of values", None, "[0, 120]", "whoever contributes up to 3 rows"),
    ),
    "mean": (
        lambda: fd.private_mean(AGES, unit=["a", "b", "a", "c"], **BOUNDS, **ONE),
        ("mean", None, "[0, 120]", "one unit, with all of its rows, of which up to 1 counts"),
    ),
    "variance": (lambda: fd.private_variance(AGES, **BOUNDS, **ONE), ("variance", None, "[0, 120]", "one row")),
    "quantiles": (
        lambda: fd.private_quantiles(AGES, [0.25, 0.5], **BOUNDS, **ONE),
        ("quantiles 0.25, 0.5", None, "[0, 120]", "one row"),
    ),
    "median": (lambda: fd.private_median(AGES, **BOUNDS, **ONE), ("quantile 0.5", None, "[0, 120]", "one row")),
    "max": (lambda: fd.private_max(AGES, **BOUNDS, **ONE), ("maximum", None, "[0, 120]", "one row")),
    "min": (lambda: fd.private_min(AGES, rank=1, **BOUNDS, **ONE), ("minimum", None, "[0, 120]", "one row")),
    "bounds": (lambda: fd.private_bounds(AGES, **ONE), ("bounds", None, None, "one row")),
    "distinct": (lambda: fd.private_distinct(AGES, **ONE), ("number of different values", None, None, "one row")),
    "top": (
        lambda: fd.private_top(["a", "b"], 1, categories=["a", "b", "c"], **ONE),
        ("the 1 most frequent of 3 public categories", None, None, "one row"),
    ),
    "quantile bins": (
        lambda: fd.statistics.private_quantile_bins(FRAME, 4, bounds={"age": (0, 120)}, **ONE),
        ("edges of 4 quantile bins", "age", "age in [0, 120]", "one row"),
    ),
    "quantile bins of units": (
        lambda: fd.statistics.private_quantile_bins(
            FRAME, 4, bounds={"age": (0, 120), "person": (0, 9)}, unit="person", **ONE
        ),
        (
            "edges of 4 quantile bins",
            "age, person",
            "age in [0, 120], person in [0, 9]",
            "one unit of person, with all of its rows, of which up to 1 counts",
        ),
    ),
    "rows per unit": (
        lambda: fd.private_rows_per_unit(FRAME["person"], at_most=20, **ONE),
        ("rows of a unit", None, "[1, 20]", "one unit, with all of its rows"),
    ),
    "group counts": (lambda: GROUPS.count(**ONE), ("counts by groups of region", None, None, UNIT)),
    "group means": (
        lambda: GROUPS.mean("age", **BOUNDS, **ONE),
        ("means by groups of region", "age", "[0, 120]", UNIT),
    ),
    "group sums": (lambda: GROUPS.sum("age", **BOUNDS, **ONE), ("sums by groups of region", "age", "[0, 120]", UNIT)),
    "group deviations": (
        lambda: GROUPS.standard_deviation("age", **BOUNDS, **ONE),
        ("variances by groups of region", "age", "[0, 120]", UNIT),
    ),
    "group different values": (
        lambda: GROUPS.distinct("age", **ONE),
        ("numbers of different values by groups of region", "age", None, UNIT),
    ),
    "group bounds": (lambda: GROUPS.bounds("age", **ONE), ("bounds by groups of region", "age", None, UNIT)),
    "group top": (
        lambda: GROUPS.top("age", 1, categories=[30, 40, 50], **ONE),
        ("the 1 most frequent of 3 public categories by groups of region", "age", None, UNIT),
    ),
    "group medians": (
        lambda: GROUPS.median("age", **BOUNDS, **ONE),
        ("quantiles 0.5 by groups of region", "age", "[0, 120]", UNIT),
    ),
    "table": (
        lambda: fd.release(FRAME, groups=GROUPS, sums={"age": (0, 120)}, **ONE),
        ("counts and sums by groups of region", "age", "age in [0, 120]", UNIT),
    ),
    "found keys": (
        lambda: fd.private_group_by(FRAME, "region", keys=fd.KeyThreshold(epsilon=1.0, delta=1e-6), unit="person"),
        (
            "keys of groups",
            "region",
            None,
            "one unit of person, with all of its rows, of at most 1 row a unit",
        ),
    ),
    "marginals": (
        lambda: fd.private_marginals(FRAME, 1, categories={"region": ["north", "south"]}, delta=1e-6, **ONE),
        ("1 tables", "region", None, "one row"),
    ),
    "moments of a model": (
        lambda: models.private_moments(
            {"age": AGES, "person": list("abca")}, unit="person", bounds=([0], [120]), delta=1e-6, **ONE
        ),
        (
            "mean and covariance of columns",
            "age",
            "[0, 120]",
            "one unit of person, with all of its rows, of which up to 1 counts",
        ),
    ),
    "naive Bayes of categories": (
        lambda: models.private_categorical_bayes(
            FRAME,
            FRAME["region"],
            classes=["north", "south"],
            categories={"region": ["north", "south"]},
            unit="person",
            **ONE,
        ),
        (
            "categorical naive Bayes, 2 classes",
            "region",
            None,
            "one unit of person, with all of its rows, of which up to 1 counts",
        ),
    ),
    "mechanism": (
        lambda: fd.LaplaceMechanism(scale=10.0, l1_sensitivity=1.0).release(3.0),
        ("values by a LaplaceMechanism", None, None, None),
    ),
}


@pytest.mark.parametrize("name", RELEASES)
def test_a_release_within_a_block_is_charged_with_its_words(ledger, name):
    release, words = RELEASES[name]
    with fd.budget(ledger=ledger, scope="survey"):
        release()

    (found,) = said(ledger)
    fields = dict(zip(("statistic", "column", "bounds", "unit"), words, strict=True))
    assert found == (ReleasedStatistic(**fields),)
    record = bodies(ledger)[-1]
    assert record["kind"] == "reserve"
    assert record["charges"]  # the very record that charges
    assert record["statistics"] == [found[0].to_dict()]
    assert ledger.verify() == ledger.head


def test_columns_of_data_frames_and_units_have_names(ledger):
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    with fd.budget(ledger=ledger, scope="survey"):
        for table in (pandas.DataFrame(FRAME), polars.DataFrame(FRAME)):
            fd.private_mean(table["age"], unit=table["person"], **BOUNDS, **ONE)

    whose = "one unit of person, with all of its rows, of which up to 1 counts"
    words = ReleasedStatistic(statistic="mean", column="age", bounds="[0, 120]", unit=whose)
    assert said(ledger) == [(words,)] * 2


def test_models_name_their_columns(ledger):
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"age": AGES, "weight": AGES})
    with fd.budget(ledger=ledger, scope="survey"):
        fd.statistics.models.private_moments(table, bounds=([0, 0], [120, 200]), epsilon=1.0, delta=1e-6)

    ((words,),) = said(ledger)
    assert (words.statistic, words.column) == ("mean and covariance of columns", "age, weight")
    assert words.bounds == "[0, 120], [0, 200]"


def test_partitions_name_their_columns(ledger):
    def release(frame, **more):
        return fd.private_mean(frame["age"], **BOUNDS, **ONE, **more)

    parts = [{"age": np.array([1.0, 2.0])}, {"age": np.array([3.0])}]
    ticket = ledger.reserve("survey", EpsilonDeltaEvent(epsilon=0.5))
    fd.distributed.private_statistic(parts, release, ticket=ticket)

    assert said(ledger) == [(ReleasedStatistic(statistic="mean", column="age", bounds="[0, 120]", unit="one row"),)]


def test_words_do_not_depend_on_rows(ledger):
    with fd.budget(ledger=ledger, scope="survey"):
        for rows in (AGES, np.full(4, np.nan), np.full(4, 1e9), np.zeros(0)):
            fd.private_mean(rows, **BOUNDS, **ONE)
            fd.private_quantile(rows, 0.5, **BOUNDS, **ONE)

    assert len(set(said(ledger))) == 2


def test_a_name_that_is_no_line_of_text_is_shortened_and_refuses_nothing(ledger):
    """Headers of surveys are long questions; those of files may hold anything."""
    pandas = pytest.importorskip("pandas")
    names = ["x" * 1000, "how\noften\tdo you\x00 go?", "\u200b", "\ud800", "", 7, ("a", "b"), None]
    with fd.budget(ledger=ledger, scope="survey"):
        for name in names:
            fd.private_count(pandas.Series(AGES, name=name), epsilon=0.1)

    found = [words.column for (words,) in said(ledger)]
    assert found == ["x" * 199 + "…", "how often do you go?", *[None] * 6]
    assert ledger.verify() == ledger.head


@pytest.mark.parametrize("text", ["", "x" * 201, "a\nb", "a\x1b[31m", "\u200b", "\ud800"])
@pytest.mark.parametrize("name", ["statistic", "column", "bounds", "unit"])
def test_words_that_cannot_be_read_are_refused_before_anything(ledger, name, text):
    before = ledger.head
    with pytest.raises(InvalidParameter, match=name):
        ReleasedStatistic(**{"statistic": "mean"} | {name: text})
    with pytest.raises(InvalidParameter, match=name), describing(**{name: text}):
        raise AssertionError("not entered")
    assert ledger.head == before


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda ledger: ledger.reserve("survey", TENTH, statistics="mean"), InvalidType),
        (lambda ledger: ledger.reserve("survey", TENTH, statistics=["mean"]), InvalidType),
        (lambda ledger: ledger.spend("survey", TENTH, statistics=7), InvalidType),
        (lambda ledger: ledger.lease("survey", TENTH, count=2, statistics={"statistic": "mean"}), InvalidType),
        (lambda ledger: ledger.reserve("survey", TENTH, statistics=[WORDS] * 1001), InvalidParameter),
        (lambda ledger: ReleasedStatistic.from_dict({"column": "age"}), InvalidParameter),
        (lambda ledger: ReleasedStatistic.from_dict({"statistic": "mean", "rows": "3"}), InvalidParameter),
        (lambda ledger: ReleasedStatistic.from_dict(["mean"]), InvalidType),
        (lambda ledger: describing().__enter__(), InvalidParameter),
        (lambda ledger: ledger.releases("another"), InvalidParameter),
        (lambda ledger: ledger.releases(limit=0), InvalidParameter),
    ],
)
def test_what_are_no_words_is_refused_before_anything(ledger, call, error):
    before = ledger.head
    with pytest.raises(error):
        call(ledger)
    assert ledger.head == before


def test_a_block_of_code_says_what_plain_arrays_do_not(ledger):
    with fd.budget(ledger=ledger, scope="survey"), describing(column="age", unit="one patient"):
        fd.private_mean(AGES, **BOUNDS, **ONE)
        with describing(statistic="mean age of smokers"):
            fd.private_mean(AGES, **BOUNDS, **ONE)
    with fd.budget(ledger=ledger, scope="survey"):
        fd.private_mean(AGES, **BOUNDS, **ONE)

    first, second, third = (words for (words,) in said(ledger))
    assert first == WORDS
    assert second == ReleasedStatistic(
        statistic="mean age of smokers", column="age", bounds="[0, 120]", unit="one patient"
    )
    assert (third.column, third.unit) == (None, "one row")


def test_words_of_the_caller_are_the_only_ones_of_a_ticket(ledger):
    ticket = ledger.reserve("survey", EpsilonDeltaEvent(epsilon=0.5), statistics=WORDS)
    assert ticket.statistics == (WORDS,)
    fd.private_mean(AGES, ticket=ticket, **BOUNDS, **ONE)

    assert ticket.statistics == (WORDS,)
    assert said(ledger) == [(WORDS,)]
    reserve, arm = bodies(ledger)[-2:]
    assert reserve["statistics"] == [WORDS.to_dict()]
    assert "statistics" not in arm


def test_a_ticket_for_several_releases_names_them_when_it_is_reserved(ledger):
    event = ComposedEvent(events=(TENTH, TENTH))
    with ledger.reserve("survey", event, statistics=[WORDS, OTHER]) as ticket:
        fd.private_count(AGES, epsilon=0.1, ticket=ticket)
        fd.private_median(AGES, epsilon=0.1, ticket=ticket, **BOUNDS)

    assert said(ledger) == [(WORDS, OTHER)]


def test_a_release_that_fails_before_its_first_bit_leaves_no_words(ledger):
    ticket = ledger.reserve("survey", TENTH)
    ledger.freeze("survey", reason="incident")
    with pytest.raises(ScopeFrozen):
        fd.private_count(AGES, epsilon=0.1, ticket=ticket)
    assert (ticket.state, ticket.statistics) == (TicketState.HELD, ())
    ledger.thaw("survey", reason="over")
    fd.private_median(AGES, epsilon=0.1, ticket=ticket, **BOUNDS)

    ((words,),) = said(ledger)
    assert words.statistic == "quantile 0.5"


def test_a_key_stands_for_one_statistic(ledger):
    ledger.reserve("survey", TENTH, key="q1", statistics=WORDS)
    again = ledger.reserve("survey", TENTH, key="q1", statistics=WORDS)
    assert not again.is_new
    before = ledger.head
    with pytest.raises(TicketError, match="another reservation"):
        ledger.reserve("survey", TENTH, key="q1", statistics=OTHER)
    assert not ledger.reserve("survey", TENTH, key="q1").is_new
    assert ledger.head == before
    assert ledger.spend("survey", TENTH, key="q1", statistics=WORDS)
    with pytest.raises(KeyUsed):
        ledger.spend("survey", TENTH, key="q1", statistics=WORDS)
    assert said(ledger) == [(WORDS,)]


def test_a_key_of_an_earlier_version_takes_words_when_it_is_used(ledger):
    ledger.reserve("survey", TENTH, key="q1")
    assert ledger.spend("survey", TENTH, key="q1", statistics=WORDS)

    assert said(ledger) == [(WORDS,)]


def test_keys_of_one_commit_are_compared(ledger):
    """Two requests of one batch: the record of the first is not in the database yet."""
    from ferrodp.budget._charging import rules

    def both(transaction):
        about = {"key": "q1", "statistics": (WORDS,)}
        first, _ = rules.reserve(transaction, ("survey",), TENTH, **about)
        second, is_new = rules.reserve(transaction, ("survey",), TENTH, **about)
        return first.id == second.id, is_new

    assert ledger._access.run(both) == (True, False)


def test_the_report_has_every_charge_and_what_became_of_it(ledger):
    ledger.create("survey/ages", epsilon=50.0, delta=1e-3, measure="pure")
    ledger.create("other", epsilon=50.0, delta=1e-3, measure="pure")
    held = ledger.reserve("survey/ages", TENTH, key="k", statistics=WORDS)
    ledger.reserve("survey", TENTH, statistics=OTHER).cancel()
    ledger.spend("other", TENTH)
    with ledger.lease("survey", TENTH, count=10, statistics=OTHER) as lease:
        lease.draw().arm()
    fd.private_count(AGES, epsilon=0.1, ticket=ledger.reserve("survey", TENTH))

    found = ledger.releases()
    states = [(each.state.value, each.count, each.scopes, len(each.statistics)) for each in found]
    assert states == [
        ("held", 1, ("survey/ages",), 1),
        ("cancelled", 1, ("survey",), 1),
        ("spent", 1, ("other",), 0),
        ("spent", 1, ("survey",), 1),
        ("armed", 1, ("survey",), 1),
    ]
    assert (found[0].key, found[0].ticket, found[0].event) == ("k", held.id, TENTH)
    assert found[0].who["pid"] > 0
    assert [each.sequence for each in found] == sorted(each.sequence for each in found)
    assert ledger.releases("survey") == found[:2] + found[3:]
    assert ledger.releases("survey/ages") == found[:1]
    assert ledger.releases(limit=2) == found[-2:]


def test_a_record_without_words_is_what_it_was(ledger):
    """Its text, and so each hash after it: ledgers of earlier versions stay as they are."""
    ledger.spend("survey", LaplaceEvent(noise_multiplier=10.0), key="q1")

    body = bodies(ledger)[-1]
    fields = {
        "charges",
        "count",
        "event",
        "fingerprint",
        "key",
        "kind",
        "scopes",
        "sequence",
        "state",
        "ticket",
        "time",
    }
    assert body.keys() == fields | {"who"}
    # over names, event, count and plan, as version 0.1.0 took it
    plain = _records.plain([["survey"], str(_records.plain(body["event"])), 1, None])
    assert body["fingerprint"] == hashlib.sha256(plain.encode()).hexdigest()


def test_words_move_with_the_ledger(ledger, tmp_path):
    with fd.budget(ledger=ledger, scope="survey"), describing(column="âge"):
        fd.private_mean(AGES, **BOUNDS, **ONE)
    ledger.reserve("survey", TENTH, statistics=OTHER)
    words = said(ledger)
    ledger.backup(tmp_path / "copy.jsonl.gz")

    import_ledger(tmp_path / "copy.jsonl.gz", tmp_path / "restored.db", reason="a test")
    migrate_ledger(tmp_path / "restored.db", tmp_path / "moved.db", reason="a test")
    with PrivacyLedger.open(tmp_path / "moved.db") as moved:
        assert said(moved) == words
        moved.verify()


def test_words_are_kept_on_a_server(url):
    with PrivacyLedger.open(url) as ledger:
        ledger.create("survey", epsilon=100.0, delta=1e-2, measure="pure")
        with fd.budget(ledger=ledger, scope="survey"), describing(column="age", unit="one patient"):
            fd.private_mean(AGES, **BOUNDS, **ONE)
        fd.private_count(AGES, epsilon=0.1, ticket=ledger.reserve("survey", TENTH, key="k"))
        with pytest.raises(TicketError):
            ledger.reserve("survey", TENTH, key="k", statistics=OTHER)  # it was used
        ledger.verify()
    with PrivacyLedger.open(url, verify="all") as ledger:
        assert [str(words) for each in said(ledger) for words in each] == [
            "mean, column age, bounds [0, 120], unit: one patient",
            "count of values, unit: one row",
        ]


@pytest.mark.parametrize(
    "words", [{"statistic": "mean"}, [7], [{}], [{"statistic": 7}], [{"statistic": "mean", "rows": "3"}], "mean", None]
)
@pytest.mark.parametrize("kind", ["reserve", "arm"])
def test_a_log_with_other_words_is_no_log(ledger, words, kind):
    ledger.reserve("survey", TENTH, statistics=WORDS).arm()
    head, lines = _records.Head(0, ledger._access.store.start), []
    for body in bodies(ledger):
        if body["kind"] == kind:
            body["statistics"] = words
        text = str(_records.plain(body))
        head = _records.Head(body["sequence"], _records.chained(head.hash, text))
        lines.append((body["sequence"], text, head.hash))

    with pytest.raises(LedgerError, match="does not say what was released"):
        Replay(_records.Head(0, ledger._access.store.start)).read(lines)


def test_words_of_a_later_unicode_are_read(ledger):
    """What cannot be seen here may be a letter to the program that wrote it."""
    words = recorded_statistic({"statistic": "mean", "column": "a\u0378b", "unit": "\x00"})

    assert words == ReleasedStatistic(statistic="mean", column="a b")


def test_a_checkpoint_between_charge_and_release_loses_no_words(path):
    with PrivacyLedger.open(path) as ledger:
        ledger.create("survey", epsilon=100.0, delta=0.0, measure="pure")
        ledger.reserve("survey", TENTH, key="k", statistics=WORDS)
        from ferrodp.budget.log import checkpoints

        replay = checkpoints.verified(ledger._access.store, whole=True)
        ledger._access.commits.run(lambda transaction: checkpoints.write(transaction, replay))
    with PrivacyLedger.open(path, verify="new") as ledger:
        assert ledger.spend("survey", TENTH, key="k", statistics=WORDS)
        assert said(ledger) == [(WORDS,)]
