//! The matrix `C` by which noise is correlated: checked once, its coefficients the real numbers that its floats denote.

use crate::error::Error;

/// The most coefficients of a step, and the most buffers.
const MAX_TERMS: usize = 1 << 20;

/// The largest coefficient.
const MAX_COEFFICIENT: f64 = 1_048_576.0;

/// A lower-triangular matrix `C`, or its inverse.
#[derive(Clone, Debug, PartialEq)]
pub enum System {
    /// Toeplitz with these coefficients `c₀, c₁, …`; all later ones are zero.
    Banded(Vec<f64>),
    /// Any band: row `t` is `C_{t,t}, C_{t,t−1}, …`, of `width` numbers, one row after the other.
    Rows {
        /// Numbers in a row.
        width: usize,
        /// All rows.
        rows: Vec<f64>,
    },
    /// Toeplitz with `c₀ = 1` and `c_j = Σᵢ ωᵢ·θᵢ^(j−1)`: a buffered linear Toeplitz matrix.
    Buffered {
        /// How much of each buffer stays.
        decays: Vec<f64>,
        /// How much of each buffer counts.
        weights: Vec<f64>,
    },
    /// The Toeplitz matrix whose *inverse* has these coefficients `d₀, d₁, …`, all later ones zero.
    Inverse(Vec<f64>),
}

/// Checks numbers that are to be finite and of moderate size.
fn moderate(name: &'static str, values: &[f64]) -> Result<(), Error> {
    match values.iter().find(|value| value.is_nan() || value.abs() > MAX_COEFFICIENT) {
        Some(value) => Err(Error::parameter(name, *value, "numbers of size 2^20 or less")),
        None => Ok(()),
    }
}

/// Checks that a number that is divided by is not nearly zero.
fn divisor(name: &'static str, value: f64) -> Result<(), Error> {
    if value.abs() >= 1.0 / MAX_COEFFICIENT {
        Ok(())
    } else {
        Err(Error::parameter(name, value, "at least 2^-20 in size"))
    }
}

impl System {
    /// Returns the same matrix, checked.
    ///
    /// # Errors
    /// If there are no coefficients or too many, one is not finite or larger than 2²⁰, one on the diagonal is smaller
    /// than 2⁻²⁰, or a decay is not within −1 … 1.
    pub fn checked(self) -> Result<Self, Error> {
        let length = |name, given: usize| {
            let fits = (1..=MAX_TERMS).contains(&given);
            if fits { Ok(()) } else { Err(Error::parameter(name, given as f64, "from 1 to 2^20 numbers")) }
        };
        match &self {
            Self::Banded(coefficients) | Self::Inverse(coefficients) => {
                length("coefficients", coefficients.len())?;
                moderate("coefficients", coefficients)?;
                divisor("coefficients[0]", coefficients[0])?;
            }
            Self::Rows { width, rows } => {
                length("width", *width)?;
                if rows.is_empty() || rows.len() % width != 0 {
                    return Err(Error::Length { name: "rows", given: rows.len(), needed: *width });
                }
                moderate("rows", rows)?;
                for row in rows.chunks(*width) {
                    divisor("diagonal", row[0])?;
                }
            }
            Self::Buffered { decays, weights } => {
                length("decays", decays.len())?;
                if decays.len() != weights.len() {
                    let (given, needed) = (weights.len(), decays.len());
                    return Err(Error::Length { name: "weights", given, needed });
                }
                moderate("weights", weights)?;
                if let Some(decay) = decays.iter().find(|decay| decay.is_nan() || decay.abs() > 1.0) {
                    return Err(Error::parameter("decays", *decay, "within -1 and 1"));
                }
            }
        }
        Ok(self)
    }

    /// How many numbers a value needs between steps.
    pub(super) fn num_buffers(&self) -> usize {
        match self {
            Self::Banded(coefficients) => coefficients.len() - 1,
            Self::Rows { width, .. } => width - 1,
            Self::Buffered { decays, .. } => decays.len(),
            Self::Inverse(_) => 0,
        }
    }

    /// How many steps it has, if that is limited.
    pub(super) fn num_steps(&self) -> Option<u64> {
        match self {
            Self::Rows { width, rows } => Some((rows.len() / width) as u64),
            _ => None,
        }
    }

    /// The coefficients of step `t` of a band, the diagonal first.
    pub(super) fn row(&self, step: u64) -> &[f64] {
        match self {
            Self::Banded(coefficients) => coefficients,
            Self::Rows { width, rows } => &rows[step as usize * width..][..*width],
            Self::Inverse(coefficients) => coefficients,
            Self::Buffered { .. } => &[],
        }
    }

    /// Where a band keeps the noise of the step `lag` before `step`: a ring.
    pub(super) fn slot(&self, step: u64, lag: u64) -> usize {
        let num_buffers = self.num_buffers() as u64;
        ((step + num_buffers - lag) % num_buffers) as usize
    }
}
