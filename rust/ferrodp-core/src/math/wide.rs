//! 128-bit fixed point: products of 256 bits, rounded toward zero.

/// Fraction bits of the signed format `Q126`: values in [−2, 2), one unit is 2⁻¹²⁶.
pub(crate) const Q126: u32 = 126;

/// Returns `a · b` as (high, low) halves.
#[inline]
pub(crate) fn full_product(a: u128, b: u128) -> (u128, u128) {
    let mask = u128::from(u64::MAX);
    let (a1, a0, b1, b0) = (a >> 64, a & mask, b >> 64, b & mask);
    let low = a0 * b0;
    let (mid1, mid2) = (a1 * b0, a0 * b1);
    // Three numbers below 2⁶⁴ each: no overflow.
    let carry = ((low >> 64) + (mid1 & mask) + (mid2 & mask)) >> 64;
    (a1 * b1 + (mid1 >> 64) + (mid2 >> 64) + carry, a.wrapping_mul(b))
}

/// Returns `⌊a · b / 2^shift⌋`, or `None` if it does not fit 128 bits; `shift` is below 256.
#[inline]
pub(crate) fn product_shifted(a: u128, b: u128, shift: u32) -> Option<u128> {
    let (high, low) = full_product(a, b);
    match shift {
        0 => (high == 0).then_some(low),
        1..128 => (high >> shift == 0).then(|| (high << (128 - shift)) | (low >> shift)),
        _ => Some(high >> (shift - 128)),
    }
}

/// Returns the product of two `Q126` numbers, rounded toward zero: the error is below one unit.
///
/// # Panics
/// If the product leaves [−2, 2).
#[inline]
pub(crate) fn mul_q126(a: i128, b: i128) -> i128 {
    let magnitude = product_shifted(a.unsigned_abs(), b.unsigned_abs(), Q126).and_then(|m| i128::try_from(m).ok());
    let magnitude = magnitude.expect("Q126 products stay below 2");
    if (a < 0) == (b < 0) { magnitude } else { -magnitude }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_products_match_schoolbook_identities() {
        let samples =
            [0, 1, 2, u128::MAX, u128::MAX - 1, 1 << 64, (1 << 64) - 1, 0x1234_5678_9abc_def0_0fed_cba9_8765_4321];
        for a in samples {
            for b in samples {
                let (high, low) = full_product(a, b);

                assert_eq!(a.wrapping_mul(b), low);
                // a·b mod (2¹²⁸ − 1) = high + low mod (2¹²⁸ − 1), which fixes the high half given the low one.
                assert_eq!(modulo_mersenne(a, b), add_mersenne(high, low));
            }
        }
        assert_eq!((u128::MAX - 1, 1), full_product(u128::MAX, u128::MAX));
    }

    fn add_mersenne(a: u128, b: u128) -> u128 {
        let (sum, carry) = a.overflowing_add(b);
        let sum = if carry { sum + 1 } else { sum };
        if sum == u128::MAX { 0 } else { sum }
    }

    fn modulo_mersenne(a: u128, b: u128) -> u128 {
        let mut total = 0;
        for bit in 0..128 {
            if (b >> bit) & 1 == 1 {
                total = add_mersenne(total, a.rotate_left(bit));
            }
        }
        total
    }

    #[test]
    fn shifted_products_round_down_and_refuse_what_does_not_fit() {
        assert_eq!(Some(7), product_shifted(15, 1, 1));
        assert_eq!(Some(u128::MAX), product_shifted(u128::MAX, 1 << 64, 64));
        assert_eq!(None, product_shifted(u128::MAX, 1 << 65, 64));
        assert_eq!(Some(1), product_shifted(1 << 127, 1 << 127, 254));
    }

    #[test]
    fn q126_products_round_toward_zero() {
        let one = 1_i128 << Q126;
        assert_eq!(one / 4, mul_q126(one / 2, one / 2));
        assert_eq!(-one / 4, mul_q126(-one / 2, one / 2));
        assert_eq!(0, mul_q126(1, -1));
    }
}
