"""One event of every kind, alone and in every sampling scheme: the rows of the table of what is refused."""

from ferrodp import accounting as ac

ALONE = {
    "Gaussian": ac.GaussianEvent(noise_multiplier=1.0),
    "Laplace": ac.LaplaceEvent(noise_multiplier=1.0),
    "discrete Gaussian": ac.DiscreteGaussianEvent(scale=2.0),
    "discrete Gaussian, vectors": ac.DiscreteGaussianEvent(scale=4.0, l2_sensitivity=1.5, dimension=3),
    "sum of discrete Gaussians": ac.DistributedDiscreteGaussianEvent(
        share_scale=0.5, num_shares=100, l2_sensitivity=5.0
    ),
    "Skellam": ac.SkellamEvent(variance=25.0, l2_sensitivity=5.0),
    "discrete Laplace": ac.DiscreteLaplaceEvent(scale=2.0, l1_sensitivity=2),
    "randomized response": ac.RandomizedResponseEvent(noise_parameter=0.5, num_buckets=3),
    "exponential mechanism": ac.ExponentialMechanismEvent(epsilon=0.5),
    "disjoint groups: Gaussian and Laplace": ac.ParallelEvent(
        events=(ac.GaussianEvent(noise_multiplier=1.0), ac.LaplaceEvent(noise_multiplier=1.0))
    ),
    "shuffled: randomized response": ac.ShuffledEvent(
        randomizer=ac.RandomizedResponseEvent(noise_parameter=0.5, num_buckets=3), population_size=1000
    ),
    "pure ε": ac.EpsilonDeltaEvent(epsilon=0.5),
    "(ε, δ)": ac.EpsilonDeltaEvent(epsilon=0.5, delta=1e-9),
    "ρ-zCDP": ac.ZcdpEvent(rho=0.1),
    "mixture of Gaussians": ac.MixtureOfGaussiansEvent(
        noise_multiplier=2.0, shifts=(0.0, 1.0), probabilities=(0.75, 0.25)
    ),
}
_MIXED = ac.ComposedEvent(events=(ALONE["Gaussian"], ALONE["Laplace"]))
_LOOP = ac.SelfComposedEvent(event=ac.PoissonSampledEvent(sampling_probability=0.1, event=ALONE["Gaussian"]), count=9)


def _repeated(inner, shape=1.0):
    return ac.RepeatAndSelectEvent(event=inner, mean=5.0, shape=shape)


def rows():
    """Return names and events."""
    found = dict(ALONE)
    for name, event in {**ALONE, "Gaussian and Laplace": _MIXED}.items():
        found[f"Poisson sample: {name}"] = ac.PoissonSampledEvent(sampling_probability=0.1, event=event)
        found[f"fixed size: {name}"] = ac.FixedSizeSampledEvent(population_size=100, sample_size=10, event=event)
        found[f"truncated Poisson: {name}"] = ac.TruncatedPoissonSampledEvent(
            population_size=100, sampling_probability=0.1, truncated_batch_size=20, event=event
        )
        found[f"random allocation: {name}"] = ac.RandomAllocationEvent(num_steps=10, num_selected=1, event=event)
        found[f"best of several: {name}"] = _repeated(event)
    found["best of several: trainings"] = _repeated(_LOOP)
    found["best of several, Poisson: Laplace"] = _repeated(ALONE["Laplace"], float("inf"))
    return found


ROWS = rows()
