//! Noise with exactly the stated law: a continuous Gaussian or Laplace variable added to a real number, and the sum
//! rounded *exactly* to a grid.
//!
//! For a value `v`, a scale `σ` and a grid `g = 2^e` the sampler returns `g · round((v + σ·Z)/g)` for an ideal real
//! `Z`. Rounding is post-processing of the continuous mechanism, so every analysis of that mechanism holds to the
//! letter, in any dimension and with no change of sensitivity; the variance grows by `g²/12`.
//!
//! **Inversion.** Sample `i` owns word `i` of stream 0: a sign and the leading bits of `p ∈ (0, ½)`, whose further bits
//! are revealed on demand from extension streams addressed by `i`. `|Z| = Φ̄⁻¹(p)` (Gaussian) or `−ln 2p` (Laplace).
//! Given infinitely many bits this is an exact sample, and the integer `round(f + s·Z)`, `s = σ/g`, depends on finitely
//! many of them.
//!
//! **Stages.** Floating point proposes; it decides only where a proven bound says that it cannot be wrong.
//! 1. vectors of `f64` and piecewise polynomials ([`lanes`], [`avx2`], [`avx512`]): decide all but 0.1 to 0.8 % of the samples.
//!    For `f32` on coarse grids vectors of `f32` come before them ([`single`]), and they get what those leave open;
//! 2. scalar `f64` with 64 more bits of `p` ([`decide`]): the tails, and what short words left open;
//! 3. 128-bit fixed point, error below 2⁻⁸⁰ of a grid step ([`fixed`]);
//! 4. intervals of big integers at growing precision ([`exact`]), until disjoint. Thresholds are single points, so
//!    this ends with probability one.
//!
//! Every stage answers the same question about the same bits, so which one answers cannot matter: widening the margins
//! of the first three ([`Noise::with_widened_margins`]) must not change a single output bit, and the tests do that.

use core::num::NonZeroUsize;

use crate::error::Error;
use crate::isa::Isa;
use crate::machine::blocks;
use crate::machine::residue::{depth_without, leaving_nothing, leaving_nothing_within};
use crate::math::float_environment::in_default_environment;
use crate::math::integer::Integer;
use crate::params::{Granularity, floor_log2, positive};
use crate::random::Key;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod chunk;
pub mod decide;
mod exact;
mod fixed;
mod lanes;
mod single;
mod small_sums;
pub(crate) mod standard;
mod sums;
mod tables;
mod types;

pub use types::{Law, Noise};

/// Samples in one unit of work for a thread.
const NOISE_PER_TASK: usize = 1 << 15;

/// Bytes on the stack for the words of a chunk, and as many for the steps of noise on sums. A single number has neither.
const CHUNK_BYTES: usize = types::NOISE_CHUNK * 8;

/// A numeric type that noise can be added to.
pub trait Element: chunk::Cell {}

impl Element for f32 {}
impl Element for f64 {}

impl Noise {
    /// Returns the grid that is used where the caller names none: about `scale · 2⁻³²` for `f64`; for `f32` `scale · 2⁻¹²`
    /// (Gaussian), on which sixteen samples are decided at once, or `scale · 2⁻²⁰` (Laplace).
    ///
    /// A coarser grid takes nothing from the privacy, rounding being post-processing; it adds `g²/12` to the variance, at most
    /// 5·10⁻⁹ of it at `scale · 2⁻¹²`.
    ///
    /// # Errors
    /// If `scale` is not finite and positive, or so small or large that the grid leaves its range.
    pub fn default_granularity<T: Element>(law: Law, scale: f64) -> Result<Granularity, Error> {
        let exponent = floor_log2(positive("scale", scale)?) - T::DEFAULT_BITS[law as usize];
        Granularity::from_exponent(exponent)
    }

    /// Returns the grid of Gaussian noise on sums of integers that are released as numbers of type `T`: that of the sums, but
    /// for `f32` a coarser one where that is finer than `scale · 2⁻¹³`: the default one, or as near as [`Noise::add_to_sums`]
    /// comes to it.
    ///
    /// # Errors
    /// If `scale` is not finite and positive, or the grid leaves its range.
    pub fn granularity_for_sums<T: Element>(scale: f64, sums: Granularity) -> Result<Granularity, Error> {
        let scale = positive("scale", scale)?;
        if !T::IS_SINGLE {
            return Ok(sums);
        }
        let default = floor_log2(scale) - T::DEFAULT_BITS[Law::Gaussian as usize];
        let (finest, coarsest) = (sums.exponent(), sums.exponent() + sums::MAX_SUM_SHIFT.cast_signed());
        Granularity::from_exponent(default.clamp(finest, coarsest))
    }

    /// Adds noise to every value, in place: `v` becomes `g · round((v + scale·Z)/g)`, rounded once to `T`.
    ///
    /// A value that is not finite counts as 0, and a result beyond the range of `T` becomes its largest finite number.
    pub fn add<T: Element>(&self, isa: Isa, key: &Key, values: &mut [T], threads: NonZeroUsize) {
        self.put(isa, key, values, threads, false);
    }

    /// Returns what [`Noise::add`] makes of one number.
    #[must_use]
    pub fn add_one(&self, isa: Isa, key: &Key, value: f64) -> f64 {
        // mutant: stack-of-a-single-number
        leaving_nothing_within(depth_without(isa, 2 * CHUNK_BYTES), || {
            let sampler = chunk::Sampler::new::<f64>(self, isa, key, 1);
            in_default_environment(|| sampler.add_one(value))
        })
    }

    /// Fills `values` with noise alone: what [`Noise::add`] makes of zeros.
    pub fn fill<T: Element>(&self, isa: Isa, key: &Key, values: &mut [T], threads: NonZeroUsize) {
        self.put(isa, key, values, threads, true);
    }

    /// Adds noise to every value, or to zeros in their places.
    fn put<T: Element>(&self, isa: Isa, key: &Key, values: &mut [T], threads: NonZeroUsize, overwrite: bool) {
        // mutant: stack-of-an-array
        leaving_nothing_within(depth_without(isa, CHUNK_BYTES), || {
            let sampler = chunk::Sampler::new::<T>(self, isa, key, values.len());
            blocks::for_each_block(values, NOISE_PER_TASK, threads, |start, block| {
                // mutant: every-thread-block-starts-at-sample-0
                in_default_environment(|| sampler.put(start as u64, block, overwrite));
            });
        });
    }

    /// Returns `round((value + scale·Z)/g)` for integers given with the indices of their samples: what [`Noise::add`] would
    /// make of them at these places, in grid steps, if they were floats.
    ///
    /// For integers of less than 2¹⁰⁰ steps. What no float denotes takes milliseconds: nothing proposes there. They go to `out`, as
    /// long as the integers: room that a caller has made before anything was drawn.
    pub fn steps(&self, isa: Isa, key: &Key, integers: &[(u64, Integer)], out: &mut [i128]) {
        leaving_nothing(|| {
            let sampler = chunk::Sampler::new::<f64>(self, isa, key, integers.len());
            in_default_environment(|| {
                for ((index, value), steps) in integers.iter().zip(out) {
                    *steps = sampler.steps(*index, value);
                }
            });
        });
    }

    /// Writes `g · round((sum · g′ + scale·Z)/g)`, rounded once to `T`, for sums of integers in units of `granularity`, `g′`,
    /// which is that of this noise, `g`, or finer.
    ///
    /// With a `denominator` the written numbers are then divided by it and rounded once more: post-processing. What is
    /// beyond the range of `T` becomes its largest finite number.
    ///
    /// # Errors
    /// If `out` and `sums` differ in length, or the sums are in units of a coarser grid, or of one 2²⁵ times as fine.
    #[allow(clippy::too_many_arguments, reason = "sums and their unit, and what every release takes")]
    pub fn add_to_sums<T: Element>(
        &self,
        isa: Isa,
        key: &Key,
        sums: &[i64],
        granularity: Granularity,
        denominator: Option<f64>,
        out: &mut [T],
        threads: NonZeroUsize,
    ) -> Result<(), Error> {
        if sums.len() != out.len() {
            return Err(Error::Length { name: "out", given: out.len(), needed: sums.len() });
        }
        let finer = self.granularity.exponent() - granularity.exponent();
        // mutant: sums-on-a-grid-far-finer-than-their-noise
        let Some(shift) = u32::try_from(finer).ok().filter(|shift| *shift <= sums::MAX_SUM_SHIFT) else {
            return Err(Error::Incompatible { what: "granularity" });
        };
        leaving_nothing(|| {
            let sampler = chunk::Sampler::in_steps::<T>(self, isa, key, out.len());
            blocks::for_each_block(out, NOISE_PER_TASK, threads, |start, block| {
                let sums = sums::Sums { integers: &sums[start..start + block.len()], shift };
                in_default_environment(|| sampler.add_to_sums(start as u64, &sums, denominator, block));
            });
        });
        Ok(())
    }
}
