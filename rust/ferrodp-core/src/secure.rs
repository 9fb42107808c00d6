//! Vectors for secure aggregation: clipped, quantized, and written as residues of a public modulus.
//!
//! A client's vector `x` becomes integers `k = trunc(clip(x)/(g·2^s))`, `g` the grid of the clip norm `C`. By the theorem
//! of [`crate::clip`], `‖trunc(clip(x)/g)‖ ≤ C/g` in exact arithmetic; dividing by `2^s` and truncating toward zero once
//! more makes no magnitude larger than `2^−s` of it. So `Σk² ≤ (C/(g·2^s))²`, whatever came before: a rotation need not be
//! accurate for the bound to hold.
//!
//! - [`rotation`]: the randomized Hadamard transform, with public signs.
//! - [`residues`]: integers modulo 2³², 2⁶⁴ or one of two primes, their sums, and back.

pub mod residues;
pub mod rotation;

use core::num::NonZeroUsize;

use crate::clip::{ClipNorm, Float, GridSum, Rows};
use crate::error::Error;
use crate::isa::Isa;

/// The most bits that integers may be shortened by: the norm keeps at least one step.
pub const MAX_SHORTENED_BITS: u32 = 29;

/// Returns the integers `trunc(clip(x)/(g·2^shift))` of one row, given in leaves.
///
/// # Errors
/// [`Error::Parameter`] for a shift above [`MAX_SHORTENED_BITS`], [`Error::OutOfMemory`] if there is no memory for the integers,
/// [`Error::Mutated`] if the row changed during the call.
pub fn quantized<T: Float>(
    isa: Isa,
    leaves: &[&[T]],
    clip: ClipNorm,
    shift: u32,
    threads: NonZeroUsize,
) -> Result<Vec<i64>, Error> {
    if shift > MAX_SHORTENED_BITS {
        return Err(Error::parameter("shift", f64::from(shift), format!("at most {MAX_SHORTENED_BITS}")));
    }
    let row = Rows::new(leaves.iter().map(|leaf| (*leaf, leaf.len())), 1)?;
    let mut sum = GridSum::new(clip, row.width())?;
    sum.add(isa, &row, threads)?;
    let mut integers = sum.into_integers()?;
    for k in &mut integers {
        // Toward zero: a negative number is lifted by 2^shift − 1 before its bits are shifted out.
        // mutant: shortened-away-from-zero
        *k = (*k + ((*k >> 63) & ((1 << shift) - 1))) >> shift;
    }
    Ok(integers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortened_integers_are_quotients_truncated_toward_zero() {
        let clip = ClipNorm::new::<f64>(1.0).expect("in range");
        let row: Vec<f64> = (0..100).map(|i| f64::from(i - 50) * 0.003 + 1e-9).collect();
        let whole = quantized(Isa::best(), &[&row], clip, 0, NonZeroUsize::MIN).expect("unchanged");
        for shift in 0..=MAX_SHORTENED_BITS {
            let short = quantized(Isa::best(), &[&row], clip, shift, NonZeroUsize::MIN).expect("unchanged");

            assert_eq!(whole.iter().map(|k| k / (1_i64 << shift)).collect::<Vec<_>>(), short, "{shift}");
        }
        assert!(quantized(Isa::best(), &[&row], clip, MAX_SHORTENED_BITS + 1, NonZeroUsize::MIN).is_err());
    }

    #[test]
    fn no_row_of_integers_is_longer_than_the_clip_norm() {
        for value in [1.0, 1.37, 0.001] {
            let clip = ClipNorm::new::<f32>(value).expect("in range");
            for (row, shift) in [(vec![1e30_f32; 300], 0), (vec![-0.5; 7], 10), (vec![f32::MAX, 1.0], 29)] {
                let integers = quantized(Isa::best(), &[&row], clip, shift, NonZeroUsize::MIN).expect("unchanged");
                let squares: u128 = integers.iter().map(|k| (k * k) as u128).sum();

                assert!(squares << (2 * shift) <= u128::from(clip.largest_sum_of_squares()));
            }
        }
    }
}
