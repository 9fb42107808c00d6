"""Oriented gradients are what their description says, image by image."""

import math

import numpy as np
import pytest

from ferrodp.errors import InvalidArray, InvalidParameter, InvalidType
from ferrodp.training import oriented_gradients


def described(image):
    """The description written down for one image, pixel by pixel."""
    height, width = image.shape

    def at(row, column):
        return image[row, column] if 0 <= row < height and 0 <= column < width else 0.0

    cells = []
    for top in range(0, height - 3, 2):
        for left in range(0, width - 3, 2):
            bins = [0.0] * 8
            for row in range(top, top + 4):
                for column in range(left, left + 4):
                    across = at(row, column + 1) - at(row, column - 1)
                    down = at(row + 1, column) - at(row - 1, column)
                    turn = math.atan2(down, across) / (2 * math.pi) % 1.0 * 8
                    below, share = math.floor(turn), turn - math.floor(turn)
                    bins[below % 8] += math.hypot(across, down) * (1 - share)
                    bins[(below + 1) % 8] += math.hypot(across, down) * share
            cells += bins
    roots = np.sqrt(cells)
    centered = unit(unit(roots) - 0.8 / math.sqrt(len(roots)))
    pixels = unit(np.append(image.ravel() - 0.3, 1.0))
    return unit(np.concatenate([centered, 0.5 * pixels]))


def unit(vector):
    norm = np.linalg.norm(vector)
    return vector / norm if norm else vector


@pytest.mark.parametrize("shape", [(8, 8), (4, 4), (5, 9), (12, 6)])
def test_features_are_those_of_the_description(shape):
    images = np.random.default_rng(2).uniform(size=(6, *shape))
    images[0] = 0.0
    images[1] = 1.0

    found = oriented_gradients(images.reshape(6, -1), shape=shape)

    assert found == pytest.approx(np.array([described(image) for image in images]), abs=1e-12)


def test_digits_have_137_features_of_unit_norm():
    images = np.random.default_rng(0).uniform(size=(20, 64))

    features = oriented_gradients(images, shape=(8, 8))

    assert features.shape == (20, 137)
    assert np.linalg.norm(features, axis=1) == pytest.approx(np.ones(20), abs=1e-12)


def test_images_may_be_rows_or_matrices_and_any_kind_of_number():
    images = np.random.default_rng(0).integers(0, 2, size=(5, 8, 8))
    expected = oriented_gradients(images.astype(float), shape=(8, 8))

    assert np.array_equal(expected, oriented_gradients(images.reshape(5, 64), shape=(8, 8)))
    assert np.array_equal(expected, oriented_gradients(images.astype(np.float32), shape=(8, 8)))
    assert np.array_equal(expected, oriented_gradients(images.astype(bool), shape=(8, 8)))


def test_an_image_changes_no_other():
    images = np.random.default_rng(0).uniform(size=(5, 64))
    alone = oriented_gradients(images[2:3], shape=(8, 8))

    assert np.array_equal(alone, oriented_gradients(images, shape=(8, 8))[2:3])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_an_image_that_is_not_finite_counts_as_black(bad):
    images = np.random.default_rng(0).uniform(size=(2, 64))
    images[1, 7] = bad

    features = oriented_gradients(images, shape=(8, 8))

    assert np.array_equal(oriented_gradients(np.zeros((1, 64)), shape=(8, 8))[0], features[1])


def test_huge_values_overflow_nothing():
    features = oriented_gradients(np.full((1, 64), 1e308), shape=(8, 8))

    assert np.isfinite(features).all()


def test_short_sides_are_filled_up_with_zeros():
    images = np.random.default_rng(0).uniform(size=(3, 2, 5))
    filled = np.pad(images, ((0, 0), (0, 2), (0, 0)))

    found, expected = oriented_gradients(images, shape=(2, 5)), oriented_gradients(filled, shape=(4, 5))

    assert found.shape == (3, 8 + 10 + 1)
    assert unit(found[0, :8]) == pytest.approx(unit(expected[0, :8]), abs=1e-12)


def test_no_images_have_no_features():
    assert oriented_gradients(np.zeros((0, 64)), shape=(8, 8)).shape == (0, 137)


@pytest.mark.parametrize(
    ("images", "shape", "error"),
    [
        (np.zeros((2, 63)), (8, 8), InvalidArray),
        (np.zeros(64), (8, 8), InvalidArray),
        (np.zeros((2, 0)), (0, 3), InvalidParameter),
        (np.zeros((2, 64)), 8, InvalidType),
        (np.zeros((2, 64)), (8, 8.5), InvalidType),
        (np.array([["a"] * 64]), (8, 8), TypeError),
    ],
)
def test_what_does_not_fit_is_refused(images, shape, error):
    with pytest.raises(error):
        oriented_gradients(images, shape=shape)
