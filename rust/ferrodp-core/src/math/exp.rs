//! e^−t in `f64` with a proven error, for filters that know what they may decide.

/// ln 2 in two parts: the first has 32 significant bits, so that its product with a number below 2²¹ is exact.
const LN_2_PARTS: [f64; 2] = [f64::from_bits(0x3fe6_2e42_fee0_0000), f64::from_bits(0x3dea_39ef_3579_3c76)];

/// The largest argument of [`exp_neg`].
pub(crate) const MAX_EXP_ARGUMENT: f64 = 1000.0;

/// Bound on the relative error of [`exp_neg`].
pub(crate) const EXP_ERROR: f64 = 16.0 / (1_u64 << 53) as f64;

/// Returns `(m, k)` with `e^−t ≈ m·2^−k`, ½ < m < 2, for 0 ≤ t ≤ [`MAX_EXP_ARGUMENT`], with a relative error below [`EXP_ERROR`].
///
/// # Numerics
/// `k` is the integer nearest to `t/ln 2`, up to one; `r = t − k·ln 2` then has |r| < 0.35. `k·LN_2_PARTS[0]` is exact, its
/// difference from `t` rounds once (u·|r|, u = 2⁻⁵³, or is exact where they are close), `k·LN_2_PARTS[1]` is below 3·10⁻⁷ and
/// off by u of itself, and the two parts are ln 2 up to 2⁻⁸⁵: in all |δr| < 2u·0.35 + 2⁻⁷⁰ < u. The Taylor polynomial of
/// degree 13 leaves out less than 0.35¹⁴/14! < 2⁻⁵⁷. Term k passes through at most k + 5 roundings, so that its evaluation
/// errs by less than Σ (k + 5)·0.35ᵏ/k!·u < 8u, in a result above 0.7. Together below 14u; claimed are 16u.
pub(crate) fn exp_neg(t: f64) -> (f64, i32) {
    let k = (t * core::f64::consts::LOG2_E + 0.5) as i32;
    let parts = f64::from(k);
    let r = (t - parts * LN_2_PARTS[0]) - parts * LN_2_PARTS[1];
    // Estrin's scheme: pairs, then fours, then eights, so that the chain of dependent operations is short.
    let [r2, r4] = [r * r, (r * r) * (r * r)];
    let pair = |i: usize| INVERSE_FACTORIALS[i] - INVERSE_FACTORIALS[i + 1] * r;
    let low = (pair(0) + pair(2) * r2) + (pair(4) + pair(6) * r2) * r4;
    let high = (pair(8) + pair(10) * r2) + pair(12) * r4;
    (low + high * (r4 * r4), k)
}

/// 1/0!, …, 1/13!, rounded to nearest.
const INVERSE_FACTORIALS: [f64; 14] = [
    1.0,
    1.0,
    0.5,
    1.0 / 6.0,
    1.0 / 24.0,
    1.0 / 120.0,
    1.0 / 720.0,
    1.0 / 5_040.0,
    1.0 / 40_320.0,
    1.0 / 362_880.0,
    1.0 / 3_628_800.0,
    1.0 / 39_916_800.0,
    1.0 / 479_001_600.0,
    1.0 / 6_227_020_800.0,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::interval::Interval;
    use crate::math::natural::Natural;

    /// Compares with intervals of big integers, at arguments that are multiples of 2⁻⁴⁰.
    #[test]
    fn the_error_is_below_a_quarter_of_what_is_claimed() {
        let mut state = 1_u64;
        let mut worst = 0.0_f64;
        for i in 0..4000_u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let bits = if i % 2 == 0 { state >> 14 } else { state >> (14 + i % 40) }; // below 2⁵⁰: t < 1024
            let t = bits as f64 / (1_u64 << 40) as f64;
            if t > MAX_EXP_ARGUMENT {
                continue;
            }
            let precision = 1800;
            let at = Natural::new(u128::from(bits)).shl(precision - 40);

            let exact = Interval::new(at.clone(), at, precision).exp_neg();
            let (m, k) = exp_neg(t);

            assert!(m > 0.5 && m < 2.0, "e^−{t} has mantissa {m}");
            // m·2^−k as an integer over 2^precision
            let scaled = Natural::new((m * (1_u64 << 60) as f64) as u128).shl(precision - 60 - k.unsigned_abs());
            let difference = exact.relative_distance(&scaled);
            worst = worst.max(difference * 9_007_199_254_740_992.0);
        }
        assert!(worst < 4.0, "{worst} units in 2⁻⁵³, 16 are claimed");
        assert!(worst > 0.2, "the comparison sees the error of rounding: {worst}");
    }
}
