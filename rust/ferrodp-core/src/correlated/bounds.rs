//! How far a step's noise in floating point is from the truth, for all values at once; the theorem is in [`super`].

use super::system::System;
use crate::error::Error;
use crate::machine::memory::filled;
use crate::params::exp2;

/// How many standard deviations a variable may be from 0 for the bounds to hold; what is beyond leaves everything open.
/// The probability is below 10⁻³⁴⁷.
const MAX_DEVIATIONS: f64 = 40.0;

/// Relative error of one operation.
const UNIT_ROUNDOFF: f64 = f64::EPSILON / 2.0;

/// Room for the rounding of what is computed here: see [`super`], *Bounds in floating point*.
const ROUNDED_UP: f64 = 1.001;

/// What bounds the noise of one step, in standard deviations of `Z`.
#[derive(Clone, Debug)]
pub(super) struct Bounds {
    /// The largest `|Z|`, `|w|` and `|Σw|` for which the others hold.
    pub(super) variable: f64,
    pub(super) noise: f64,
    pub(super) total: f64,
    /// The same of each buffer.
    pub(super) buffers: Vec<f64>,
    /// `Σ_j |L_tj|` of the output's row.
    gain: f64,
    /// Operations whose rounding errors count as errors of `Z`, weighted by the sizes of what they round: with [`UNIT_ROUNDOFF`] a number.
    rounded: f64,
    /// Units of the last place that the buffers' own updates add.
    truncated: f64,
    /// Units of the last place that the running total adds.
    total_steps: f64,
}

impl Bounds {
    /// Returns how far the noise may be from the truth if each `Z` is off by `error` at most, computed in `f64`.
    pub(super) fn of_floats(&self, error: f64) -> f64 {
        (self.gain * (error + self.rounded * UNIT_ROUNDOFF) + self.total_steps * 2.0 * UNIT_ROUNDOFF * self.total)
            * ROUNDED_UP
    }

    /// The same for fixed point, where each operation cuts off less than `unit`.
    pub(super) fn of_fixed_point(&self, error: f64, unit: f64) -> f64 {
        (self.gain * (error + self.truncated * unit) + self.total_steps * unit) * ROUNDED_UP
    }
}

/// The responses to one unit at the first step, and the sums over all steps so far from which bounds are made.
pub(super) struct Responses {
    step: u64,
    /// The responses of the noise at the last steps (a ring) or of the buffers.
    buffers: Vec<f64>,
    /// Of each buffer: `Σ h²` and `Σ|θ|ᵏ`.
    squares: Vec<f64>,
    decayed: Vec<f64>,
    powers: Vec<f64>,
    total: f64,
    noise_size: f64,
    noise_square: f64,
    total_size: f64,
    total_square: f64,
    widest: Widest,
}

impl Responses {
    /// Returns those before the first step.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]
    pub(super) fn new(system: &System) -> Result<Self, Error> {
        let len = system.num_buffers();
        Ok(Self {
            step: 0,
            buffers: filled(0.0, len)?,
            squares: filled(0.0, len)?,
            decayed: filled(0.0, len)?,
            powers: filled(1.0, len)?,
            total: 0.0,
            noise_size: 0.0,
            noise_square: 0.0,
            total_size: 0.0,
            total_square: 0.0,
            widest: Widest::default(),
        })
    }

    /// Returns the bounds of the next step.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]
    pub(super) fn next(&mut self, system: &System, totals: bool) -> Result<Bounds, Error> {
        if let System::Rows { .. } = system {
            let bounds = self.widest.next(system, self.step, totals);
            self.step += 1;
            return bounds;
        }
        let room = filled(0.0, self.squares.len())?;
        let impulse = if self.step == 0 { 1.0 } else { 0.0 };
        // The buffers as the kernel has them at this step: their responses up to now.
        for (square, buffer) in self.squares.iter_mut().zip(&self.buffers) {
            *square += buffer * buffer;
        }
        let noise = match system {
            System::Banded(coefficients) => {
                let lags = (1..coefficients.len()).filter(|lag| *lag as u64 <= self.step);
                let past: f64 =
                    lags.map(|lag| coefficients[lag] * self.buffers[system.slot(self.step, lag as u64)]).sum();
                (impulse - past) / coefficients[0]
            }
            System::Inverse(coefficients) => coefficients.get(self.step as usize).copied().unwrap_or(0.0),
            System::Buffered { weights, .. } => {
                impulse - weights.iter().zip(&self.buffers).map(|(weight, buffer)| weight * buffer).sum::<f64>()
            }
            System::Rows { .. } => unreachable!("rows have no common response"),
        };
        self.noise_size += noise.abs();
        self.noise_square += noise * noise;
        self.total += noise;
        self.total_size += self.total.abs();
        self.total_square += self.total * self.total;
        let bounds = self.bounds(system, totals, room);
        match system {
            System::Banded(coefficients) if coefficients.len() > 1 => {
                let slot = system.slot(self.step, 0);
                self.buffers[slot] = noise;
            }
            System::Buffered { decays, .. } => {
                for (i, decay) in decays.iter().enumerate() {
                    self.buffers[i] = decay * self.buffers[i] + noise;
                    self.decayed[i] += self.powers[i];
                    self.powers[i] *= decay.abs();
                }
            }
            _ => {}
        }
        self.step += 1;
        Ok(bounds)
    }

    fn bounds(&self, system: &System, totals: bool, mut buffers: Vec<f64>) -> Bounds {
        let noise = MAX_DEVIATIONS * self.noise_square.sqrt() * ROUNDED_UP;
        let total = MAX_DEVIATIONS * self.total_square.sqrt() * ROUNDED_UP;
        let (mut rounded, mut truncated) = of_band(system, self.step, noise);
        if let System::Buffered { decays, weights } = system {
            let terms = 2.0 * (weights.len() as f64 + 1.0);
            (rounded, truncated) = (terms * MAX_DEVIATIONS, weights.len() as f64);
            for i in 0..weights.len() {
                buffers[i] = MAX_DEVIATIONS * self.squares[i].sqrt() * ROUNDED_UP;
                let weight = weights[i].abs();
                let update = 4.0 * (decays[i].abs() * buffers[i] + noise);
                rounded += weight * (terms * buffers[i] + self.decayed[i] * update);
                truncated += weight * self.decayed[i] * 2.0;
            }
        }
        let gain = if totals { self.total_size } else { self.noise_size };
        // A matrix that is given by its inverse solves nothing: its rounding errors are those of one sum.
        if let System::Inverse(coefficients) = system {
            let size: f64 = coefficients.iter().map(|coefficient| coefficient.abs()).sum();
            let divided = if gain > 0.0 { size / gain } else { 0.0 };
            // Each step of a total adds those of its own sum.
            let terms = (coefficients.len() as f64 + 2.0) * if totals { (self.step + 1) as f64 } else { 1.0 };
            rounded = 2.0 * terms * MAX_DEVIATIONS * divided;
            truncated = terms * if gain > 0.0 { 1.0 / gain } else { 0.0 };
        }
        let total_steps = if totals { (self.step + 1) as f64 } else { 0.0 };
        Bounds { variable: MAX_DEVIATIONS, noise, total, buffers, gain, rounded, truncated, total_steps }
    }
}

/// Returns what a band's operations at one step count for.
fn of_band(system: &System, step: u64, noise: f64) -> (f64, f64) {
    let row = system.row(step);
    let size: f64 = row.iter().map(|coefficient| coefficient.abs()).sum();
    let terms = 2.0 * (row.len() as f64 + 1.0);
    (terms * (MAX_DEVIATIONS + size * noise), terms * (1.0 + row.first().map_or(0.0, |first| first.abs())))
}

/// What bands that are not Toeplitz have had so far: the most of all steps.
#[derive(Default)]
struct Widest {
    noise: f64,
    row: f64,
    diagonal: f64,
}

impl Widest {
    /// Returns the bounds of one step, from its row of the inverse: `xᵀC = eᵀ`.
    ///
    /// Rounding errors of earlier steps count by their own rows, and none is larger than those of the widest row.
    fn next(&mut self, system: &System, step: u64, totals: bool) -> Result<Bounds, Error> {
        let len = step as usize + 1;
        let last = solved(system, len, |row| row + 1 == len)?;
        let all = if totals { solved(system, len, |_| true)? } else { Vec::new() };
        let squares = |row: &[f64]| row.iter().map(|x| x * x).sum::<f64>();
        let sizes = |row: &[f64]| row.iter().map(|x| x.abs()).sum::<f64>();
        let noise = MAX_DEVIATIONS * squares(&last).sqrt() * ROUNDED_UP;
        let row = system.row(step);
        self.noise = self.noise.max(noise);
        self.row = self.row.max(sizes(row));
        self.diagonal = self.diagonal.max(row[0].abs());
        let terms = 2.0 * (row.len() as f64 + 1.0);
        Ok(Bounds {
            variable: MAX_DEVIATIONS,
            noise,
            total: MAX_DEVIATIONS * squares(&all).sqrt() * ROUNDED_UP,
            buffers: Vec::new(),
            gain: if totals { sizes(&all) } else { sizes(&last) },
            rounded: terms * (MAX_DEVIATIONS + self.row * self.noise),
            truncated: terms * (1.0 + self.diagonal),
            total_steps: if totals { len as f64 } else { 0.0 },
        })
    }
}

/// Returns `xᵀ = vᵀ·C⁻¹` over the first `len` steps, for a vector `v` of ones and zeros.
fn solved(system: &System, len: usize, counts: impl Fn(usize) -> bool) -> Result<Vec<f64>, Error> {
    let mut solution: Vec<f64> = filled(0.0, len)?;
    for column in (0..len).rev() {
        let mut value = if counts(column) { 1.0 } else { 0.0 };
        let width = system.row(column as u64).len();
        #[expect(clippy::needless_range_loop, reason = "`row` counts places of two vectors")]
        for row in column + 1..len.min(column + width) {
            value -= solution[row] * system.row(row as u64)[row - column];
        }
        solution[column] = value / system.row(column as u64)[0];
    }
    Ok(solution)
}

/// Returns how far a `Z` of so many digits may be from the truth.
pub(super) fn of_digits(bits: u32) -> f64 {
    exp2(-(bits.cast_signed()) - 1)
}
