//! A step for a chunk of values: loops over plain arrays, compiled for each instruction set.
//!
//! Products and sums are fused where that is one instruction, so numbers may differ by their rounding errors: what they leave
//! open differs, too, and what values become does not.

use core::marker::PhantomData;

use super::system::System;
use super::value::Value;
use crate::isa::dispatch::Kernel;

/// Adding and subtracting this rounds a number below 2⁵¹ to the nearest integer.
const ROUNDING_SHIFT: f64 = 6_755_399_441_055_744.0;

/// Numbers that advance together.
const STREAM_LANES_ABREAST: usize = 8;

/// What a chunk's numbers must not exceed.
pub(super) struct Limits<'a> {
    pub(super) variable: f64,
    pub(super) noise: f64,
    pub(super) total: f64,
    pub(super) buffers: &'a [f64],
}

/// From a chunk's variables `Z` to its noise, in place.
pub(super) struct Advance<'a> {
    pub(super) system: &'a System,
    pub(super) step: u64,
    pub(super) limits: Limits<'a>,
    /// Whether the last buffer is the running total, and the noise that.
    pub(super) totals: bool,
    pub(super) variables: &'a mut [f64],
    /// One after the other, each as long as the chunk.
    pub(super) buffers: &'a mut [f64],
}

/// Returns the largest size.
#[inline(always)]
fn largest(values: &[f64]) -> f64 {
    let mut lanes = [0.0_f64; 16];
    let (groups, rest) = values.as_chunks::<16>();
    for group in groups {
        for (lane, value) in lanes.iter_mut().zip(group) {
            let size = value.abs();
            *lane = if size > *lane { size } else { *lane };
        }
    }
    rest.iter().chain(&lanes).fold(0.0, |most, value| if value.abs() > most { value.abs() } else { most })
}

/// `values += factor · others`, rounded twice.
#[inline(always)]
fn add_multiple(values: &mut [f64], factor: f64, others: &[f64]) {
    for (value, other) in values.iter_mut().zip(others) {
        *value += factor * other;
    }
}

impl Kernel for Advance<'_> {
    /// Whether all numbers were within their limits.
    type Output = bool;

    #[inline(always)]
    fn run<const NATIVE: bool>(self) -> bool {
        if let System::Buffered { .. } = self.system {
            return match self.system.num_buffers() {
                1 => self.buffered::<1, NATIVE>(),
                2 => self.buffered::<2, NATIVE>(),
                3 => self.buffered::<3, NATIVE>(),
                // More at once are not compiled to vectors: five took 11 ns a value, and 4.2 one after the other.
                _ => self.many_buffers(),
            };
        }
        let Self { system, step, limits, totals, variables: noise, buffers } = self;
        let len = noise.len();
        let mut is_within = largest(noise) <= limits.variable;
        match system {
            System::Banded(_) | System::Rows { .. } => {
                let row = system.row(step);
                for (lag, coefficient) in (1_u64..).zip(&row[1..]) {
                    if lag <= step {
                        add_multiple(noise, -coefficient, &buffers[system.slot(step, lag) * len..][..len]);
                    }
                }
                if row[0] != 1.0 {
                    for noise in noise.iter_mut() {
                        *noise /= row[0];
                    }
                }
                if row.len() > 1 {
                    buffers[system.slot(step, 0) * len..][..len].copy_from_slice(noise);
                }
            }
            // What the driver has summed is the noise; buffers have functions of their own.
            System::Inverse(_) | System::Buffered { .. } => {}
        }
        is_within &= largest(noise) <= limits.noise;
        if totals {
            let total = &mut buffers[system.num_buffers() * len..][..len];
            is_within &= add_to_totals(total, noise) <= limits.total;
        }
        is_within
    }
}

/// Adds noise to totals, writes them in its place, and returns the largest size.
#[inline(always)]
fn add_to_totals(totals: &mut [f64], noise: &mut [f64]) -> f64 {
    for (total, noise) in totals.iter_mut().zip(noise.iter_mut()) {
        *total += *noise;
        *noise = *total;
    }
    largest(noise)
}

/// The largest sizes so far, lane by lane.
struct Largest<const LANES: usize>([f64; LANES]);

impl<const LANES: usize> Largest<LANES> {
    #[inline(always)]
    fn see(&mut self, values: &[f64; LANES]) {
        for (most, value) in self.0.iter_mut().zip(values) {
            let size = value.abs();
            *most = if size > *most { size } else { *most };
        }
    }

    #[inline(always)]
    fn is_within(&self, limit: f64) -> bool {
        self.0.iter().all(|most| *most <= limit)
    }
}

/// Returns `a · b + c`, rounded once or twice: bounds allow for two.
#[inline(always)]
fn multiply_add<const NATIVE: bool>(a: f64, b: f64, c: f64) -> f64 {
    if NATIVE { a.mul_add(b, c) } else { a * b + c }
}

impl Advance<'_> {
    /// A step of few buffers, whose numbers go through registers once.
    #[inline(always)]
    fn buffered<const NUM: usize, const NATIVE: bool>(self) -> bool {
        let System::Buffered { decays, weights } = self.system else { return false };
        let (Ok(decays), Ok(weights)) = (<[f64; NUM]>::try_from(&**decays), <[f64; NUM]>::try_from(&**weights)) else {
            return false;
        };
        let len = self.variables.len();
        let whole = len / STREAM_LANES_ABREAST * STREAM_LANES_ABREAST;
        let mut parts = self.buffers.chunks_exact_mut(len.max(1));
        let buffers: [_; NUM] = core::array::from_fn(|_| parts.next().unwrap_or_default());
        let totals = if self.totals { parts.next() } else { None };
        let mut tails = [const { [0.0; STREAM_LANES_ABREAST] }; NUM];
        let mut is_within = true;
        let (body, rest) = self.variables.split_at_mut(whole);
        let mut ends: [&mut [f64]; NUM] = core::array::from_fn(|_| Default::default());
        let mut bodies: [&mut [f64]; NUM] = core::array::from_fn(|_| Default::default());
        for (i, buffer) in buffers.into_iter().enumerate() {
            (bodies[i], ends[i]) = buffer.split_at_mut(whole);
        }
        let bodies = bodies.map(|body| body.as_chunks_mut::<STREAM_LANES_ABREAST>().0);
        is_within &= advanced::<NUM, NATIVE>(&decays, &weights, &self.limits, body.as_chunks_mut().0, bodies);
        if !rest.is_empty() {
            let mut padded = [0.0; STREAM_LANES_ABREAST];
            padded[..rest.len()].copy_from_slice(rest);
            for (tail, end) in tails.iter_mut().zip(&ends) {
                tail[..end.len()].copy_from_slice(end);
            }
            let tail = tails.each_mut().map(core::slice::from_mut);
            let one = core::slice::from_mut(&mut padded);
            is_within &= advanced::<NUM, NATIVE>(&decays, &weights, &self.limits, one, tail);
            rest.copy_from_slice(&padded[..rest.len()]);
            for (tail, end) in tails.iter().zip(ends) {
                end.copy_from_slice(&tail[..end.len()]);
            }
        }
        if let Some(totals) = totals {
            is_within &= add_to_totals(totals, self.variables) <= self.limits.total;
        }
        is_within
    }

    /// A step of any number of buffers.
    #[inline(always)]
    fn many_buffers(self) -> bool {
        let Self { system, limits, totals, variables: noise, buffers, .. } = self;
        let System::Buffered { decays, weights } = system else { return false };
        let len = noise.len();
        let mut is_within = largest(noise) <= limits.variable;
        for (i, (weight, limit)) in weights.iter().zip(limits.buffers).enumerate() {
            let buffer = &buffers[i * len..][..len];
            is_within &= largest(buffer) <= *limit;
            add_multiple(noise, -weight, buffer);
        }
        for (i, decay) in decays.iter().enumerate() {
            for (buffer, noise) in buffers[i * len..][..len].iter_mut().zip(&*noise) {
                *buffer = decay * *buffer + noise;
            }
        }
        is_within &= largest(noise) <= limits.noise;
        if totals {
            is_within &= add_to_totals(&mut buffers[system.num_buffers() * len..][..len], noise) <= limits.total;
        }
        is_within
    }
}

/// Does a step of groups of lanes, and returns whether all numbers were within their limits.
#[inline(always)]
fn advanced<const NUM: usize, const NATIVE: bool>(
    decays: &[f64; NUM],
    weights: &[f64; NUM],
    limits: &Limits<'_>,
    noise: &mut [[f64; STREAM_LANES_ABREAST]],
    buffers: [&mut [[f64; STREAM_LANES_ABREAST]]; NUM],
) -> bool {
    let len = noise.len();
    let buffers = buffers.map(|buffer| &mut buffer[..len]);
    let (mut variable, mut sums) = (Largest([0.0; STREAM_LANES_ABREAST]), Largest([0.0; STREAM_LANES_ABREAST]));
    let mut sizes = [const { Largest([0.0; STREAM_LANES_ABREAST]) }; NUM];
    for group in 0..len {
        let mut sum = noise[group];
        let mut kept: [[f64; STREAM_LANES_ABREAST]; NUM] = core::array::from_fn(|i| buffers[i][group]);
        variable.see(&sum);
        for i in 0..NUM {
            sizes[i].see(&kept[i]);
            for lane in 0..STREAM_LANES_ABREAST {
                // mutant: correlated-noise-of-a-buffer
                sum[lane] = multiply_add::<NATIVE>(-weights[i], kept[i][lane], sum[lane]);
            }
        }
        sums.see(&sum);
        noise[group] = sum;
        for i in 0..NUM {
            for lane in 0..STREAM_LANES_ABREAST {
                kept[i][lane] = multiply_add::<NATIVE>(decays[i], kept[i][lane], sum[lane]);
            }
            buffers[i][group] = kept[i];
        }
    }
    let mut is_within = variable.is_within(limits.variable) & sums.is_within(limits.noise);
    for (size, limit) in sizes.iter().zip(limits.buffers) {
        is_within &= size.is_within(*limit);
    }
    is_within
}

/// `sums += coefficient · variables`: a term of a step that keeps no buffers.
pub(super) struct Accumulate<'a> {
    pub(super) coefficient: f64,
    pub(super) variables: &'a [f64],
    pub(super) limit: f64,
    pub(super) sums: &'a mut [f64],
}

impl Kernel for Accumulate<'_> {
    /// Whether all variables were within their limit.
    type Output = bool;

    #[inline(always)]
    fn run<const NATIVE: bool>(self) -> bool {
        add_multiple(self.sums, self.coefficient, self.variables);
        largest(self.variables) <= self.limit
    }
}

/// A kind of numbers that noise is added to, as whole numbers of steps and what is left of them.
pub(super) trait Kind: Sync {
    /// The numbers.
    type Value: Copy + Send + Sync;
    /// Their whole steps.
    type Whole: Copy;
    /// What a step of the grid is.
    type Grid: Copy + Send + Sync;
    /// Returns the nearest multiple, what is left of the value, in `(−1, 1)`, and whether both are right: exact, or as good as
    /// 0 where a product underflows.
    fn split(value: Self::Value, grid: Self::Grid) -> (Self::Whole, f64, bool);
    /// Returns `whole + n`, in the values' unit.
    fn join(whole: Self::Whole, n: f64, grid: Self::Grid) -> Self::Value;
}

/// A power of two and its reciprocal.
#[derive(Clone, Copy)]
pub(super) struct Width {
    pub(super) width: f64,
    pub(super) reciprocal: f64,
}

/// Floats.
pub(super) struct Floats<T>(PhantomData<fn(T)>);

impl<T: Value> Kind for Floats<T> {
    type Value = T;
    type Whole = f64;
    type Grid = Width;

    #[inline(always)]
    fn split(value: T, grid: Width) -> (f64, f64, bool) {
        let value = value.widen();
        let value = if value.abs() <= f64::MAX { value } else { 0.0 };
        let steps = value * grid.reciprocal;
        // From 2⁵² steps on a float is a multiple; between, somebody else says.
        let is_small = steps.abs() < 2_251_799_813_685_248.0;
        let is_large = (steps.abs() >= 4_503_599_627_370_496.0) & (steps.abs() <= f64::MAX);
        let whole = if is_small { (steps + ROUNDING_SHIFT) - ROUNDING_SHIFT } else { steps };
        let left = if is_small { steps - whole } else { 0.0 };
        (whole, left, is_small | is_large)
    }

    #[inline(always)]
    fn join(whole: f64, n: f64, grid: Width) -> T {
        T::narrow((whole + n) * grid.width + 0.0)
    }
}

/// Integers; the grid is the binary logarithm of the integers in a step.
pub(super) struct Integers;

impl Kind for Integers {
    type Value = i64;
    type Whole = i64;
    type Grid = u32;

    #[inline(always)]
    fn split(value: i64, grid: u32) -> (i64, f64, bool) {
        // From below: half a step and more belong to what is left, whose sum with noise is rounded.
        let whole = value >> grid;
        // Never out of range; a checked difference would keep the loop from becoming one of vectors.
        let left = value.wrapping_sub(whole << grid);
        // Below 2⁴⁰, so the bits of 2⁵² + left hold it.
        let float = f64::from_bits(left.cast_unsigned() | 4_503_599_627_370_496.0_f64.to_bits());
        let scale = f64::from_bits(u64::from(1023 - grid) << 52);
        (whole, (float - 4_503_599_627_370_496.0) * scale, true)
    }

    #[inline(always)]
    fn join(whole: i64, n: f64, _: u32) -> i64 {
        // |n| < 2⁵¹ where a sum is decided; there is no conversion of vectors before AVX-512.
        let n = (n + ROUNDING_SHIFT).to_bits().wrapping_sub(ROUNDING_SHIFT.to_bits()).cast_signed();
        whole.saturating_add(n)
    }
}

/// Nothing: a step that nobody sees.
pub(super) struct Nothing;

impl Kind for Nothing {
    type Value = ();
    type Whole = ();
    type Grid = ();

    #[inline(always)]
    fn split((): (), (): ()) -> ((), f64, bool) {
        ((), 0.0, true)
    }

    #[inline(always)]
    fn join((): (), _: f64, (): ()) {}
}

/// Adds noise to values where floats decide what the sum is rounded to.
pub(super) struct Round<'a, K: Kind> {
    pub(super) values: &'a mut [K::Value],
    pub(super) noise: &'a [f64],
    /// Grid steps in a unit of the noise.
    pub(super) factor: f64,
    /// A sum is decided if it is closer than this to an integer.
    pub(super) limit: f64,
    pub(super) grid: K::Grid,
    /// One for what is left open.
    pub(super) open: &'a mut [u8],
}

impl<K: Kind> Kernel for Round<'_, K> {
    /// Whether nothing is left open.
    type Output = bool;

    #[inline(always)]
    fn run<const NATIVE: bool>(self) -> bool {
        let Self { values, noise, factor, limit, grid, open } = self;
        let len = values.len().min(noise.len()).min(open.len());
        let (values, noise, open) = (&mut values[..len], &noise[..len], &mut open[..len]);
        let mut any = 0;
        for i in 0..len {
            let (whole, left, is_exact) = K::split(values[i], grid);
            let y = left + factor * noise[i];
            let n = (y + ROUNDING_SHIFT) - ROUNDING_SHIFT;
            // Written so that what is not a number is open.
            let is_decided = ((y - n).abs() < limit) & is_exact;
            open[i] = u8::from(!is_decided);
            any |= open[i];
            let sum = K::join(whole, n, grid);
            values[i] = if is_decided { sum } else { values[i] };
        }
        any == 0
    }
}
