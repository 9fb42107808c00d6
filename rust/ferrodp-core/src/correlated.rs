//! Noise that is correlated over time, rounded exactly: one step of a stream after the other.
//!
//! A stream has a lower-triangular matrix `C` ([`System`]), a standard deviation `σ` and a grid `g = 2^e`. With independent
//! standard normal variables `Z₀, Z₁, …` the noise of step `t` is `w_t = (C⁻¹Z)_t`, a real number, and the step makes of a value
//! `v_t` the number `g · round((v_t + σ·w_t)/g)`, rounded correctly; a stream of *totals* adds `σ·(w₀ + … + w_t)` instead, the
//! noise of a prefix sum.
//!
//! **Privacy.** `C(v + σw) = Cv + σZ`: the vector of all `v + σw` is a linear function of one Gaussian mechanism on `Cv`, and so
//! are its prefix sums; what is released is a function of that, element by element. So the whole run costs what the Gaussian
//! mechanism with the L2 sensitivity of `Cv` costs, and rounding is post-processing. Later values may depend on earlier outputs:
//! Denisov, McMahan, Rush, Smith, Thakurta, "Improved differential privacy for SGD via optimal private linear operators on
//! adaptive streams", NeurIPS 2022, theorem 2.1.
//!
//! **Exactness.** `Z_t` of value `i` is sample `i` under a key of step `t`, whose binary digits are drawn as they are needed
//! ([`crate::sample`]). Floats propose: `z̃`, within `2⁻³⁵` of `Z` or nearer ([`Precision`]), and `w̃` by the recursion in `f64`. A sum that is farther from all
//! half-integers than `w̃` may be from `w` is decided; others are computed anew in integers, from the keys of all steps, with
//! as many digits as it takes ([`settle`]). So outputs do not depend on instruction set, threads, or the state's own rounding
//! errors; widening the margins ([`Stream::with_widened_margins`]) changes no bit, and a stream that is resumed from its key and
//! its step goes on with the same noise.
//!
//! **The bound.** Let `u = 2⁻⁵³`, and let all `|z̃|`, `|w̃|` and buffers be within limits `M` that the kernel checks. A band computes
//! `c₀w̃_t = z̃_t − Σ c_j·w̃_{t−j}` with an error `δ_t` of at most that of `z̃` plus one rounding of at most
//! `M_z + Σ|c_j|·M_w` a term. So `Cw̃ = Z + δ` and `|w̃_t − w_t| ≤ Σ_j |(C⁻¹)_tj|·max|δ|`. Buffers, `b_i ← θ_i·b_i + w̃`, are off by at most
//! `Σ_k |θ_i|ᵏ` times the rounding of one update, and count by `|ω_i|` into the same `δ`. For totals the rows are those of `A·C⁻¹`, and each
//! addition rounds once more. The row sums come from the response to a unit at the first step.
//!
//! *Bounds in floating point.* That response is computed by the same recursion in `f64`, so it is itself off by at most `Σ|(C⁻¹)_tj|·δ`, with
//! a `δ` of `2⁻⁵⁰` or less of what the limits would allow: far less than the part in a thousand that every bound is enlarged by. If limits were exceeded
//! (probability below 10⁻³⁴⁰), the stream would decide everything in integers from there on.

use core::num::NonZeroUsize;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use zeroize::Zeroize;

use crate::error::Error;
use crate::isa::Isa;
use crate::isa::dispatch::{self, CACHE_LINE, prefetch};
use crate::machine::blocks;
use crate::machine::memory::{filled, push, room};
use crate::machine::residue::leaving_nothing;
use crate::math::float_environment::in_default_environment;
use crate::params::{Granularity, exp2, floor_log2, positive};
use crate::random::Key;
use crate::sample::standard::{Normals, Precision, Words, standard};
use bounds::{Bounds, Responses};
use kernel::{Accumulate, Advance, Floats, Integers, Kind, Limits, Nothing, Round, Width};
use settle::{Question, Room};
pub use system::System;
pub use value::Value;

mod bounds;
mod kernel;
mod settle;
mod system;
mod value;

/// Values handled at once: with a few buffers they fit into a first-level cache of 32 KB. Buffers of 4096 bytes would lie in the same places
/// of it, and loads would wait for stores that have nothing to do with them.
const VALUES_PER_CHUNK: usize = 480;

/// Chunks in one unit of work for a thread.
const CHUNKS_PER_TASK: usize = 32;

/// Steps a value that are computed anew, on average, up to which variables are proposed coarsely. One takes about 150 ns, the finer
/// polynomials take .2 ns a value longer (`benches/record/2026-11-28-correlated-speed.txt`).
const MAX_STEPS_ANEW: f64 = 1.0 / 1024.0;

/// The supported `⌊log₂(σ/g)⌋`: with more, what floats propose would leave too much open.
const STREAM_LOG2_RATIOS: core::ops::RangeInclusive<i32> = -3..=32;

/// The most steps: the bounds in floating point need `t·2⁻⁵⁰` to be small.
pub const MAX_STREAM_STEPS: u64 = 1 << 30;

/// The most that integers may be finer than the grid of the noise, as a binary logarithm.
pub const MAX_SHIFT: u32 = 40;

/// A stream of correlated noise for a fixed number of values, at some step.
///
/// It holds the key of the stream and the noise of earlier steps, both wiped on drop. Whoever holds it must see to it that no step is
/// drawn twice for different values: in copies, forks and restarts.
pub struct Stream {
    system: System,
    totals: bool,
    granularity: Granularity,
    /// `σ/g`.
    ratio: f64,
    key: Key,
    step: u64,
    len: usize,
    responses: Responses,
    /// All buffers of the first chunk, then those of the next one.
    buffers: Vec<f64>,
    /// Whether a number was beyond its limit: then floats decide nothing any more.
    is_beyond: AtomicBool,
    widening: f64,
    /// Room for what is settled in integers, made in time.
    room: Mutex<Room>,
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.buffers.zeroize();
    }
}

/// A stream that has no key yet.
pub struct Opening {
    system: System,
    totals: bool,
    granularity: Granularity,
    ratio: f64,
    len: usize,
    responses: Responses,
    buffers: Vec<f64>,
    room: Room,
}

impl Opening {
    /// Returns the stream with this key.
    #[must_use]
    pub fn begin(self, key: Key) -> Stream {
        Stream {
            system: self.system,
            totals: self.totals,
            granularity: self.granularity,
            ratio: self.ratio,
            key,
            step: 0,
            len: self.len,
            responses: self.responses,
            buffers: self.buffers,
            is_beyond: AtomicBool::new(false),
            widening: 0.0,
            room: Mutex::new(self.room),
        }
    }
}

/// A chunk of values with its buffers.
struct Part<'a, T> {
    values: &'a mut [T],
    buffers: &'a mut [f64],
}

/// What a thread needs for one chunk after the other; wiped with its stack.
struct Scratch {
    words: Words,
    noise: [f64; VALUES_PER_CHUNK],
    open: [u8; VALUES_PER_CHUNK],
}

impl Stream {
    /// Returns a stream before its first step, for so many values: of noise with this standard deviation, and of prefix sums if
    /// `totals`.
    ///
    /// # Errors
    /// If the matrix is refused ([`System::checked`]), the standard deviation is not finite and positive or outside 2⁻³ … 2³³ times
    /// the granularity, or there is no memory.
    pub fn new(
        system: System,
        totals: bool,
        standard_deviation: f64,
        granularity: Granularity,
        len: usize,
        key: Key,
    ) -> Result<Self, Error> {
        Ok(Self::opening(system, totals, standard_deviation, granularity, len)?.begin(key))
    }

    /// Returns all of a stream but its key: what can be refused is refused here, before there is one.
    ///
    /// # Errors
    /// As [`Stream::new`].
    pub fn opening(
        system: System,
        totals: bool,
        standard_deviation: f64,
        granularity: Granularity,
        len: usize,
    ) -> Result<Opening, Error> {
        let system = system.checked()?;
        let scale = positive("standard_deviation", standard_deviation)?;
        let log2_ratio = floor_log2(scale) - granularity.exponent();
        if !STREAM_LOG2_RATIOS.contains(&log2_ratio) || scale < f64::MIN_POSITIVE {
            let (low, high) = (STREAM_LOG2_RATIOS.start(), STREAM_LOG2_RATIOS.end() + 1);
            let accepted = format!("between 2^{low} and 2^{high} times the granularity {:e}", granularity.width());
            return Err(Error::parameter("standard_deviation", scale, accepted));
        }
        let in_chunk = system.num_buffers() + usize::from(totals);
        let needed = in_chunk.checked_mul(len).ok_or(Error::OutOfMemory)?;
        Ok(Opening {
            responses: Responses::new(&system)?,
            buffers: filled(0.0, needed)?,
            room: Room::new(system.num_buffers())?,
            ratio: scale * granularity.reciprocal(),
            system,
            totals,
            granularity,
            len,
        })
    }

    /// Returns the same stream with its margin widened by `steps` grid steps (at most ½: then floats decide nothing): the output must
    /// not change. For tests.
    #[doc(hidden)]
    #[must_use]
    pub fn with_widened_margins(mut self, steps: f64) -> Self {
        self.widening = steps.clamp(0.0, 0.5);
        self
    }

    /// The next step, the first one 0.
    #[must_use]
    pub const fn step(&self) -> u64 {
        self.step
    }

    /// How many values a step has.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether a step has no values.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The grid.
    #[must_use]
    pub const fn granularity(&self) -> Granularity {
        self.granularity
    }

    /// Adds the noise of the next step to `values`, in place. A value that is not finite counts as 0, and a result beyond the range of `T`
    /// becomes its largest finite number.
    ///
    /// # Errors
    /// If there is another number of values, no step is left, or there is no memory; then nothing has changed.
    pub fn add<T: Value>(&mut self, isa: Isa, values: &mut [T], threads: NonZeroUsize) -> Result<(), Error> {
        let granularity = self.granularity;
        let grid = Width { width: granularity.width(), reciprocal: granularity.reciprocal() };
        let noise_of_one = |value: T, settle: &mut dyn FnMut(i64, i32) -> i128| {
            T::narrow(one_float(value.widen(), granularity, settle))
        };
        self.run::<Floats<T>>(isa, values, threads, grid, &noise_of_one)
    }

    /// Adds the noise of the next step to integers in units of the grid divided by `2^shift`, and replaces them by what these sums are
    /// rounded to, in units of the grid. A result beyond 64 bits becomes the largest or smallest number.
    ///
    /// # Errors
    /// As [`Stream::add`]; if `shift` is larger than [`MAX_SHIFT`].
    pub fn add_to_integers(
        &mut self,
        isa: Isa,
        values: &mut [i64],
        shift: u32,
        threads: NonZeroUsize,
    ) -> Result<(), Error> {
        if shift > MAX_SHIFT {
            return Err(Error::parameter("shift", f64::from(shift), "from 0 to 40"));
        }
        let noise_of_one = |value: i64, settle: &mut dyn FnMut(i64, i32) -> i128| {
            let whole = value >> shift;
            let n = settle(value - (whole << shift), -(shift.cast_signed()));
            (i128::from(whole) + n).clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
        };
        self.run::<Integers>(isa, values, threads, shift, &noise_of_one)
    }

    /// Draws the next step for nobody: what comes after a step that was drawn before a restart.
    ///
    /// # Errors
    /// As [`Stream::add`].
    pub fn skip(&mut self, isa: Isa, threads: NonZeroUsize) -> Result<(), Error> {
        let nothing = |_: (), _: &mut dyn FnMut(i64, i32) -> i128| ();
        let mut values = filled((), self.len)?;
        self.run::<Nothing>(isa, &mut values, threads, (), &nothing)
    }

    /// Does a step: `one` noises a value that floats leave open.
    #[expect(clippy::type_complexity, reason = "written where it is used")]
    fn run<K: Kind>(
        &mut self,
        isa: Isa,
        values: &mut [K::Value],
        threads: NonZeroUsize,
        grid: K::Grid,
        one: &(dyn Fn(K::Value, &mut dyn FnMut(i64, i32) -> i128) -> K::Value + Sync),
    ) -> Result<(), Error> {
        if values.len() != self.len {
            return Err(Error::Length { name: "values", given: values.len(), needed: self.len });
        }
        if self.step >= self.system.num_steps().unwrap_or(MAX_STREAM_STEPS) {
            let accepted = format!("below {}", self.system.num_steps().unwrap_or(MAX_STREAM_STEPS));
            return Err(Error::parameter("step", self.step as f64, accepted));
        }
        let in_chunk = self.system.num_buffers() + usize::from(self.totals);
        let mut buffers = core::mem::take(&mut self.buffers);
        let mut parts = match room(values.len().div_ceil(VALUES_PER_CHUNK)) {
            Ok(parts) => parts,
            Err(error) => {
                self.buffers = buffers;
                return Err(error);
            }
        };
        let bounds = in_default_environment(|| self.responses.next(&self.system, self.totals));
        let bounds = match bounds {
            Ok(bounds) => bounds,
            Err(error) => {
                self.buffers = buffers;
                return Err(error);
            }
        };
        let mut rest = buffers.as_mut_slice();
        for chunk in values.chunks_mut(VALUES_PER_CHUNK) {
            let (head, tail) = rest.split_at_mut(in_chunk * chunk.len());
            rest = tail;
            push(&mut parts, Part { values: chunk, buffers: head })?;
        }
        let this = &*self;
        leaving_nothing(|| {
            let source = standard();
            let key = this.key_of(isa, this.step);
            let normals = Normals::new(&source, isa, &key);
            let precision = this.precision(&bounds);
            blocks::for_each_block(&mut parts, CHUNKS_PER_TASK, threads, |first, parts| {
                in_default_environment(|| {
                    let mut scratch =
                        Scratch { words: Words::new(), noise: [0.0; VALUES_PER_CHUNK], open: [0; VALUES_PER_CHUNK] };
                    for (index, part) in (first..).zip(parts) {
                        // On their way while variables are drawn: a chunk's buffers are too short for CPUs to fetch ahead.
                        for line in part.buffers.chunks(CACHE_LINE / size_of::<f64>()) {
                            prefetch(line.as_ptr());
                        }
                        let start = (index * VALUES_PER_CHUNK) as u64;
                        this.one_chunk::<K>(isa, &normals, precision, &bounds, start, part, &mut scratch, grid, one);
                    }
                });
            });
        });
        drop(parts);
        self.buffers = buffers;
        self.step += 1;
        Ok(())
    }

    /// Returns how near the proposed variables are to be: what the coarse ones leave open is computed anew, step after step.
    fn precision(&self, bounds: &Bounds) -> Precision {
        let open = 2.0 * self.ratio * bounds.of_floats(Precision::Coarse.error());
        if open * (self.step + 1) as f64 <= MAX_STEPS_ANEW { Precision::Coarse } else { Precision::Fine }
    }

    /// Returns the key of a step. For code inside [`leaving_nothing`].
    fn key_of(&self, isa: Isa, step: u64) -> Key {
        let mut bytes = [0; 32];
        // mutant: steps-share-a-key
        self.key.derive_within(isa, step, &mut bytes);
        let key = Key::from_bytes(bytes);
        bytes.zeroize();
        key
    }

    #[allow(clippy::too_many_arguments, reason = "a chunk, and what all chunks share")]
    #[expect(clippy::type_complexity, reason = "written where it is used")]
    fn one_chunk<K: Kind>(
        &self,
        isa: Isa,
        normals: &Normals<'_>,
        precision: Precision,
        bounds: &Bounds,
        start: u64,
        part: &mut Part<'_, K::Value>,
        scratch: &mut Scratch,
        grid: K::Grid,
        one: &(dyn Fn(K::Value, &mut dyn FnMut(i64, i32) -> i128) -> K::Value + Sync),
    ) {
        let noise = &mut scratch.noise[..part.values.len()];
        let mut is_within = true;
        if let System::Inverse(coefficients) = &self.system {
            is_within = self.sum_of_steps(
                isa,
                normals,
                precision,
                coefficients,
                start,
                bounds.variable,
                &mut scratch.words,
                noise,
            );
        } else {
            normals.propose(precision, start, &mut scratch.words, noise);
        }
        let limits = Limits {
            variable: if matches!(self.system, System::Inverse(_)) { f64::MAX } else { bounds.variable },
            noise: bounds.noise,
            total: bounds.total,
            buffers: &bounds.buffers,
        };
        let (system, step, totals) = (&self.system, self.step, self.totals);
        let advance = Advance { system, step, limits, totals, variables: noise, buffers: part.buffers };
        is_within &= dispatch::run(isa, advance);
        if !is_within {
            self.is_beyond.store(true, Ordering::Relaxed);
        }
        let error = bounds.of_floats(precision.error());
        let largest = if self.totals { bounds.total } else { bounds.noise };
        // Product and sum round once each.
        let rounding = (self.ratio * largest + 2.0) * (2.0 * f64::EPSILON);
        // mutant: margin-of-correlated-noise
        let margin = (self.ratio * error + rounding) * 1.001 + self.widening;
        let limit = if self.is_beyond.load(Ordering::Relaxed) { 0.0 } else { 0.5 - margin };
        let open = &mut scratch.open[..part.values.len()];
        let values = &mut *part.values;
        let factor = self.ratio;
        if dispatch::run(isa, Round::<K> { values, noise, factor, limit, grid, open }) {
            return;
        }
        for (place, _) in open.iter().enumerate().filter(|(_, open)| **open != 0) {
            let index = start + place as u64;
            let mut settle = |mantissa, exponent| self.settle(isa, bounds, index, mantissa, exponent);
            part.values[place] = one(part.values[place], &mut settle);
        }
    }

    /// Writes `Σ_j d_j·z̃_{t−j}`, each drawn again, and returns whether all were within the limit.
    #[expect(clippy::too_many_arguments, reason = "a chunk, and what all chunks share")]
    fn sum_of_steps(
        &self,
        isa: Isa,
        normals: &Normals<'_>,
        precision: Precision,
        coefficients: &[f64],
        start: u64,
        limit: f64,
        words: &mut Words,
        sums: &mut [f64],
    ) -> bool {
        sums.fill(0.0);
        let mut variables = [0.0; VALUES_PER_CHUNK];
        let variables = &mut variables[..sums.len()];
        let mut is_within = true;
        for (lag, coefficient) in (0_u64..).zip(coefficients).filter(|(lag, _)| *lag <= self.step) {
            if lag == 0 {
                normals.propose(precision, start, words, variables);
            } else {
                let source = standard();
                let key = self.key_of(isa, self.step - lag);
                Normals::new(&source, isa, &key).propose(precision, start, words, variables);
            }
            let (coefficient, variables) = (*coefficient, &*variables);
            is_within &= dispatch::run(isa, Accumulate { coefficient, variables, limit, sums });
        }
        is_within
    }

    /// Returns `round(mantissa · 2^exponent + ratio · noise)` of one value, for certain.
    #[inline(never)]
    fn settle(&self, isa: Isa, bounds: &Bounds, index: u64, mantissa: i64, exponent: i32) -> i128 {
        let key_of = |step| self.key_of(isa, step);
        let question = Question {
            isa,
            system: &self.system,
            totals: self.totals,
            bounds,
            key_of: &key_of,
            step: self.step,
            index,
            ratio: self.ratio,
        };
        let mut room = self.room.lock().unwrap_or_else(PoisonError::into_inner);
        question.nearest(mantissa, exponent, &mut room)
    }
}

/// Returns what noise makes of one float: `settle` rounds what is left of it beside a multiple of the grid, with noise.
fn one_float(value: f64, granularity: Granularity, settle: &mut dyn FnMut(i64, i32) -> i128) -> f64 {
    let value = if value.is_finite() { value } else { 0.0 };
    let steps = value * granularity.reciprocal();
    if steps.is_infinite() {
        // 2¹⁰²⁴ steps at least, of which floats keep 53 digits: no noise of less than 2¹²⁷ steps shows in their sum.
        return value;
    }
    let is_whole = steps.abs() >= exp2(53);
    let whole = if is_whole { steps } else { steps.round_ties_even() };
    let left = if whole == 0.0 { value } else { 0.0 };
    let bits = left.to_bits();
    let (biased, fraction) = (((bits >> 52) & 0x7ff) as i32, (bits & ((1 << 52) - 1)).cast_signed());
    let (size, exponent) = if biased == 0 { (fraction, -1074) } else { (fraction | (1 << 52), biased - 1075) };
    let n = if whole == 0.0 {
        settle(if left < 0.0 { -size } else { size }, exponent - granularity.exponent())
    } else if is_whole {
        settle(0, 0)
    } else {
        // A multiple of 2⁻⁵³, and ½ at most.
        settle(((steps - whole) * exp2(53)) as i64, -53)
    };
    if n.unsigned_abs() < 1 << 53 {
        return (whole + n as f64) * granularity.width() + 0.0;
    }
    // Noise of 2⁵³ steps has a probability below e^−100000; the sum of integers is formed in 128 bits.
    if whole.abs() < exp2(100) {
        return (whole as i128 + n) as f64 * granularity.width();
    }
    (whole + n as f64) * granularity.width() + 0.0
}
