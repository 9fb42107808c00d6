"""Counts of naive Bayes with categories, and its scores, in plain Python: written from the definitions."""

import math


def counts(rows, labels, classes, categories):
    """Return the counts of classes, then of each class with each value of each column, as one list of integers."""
    known = [(row, label) for row, label in zip(rows, labels, strict=True) if label in classes]
    found = [sum(label == each for _, label in known) for each in classes]
    for place, values in enumerate(categories):
        for each in classes:
            found += [sum(label == each and row[place] == value for row, label in known) for value in values]
    return found


def scores(row, class_counts, tables, categories, smoothing):
    """Return log P(class) + Σ log P(value | class), for counts with noise."""
    sizes = [max(each, 1.0) for each in class_counts]
    found = []
    for place, size in enumerate(sizes):
        score = math.log(size / sum(sizes))
        for value, values, table in zip(row, categories, tables, strict=True):
            if value in values:
                held = [max(each, 0.0) + smoothing for each in table[place]]
                score += math.log(held[values.index(value)] / sum(held))
        found.append(score)
    return found
