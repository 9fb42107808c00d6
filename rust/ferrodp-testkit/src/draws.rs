//! Draws of the production path, as the integers they are multiples of.

use std::num::NonZeroUsize;

use ferrodp_core::isa::Isa;
use ferrodp_core::params::Granularity;
use ferrodp_core::random::Key;
use ferrodp_core::sample::{self, Element, Noise};

use crate::finding::Finding;
use crate::law::Law;
use crate::tally::Tally;

/// The numeric types that noise is added to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dtype {
    /// 32 bits.
    Single,
    /// 64 bits.
    Double,
}

/// One way to call the sampler.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// A name for the table.
    pub name: &'static str,
    /// The law.
    pub law: Law,
    /// The type of the array.
    pub dtype: Dtype,
    /// The standard deviation, or Laplace's `b`.
    pub scale: f64,
    /// The grid is 2 to this.
    pub exponent: i32,
    /// What the noise is added to: not a multiple of the grid, unless zero.
    pub value: f64,
}

/// Every combination of law, word size and type, on the default grids and next to them.
///
/// Single precision holds the integers up to 2²⁴; beyond (12 scales on the default grid) draws are even. For Laplace
/// that is 4 draws in a million, which moves no count by a tenth of its standard error at 10⁹ draws.
pub const DRAW_SETTINGS: [Setting; 8] = [
    setting("gaussian f32 coarse", Law::Gaussian, Dtype::Single, 1.3, -12, 0.0),
    setting("gaussian f32 short words", Law::Gaussian, Dtype::Single, 1.3, -20, 0.0),
    setting("gaussian f32 long words", Law::Gaussian, Dtype::Single, 1.01, -21, 0.0),
    setting("gaussian f64 short words", Law::Gaussian, Dtype::Double, 1.9, -20, -0.337),
    setting("gaussian f64 long words", Law::Gaussian, Dtype::Double, 1.3, -32, 0.0),
    setting("gaussian f64 shifted", Law::Gaussian, Dtype::Double, 0.77, -33, 0.123_456_789_123),
    setting("laplace f32", Law::Laplace, Dtype::Single, 1.3, -20, 0.0),
    setting("laplace f64 shifted", Law::Laplace, Dtype::Double, 1.7, -32, 0.25 + 1e-10),
];

const fn setting(name: &'static str, law: Law, dtype: Dtype, scale: f64, exponent: i32, value: f64) -> Setting {
    Setting { name, law, dtype, scale, exponent, value }
}

impl Setting {
    /// Returns the sampler that is under test.
    ///
    /// # Panics
    /// If it refuses the scale, which none of [`DRAW_SETTINGS`] makes it do.
    #[must_use]
    pub fn noise(&self) -> Noise {
        let law = match self.law {
            Law::Gaussian => sample::Law::Gaussian,
            Law::Laplace => sample::Law::Laplace,
        };
        let granularity = Granularity::from_exponent(self.exponent).expect("grids here are ordinary");
        Noise::new(law, self.scale, granularity).expect("scales here are ordinary")
    }

    /// Tests `draws` draws in calls of at most `per_call`, a multiple of 64, each with a key of its own.
    ///
    /// # Errors
    /// What `key` returns.
    pub fn findings<E>(
        &self,
        isa: Isa,
        draws: u64,
        per_call: usize,
        mut key: impl FnMut() -> Result<Key, E>,
    ) -> Result<Vec<Finding>, E> {
        let noise = self.noise();
        let width = noise.granularity().width();
        // What the array will hold is the value in its own type.
        let value = if self.dtype == Dtype::Single { f64::from(self.value as f32) } else { self.value };
        let mut tally = Tally::new(self.law, value / width, self.scale / width);
        let mut left = draws;
        while left > 0 {
            let count = left.min(per_call as u64) as usize;
            let drawn = match self.dtype {
                Dtype::Single => released(&noise, isa, &key()?, vec![self.value as f32; count]),
                Dtype::Double => released(&noise, isa, &key()?, vec![self.value; count]),
            };
            tally.add(&drawn);
            left -= count as u64;
        }
        Ok(tally.findings())
    }
}

/// Returns the released numbers, in grid steps.
fn released<T: Element + Into<f64>>(noise: &Noise, isa: Isa, key: &Key, mut values: Vec<T>) -> Vec<i64> {
    noise.add(isa, key, &mut values, NonZeroUsize::MIN);
    let per_step = noise.granularity().reciprocal();
    values.into_iter().map(|value| (value.into() * per_step) as i64).collect()
}

/// Returns the key of one call of a repeatable test: the test's name and the number of the call, so that whoever wants
/// another key must say so in the name.
///
/// # Panics
/// If the name has more than 24 bytes.
#[must_use]
pub fn key_of(name: &str, call: u64) -> Key {
    let mut bytes = [0; 32];
    bytes[..24][..name.len()].copy_from_slice(name.as_bytes());
    bytes[24..].copy_from_slice(&call.to_le_bytes());
    Key::from_bytes(bytes)
}
