"""Contingency tables by matrices over the whole domain: slow, and written from the definitions."""

import itertools

import numpy as np


def product(matrices):
    found = np.ones((1, 1), object)
    for each in matrices:
        found = np.kron(found, each)
    return found


def margin(sizes, columns):
    """Return the matrix that turns counts of all cells into the table of some columns, in Python's integers."""
    return product(
        [np.eye(n, dtype=int).astype(object) if i in columns else np.ones((1, n), object) for i, n in enumerate(sizes)]
    )


def residual(sizes, columns):
    """Return the matrix whose rows are n·cell − sum, along each of the columns."""
    return product(
        [
            n * np.eye(n, dtype=int).astype(object) - np.ones((n, n), object)
            if i in columns
            else np.ones((1, n), object)
            for i, n in enumerate(sizes)
        ]
    )


def strategy(sizes, weights):
    """Return the matrix of all that is measured, given the weight of each set of columns."""
    return np.vstack([weight * residual(sizes, columns) for columns, weight in weights.items()])


def histogram(sizes, rows):
    """Return how many rows fall into each cell of the whole domain; None stands for a row that has no cell."""
    found = np.zeros(int(np.prod(sizes)), dtype=object)
    for row in rows:
        if row is not None:
            found[np.ravel_multi_index(row, sizes)] += 1
    return found


def records(sizes):
    """Return all rows that there can be, and None for one that counts nowhere."""
    return [None, *itertools.product(*(range(n) for n in sizes))]


def least_total_variance(workload, squared_norm):
    """Return the bound of [LM13] for the total variance of a workload, by its singular values.

    No linear mechanism with Gaussian noise whose rows of the domain have that squared norm at most, in units of the
    noise, has less. Li, Miklau, "Optimal error of query sets under the differentially-private matrix mechanism", 2013.
    """
    values = np.linalg.svd(np.asarray(workload, float), compute_uv=False)
    return values.sum() ** 2 / workload.shape[1] / squared_norm


def nearest_with_total(table, total):
    """Return the nearest table without negative cells that has a total, by bisection for the shift."""
    low, high = table.min() - total - 1.0, table.max()
    for _ in range(200):
        middle = 0.5 * (low + high)
        if np.maximum(table - middle, 0.0).sum() > total:
            low = middle
        else:
            high = middle
    return np.maximum(table - 0.5 * (low + high), 0.0)
