//! Noise on integer sums: where they become public.

use core::num::NonZeroUsize;

use super::grid_sum::GridSum;
use super::rule::clip_norm::ClipNorm;
use crate::error::Error;
use crate::isa::Isa;
use crate::math::float_environment::in_default_environment;
use crate::params::positive;
use crate::random::Key;
use crate::sample::{self, Noise};

impl ClipNorm {
    /// Returns Gaussian noise whose standard deviation is at least `noise_multiplier` times the clip norm, for sums that are
    /// released as numbers of type `T`: on this grid or, as [`Noise::granularity_for_sums`] has it, a coarser one.
    ///
    /// The product is rounded up, so the noise is never smaller than what is accounted for.
    ///
    /// # Errors
    /// If `noise_multiplier` is not finite and positive, or the noise is too small or too large for the grid.
    pub fn noise<T: sample::Element>(self, noise_multiplier: f64) -> Result<Noise, Error> {
        let multiplier = positive("noise_multiplier", noise_multiplier)?;
        // mutant: noise-multiplier-of-sum-taken-for-standard
        let scale = in_default_environment(|| product_up(multiplier, self.value()));
        // Refuses the same multipliers for every type.
        Noise::gaussian(scale, self.granularity()).map_err(|error| match error {
            Error::Parameter { accepted, .. } => {
                let accepted = format!("such that its product with clip_norm {:e} is {accepted}", self.value());
                Error::parameter("noise_multiplier", noise_multiplier, accepted)
            }
            other => other,
        })?;
        Noise::gaussian(scale, Noise::granularity_for_sums::<T>(scale, self.granularity())?)
    }
}

impl GridSum {
    /// Writes the sum with noise by [`ClipNorm::noise`] to `out`, rounded to the noise's grid and once to `T`. With a
    /// `denominator` that is divided by it, and rounded once more.
    ///
    /// # Errors
    /// [`Error::Length`] if `out` has another length, [`Error::Mutated`] if this sum is unusable,
    /// [`Error::Incompatible`] if `noise` is on a grid that [`Noise::add_to_sums`] refuses. Nothing is written then.
    pub fn release<T: sample::Element>(
        &self,
        isa: Isa,
        key: &Key,
        noise: &Noise,
        denominator: Option<f64>,
        out: &mut [T],
        threads: NonZeroUsize,
    ) -> Result<(), Error> {
        noise.add_to_sums(isa, key, self.integers()?, self.clip().granularity(), denominator, out, threads)
    }
}

/// Returns a number next to `a · b` that is no smaller, for positive numbers whose product is far from subnormal.
fn product_up(a: f64, b: f64) -> f64 {
    let nearest = a * b;
    // mutant: standard-deviation-rounded-to-nearest
    if a.mul_add(b, -nearest) > 0.0 { nearest.next_up() } else { nearest }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standard_deviation_is_never_rounded_down() {
        // Mantissas of 27 bits: their product has at most 54 bits, so it is exact in u128 arithmetic.
        let mut state = 3_u64;
        for _ in 0..1000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (a, b) = ((state >> 37) | 1, ((state >> 10) & 0x7FF_FFFF) | 1);
            let product = u128::from(a) * u128::from(b);

            let up = product_up(a as f64, b as f64);

            assert!(up as u128 >= product && (up.next_down() as u128) < product, "{a} times {b}");
        }
    }

    #[test]
    fn a_noise_multiplier_that_the_grid_cannot_carry_is_refused_by_its_name() {
        let clip = ClipNorm::new::<f32>(1.0).expect("in range");
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-12, 1e6, 1e308] {
            let message = clip.noise::<f32>(bad).expect_err("out of range").to_string();

            assert!(message.starts_with("noise_multiplier must be "), "{message}");
        }
        assert!(clip.noise::<f32>(1e-9).is_ok());
        assert!(clip.noise::<f32>(1e4).is_ok());
    }
}
