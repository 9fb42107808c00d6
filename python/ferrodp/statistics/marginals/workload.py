r"""Which tables are measured, and with what noise: the residual basis and the least total error [XHK23].

*Notation.* Column i has :math:`n_i` cells, S is a set of columns, :math:`m_S` the table of counts over S. Let
:math:`P_S = \bigotimes_{i \in S} (I - J/n_i)`, J the matrix of ones: what a table says beyond its margins, its
*residual*. A table A is the sum over :math:`S \subseteq A` of :math:`P_S m_S`, spread evenly over the other columns of
A: by :math:`I = (I - J/n) + J/n` on each axis.

*Measured* are integers: :math:`q_S = w_S \bigotimes_{i \in S} (n_i I - J)\, m_S`, with whole numbers :math:`w_S`, for
all S within a table of the workload. One row adds a column of the matrix, whose squared L2 norm is
:math:`w_S^2 \prod_i ((n_i - 1)^2 + (n_i - 1)) = w_S^2 \prod_i n_i (n_i - 1)`, for every row the same. So the sum of
these numbers is the squared L2 sensitivity of all that is measured, exactly, and Gaussian noise of one deviation s
serves all.

*Variance.* :math:`q_S / (w_S \prod n_i) = P_S m_S` plus noise of deviation :math:`\sigma_S = s / (w_S \prod n_i)`, of
which only the part in the image of :math:`P_S` is used. A cell of A then has the variance

.. math:: \sum_{S \subseteq A} \sigma_S^2 \prod_{i \in S} (1 - 1/n_i) \prod_{i \in A \setminus S} n_i^{-2}.

*Least error.* With :math:`p_S = \prod_{i \in S} (1 - 1/n_i)` a workload with weights c costs
:math:`\sum_S v_S \sigma_S^2`, where
:math:`v_S = p_S \sum_{A \supseteq S} c_A |A| \prod_{i \in A \setminus S} n_i^{-2}` and \|A\| is the number of cells,
under a fixed :math:`\sum_S p_S / \sigma_S^2`. By the inequality of Cauchy and Schwarz the least is
:math:`(\sum_S \sqrt{v_S p_S})^2` over that number, at :math:`\sigma_S^2 \propto \sqrt{p_S / v_S}`. It is the least of
all linear mechanisms with Gaussian noise: it meets the bound of [LM13] on singular values.

References
----------
[LM13] Li, Miklau, "Optimal error of query sets under the differentially-private matrix mechanism", ICDT 2013.
[XHK23] Xiao, He, Zhang, Kifer, "An optimal and scalable matrix mechanism for noisy marginals under convex loss
functions", NeurIPS 2023, Sections 4 and 5.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp._numerics.rounding import sqrt_up
from ferrodp.errors import InvalidParameter, InvalidType

__all__: list[str] = []

Set = tuple[int, ...]
MAX_CELLS = 10**7
"""The most cells that one table may have."""
_MAX_TABLES = 10**5
_NORM = 2**30 - 1
"""The most that one row may move all that is measured: then no sum over 2³² rows is beyond 2⁶²."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The sets of columns that are measured, smaller ones first, with the weight w of each.

    `squared_norm` is the squared L2 norm of what one row adds, and `squared_distance` an upper bound for what one that
    is replaced by another moves.
    """

    sizes: tuple[int, ...]
    weights: dict[Set, int]
    workload: tuple[Set, ...]

    def cells(self, of: Set) -> int:
        """Return the number of cells of a table."""
        return math.prod(self.sizes[i] for i in of)

    @property
    def dimension(self) -> int:
        """How many integers are measured."""
        return sum(self.cells(of) for of in self.weights)

    @property
    def squared_norm(self) -> int:
        """The squared L2 norm of what one row adds to all that is measured."""
        # mutant: residuals-of-a-table-cost-as-much-as-one
        return sum(w * w * math.prod(self.sizes[i] * (self.sizes[i] - 1) for i in of) for of, w in self.weights.items())

    @property
    def norm(self) -> float:
        """The root of `squared_norm`, rounded up; 2²⁹ where that is less, as rounded weights may have it."""
        return max(sqrt_up(Fraction(self.squared_norm)), 2.0**29)

    @property
    def squared_distance(self) -> int:
        r"""The squared L2 distance that one row which is replaced moves all that is measured, at most.

        Two rows that differ in the columns D of S have columns of the matrix with the inner product
        :math:`\prod_{i \in S} n_i(n_i - 1) \prod_{i \in S \cap D} (-1/(n_i - 1))`, at least
        :math:`-1/(n - 1)` of the squared norm, with n the least :math:`n_i`. So the squared distance is at most
        2n/(n − 1) times the squared norm; the empty set counts rows, whose number stays. A row that counts nowhere may
        take the place of one that counts: that distance is `squared_norm`.
        """
        apart = 0
        for of, w in self.weights.items():
            if of:
                least = min(self.sizes[i] for i in of)
                norm = math.prod(self.sizes[i] * (self.sizes[i] - 1) for i in of)
                # mutant: replaced-row-moves-residuals-as-a-new-one
                apart += 2 * w * w * norm // (least - 1) * least
        return max(apart, self.squared_norm)

    def deviation(self, of: Set, scale: float) -> float:
        """Return σ of a residual, given the scale of the noise of what is measured."""
        return scale / (self.weights[of] * self.cells(of))

    def variance(self, table: Set, scale: float) -> float:
        """Return the variance of each cell of a table: the module docstring."""
        found = 0.0
        for of in subsets(table):
            rest = math.prod(self.sizes[i] for i in table if i not in of)
            kept = math.prod(1.0 - 1.0 / self.sizes[i] for i in of)
            found += self.deviation(of, scale) ** 2 * kept / rest**2
        return found


def subsets(table: Set) -> Iterable[Set]:
    """Yield all subsets, smaller ones first, each in ascending order."""
    return itertools.chain.from_iterable(itertools.combinations(table, size) for size in range(len(table) + 1))


def plan(sizes: tuple[int, ...], workload: dict[Set, float]) -> Measured:
    """Return what is measured for the least total error of a workload, a mapping from tables to their weights."""
    factor = dict.fromkeys(sorted({of for table in workload for of in subsets(table)}, key=lambda s: (len(s), s)), 0.0)
    for table, weight in workload.items():
        total = math.prod(sizes[i] for i in table)
        for of in subsets(table):
            rest = math.prod(sizes[i] for i in table if i not in of)
            factor[of] += weight * total / rest / rest
    # σ_S^−2 ∝ √(v_S/p_S), and v_S/p_S is the sum over the tables: w_S·∏n ∝ 1/σ_S
    inverse = {of: each**0.25 for of, each in factor.items()}
    norm = math.sqrt(sum(each**2 * math.prod(1.0 - 1.0 / sizes[i] for i in of) for of, each in inverse.items()))
    reach = float(_NORM)
    while True:
        weights = {
            of: max(round(reach * (each / norm) / math.prod(sizes[i] for i in of)), 1) for of, each in inverse.items()
        }
        found = Measured(sizes, weights, tuple(workload))
        if found.squared_norm <= _NORM**2:
            return found
        if max(weights.values()) == 1:
            raise InvalidParameter(
                f"workload must be of fewer or smaller tables, got {found.dimension} numbers, too many for one "
                "measurement; measure some of them at a time"
            )
        reach *= 0.99


def tables_of(workload: object, weights: object, names: tuple[str, ...], sizes: tuple[int, ...]) -> dict[Set, float]:
    """Return the tables of a workload, as sorted places of their columns, with their weights."""
    given: list[tuple[str, ...]]
    if isinstance(workload, bool) or not isinstance(workload, (int, list, tuple, set, frozenset)):
        raise InvalidType(
            "workload must be a number of columns, for all tables of so many, or a list of tuples of names, got "
            f'{type(workload).__name__}; as in 2 or [("sex", "age"), ("region",)]'
        )
    if isinstance(workload, int):
        width = _validate.count("workload", workload, maximum=len(names))
        if math.comb(len(names), width) > _MAX_TABLES:
            raise InvalidParameter(f"workload must be of at most {_MAX_TABLES} tables")
        given = list(itertools.combinations(names, width))
    else:
        given = [(each,) if isinstance(each, str) else each for each in workload]
    found: dict[Set, float] = {}
    for each in given:
        places = places_of(each, names)
        if not places or places in found:
            raise InvalidParameter(
                f"workload must name different tables of at least one column, got {_validate.shown(each)}"
                + (" twice" if places else "")
            )
        cells = math.prod(sizes[i] for i in places)
        if cells > MAX_CELLS:
            raise InvalidParameter(
                f"each table of the workload must have at most {MAX_CELLS} cells, got {cells} in "
                f"{_validate.shown(each)}; use fewer bins or columns"
            )
        found[places] = 1.0
    if not 0 < len(found) <= _MAX_TABLES:
        raise InvalidParameter(f"workload must be of 1 to {_MAX_TABLES} tables, got {len(found)}")
    if weights is not None:
        if not isinstance(weights, Mapping):
            raise InvalidType(f"weights must be a dict from tables to numbers, got {type(weights).__name__}")
        for each, weight in weights.items():
            places = places_of((each,) if isinstance(each, str) else each, names)
            if places not in found:
                raise InvalidParameter(f"weights must be of tables of the workload, got {_validate.shown(each)}")
            found[places] = _weight(weight)
    return found


def _weight(weight: Real) -> float:
    checked = _validate.positive("weights", weight)
    if not 1e-12 <= checked <= 1e12:
        raise _validate.out_of_domain("weights", "from 1e-12 to 1e12", weight)
    return checked


def places_of(table: object, names: tuple[str, ...]) -> Set:
    """Return the places of columns, in ascending order."""
    if not isinstance(table, tuple):
        raise InvalidType(f'a table is a tuple of names of columns, got {type(table).__name__}; as in ("sex", "age")')
    for name in table:
        if name not in names:
            meant = _validate.nearest(str(name), names)
            raise InvalidParameter(
                f"a table must be of columns of categories or bins, {', '.join(names)}, got "
                f"{_validate.shown(name)}{meant}"
            )
    if len(set(table)) != len(table):
        raise InvalidParameter(f"a table must name different columns, got {_validate.shown(table)}")
    return tuple(sorted(names.index(name) for name in table))
