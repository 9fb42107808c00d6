"""No entropy, no output."""

from support.entropy_filter import run_without_entropy

ATTEMPTS = r"""
source, array = fd.NoiseSource(), np.arange(5.0)
total = fd.ClippedSum((3,), clip_norm=1.0)
total.add(np.ones(3))
mechanism = fd.GaussianMechanism(noise_multiplier=1.0, l2_sensitivity=1.0)
out = np.full(3, 7.0)
attempts = [
    lambda: source.gaussian(10, standard_deviation=1.0),
    lambda: source.add_laplace_(array, scale=1.0),
    lambda: source.bytes(8),
    lambda: mechanism.release(1.0),
    lambda: mechanism.release(np.ones(3), out=out),
    lambda: total.release(noise_multiplier=1.0),
]
for attempt in attempts:
    try:
        attempt()
    except fd.errors.EntropyError as error:
        assert isinstance(error, OSError)
    else:
        sys.exit("noise without entropy")
assert array.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0], "nothing was written"
assert out.tolist() == [7.0, 7.0, 7.0], "nothing was written"
"""


def test_without_entropy_every_draw_raises_and_nothing_is_written():
    run_without_entropy(ATTEMPTS)
