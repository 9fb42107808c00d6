//! All Rényi curves under one name.

pub(super) mod closed_forms;
pub(super) mod closed_sum;
pub(super) mod discrete;
pub(super) mod poisson_gaussian;
pub(super) mod replaced;
pub(super) mod shifted;

use ferrodp_core::Isa;

use crate::functions::UNIT;
use crate::types::Bounds;

use discrete::Discrete;
use poisson_gaussian::PoissonGaussian;
use replaced::PoissonReplaced;
use shifted::Shifted;

/// A release's Rényi divergence as a function of the order.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Curve {
    /// `αρ`; `ρ` within so many units of 2⁻⁵³.
    Linear {
        /// The slope, ≥ 0.
        rho: f64,
        /// How far it may be from what is meant.
        units: f64,
    },
    /// Laplace noise with this `ε₀`.
    Laplace(f64),
    /// A loss of bounded range.
    BoundedRange(f64),
    /// Discrete Gaussian noise in one dimension.
    DiscreteGaussian {
        /// In steps of the lattice.
        sigma: f64,
        /// An integer, in the same steps.
        sensitivity: f64,
    },
    /// The largest of several pairs with finitely many losses.
    Discrete(Vec<Discrete>),
    /// A Poisson-sampled Gaussian.
    PoissonGaussian(Box<PoissonGaussian>),
    /// Gaussian noise with a random shift.
    Shifted(Box<Shifted>),
    /// The same as a Poisson-sampled Gaussian if one record is replaced by another.
    PoissonReplaced(Box<PoissonReplaced>),
}

impl Curve {
    /// Returns the curve of Gaussian noise with that multiplier.
    #[must_use]
    pub fn gaussian(noise_multiplier: f64) -> Self {
        let s = (1.0 / noise_multiplier).next_up();
        Self::Linear { rho: (0.5 * s * s).next_up(), units: 8.0 }
    }

    /// Returns the curve of Laplace noise with that multiplier.
    #[must_use]
    pub fn laplace(noise_multiplier: f64) -> Self {
        Self::Laplace((1.0 / noise_multiplier).next_up())
    }

    /// Returns the curve of whatever is ε-differentially private.
    #[must_use]
    pub fn pure(epsilon: f64) -> Self {
        if epsilon == 0.0 {
            Self::Linear { rho: 0.0, units: 0.0 }
        } else {
            Self::Discrete(vec![Discrete::pure(epsilon)])
        }
    }

    /// Returns the curve of discrete Laplace noise; with a very large sensitivity, that of its ε.
    #[must_use]
    pub fn discrete_laplace(scale: f64, sensitivity: u64) -> Self {
        let a = (1.0 / scale).next_up();
        match Discrete::discrete_laplace(a, sensitivity) {
            _ if sensitivity == 0 => Self::pure(0.0),
            Some(pair) => Self::Discrete(vec![pair]),
            None => Self::pure((a * sensitivity as f64).next_up()),
        }
    }

    /// Returns the curve of a Poisson sample of this release, `0 < q < 1`, where that is known: for noise added to a sum, and
    /// whatever is ε-private, if a record is added or removed, or replaced by nothing.
    #[must_use]
    pub fn sampled(&self, q: f64) -> Option<Self> {
        let Self::Discrete(pairs) = self else { return None };
        let [pair] = pairs.as_slice() else { return None };
        pair.sampled(q).map(Self::Discrete)
    }

    /// Returns a curve no lower than that of Laplace noise, whose Poisson samples are known: discrete Laplace noise whose
    /// lattice divides the sensitivity by `parts`.
    ///
    /// Connecting the dots of δ(ε) at the losses `ε₀(2x/n − 1)` gives a pair that dominates (Doroshenko, Ghazi, Kamath, Kumar,
    /// Manurangsi, "Connect the dots", PETS 2022, Theorem 3.3); for Laplace noise that pair is the discrete Laplace one with
    /// inverse scale `ε₀/n` and sensitivity `n`. The excess is about `1/n²` of the whole.
    #[must_use]
    pub fn laplace_in_parts(noise_multiplier: f64, parts: u64) -> Self {
        let a = ((1.0 / noise_multiplier).next_up() / parts as f64).next_up();
        match Discrete::discrete_laplace(a, parts) {
            Some(pair) => Self::Discrete(vec![pair]),
            None => Self::Linear { rho: f64::INFINITY, units: 0.0 },
        }
    }

    /// Writes bounds on `ρ(α)` for every order, `1 ≤ α ≤ ∞`. Each depends on its own order alone.
    ///
    /// # Panics
    /// If `orders` and `bounds` differ in length.
    pub fn bounds(&mut self, isa: Isa, orders: &[f64], bounds: &mut [Bounds]) {
        assert_eq!(orders.len(), bounds.len(), "one result an order");
        let mut each = |value: &dyn Fn(f64) -> Bounds| {
            for (bounds, &order) in bounds.iter_mut().zip(orders) {
                *bounds = value(order);
            }
        };
        match self {
            Self::Linear { rho, units } => each(&|order| closed_forms::linear(*rho, *units, order)),
            Self::Laplace(epsilon) => each(&|order| closed_forms::laplace(*epsilon, order)),
            Self::BoundedRange(epsilon) => each(&|order| closed_forms::bounded_range(*epsilon, order)),
            Self::DiscreteGaussian { sigma, sensitivity } => {
                each(&|order| closed_forms::discrete_gaussian(*sigma, *sensitivity, order));
            }
            Self::Shifted(curve) => {
                for (bounds, &order) in bounds.iter_mut().zip(orders) {
                    *bounds = Bounds { lower: 0.0, upper: curve.rate(order) };
                }
            }
            Self::PoissonGaussian(curve) => curve.bounds(isa, orders, bounds),
            Self::PoissonReplaced(curve) => curve.bounds(isa, orders, bounds),
            Self::Discrete(pairs) => {
                bounds.fill(Bounds::ZERO);
                let mut one = vec![Bounds::ZERO; orders.len()];
                for pair in pairs {
                    pair.bounds(isa, orders, &mut one);
                    for (bounds, &found) in bounds.iter_mut().zip(&one) {
                        *bounds = bounds.max(found);
                    }
                }
            }
        }
    }
}

/// Adds `count` times the upper bounds to `rho`. Zero times infinity is nothing, either way; what is not a number stays that
/// and proves nothing later.
pub fn add(rho: &mut [f64], bounds: &[Bounds], count: f64) {
    if count > 0.0 {
        for (rho, bounds) in rho.iter_mut().zip(bounds) {
            *rho += if bounds.upper == 0.0 { 0.0 } else { count * bounds.upper };
        }
    }
}

/// Rounds a sum of so many products up: one unit for each product and each addition.
pub fn rounded_up(rho: &mut [f64], parts: usize) {
    for rho in rho {
        *rho *= 1.0 + (parts as f64 + 3.0) * UNIT;
    }
}
