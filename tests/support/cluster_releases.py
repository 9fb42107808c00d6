"""Releases about a table in partitions, for tests on clusters: what one process releases, a cluster has to."""

import time

import numpy as np

import ferrodp as fd
from ferrodp.statistics import models

__all__ = [
    "OF_ONE_KIND",
    "PARTS",
    "RELEASES",
    "categories",
    "count",
    "deciles",
    "different",
    "found_wards",
    "moments",
    "naive_bayes",
    "numbers",
    "scales",
    "seeded",
    "selected_wards",
    "shard",
    "slow_shard",
    "sums_of_groups",
    "tables",
    "total",
    "united_wards",
    "whole",
]

ROWS, PARTS, KEYS = 6000, 12, ["n", "s", "w"]


def shard(number):
    """Return the rows of a partition, those of a person among those of others in all partitions."""
    rng = np.random.default_rng(number)
    rows = ROWS // PARTS
    return {
        "pay": rng.normal(50, 40, rows),
        "region": rng.choice(["n", "s", "e"], rows),
        "person": rng.integers(0, 900, rows),
        "ill": rng.integers(0, 2, rows).astype(bool),
        "ward": rng.geometric(0.1, rows),
        "code": rng.integers(0, 3000, rows),
    }


def slow_shard(number):
    time.sleep(0.3)
    return shard(number)


def whole():
    shards = [shard(number) for number in range(PARTS)]
    return {name: np.concatenate([each[name] for each in shards]) for name in shards[0]}


def count(frame, **pay):
    return fd.private_count(frame["ill"], epsilon=1.0, **pay)


def total(frame, **pay):
    owners = {"unit": frame["person"], "max_contributions": 3, "keep": "first"}
    return fd.private_sum(frame["pay"], bounds=(0, 100), epsilon=1.0, **owners, **pay)


def sums_of_groups(frame, **pay):
    limits = {"unit": "person", "groups_per_unit": 2, "rows_per_group": 2, "keep": "first"}
    groups = fd.private_group_by(frame, "region", keys=["n", "s", "w"], **limits)
    return groups.sum("pay", bounds=(0, 100), epsilon=1.0, delta=1e-6, **pay)


def tables(frame, **pay):
    categories = {"region": ["n", "s", "e"], "ill": [False, True]}
    bins = {"pay": [0, 50, 100]}
    return fd.private_marginals(frame, 2, categories=categories, bins=bins, epsilon=1.0, delta=1e-6, **pay)


def deciles(frame, **pay):
    return fd.private_quantiles(frame["pay"], [0.1, 0.5, 0.9], bounds=(0, 100), epsilon=3.0, **pay)


def different(frame, **pay):
    owners = {"unit": frame["person"], "max_contributions": 3, "keep": "first"}
    return fd.private_distinct(frame["code"], epsilon=1.0, **owners, **pay)


def found_wards(frame, **pay):
    keys = fd.KeyThreshold(epsilon=1.0, delta=1e-6)
    limits = {"unit": "person", "groups_per_unit": 2, "rows_per_group": 1, "keep": "first"}
    return fd.private_group_by(frame, "ward", keys=keys, **limits, **pay).found_counts


def moments(frame, **pay):
    columns = {name: frame[name] for name in ("pay", "ward")}
    options = {"bounds": ([0, 0], [100, 50]), "clip_norm": 1.0, "epsilon": 1.0, "delta": 1e-6}
    return models.private_moments(columns, **options, **pay)


def naive_bayes(frame, **pay):
    columns = {name: frame[name] for name in ("pay", "ward")}
    options = {"bounds": ([0, 0], [100, 50]), "clip_norm": 1.0, "epsilon": 1.0, "delta": 1e-6}
    return models.private_naive_bayes(columns, frame["region"], classes=KEYS, **options, **pay)


def categories(frame, **pay):
    owners = {"unit": frame["person"], "max_contributions": 3, "keep": "first"}
    columns = {"ward": list(range(1, 9)), "ill": [False, True]}
    options = {"classes": KEYS, "categories": columns, "epsilon": 1.0}
    return models.private_categorical_bayes(frame, frame["region"], **options, **owners, **pay)


def scales(frame, **pay):
    columns = {name: frame[name] for name in ("pay", "ward")}
    return models.private_scales(columns, bounds=([0, 0], [100, 50]), epsilon=1.0, delta=1e-6, **pay)


def selected_wards(frame, **pay):
    keys = fd.KeySelection(epsilon=1.0, delta=1e-6)
    return fd.private_group_by(frame, "ward", keys=keys, unit="person", groups_per_unit=1, keep="first", **pay)


def united_wards(frame, **pay):
    keys = fd.KeyUnion(epsilon=1.0, delta=1e-6)
    return fd.private_group_by(frame, "ward", keys=keys, unit="person", groups_per_unit=30, keep="first", **pay)


RELEASES = {count: None, total: "person", sums_of_groups: "person", tables: None, deciles: None, different: "person"}
RELEASES |= {found_wards: "person", moments: None, naive_bayes: None, categories: "person", scales: None}
RELEASES |= {selected_wards: "person", united_wards: "person"}
"""Each with the column by which rows are gathered."""
OF_ONE_KIND = [naive_bayes, categories, scales, selected_wards]
"""Whose integers travel as those of others do."""


def numbers(found):
    if isinstance(found, fd.statistics.PrivateGroups):
        return {"keys": found.keys}
    if isinstance(found, models.CategoricalBayes):
        return {"classes": found.class_counts.tolist(), "counts": [each.tolist() for each in found.counts]}
    if isinstance(found, (models.PrivateMoments, models.NaiveBayes, models.ColumnScales)):
        names = ("count", "mean", "covariance", "priors", "means", "variances", "variance")
        return {name: np.asarray(getattr(found, name)).tolist() for name in names if hasattr(found, name)}
    of = found if isinstance(found, fd.statistics.PrivateMarginals) else {"": found}
    return {name: np.asarray(of[name].value).tolist() for name in of}


def seeded():
    return fd.testing.seeded(b"clusters".ljust(32))
