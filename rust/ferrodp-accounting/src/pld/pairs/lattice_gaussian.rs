//! Sums of Gaussian densities over integers, each with a bound on its relative error.

use crate::functions::{UNIT, exp, normal, twofold::Twofold};

/// The discrete Gaussian law of scale σ on the integers from −cut to cut.
#[derive(Clone, Copy, Debug)]
pub struct LatticeGaussian {
    scale: f64,
    cut: f64,
    /// What the densities φ(x/σ)/σ add up to on −cut, …, cut.
    total: f64,
    /// The law's share of the one that is not cut.
    kept: f64,
}

/// B₂ᵣ(½)/(2r)! for r = 1, …, 10, from B₂ᵣ(½) = (2^{1−2r} − 1)·B₂ᵣ.
const MIDPOINT_COEFFICIENTS: [f64; 10] = [
    -4.166_666_666_666_666_4e-2,
    1.215_277_777_777_777_8e-3,
    -3.203_538_359_788_359_5e-5,
    8.202_608_300_264_551e-7,
    -2.083_598_207_187_616_8e-8,
    5.281_609_967_721_337e-10,
    -1.338_090_292_026_833_5e-11,
    3.389_576_851_489_321e-13,
    -8.585_996_549_822_947e-15,
    2.174_864_550_325_223e-16,
];

impl LatticeGaussian {
    /// Bound on the relative error of every sum.
    ///
    /// The interval's mass 128 ([`normal::MASS_ERROR`]), the corrections at its ends 8, σ and θ 16.
    pub const RELATIVE_ERROR: f64 = 160.0 * UNIT;

    /// Returns the law for a scale, finite and > 0, and a cut, a whole number ≥ 0 or infinite.
    #[must_use]
    pub fn new(scale: f64, cut: f64) -> Self {
        let theta = theta(scale);
        let law = Self { scale, cut, total: 1.0, kept: 1.0 };
        if cut == f64::INFINITY {
            return Self { total: theta, ..law };
        }
        let total = law.sum(-cut, cut, 0.0);
        Self { total, kept: total / theta, ..law }
    }

    /// Returns the mass that the law without a cut has between −cut and cut.
    #[must_use]
    pub fn kept(&self) -> f64 {
        self.kept
    }

    /// Returns e^c·P[from ≤ X ≤ to]; the ends are whole numbers or infinite, within ±cut.
    #[must_use]
    pub fn sum(&self, from: f64, to: f64, c: f64) -> f64 {
        let (from, to) = (from.max(-self.cut), to.min(self.cut));
        let sum = if from > to {
            0.0
        } else if from >= 0.0 {
            self.falling(from, to, c)
        } else if to <= 0.0 {
            self.falling(-to, -from, c)
        } else {
            self.falling(0.0, to, c) + self.falling(1.0, -from, c)
        };
        sum / self.scale / self.total
    }

    /// Returns e^c·Σ φ(x/σ) over 0 ≤ from ≤ x ≤ to.
    fn falling(&self, from: f64, to: f64, c: f64) -> f64 {
        // the midpoint form needs (x/σ + 3)/2πσ ≤ ⅛ at the far end, beyond which 2·10⁻³⁵⁰ of the density is left at most
        let far = to.min(from + 40.0 * self.scale);
        if to - from >= 16.0 && (far / self.scale + 3.0) <= 0.785 * self.scale {
            self.midpoint(from, to, c)
        } else {
            self.direct(from, to, c)
        }
    }

    /// Adds term after term; those left out are below 2⁻⁷⁰ of the sum, being less than a geometric series.
    fn direct(&self, from: f64, to: f64, c: f64) -> f64 {
        let mut sum = Twofold::from(0.0);
        let mut x = from;
        while x <= to {
            let term = normal::density(Twofold::quotient(x, self.scale), c);
            sum = sum.plus(Twofold::from(term));
            let gap = ((x + 0.5) / self.scale / self.scale).min(1.0); // −ln of the next ratio, cut at 1
            if term <= sum.high * 4e-22 * gap {
                break;
            }
            x += 1.0;
        }
        sum.float()
    }

    /// The Euler–Maclaurin formula at midpoints: σ∫φ from (from − ½)/σ to (to + ½)/σ and ten corrections at the ends.
    ///
    /// The n-th derivative of φ(x/σ) is (−1)ⁿHeₙ(x/σ)φ(x/σ)/σⁿ, so that the remainder is at most |B₂₀|/20!·∫|f⁽²⁰⁾| ≤
    /// 2(2π)⁻²⁰·((x/σ + 2.8)/σ)²⁰ ≤ 2·8⁻²⁰ of the integral: |He₂₀(t)| = |E(t + iZ)²⁰| ≤ (t + 2.8)²⁰ by Minkowski, as
    /// (E Z²⁰)^{1/20} < 2.8. Beyond 40σ from its start the integrand is left to the integral itself.
    fn midpoint(&self, from: f64, to: f64, c: f64) -> f64 {
        let (a, b) = (Twofold::quotient(from - 0.5, self.scale), Twofold::quotient(to + 0.5, self.scale));
        let integral = self.scale * normal::between(a, b, c);
        integral + (self.corrections(b, c) - self.corrections(a, c))
    }

    /// Returns Σᵣ B₂ᵣ(½)/(2r)!·f⁽²ʳ⁻¹⁾ at one end.
    fn corrections(&self, t: Twofold, c: f64) -> f64 {
        let density = normal::density(t, c);
        if density == 0.0 {
            return 0.0;
        }
        let (step, inverse) = (t.high / self.scale, 1.0 / (self.scale * self.scale));
        let (mut before, mut last, mut sum, mut n) = (1.0, step, 0.0, 1.0); // Heₙ(t)/σⁿ
        for coefficient in MIDPOINT_COEFFICIENTS {
            sum -= coefficient * last;
            for _ in 0..2 {
                (before, last) = (last, step * last - n * inverse * before);
                n += 1.0;
            }
        }
        density * sum
    }
}

/// Returns Σ φ(x/σ)/σ over all integers: 1 + 2Σ e^{−2π²σ²k²} by Poisson summation, or term by term where σ is small.
fn theta(scale: f64) -> f64 {
    const TWO_PI_SQUARED: f64 = 19.739_208_802_178_716;
    const ROOT_TWO_PI: f64 = 2.506_628_274_631_000_2;
    let (rate, factor) = if scale >= 0.4 {
        (TWO_PI_SQUARED * scale * scale, 1.0)
    } else {
        (0.5 / scale / scale, 1.0 / (scale * ROOT_TWO_PI))
    };
    factor * (1.0 + 2.0 * (1..=5).map(|k| exp(-rate * f64::from(k * k))).sum::<f64>())
}
