"""Synthetic rows from private tables: what `private_marginals` measured, handed to the package `mbi`.

`mbi` fits a graphical model to noisy measurements of tables, and draws rows from it [MMS21]. It sees what was released
and no data, so whatever it does keeps the guarantee and costs nothing: differential privacy is closed under
post-processing [DR14, Proposition 2.1]. What it gets are the residuals that were measured, each with its own deviation.
Their noises are independent, so the squared errors it minimizes are the likelihood, up to the rounding of the noise to
integers. The tables themselves share noise: their squared errors would count some of it twice.

References
----------
[DR14] Dwork, Roth, "The algorithmic foundations of differential privacy", 2014.
[MMS21] McKenna, Miklau, Sheldon, "Winning the NIST contest: a scalable and general approach to differentially private
synthetic data", Journal of Privacy and Confidentiality 11(3), 2021.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import warnings
from typing import Any

from ferrodp._base import _public, _validate
from ferrodp._base._public import suggesting
from ferrodp.errors import InvalidParameter, InvalidType, MissingPackage
from ferrodp.statistics import PrivateMarginals

__all__ = ["fitted_model", "measurements", "synthetic_rows"]

_MOST_CELLS = 10**7


@suggesting
def measurements(tables: PrivateMarginals) -> list[Any]:
    """Return what was measured for private tables, as linear measurements of `mbi`.

    Parameters
    ----------
    tables : PrivateMarginals
        What `private_marginals` released.

    Returns
    -------
    list of mbi.LinearMeasurement
        One for each set of columns that was measured: a table less its margins, with independent noise of a stated
        deviation. The number of rows is not among them; it is ``tables.table(())``.

    Raises
    ------
    InvalidType
        If `tables` is something else.
    MissingPackage
        If `mbi` is not installed: ``pip install "ferrodp[synthetic]"``.

    Notes
    -----
    With P the residual, x the true table and z independent noises of the stated deviation σ, a measurement is
    y = P(x + z). In an orthonormal basis of the image of P, Pz has independent coordinates of deviation σ. So −log of
    the likelihood of x is ‖y − Px‖²/2σ² and a constant: what `mbi` minimizes, summed over all measurements. Values are
    in double precision; fit them under ``jax.enable_x64(True)``, as `fitted_model` does.

    Examples
    --------
    >>> import ferrodp as fd
    >>> from ferrodp.integrations import mbi
    >>> frame = {"sex": ["f", "m"] * 500, "smokes": [True, False, False, False] * 250}
    >>> public = {"sex": ["f", "m"], "smokes": [False, True]}
    >>> tables = fd.private_marginals(frame, 2, categories=public, epsilon=1.0, delta=1e-6)
    >>> [each.clique for each in mbi.measurements(tables)]
    [('sex',), ('smokes',), ('sex', 'smokes')]
    """
    _check(tables)
    module = _mbi()
    return [
        module.LinearMeasurement(
            residual.values.reshape(-1), columns, residual.deviation, _Residual(residual.values.shape)
        )
        for columns, residual in tables.residuals().items()
    ]


@suggesting
def fitted_model(tables: PrivateMarginals, *, iterations: int = 1000) -> Any:
    """Return the graphical model that fits private tables best.

    Parameters
    ----------
    tables : PrivateMarginals
        What `private_marginals` released. Tables that overlap in many ways need a model with large cliques: where these
        have more than 10⁷ cells, it is refused.
    iterations : int
        Steps of mirror descent; ≥ 1.

    Returns
    -------
    mbi.MarkovRandomField
        Its tables are not negative and agree with each other, also those of columns that were not measured together.

    Raises
    ------
    InvalidParameter, InvalidType
        If an argument is not accepted, or the cliques would be too large.
    MissingPackage
        If `mbi` is not installed.

    Examples
    --------
    >>> import ferrodp as fd
    >>> from ferrodp.integrations import mbi
    >>> frame = {"sex": ["f", "m"] * 500, "smokes": [True, False, False, False] * 250}
    >>> public = {"sex": ["f", "m"], "smokes": [False, True]}
    >>> tables = fd.private_marginals(frame, 2, categories=public, epsilon=1.0, delta=1e-6)
    >>> mbi.fitted_model(tables, iterations=50).project(("sex", "smokes")).datavector().shape
    (4,)
    """
    _check(tables)
    steps = _validate.count("iterations", iterations)
    module = _mbi()
    sizes = {name: len(labels) for name, labels in tables.columns.items()}
    domain = module.Domain.fromdict(sizes)
    measured = measurements(tables)
    tree, _ = module.junction_tree.make_junction_tree(domain, [each.clique for each in measured])
    largest = max(math.prod(sizes[name] for name in clique) for clique in tree.nodes)
    if largest > _MOST_CELLS:
        raise InvalidParameter(
            f"tables must fit into a model with cliques of at most {_MOST_CELLS} cells, got {largest}: measure fewer "
            "tables that overlap, such as those of one column with each other"
        )
    total = max(float(tables.table(())), 1.0)
    with _double():
        return module.estimation.MirrorDescent().estimate(domain, measured, known_total=total, iters=steps)


@suggesting
def synthetic_rows(
    tables: PrivateMarginals, num_rows: int | None = None, *, iterations: int = 1000
) -> dict[str, list[Any]]:
    """Return rows that nobody is, whose tables are close to private ones.

    They follow from what was released: the guarantee is that of the tables, and nothing is charged. They are no better
    than the tables: what was not measured, such as a dependence of columns that are in no table together, is not in
    them, and their noise is. Intervals are those of the tables, not of the rows.

    Parameters
    ----------
    tables, iterations
        As for `fitted_model`.
    num_rows : int, optional
        How many; by default the number that was released, rounded, at least one.

    Returns
    -------
    dict of str to list
        Columns with public values: categories, and the names of bins. None where a value was missing or not public.

    Raises
    ------
    InvalidParameter, InvalidType, MissingPackage
        As for `fitted_model`.

    Examples
    --------
    >>> import ferrodp as fd
    >>> from ferrodp.integrations import mbi
    >>> frame = {"sex": ["f", "m"] * 500, "smokes": [True, False, False, False] * 250}
    >>> public = {"sex": ["f", "m"], "smokes": [False, True]}
    >>> tables = fd.private_marginals(frame, 2, categories=public, epsilon=1.0, delta=1e-6)
    >>> rows = mbi.synthetic_rows(tables, 100, iterations=50)
    >>> len(rows["sex"]), set(rows["smokes"]) <= {False, True}
    (100, True)
    """
    wanted = None if num_rows is None else _validate.count("num_rows", num_rows, maximum=2**31)
    model = fitted_model(tables, iterations=iterations)
    size = max(round(float(tables.table(()))), 1) if wanted is None else wanted
    with _double():
        codes = model.synthetic_data(size).to_dict()
    return {name: [labels[code] for code in codes[name].tolist()] for name, labels in tables.columns.items()}


@dataclasses.dataclass(frozen=True)
class _Residual:
    """What a table says beyond its margins; a contraction, so that its squared norm is 1."""

    sizes: tuple[int, ...]

    use_for_total_estimation = False

    def __call__(self, factor: Any) -> Any:
        table = factor.datavector().reshape(self.sizes)
        for axis in range(len(self.sizes)):
            # mutant: synthetic-rows-follow-margins-twice
            table = table - table.mean(axis=axis, keepdims=True)
        return table.reshape(-1)

    def op_norm_sq(self) -> float:
        """Return the largest factor by which a squared length grows."""
        return 1.0


def _check(tables: object) -> None:
    if not isinstance(tables, PrivateMarginals):
        raise InvalidType(f"tables must be PrivateMarginals, got {type(tables).__name__}; fd.private_marginals(...)")


def _mbi() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of single precision, which is not used here
        try:
            import mbi  # type: ignore[import-not-found,unused-ignore]
        except ImportError:
            raise MissingPackage('synthetic rows need mbi: pip install "ferrodp[synthetic]"') from None
    return mbi


def _double() -> contextlib.AbstractContextManager[Any]:
    import jax  # type: ignore[import-not-found,unused-ignore]

    found: contextlib.AbstractContextManager[Any] = jax.enable_x64(True)
    return found


_public.install_in(__name__)
