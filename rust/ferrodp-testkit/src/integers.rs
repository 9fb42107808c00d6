//! The discrete laws under test: draws are integers, so bins are made by the *randomized* probability transform.
//!
//! For an integer `x` and an independent uniform `V`, `F(x − 1) + V·P[X = x]` is uniform if `x` has the law `F`. Kolmogorov's
//! and Anderson and Darling's tests of the integers themselves would be conservative, and blind where a few integers have
//! most of the mass; of the transform they are exact. The histogram of the integers is tested besides, without `V`.

pub mod census;
pub mod integer_law;

use ferrodp_core::discrete::{Discrete, Law as DiscreteLaw, Scale};
use ferrodp_core::isa::Isa;
use ferrodp_core::random::{Key, Keystream};
use std::num::NonZeroUsize;

use crate::finding::Finding;
use crate::law::Law;
use census::Census;
use integer_law::IntegerLaw;

/// One way to call the sampler.
#[derive(Clone, Copy, Debug)]
pub struct IntegerSetting {
    /// A name for the table.
    pub name: &'static str,
    /// The law.
    pub law: Law,
    /// σ or b.
    pub scale: f64,
}

const fn setting(name: &'static str, law: Law, scale: f64) -> IntegerSetting {
    IntegerSetting { name, law, scale }
}

/// Both laws, from scales where nearly all draws are zero to those where no two are equal.
pub const INTEGER_SETTINGS: [IntegerSetting; 14] = [
    setting("discrete gaussian 0.3", Law::Gaussian, 0.3),
    setting("discrete gaussian 1", Law::Gaussian, 1.0),
    setting("discrete gaussian 10", Law::Gaussian, 10.0),
    setting("discrete gaussian 1000", Law::Gaussian, 1000.25),
    setting("discrete gaussian 1e6", Law::Gaussian, 1e6),
    setting("discrete gaussian 1e9", Law::Gaussian, 1e9),
    setting("discrete gaussian 2^40", Law::Gaussian, 1_099_511_627_776.0),
    setting("discrete laplace 0.3", Law::Laplace, 0.3),
    setting("discrete laplace 1", Law::Laplace, 1.0),
    setting("discrete laplace 10", Law::Laplace, 10.0),
    setting("discrete laplace 1000", Law::Laplace, 1000.25),
    setting("discrete laplace 1e6", Law::Laplace, 1e6),
    setting("discrete laplace 1e9", Law::Laplace, 1e9),
    setting("discrete laplace 2^40", Law::Laplace, 1_099_511_627_776.0),
];

impl IntegerSetting {
    /// Returns the sampler that is under test.
    ///
    /// # Panics
    /// If it refuses the scale, which none of [`INTEGER_SETTINGS`] makes it do.
    #[must_use]
    pub fn sampler(&self) -> Discrete {
        let law = match self.law {
            Law::Gaussian => DiscreteLaw::Gaussian,
            Law::Laplace => DiscreteLaw::Laplace,
        };
        Discrete::new(law, Scale::from_float(self.scale).expect("scales here are ordinary"))
    }

    /// Tests `draws` draws in calls of at most `per_call`, a multiple of 1024, each with a key of its own; every other key
    /// is for the randomization of the transform.
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
        let sampler = self.sampler();
        let mut census = Census::new(IntegerLaw::new(self.law, self.scale));
        let mut samples = vec![0_i64; per_call.min(draws as usize)];
        let mut bytes = vec![0_u8; 8 * samples.len()];
        let mut left = draws;
        while left > 0 {
            let count = left.min(per_call as u64) as usize;
            sampler.fill(isa, &key()?, &mut samples[..count], NonZeroUsize::MIN);
            Keystream::new(isa, &key()?).fill(0, 0, &mut bytes[..8 * count]);
            census.add(&samples[..count], bytes[..8 * count].as_chunks().0);
            left -= count as u64;
        }
        Ok(census.findings())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_and_tails_agree_and_sum_to_one() {
        for setting in INTEGER_SETTINGS {
            let law = IntegerLaw::new(setting.law, setting.scale);
            assert!(law.below.is_sorted(), "{}", setting.name);
            let middle = (-law.first) as usize;
            // P[X < 0] + P[X = 0] + P[X > 0] = 1
            assert!((2.0 * law.below[middle] + law.zero - 1.0).abs() < 1e-10, "{}", setting.name);
            assert!((law.tail(1) - law.below[middle]).abs() < 1e-10, "{}", setting.name);
            let (last, end) = (law.below.len() - 1, (law.first + law.below.len() as i64 - 1) << law.shift);
            assert!((1.0 - law.below[last] - law.tail(end)).abs() < 1e-14, "{}", setting.name);
            assert!((law.residues(16).iter().sum::<f64>() - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn known_probabilities() {
        // Laplace with e^(−1/b) = 1/2: P[0] = 1/3, P[X ≥ 1] = 1/3, variance 4.
        let b = 1.0 / core::f64::consts::LN_2;
        let law = IntegerLaw::new(Law::Laplace, b);
        assert!((law.zero - 1.0 / 3.0).abs() < 1e-15 && (law.tail(1) - 1.0 / 3.0).abs() < 1e-15);
        assert!((law.moments().0 * b * b - 4.0).abs() < 1e-12);
        // θ₃(e^−1/2) = 2.506628288… = √(2π)·(1 + 2e^(−2π²) + …)
        let zero = IntegerLaw::new(Law::Gaussian, 1.0).zero;
        assert!((1.0 / zero - 2.506_628_288_042_905).abs() < 1e-13, "{}", 1.0 / zero);
    }
}
