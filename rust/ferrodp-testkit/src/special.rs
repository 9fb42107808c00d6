//! Tails of the normal, chi-square, Poisson and Kolmogorov laws in `f64`, with stated accuracy.
//!
//! Nothing here is fast or clever. Each function says how wrong it may be, and a p-value that is off by a millionth of
//! itself changes no verdict. Formula numbers are those of Abramowitz and Stegun, *Handbook of Mathematical Functions*.

use core::f64::consts::PI;

/// Returns `P[Z > x]` for a standard normal Z; relative error below 1e-13 up to x = 37.
#[must_use]
pub fn normal_tail(x: f64) -> f64 {
    if x < 0.0 {
        return 1.0 - normal_tail(-x);
    }
    let density = (-0.5 * x * x).exp() / (2.0 * PI).sqrt();
    if x < 2.5 {
        // 26.2.11: Φ(x) − ½ = φ(x) Σ x^(2k+1) / (2k+1)!!, all terms positive; at x = 2.5 the 60th is below 1e-40.
        let (mut term, mut sum) = (x, x);
        for k in 1..60 {
            term *= x * x / f64::from(2 * k + 1);
            sum += term;
        }
        0.5 - density * sum
    } else {
        // 26.2.14: φ(x) / (x + 1/(x + 2/(x + 3/(x + …)))), which has settled to 1e-15 after 40 levels at x = 2.5.
        let fraction = (1..=100).rev().fold(x, |below, k| x + f64::from(k) / below);
        density / fraction
    }
}

/// Returns the chance that a standard normal is at least as far from zero as `score`.
#[must_use]
pub fn two_sided(score: f64) -> f64 {
    (2.0 * normal_tail(score.abs())).min(1.0)
}

/// Returns ln Γ(x) for x > 0; error below 1e-14 · max(1, |ln Γ(x)|).
#[must_use]
pub fn ln_gamma(x: f64) -> f64 {
    debug_assert!(x > 0.0, "ln Γ is wanted for positive arguments alone");
    // Γ(x) = Γ(x + k) / (x (x + 1) … (x + k − 1)), then 6.1.41, whose first omitted term is below 1e-16 from 16 on.
    let (mut shifted, mut product) = (x, 1.0);
    while shifted < 16.0 {
        product *= shifted;
        shifted += 1.0;
    }
    let inverse_square = 1.0 / (shifted * shifted);
    let coefficients = [1.0 / 12.0, -1.0 / 360.0, 1.0 / 1260.0, -1.0 / 1680.0, 1.0 / 1188.0, -691.0 / 360_360.0];
    let series = coefficients.iter().rev().fold(0.0, |sum, c| sum * inverse_square + c) / shifted;
    (shifted - 0.5) * shifted.ln() - shifted + 0.5 * (2.0 * PI).ln() + series - product.ln()
}

/// Returns (P(a, x), Q(a, x)), the regularized incomplete gamma functions; relative error of the smaller one below
/// 1e-9 for a ≤ 10⁵ (the exponent a ln x − x − ln Γ(a) loses that much to cancellation).
#[must_use]
pub fn gamma_regularized(a: f64, x: f64) -> (f64, f64) {
    if x <= 0.0 {
        return (0.0, 1.0);
    }
    let front = (a * x.ln() - x - ln_gamma(a)).exp();
    if x < a + 1.0 {
        // 6.5.29: P = x^a e^−x Σ xⁿ / (a (a + 1) … (a + n)) / Γ(a).
        let (mut term, mut sum, mut n) = (1.0 / a, 1.0 / a, a);
        while term > sum * 1e-17 {
            n += 1.0;
            term *= x / n;
            sum += term;
        }
        let lower = (front * sum).min(1.0);
        (lower, 1.0 - lower)
    } else {
        // 6.5.31, in its even part, evaluated by Lentz's method.
        let mut b = x + 1.0 - a;
        let (mut c, mut d) = (1e300, 1.0 / b);
        let mut fraction = d;
        for k in 1..1_000_000 {
            let k = f64::from(k);
            let numerator = -k * (k - a);
            b += 2.0;
            d = 1.0 / (numerator * d + b);
            c = b + numerator / c;
            fraction *= c * d;
            if (c * d - 1.0).abs() < 1e-15 {
                break;
            }
        }
        let upper = (front * fraction).min(1.0);
        (1.0 - upper, upper)
    }
}

/// Returns P[X ≥ statistic] for a chi-square law.
#[must_use]
pub fn chi_square_tail(statistic: f64, degrees_of_freedom: usize) -> f64 {
    gamma_regularized(0.5 * degrees_of_freedom as f64, 0.5 * statistic).1
}

/// Returns twice the smaller of P[K ≤ count] and P[K ≥ count] for a Poisson law, at most 1.
///
/// A count of rare events among n draws is binomial, less spread out than Poisson, so this errs toward large p-values.
#[must_use]
pub fn poisson_two_sided(count: u64, mean: f64) -> f64 {
    let at_least = if count == 0 { 1.0 } else { gamma_regularized(count as f64, mean).0 };
    let at_most = gamma_regularized(count as f64 + 1.0, mean).1;
    (2.0 * at_least.min(at_most)).min(1.0)
}

/// Returns the limit of P[√n · D ≥ x] for Kolmogorov's statistic D (*Giornale dell'Istituto Italiano degli Attuari*,
/// 1933); absolute error below 1e-12.
#[must_use]
pub fn kolmogorov_tail(x: f64) -> f64 {
    if x < 0.2 {
        return 1.0; // the true value differs from 1 by less than 1e-12
    }
    let terms = (1..=100).map(|k| {
        let sign = if k % 2 == 1 { 2.0 } else { -2.0 };
        sign * (-2.0 * f64::from(k * k) * x * x).exp()
    });
    terms.sum::<f64>().clamp(0.0, 1.0)
}

/// Returns P[A² ≥ statistic] for the limit of Anderson and Darling's statistic, `Σ Z_j²/(j(j + 1))`.
///
/// Up to 5: Marsaglia and Marsaglia, "Evaluating the Anderson-Darling distribution", 2004, within 2e-6. Beyond: the leading
/// term of the tail, that of `Z₁²/2` times `Π_{j ≥ 2} (1 − 2/(j(j + 1)))^−½ = √3`, which is 5.7 % too small at 5 and less
/// further out, times 1.06: it errs upward.
#[must_use]
pub fn anderson_darling_tail(statistic: f64) -> f64 {
    let z = statistic;
    if z <= 0.0 {
        return 1.0;
    }
    let polynomial = |coefficients: &[f64]| coefficients.iter().rev().fold(0.0, |sum, c| sum * z + c);
    let below = if z < 2.0 {
        let factor = polynomial(&[2.00012, 0.247_105, -0.064_982_1, 0.034_796_2, -0.011_672, 0.001_686_91]);
        (-1.233_714_1 / z).exp() / z.sqrt() * factor
    } else if z < 5.0 {
        (-polynomial(&[1.0776, -2.30695, 0.43424, -0.082_433, 0.008_056, -0.000_314_6]).exp()).exp()
    } else {
        return 1.06 * 2.0 * 3.0_f64.sqrt() * normal_tail((2.0 * z).sqrt());
    };
    (1.0 - below).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected values in this module: mpmath at 40 digits.
    fn assert_close(expected: f64, found: f64, relative: f64, what: impl core::fmt::Debug) {
        assert!((found - expected).abs() <= relative * expected.abs(), "{what:?}: {found:e} against {expected:e}");
    }

    #[test]
    fn normal_tails_have_thirteen_digits() {
        let expected = [
            (-3.0, 0.998_650_101_968_369_9),
            (-0.5, 0.691_462_461_274_013_1),
            (0.0, 0.5),
            (1e-8, 0.499_999_996_010_577_2),
            (0.25, 0.401_293_674_317_076_3),
            (1.0, 0.158_655_253_931_457_05),
            (2.4, 0.008_197_535_924_596_131),
            (2.6, 0.004_661_188_023_718_749),
            (3.0, 0.001_349_898_031_630_094_5),
            (4.763_001_034_267_814, 9.536_743_164_062_429e-7),
            (6.0, 9.865_876_450_376_982e-10),
            (9.080_155_124_873_613, 5.421_010_862_427_497_6e-20),
            (20.0, 2.753_624_118_606_233_7e-89),
            (37.0, 5.725_571_222_524_577e-300),
        ];
        for (x, p) in expected {
            assert_close(p, normal_tail(x), 1e-13, x);
        }
    }

    #[test]
    fn log_gamma_has_fourteen_digits() {
        let expected = [
            (0.5, 0.572_364_942_924_700_1),
            (1.5, -0.120_782_237_635_245_22),
            (7.0, 6.579_251_212_010_101),
            (10.25, 13.368_023_671_476_046),
            (511.5, 2_676.703_717_587_851),
            (6334.0, 49_108.397_004_518_6),
            (1e8, 1_742_068_066.103_834_7),
        ];
        for (x, value) in expected {
            assert!((ln_gamma(x) - value).abs() <= 1e-14 * value.abs().max(1.0), "{x}");
        }
        assert!(ln_gamma(1.0).abs() < 1e-14);
    }

    #[test]
    fn incomplete_gammas_have_nine_digits() {
        let expected = [
            (0.5, 0.1, 0.654_720_846_018_577),
            (0.5, 20.0, 2.539_628_589_470_865e-10),
            (7.5, 3.0, 0.979_747_746_717_813_4),
            (7.5, 30.0, 2.522_085_078_696_143_7e-7),
            (127.5, 100.0, 0.995_425_444_541_951_9),
            (127.5, 200.0, 1.660_002_524_412_451_8e-8),
            (511.5, 511.5, 0.494_120_089_867_273),
            (511.5, 700.0, 3.164_719_802_803_052e-14),
            (6334.0, 6000.0, 0.999_990_165_243_477),
            (6334.0, 6800.0, 5.273_059_680_379_097e-9),
        ];
        for (a, x, q) in expected {
            assert_close(q, gamma_regularized(a, x).1, 1e-9, (a, x));
        }
    }

    #[test]
    fn poisson_tails_agree_with_their_sums() {
        // P[K = 0] = e^-2; P[K ≥ 3] = 1 − 5 e^-2; P[K ≤ 1] = 3 e^-2.
        assert_close(2.0 * (-2.0_f64).exp(), poisson_two_sided(0, 2.0), 1e-12, 0);
        assert_close(2.0 * (1.0 - 5.0 * (-2.0_f64).exp()), poisson_two_sided(3, 2.0), 1e-12, 3);
        assert_close(6.0 * (-2.0_f64).exp(), poisson_two_sided(1, 2.0), 1e-12, 1);
    }

    #[test]
    fn anderson_darling_tails_have_their_known_quantiles() {
        // The asymptotic percentage points of the literature, given to three digits after the point.
        for (z, p) in [(1.933, 0.1), (2.492, 0.05), (3.878, 0.01)] {
            assert!((anderson_darling_tail(z) - p).abs() < 6e-5, "{z}: {}", anderson_darling_tail(z));
        }
        let (inside, outside) = (anderson_darling_tail(4.999_999), anderson_darling_tail(5.0));
        assert!((outside / inside - 1.0).abs() < 0.01, "{inside:e} {outside:e}");
        assert!(anderson_darling_tail(0.1) > 0.9999 && anderson_darling_tail(30.0) > 0.0);
    }

    #[test]
    fn kolmogorov_tails_have_twelve_digits() {
        let expected = [
            (0.3, 0.999_990_694_198_665_4),
            (0.5, 0.963_945_243_664_875_1),
            (1.0, 0.269_999_671_677_354_5),
            (1.36, 0.049_485_876_755_377_88),
            (2.0, 0.000_670_925_255_779_695_3),
        ];
        for (x, p) in expected {
            assert!((kolmogorov_tail(x) - p).abs() < 1e-12, "{x}");
        }
    }
}
