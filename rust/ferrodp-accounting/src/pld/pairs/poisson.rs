//! Poisson sampling of any pair: P′ = q·P + (1 − q)·Q, Q′ = Q.

use crate::functions::{UNIT, exp, expm1, ln, ln_1p};
use crate::pld::pair::{LossPair, Mass};

/// A pair whose record takes part with probability q: the direction in which it is removed.
///
/// The other direction, added, is [`super::Reversed`] of this one. The loss becomes ℓ′ = ln(1 + q(e^ℓ − 1)), never below
/// ln(1 − q) (Zhu, Dong, Wang, "Optimal accounting of differential privacy via characteristic function", AISTATS 2022,
/// Proposition 30 and Theorem 11).
///
/// # Numerics
///
/// Boundaries are mapped back by ℓ = ln(1 + (e^ℓ′ − 1)/q). With `u = 2⁻⁵³`: for q ≤ ½ the argument 1 + x has an error of
/// `10u·|x|`, and dℓ′/dℓ = q·e^ℓ/e^ℓ′, so that ℓ′ is off by `10u·q|x|/e^ℓ′ ≤ 10u`; for q > ½ it is (e^ℓ′ − (1 − q))/q, whose
/// numerator is off by `9u·e^ℓ′`: again `10u`. The logarithm adds `9u·|ℓ|·dℓ′/dℓ`, at most `9u(|ℓ′| + ln(1/q) + 1)`.
/// An error of the unsampled pair, relative to |ℓ|, is multiplied by dℓ′/dℓ too: at most 2 + ln(1/q) times max(1, |ℓ′|).
/// Masses are sums of positive products: three more roundings.
pub struct PoissonSampled<T> {
    pair: T,
    probability: f64,
    complement: f64,
    log_probability: f64,
    lowest: f64,
}

impl<T: LossPair> PoissonSampled<T> {
    /// Returns the pair for 0 < q ≤ 1.
    #[must_use]
    pub fn new(probability: f64, pair: T) -> Self {
        Self {
            pair,
            probability,
            complement: 1.0 - probability,
            log_probability: ln(probability),
            lowest: ln_1p(-probability),
        }
    }

    /// Returns the loss of the unsampled pair that becomes `loss`; −∞ if none does.
    fn unsampled(&self, loss: f64) -> f64 {
        if loss > 30.0 {
            // ln((e^ℓ′ − (1 − q))/q); the factor is within 2u·10⁻¹³ of its exact value
            return loss - self.log_probability + ln_1p(-self.complement * exp(-loss));
        }
        if self.probability <= 0.5 {
            let shift = expm1(loss) / self.probability;
            return if shift > -1.0 { ln_1p(shift) } else { f64::NEG_INFINITY };
        }
        let ratio = (exp(loss) - self.complement) / self.probability;
        if ratio > 0.0 { ln(ratio) } else { f64::NEG_INFINITY }
    }

    /// Returns the loss that `loss` of the unsampled pair becomes.
    fn sampled(&self, loss: f64) -> f64 {
        if loss > 30.0 {
            loss + self.log_probability + ln_1p(self.complement / self.probability * exp(-loss))
        } else {
            ln_1p(self.probability * expm1(loss))
        }
    }

    /// Moves ends outward by more than the errors of the map.
    fn widened(&self, low: f64, high: f64) -> (f64, f64) {
        let slack = |loss: f64| 4.0 * self.loss_error() * loss.abs().max(1.0);
        (low - slack(low), high + slack(high))
    }

    /// Returns a loss of the unsampled pair up to which Q has at most x; none that is finite where −∞ becomes ln(1 − q).
    fn lowest_under_q(&self, x: f64) -> f64 {
        let bottom = if self.complement > 0.0 { self.pair.negative_infinite() } else { 0.0 };
        if bottom > x { f64::NEG_INFINITY } else { self.pair.range_under_q(x - bottom).0 }
    }

    /// Returns a loss ≥ 0 above which the mass of q·P + (1 − q)·Q is at most x; `p_range(y)` gives one for P and y.
    fn highest(&self, x: f64, p_range: impl Fn(f64) -> f64) -> f64 {
        // the mass above H ≥ 0 is at most (q + (1 − q)e^{−H})·P[L > H]
        let guess = p_range((x / self.probability).min(1.0)).max(0.0);
        let factor = self.probability + self.complement * exp(-guess);
        p_range((x / factor * (1.0 - 1e-12)).min(1.0)).max(guess)
    }
}

impl<T: LossPair> LossPair for PoissonSampled<T> {
    fn mass(&self, lower: f64, upper: f64) -> Mass {
        self.scaled(lower, upper, (0.0, 0.0))
    }

    fn scaled(&self, lower: f64, upper: f64, (p_exponent, q_exponent): (f64, f64)) -> Mass {
        let (a, b) = (self.unsampled(lower), self.unsampled(upper));
        // Q is wanted with both factors: it is taken with the larger one, so that neither underflows before its time
        let larger = p_exponent.max(q_exponent);
        let mut inner =
            if b == f64::NEG_INFINITY { Mass::default() } else { self.pair.scaled(a, b, (p_exponent, larger)) };
        let bottom = self.pair.negative_infinite();
        if bottom > 0.0 && a == f64::NEG_INFINITY && b > f64::NEG_INFINITY {
            inner.q += bottom * exp(larger); // losses of −∞ become ln(1 − q)
        }
        let with = |exponent: f64| if exponent == larger { inner.q } else { inner.q * exp(exponent - larger) };
        Mass { p: self.probability * inner.p + self.complement * with(p_exponent), q: with(q_exponent) }
    }

    fn infinite(&self) -> f64 {
        self.probability * self.pair.infinite()
    }

    fn negative_infinite(&self) -> f64 {
        if self.complement > 0.0 { 0.0 } else { self.pair.negative_infinite() }
    }

    /// Two products, a sum, the complement and the factor between the exponents: 13 roundings with those of its `exp`.
    fn relative_error(&self) -> f64 {
        self.pair.relative_error() + 16.0 * UNIT
    }

    fn loss_error(&self) -> f64 {
        let reach = 1.0 - self.log_probability;
        (10.0 + 9.0 * (1.0 + reach)) * UNIT + self.pair.loss_error() * (1.0 + reach)
    }

    fn range(&self, x: f64) -> (f64, f64) {
        // below 0 P ≤ Q, so that Q bounds the lower tail of the mixture
        let low = self.lowest_under_q(x).min(0.0);
        let high = self.highest(x, |y| self.pair.range(y).1);
        self.widened(self.sampled(low).max(self.lowest), self.sampled(high))
    }

    fn range_under_q(&self, x: f64) -> (f64, f64) {
        let (low, high) = (self.lowest_under_q(x), self.pair.range_under_q(x).1);
        self.widened(self.sampled(low).max(self.lowest), self.sampled(high))
    }

    fn support(&self) -> (f64, f64) {
        let (low, high) = self.pair.support();
        let bottom = if low > f64::NEG_INFINITY { self.sampled(low) } else { self.lowest };
        let top = if high < f64::INFINITY { self.sampled(high) } else { high };
        let (bottom, _) = self.widened(if self.pair.negative_infinite() > 0.0 { self.lowest } else { bottom }, 0.0);
        (bottom, self.widened(0.0, top).1)
    }

    fn effort(&self) -> f64 {
        self.pair.effort() + 0.5
    }

    fn lattice(&self) -> Option<(f64, f64)> {
        None
    }
}
