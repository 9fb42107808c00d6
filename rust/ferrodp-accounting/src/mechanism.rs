//! What was released, as plain data: from it come the pair of laws of its privacy loss and its Rényi curve.

use crate::memory::room;
use std::sync::Arc;

use ferrodp_core::Error;

use crate::pld::pair::LossPair;
use crate::pld::pairs::{
    AntipodalGaussian, DiscreteGaussian, DiscreteLaplace, FiniteLosses, FixedSize, Gaussian, Laplace,
    MixtureOfGaussians, PoissonSampled, PublicCoin, Reversed,
};
use crate::rdp::{Curve, Discrete, PoissonGaussian, PoissonReplaced, Shifted};
use crate::sampling::allocation::Allocation;

/// Integers of a discrete Gaussian law, up to 40 scales away, are told apart by floats.
const LARGEST_SCALE: f64 = (1_u64 << 46) as f64;

/// Into how many losses that of a Poisson-sampled Laplace release is divided for its Rényi curve; the excess is about the inverse
/// square of it.
const LAPLACE_PARTS: u64 = 2048;

/// A mechanism and its parameters. Sensitivities are those of the neighboring relation in use.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Mechanism {
    /// Gaussian noise of that multiplier.
    Gaussian(f64),
    /// Laplace noise of that multiplier.
    Laplace(f64),
    /// Discrete Gaussian noise: scale, shift, largest noise (infinite if it is not cut).
    DiscreteGaussian(f64, f64, f64),
    /// Discrete Laplace noise: scale, shift.
    DiscreteLaplace(f64, u64),
    /// Randomized response between two truths: noise parameter, number of answers.
    RandomizedResponse(f64, f64),
    /// Randomized response of a truth against a uniform answer: noise parameter, number of answers.
    RandomizedResponseOrUniform(f64, f64),
    /// Whatever is (ε, δ)-differentially private.
    EpsilonDelta(f64, f64),
    /// The exponential mechanism, whose losses have a range of ε.
    ExponentialMechanism(f64),
    /// Whatever is ρ-zero-concentrated differentially private.
    Zcdp(f64),
    /// Gaussian noise with a random shift: noise multiplier, shifts, probabilities.
    MixtureOfGaussians(f64, Vec<f64>, Vec<f64>),
    /// Two laws on the same outcomes, by their masses up to a factor, and a bound on the errors of these masses' logarithms.
    Masses(Vec<f64>, Vec<f64>, f64),
    /// Poisson sampled Gaussian under replacement: sampling probability, noise multiplier.
    AntipodalGaussian(f64, f64),
    /// Poisson sample with that probability, the record being removed.
    PoissonSampled(f64, Box<Mechanism>),
    /// Fixed-size sample of that share of the records, one of which is replaced; of a symmetric pair.
    FixedSizeSampled(f64, Box<Mechanism>),
    /// One of several, by a coin that everybody sees: chances, pairs.
    PublicCoin(Vec<f64>, Vec<Mechanism>),
    /// A round of random allocation, as a law that was computed before.
    Allocated(Arc<Allocation>),
    /// P and Q changed.
    Reversed(Box<Mechanism>),
}

impl Mechanism {
    /// Returns the pair (P, Q) that dominates it.
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] for a parameter outside its domain, [`Error::Unsupported`] for a mechanism that has no pair.
    pub fn pair(&self) -> Result<Box<dyn LossPair>, Error> {
        Ok(match self {
            Self::Gaussian(z) => Box::new(Gaussian::new(positive("noise_multiplier", *z)?)),
            Self::Laplace(b) => Box::new(Laplace::new(positive("noise_multiplier", *b)?)),
            Self::DiscreteGaussian(scale, shift, cut) => {
                let shift = whole("l2_sensitivity", *shift, 1.0)?;
                let cut = if *cut == f64::INFINITY { *cut } else { whole("truncation_bound", *cut, 0.0)? };
                if *scale > LARGEST_SCALE {
                    return Err(Error::parameter("scale", *scale, "finite, > 0 and at most 2^46"));
                }
                Box::new(DiscreteGaussian::new(positive("scale", *scale)?, shift, cut))
            }
            Self::DiscreteLaplace(scale, shift) => {
                let shift = whole("l1_sensitivity", *shift as f64, 1.0)?;
                Box::new(DiscreteLaplace::new(positive("scale", *scale)?, shift))
            }
            Self::RandomizedResponse(p, k) => {
                Box::new(FiniteLosses::randomized_response(share("noise_parameter", *p)?, answers(*k)?))
            }
            Self::RandomizedResponseOrUniform(p, k) => {
                Box::new(FiniteLosses::randomized_response_or_uniform(share("noise_parameter", *p)?, answers(*k)?))
            }
            Self::EpsilonDelta(epsilon, delta) => {
                Box::new(FiniteLosses::epsilon_delta(non_negative("epsilon", *epsilon)?, share("delta", *delta)?))
            }
            Self::ExponentialMechanism(epsilon) => {
                Box::new(FiniteLosses::epsilon_delta(non_negative("epsilon", *epsilon)?, 0.0))
            }
            Self::Zcdp(_) => return Err(Error::Unsupported { what: "pair of laws for this mechanism" }),
            Self::MixtureOfGaussians(z, shifts, weights) => {
                let z = positive("noise_multiplier", *z)?;
                check_mixture(shifts, weights)?;
                Box::new(MixtureOfGaussians::new(z, shifts, weights))
            }
            Self::Masses(p, q, error) => {
                check_masses(p, q)?;
                if !(0.0..0.25).contains(error) {
                    return Err(Error::parameter("error", *error, "in [0, 0.25)"));
                }
                Box::new(FiniteLosses::masses(p, q, *error))
            }
            Self::AntipodalGaussian(q, z) => {
                Box::new(AntipodalGaussian::new(sampling(*q)?, positive("noise_multiplier", *z)?))
            }
            Self::PoissonSampled(q, inner) => Box::new(PoissonSampled::new(sampling(*q)?, inner.pair()?)),
            Self::FixedSizeSampled(q, inner) => Box::new(FixedSize::new(sampling(*q)?, inner.pair()?)),
            Self::PublicCoin(weights, parts) => {
                if weights.is_empty() || weights.len() != parts.len() {
                    return Err(Error::Length { name: "weights", given: weights.len(), needed: parts.len().max(1) });
                }
                let mut built = room(parts.len());
                for (weight, part) in weights.iter().zip(parts) {
                    built.push((share("weight", *weight)?, part.pair()?));
                }
                Box::new(PublicCoin::new(built))
            }
            Self::Allocated(law) => Box::new(law.copy()),
            Self::Reversed(inner) => Box::new(Reversed(inner.pair()?)),
        })
    }

    /// Returns its Rényi curve. Parameters were checked before.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] for a mechanism whose curve is not known here.
    pub fn curve(&self) -> Result<Curve, Error> {
        Ok(match self {
            Self::Gaussian(z) => Curve::gaussian(*z),
            Self::Laplace(b) => Curve::laplace(*b),
            Self::DiscreteGaussian(scale, shift, f64::INFINITY) => {
                Curve::DiscreteGaussian { sigma: *scale, sensitivity: *shift }
            }
            Self::DiscreteLaplace(scale, shift) => Curve::discrete_laplace(*scale, *shift),
            Self::RandomizedResponse(p, k) => Curve::Discrete(Discrete::randomized_response(*p, *k, false)),
            Self::RandomizedResponseOrUniform(p, k) => Curve::Discrete(Discrete::randomized_response(*p, *k, true)),
            Self::EpsilonDelta(epsilon, 0.0) => Curve::pure(*epsilon),
            Self::ExponentialMechanism(epsilon) => Curve::BoundedRange(*epsilon),
            Self::Zcdp(rho) => Curve::Linear { rho: *rho, units: 0.0 },
            Self::MixtureOfGaussians(z, shifts, weights) => {
                Curve::Shifted(Box::new(Shifted::new(*z, shifts, weights, 1.0)))
            }
            Self::AntipodalGaussian(q, z) => Curve::PoissonReplaced(Box::new(PoissonReplaced::new(*z, *q))),
            Self::PoissonSampled(q, inner) => inner.sampled_curve(*q)?,
            _ => return Err(Error::Unsupported { what: "Rényi curve for this mechanism" }),
        })
    }

    /// Returns the Rényi curve of a Poisson sample of it.
    fn sampled_curve(&self, q: f64) -> Result<Curve, Error> {
        let curve = match self {
            Self::Gaussian(z) => return Ok(Curve::PoissonGaussian(Box::new(PoissonGaussian::new(*z, q)))),
            Self::MixtureOfGaussians(z, shifts, weights) => {
                return Ok(Curve::Shifted(Box::new(Shifted::new(*z, shifts, weights, q))));
            }
            Self::Laplace(b) if 1.0 / b == f64::INFINITY => Curve::Linear { rho: f64::INFINITY, units: 0.0 },
            Self::Laplace(b) => Curve::laplace_in_parts(*b, LAPLACE_PARTS),
            Self::ExponentialMechanism(epsilon) => Curve::pure(*epsilon),
            _ => self.curve()?,
        };
        let is_the_same = matches!(curve, Curve::Linear { rho: 0.0 | f64::INFINITY, .. });
        let sampled = if is_the_same { Some(curve) } else { curve.sampled(q) };
        sampled.ok_or(Error::Unsupported { what: "Rényi curve for a Poisson sample of this mechanism" })
    }
}

fn non_negative(name: &'static str, value: f64) -> Result<f64, Error> {
    if (0.0..f64::INFINITY).contains(&value) {
        Ok(value)
    } else {
        Err(Error::parameter(name, value, "finite and >= 0"))
    }
}

fn positive(name: &'static str, value: f64) -> Result<f64, Error> {
    let inside = value > 0.0 && value < f64::INFINITY;
    if inside { Ok(value) } else { Err(Error::parameter(name, value, "finite and > 0")) }
}

fn share(name: &'static str, value: f64) -> Result<f64, Error> {
    if (0.0..=1.0).contains(&value) { Ok(value) } else { Err(Error::parameter(name, value, "in [0, 1]")) }
}

fn sampling(value: f64) -> Result<f64, Error> {
    let inside = value > 0.0 && value <= 1.0;
    if inside { Ok(value) } else { Err(Error::parameter("sampling_probability", value, "in (0, 1]")) }
}

fn answers(value: f64) -> Result<f64, Error> {
    if value >= 2.0 && value <= 2.0_f64.powi(63) {
        Ok(value)
    } else {
        Err(Error::parameter("num_buckets", value, "from 2 to 2^63"))
    }
}

fn whole(name: &'static str, value: f64, least: f64) -> Result<f64, Error> {
    const LIMIT: f64 = (1_u64 << 53) as f64;
    if value >= least && value <= LIMIT && value.fract() == 0.0 {
        Ok(value)
    } else {
        Err(Error::parameter(name, value, format!("a whole number from {least} to 2^53")))
    }
}

fn check_mixture(shifts: &[f64], weights: &[f64]) -> Result<(), Error> {
    if shifts.len() != weights.len() {
        return Err(Error::Length { name: "probabilities", given: weights.len(), needed: shifts.len() });
    }
    for &shift in shifts {
        if !(0.0..f64::INFINITY).contains(&shift) {
            return Err(Error::parameter("shifts", shift, "finite and >= 0"));
        }
    }
    for &weight in weights {
        share("probabilities", weight)?;
    }
    if weights.iter().sum::<f64>() > 0.0 { Ok(()) } else { Err(Error::parameter("probabilities", 0.0, "not all 0")) }
}

fn check_masses(p: &[f64], q: &[f64]) -> Result<(), Error> {
    if p.len() != q.len() {
        return Err(Error::Length { name: "q", given: q.len(), needed: p.len() });
    }
    for (name, law) in [("p", p), ("q", q)] {
        if let Some(&mass) = law.iter().find(|&&mass| mass != 0.0 && !(1e-250..=1e250).contains(&mass)) {
            return Err(Error::parameter(name, mass, "0 or from 1e-250 to 1e250"));
        }
        if law.iter().all(|&mass| mass == 0.0) {
            return Err(Error::parameter(name, 0.0, "not 0 everywhere"));
        }
    }
    Ok(())
}
