"""Pictures show the bounds that accountants give, and what is shaded holds the truth."""

import copy
import math
import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from ferrodp.accounting import (
    Bounds,
    GaussianEvent,
    GdpAccountant,
    LaplaceEvent,
    NonPrivateEvent,
    PldAccountant,
    PoissonSampledEvent,
    PureDpAccountant,
)
from ferrodp.accounting.reports import _curves, heat_map, plots
from ferrodp.errors import InvalidParameter, InvalidType, MissingPackage

mpl.use("Agg")
from matplotlib import pyplot

EVENT = GaussianEvent(noise_multiplier=10.0)


def gaussian(mu=1.0):
    accountant = GdpAccountant()
    accountant.compose(GaussianEvent(noise_multiplier=1 / mu))
    return accountant


class Wide:
    """An accountant whose bounds are far apart."""

    def __init__(self, accountant):
        self.accountant = accountant

    def __copy__(self):
        return Wide(copy.copy(self.accountant))

    def compose(self, event, count=1):
        self.accountant.compose(event, count)

    def epsilon_bounds(self, delta):
        upper = self.accountant.epsilon_bounds(delta).upper
        return Bounds(upper / 2, upper)

    def delta_bounds(self, epsilon):
        upper = self.accountant.delta_bounds(epsilon).upper
        return Bounds(upper / 2, upper)


def labels(axes):
    return axes.get_legend_handles_labels()[1]


def saved(axes, tmp_path):
    """Whether the figure can be drawn; warnings are errors."""
    axes.figure.savefig(tmp_path / "plot.png")
    return (tmp_path / "plot.png").stat().st_size > 1000


def test_epsilon_over_steps_is_what_the_accountant_says(tmp_path):
    accountant = gaussian()
    before = accountant.state_dict()

    axes = plots.plot_epsilon_over_steps(accountant, EVENT, count=200, delta=1e-5, budget=8)

    line = axes.get_lines()[0]
    assert before == accountant.state_dict()
    assert (line.get_xdata()[0], line.get_xdata()[-1]) == (0, 200)
    assert line.get_ydata()[0] == accountant.epsilon(1e-5)
    accountant.compose(EVENT, 200)
    assert line.get_ydata()[-1] == accountant.epsilon(1e-5)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("steps", "ε at δ = 10⁻⁵")
    assert labels(axes) == ["upper bound", "between the bounds", "budget ε = 8"]
    assert saved(axes, tmp_path)


@pytest.mark.parametrize("count", [1, 2, 3, 100, 2**63 - 1])
@pytest.mark.parametrize("log", [False, True])
def test_any_number_of_steps_is_drawn_in_order(count, log, tmp_path):
    axes = plots.plot_epsilon_over_steps(GdpAccountant(), EVENT, count=count, delta=1e-5, log=log)

    x = axes.get_lines()[0].get_xdata()
    assert x[-1] == count
    assert len(x) <= 65
    assert (np.diff(x) > 0).all()
    assert saved(axes, tmp_path)


def test_several_accountants_are_told_apart():
    axes = plots.plot_epsilon_over_steps({"here": gaussian(), "there": gaussian(2.0)}, EVENT, count=9, delta=1e-5)

    assert labels(axes) == ["here (upper bound)", "there (upper bound)"]
    assert len(axes.get_lines()) == 2


def test_what_is_given_is_drawn_into():
    _, axes = pyplot.subplots()

    assert plots.plot_privacy_profile(gaussian(), axes=axes) is axes
    assert pyplot.get_fignums() == [1]


def test_a_profile_is_what_the_accountant_says(tmp_path):
    axes = plots.plot_privacy_profile(Wide(gaussian()), epsilons=[0.0, 0.5, 3.0])

    line = axes.get_lines()[0]
    assert list(line.get_xdata()) == [0.0, 0.5, 3.0]
    assert list(line.get_ydata()) == [gaussian().delta(epsilon) for epsilon in (0.0, 0.5, 3.0)]
    [shade] = axes.collections
    corners = shade.get_paths()[0].vertices
    assert gaussian().delta(3.0) / 2 == corners[corners[:, 0] == 3.0][:, 1].min()
    assert axes.get_yscale() == "log"
    assert saved(axes, tmp_path)


def test_a_profile_goes_down_to_small_deltas():
    x = plots.plot_privacy_profile(gaussian()).get_lines()[0].get_xdata()

    assert x[0] == 0.0
    assert 0.9e-12 < gaussian().delta(x[-1]) <= 1e-12


def test_bounds_that_are_not_known_are_not_shaded(tmp_path):
    accountant = PureDpAccountant()
    accountant.compose(LaplaceEvent(noise_multiplier=1.0), 2)

    for axes in (plots.plot_privacy_profile(accountant), plots.plot_trade_off(accountant)):
        assert not axes.collections
        assert saved(axes, tmp_path)


@pytest.mark.parametrize("log", [False, True])
def test_accountants_without_events_or_without_protection_are_drawn(log, tmp_path):
    lost = GdpAccountant()
    lost.compose(NonPrivateEvent())

    for accountant in (GdpAccountant(), lost):
        assert saved(plots.plot_privacy_profile(accountant), tmp_path)
        assert saved(plots.plot_trade_off(accountant, log=log), tmp_path)
        axes = plots.plot_epsilon_over_steps(accountant, EVENT, count=5, delta=1e-5, log=log)
        assert saved(axes, tmp_path)
    assert labels(axes) == ["no finite bound"]
    assert saved(plots.plot_rdp_curve(lambda orders: orders * math.inf), tmp_path)


@pytest.mark.parametrize("mu", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("points", [5, 129])
def test_the_trade_off_of_a_gaussian_lies_between_its_bounds(mu, points):
    """f(α) = Φ(Φ⁻¹(1 − α) − μ); the slack covers what scipy and the curve round, some units of 2⁻⁵³."""
    rates = np.linspace(0.0, 1.0, 101)
    profile = _curves.privacy_profile(gaussian(mu), np.linspace(0.0, 6 * mu, points))

    curve = _curves.trade_off(profile, rates)

    exact = ndtr(ndtri(1.0 - rates) - mu)
    assert (curve.lower <= exact + 1e-14).all()
    assert (exact <= curve.upper + 1e-14).all()
    if points == 129:
        assert (curve.upper - curve.lower).max() < 0.03


def test_the_trade_off_of_one_epsilon_is_two_lines():
    """f(α) = max(1 − e^ε·α, e^(−ε)(1 − α), 0) for a mechanism that is ε-DP and no more is known."""
    accountant = PureDpAccountant()
    accountant.compose(LaplaceEvent(noise_multiplier=1.0))
    rates = np.linspace(0.0, 1.0, 11)

    profile = _curves.privacy_profile(accountant, np.array([0.0, 1.0]))
    curve = _curves.trade_off(profile, rates)

    expected = np.maximum(np.maximum(1 - math.e * rates, (1 - rates) / math.e), 0.0)
    assert curve.lower == pytest.approx(np.maximum(expected, 1.0 - accountant.delta(0.0) - rates), abs=1e-15)


def test_the_trade_off_is_drawn_from_the_guaranteed_side(tmp_path):
    axes = plots.plot_trade_off(Wide(gaussian()))
    rates, drawn = axes.get_lines()[0].get_data()
    assert (drawn <= ndtr(ndtri(1.0 - rates) - 1.0) + 1e-14).all()
    assert labels(axes) == ["guaranteed", "between the bounds", "guessing"]
    assert saved(axes, tmp_path)

    axes = plots.plot_trade_off(Wide(gaussian()), log=True)
    rates, drawn = axes.get_lines()[0].get_data()
    assert (drawn >= 1.0 - ndtr(ndtri(1.0 - rates) - 1.0) - 1e-14).all()
    assert "true positive" in axes.get_ylabel()
    assert saved(axes, tmp_path)


def test_divergences_are_drawn_from_functions_and_methods(tmp_path):
    class Mechanism:
        def rdp(self, orders):
            return np.where(orders > 5.0, np.inf, orders)

    axes = plots.plot_rdp_curve({"function": lambda orders: orders / 2, "method": Mechanism()}, orders=[2, 4, 8])

    function, method = axes.get_lines()
    assert list(function.get_ydata()) == [1.0, 2.0, 4.0]
    assert list(method.get_ydata()[:2]) == [2.0, 4.0]
    assert math.isnan(method.get_ydata()[2])
    assert labels(axes) == ["function", "method"]
    assert (axes.get_xscale(), axes.get_yscale(), axes.get_xlabel()) == ("log", "log", "order α")
    assert saved(axes, tmp_path)
    assert saved(plots.plot_rdp_curve(lambda orders: orders), tmp_path)


@pytest.mark.parametrize(
    ("draw", "error", "text"),
    [
        (
            lambda: plots.plot_epsilon_over_steps(1.0, EVENT, count=1, delta=0.1),
            InvalidType,
            "must be an accountant, or a dict of some, got",
        ),
        (lambda: plots.plot_epsilon_over_steps(gaussian(), EVENT, count=0, delta=0.1), InvalidParameter, "count must"),
        (lambda: plots.plot_epsilon_over_steps(gaussian(), EVENT, count=1, delta=0), InvalidParameter, "delta must be"),
        (lambda: plots.plot_epsilon_over_steps(gaussian(), 1.0, count=1, delta=0.1), InvalidType, "a privacy event"),
        (
            lambda: plots.plot_epsilon_over_steps(gaussian(), EVENT, count=1, delta=0.1, budget=-1),
            InvalidParameter,
            "budget must be",
        ),
        (
            lambda: plots.plot_privacy_profile(None),
            InvalidType,
            "accountants must be an accountant, or a dict of some, got NoneType",
        ),
        (lambda: plots.plot_privacy_profile(gaussian(), epsilons=[1.0]), InvalidParameter, "epsilons must be at least"),
        (
            lambda: plots.plot_privacy_profile(gaussian(), epsilons=[1, 0]),
            InvalidParameter,
            "epsilons must be at least",
        ),
        (lambda: plots.plot_privacy_profile(gaussian(), epsilons=[0, math.nan]), InvalidParameter, "epsilons must be"),
        (lambda: plots.plot_trade_off(gaussian(), epsilons=[1, 2]), InvalidParameter, "epsilons must be rising from 0"),
        (lambda: plots.plot_rdp_curve(1.0), InvalidType, "curves must have a method rdp or be functions, got float"),
        (lambda: plots.plot_rdp_curve(lambda o: o, orders=[1.0]), InvalidParameter, "orders must be a sequence"),
        (lambda: plots.plot_rdp_curve(lambda o: o, orders=[]), InvalidParameter, "orders must be a sequence"),
        (lambda: plots.plot_rdp_curve(lambda o: 1.0), InvalidParameter, "curves must return 129 numbers"),
    ],
)
def test_parameters_are_checked_before_a_figure_is_made(draw, error, text):
    with pytest.raises(error, match=text):
        draw()
    assert pyplot.get_fignums() == []


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)

    with pytest.raises(MissingPackage, match=r'pip install "ferrodp\[plot\]"'):
        plots.plot_privacy_profile(gaussian())


def test_accounting_does_not_import_matplotlib():
    code = "import sys, ferrodp.accounting.reports.plots; sys.exit('matplotlib' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_marked_step_is_the_last_within_the_budget() -> None:
    step = PoissonSampledEvent(sampling_probability=0.01, event=GaussianEvent(noise_multiplier=1.0))
    axes = plots.plot_epsilon_over_steps(PldAccountant(), step, count=3000, delta=1e-5, budget=3.0)
    [marked] = [int(text.get_text()) for text in axes.texts]
    epsilons = []
    for count in (marked, marked + 1):
        spent = PldAccountant()
        spent.compose(step, count)
        epsilons.append(spent.epsilon(1e-5))

    assert epsilons[0] <= 3.0 < epsilons[1]


def test_lines_differ_in_darkness_and_in_style() -> None:
    from matplotlib.colors import to_rgb

    named = {f"accountant {number}": GdpAccountant() for number in range(4)}
    for number, accountant in enumerate(named.values()):
        accountant.compose(GaussianEvent(noise_multiplier=1.0 + number))
    lines = plots.plot_privacy_profile(named).get_lines()
    grey = sorted(float(np.dot(to_rgb(line.get_color()), (0.299, 0.587, 0.114))) for line in lines)

    assert len({line.get_linestyle() for line in lines}) == 4
    assert min(np.diff(grey)) > 0.02


def test_a_sweep_shows_the_certified_bounds_rounded_up() -> None:
    axes = heat_map.plot_sweep(noise_multipliers=[1.0, 2.0], counts=[10, 100], delta=1e-5, sampling_probability=0.01)
    for text, (sigma, count) in zip(axes.texts, [(1.0, 10), (1.0, 100), (2.0, 10), (2.0, 100)], strict=True):
        spent = PldAccountant()
        event = GaussianEvent(noise_multiplier=sigma)
        spent.compose(PoissonSampledEvent(sampling_probability=0.01, event=event), count)
        epsilon = spent.epsilon(1e-5)
        assert epsilon <= float(text.get_text()) <= epsilon * 1.02
    assert axes.get_title() == "ε at δ = 10⁻⁵, sampling probability q = 0.01"


def test_curves_have_more_points_where_they_bend() -> None:
    accountant = PldAccountant()
    accountant.compose(PoissonSampledEvent(sampling_probability=0.01, event=GaussianEvent(noise_multiplier=1.0)), 10)
    x, y = plots.plot_privacy_profile(accountant).get_lines()[0].get_data()
    exact = np.log([accountant.delta(float(each)) for each in (x[:-1] + x[1:]) / 2.0])
    height = math.log(y[0] / 1e-12)
    off = np.abs((np.log(y[:-1]) + np.log(y[1:])) / 2.0 - exact) / height

    assert off.max() < 0.002  # of the height of the picture: the tolerance of the refinement
    assert np.diff(x).min() < 0.6 * np.diff(x).max()


def test_curves_are_computed_near_where_they_cross() -> None:
    from ferrodp.accounting.curve import Curve
    from ferrodp.accounting.reports._refinement import refined

    def line(slope, start):
        return lambda at: Curve(at, at * 0.0, start + slope * at)

    curves = refined({"a": line(1.0, 1.0), "b": line(-1.0, 1.61)}, np.linspace(0.0, 1.0, 5), most=300)

    assert np.abs(curves["a"].x - 0.305).min() < 1 / 256
    assert curves["a"].x.size <= 5 + 7  # seven halvings of a quarter are 1/512


def test_whole_points_stay_whole_and_different() -> None:
    axes = plots.plot_epsilon_over_steps(PldAccountant(), GaussianEvent(noise_multiplier=2.0), count=7, delta=1e-5)
    x = axes.get_lines()[0].get_xdata()

    assert set(x) <= set(range(8))
    assert len(set(x)) == len(x)


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (EVENT, "σ = 10, T = 90"),
        (LaplaceEvent(noise_multiplier=2.0), "b = 2, T = 90"),
        (PoissonSampledEvent(sampling_probability=1e-4, event=EVENT), "σ = 10, q = 10⁻⁴, T = 90"),
    ],
)
def test_titles_say_noise_sampling_and_steps(event, expected) -> None:
    axes = plots.plot_epsilon_over_steps(PldAccountant(), event, count=90, delta=1e-5)
    spent = PldAccountant()
    spent.compose(event, 90)

    assert axes.get_title().splitlines() == ["Privacy loss over steps", expected]
    assert plots.plot_privacy_profile(spent).get_title().splitlines() == ["Privacy profile", expected]
    assert plots.plot_trade_off({"a": spent, "b": PldAccountant()}).get_title() == "Trade-off function"


def test_a_legend_of_a_new_figure_covers_no_axes() -> None:
    axes = plots.plot_epsilon_over_steps({"a": gaussian(), "b": gaussian(2.0)}, EVENT, count=9, delta=1e-5, budget=3)
    axes.figure.draw_without_rendering()
    [legend] = axes.figure.legends

    assert legend.get_window_extent().y1 <= axes.get_tightbbox().y0
    assert axes.get_legend() is None


def test_given_axes_in_a_figure_of_others_get_a_legend_of_their_own() -> None:
    figure, (left, _) = pyplot.subplots(1, 2)
    plots.plot_trade_off(gaussian(), axes=left)

    assert left.get_legend() is not None
    assert figure.legends == []
