//! Clipped rows as floating-point numbers.
//!
//! A row is copied to the output first and measured there, so every input element is read once and what was measured is
//! what is scaled. Rows of norm ≤ `C` keep their bits. A longer row is multiplied by a factor that pays for all rounding
//! ([`super::rule::error_budget`]); `f32` elements are rounded toward zero, so that subnormal ones pay too. The output's norm
//! is at most `C` in exact arithmetic.

use core::num::NonZeroUsize;

use super::kernels::measure::{BLOCK_ELEMENTS, Power, add_powers, largest_magnitude};
use super::rule::clip_norm::ClipNorm;
use super::rule::decide::{Decision, Fate, Rule};
use super::rule::error_budget::ErrorBudget;
use super::source::element::Float;
use crate::error::Error;
use crate::isa::Isa;
use crate::isa::dispatch::{self, Kernel};
use crate::machine::blocks::for_each_block;
use crate::math::float_environment::in_default_environment;

/// Bytes of output that a thread works on at a time, at least.
const BYTES_PER_TASK: usize = 1 << 18;

/// Which norm of a row is bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// `Σ|xᵢ|`; longer rows are scaled.
    One,
    /// `√Σxᵢ²`; longer rows are scaled.
    Two,
    /// `max |xᵢ|`; elements are clamped, which is the nearest row within the bound.
    Infinity,
}

/// Writes the rows of `data`, clipped, to `out` and their norms to `norms`; `width` elements a row.
///
/// The norm of a row with an element that is not finite is NaN, and it becomes zeros; a finite norm beyond `f64` is
/// infinite.
///
/// # Errors
/// If `data`, `out` and `width` times the length of `norms` differ. Nothing is written then.
#[allow(clippy::too_many_arguments, reason = "two inputs, two outputs, and how")]
pub fn clip_rows<T: Float>(
    isa: Isa,
    data: &[T],
    width: usize,
    clip: ClipNorm,
    order: Order,
    out: &mut [T],
    norms: &mut [f64],
    threads: NonZeroUsize,
) -> Result<(), Error> {
    let needed = width.saturating_mul(norms.len());
    if data.len() != needed {
        return Err(Error::Length { name: "data", given: data.len(), needed });
    }
    clip_each(isa, Some(data), width, clip, order, out, norms, threads)
}

/// The same for rows that `out` holds already.
///
/// # Errors
/// If the length of `out` and `width` times that of `norms` differ. Nothing is written then.
pub fn clip_rows_in_place<T: Float>(
    isa: Isa,
    width: usize,
    clip: ClipNorm,
    order: Order,
    out: &mut [T],
    norms: &mut [f64],
    threads: NonZeroUsize,
) -> Result<(), Error> {
    clip_each(isa, None, width, clip, order, out, norms, threads)
}

#[allow(clippy::too_many_arguments, reason = "two inputs, two outputs, and how")]
fn clip_each<T: Float>(
    isa: Isa,
    data: Option<&[T]>,
    width: usize,
    clip: ClipNorm,
    order: Order,
    out: &mut [T],
    norms: &mut [f64],
    threads: NonZeroUsize,
) -> Result<(), Error> {
    let needed = width.saturating_mul(norms.len());
    if out.len() != needed {
        return Err(Error::Length { name: "out", given: out.len(), needed });
    }
    if width == 0 {
        norms.fill(0.0);
        return Ok(());
    }
    let rows = (BYTES_PER_TASK / size_of::<T>()).div_ceil(width);
    let parts = out.chunks_mut(rows * width).zip(norms.chunks_mut(rows));
    let mut parts: Vec<_> = parts.enumerate().collect();
    for_each_block(&mut parts, 1, threads, |_, parts| {
        for (part, (out, norms)) in parts {
            let first = *part * rows;
            for (row, (out, norm)) in (first..).zip(out.chunks_exact_mut(width).zip(norms.iter_mut())) {
                let row = data.map(|data| &data[row * width..][..width]);
                *norm = clip_leaves(isa, &mut [(row, out)], clip, order);
            }
        }
    });
    Ok(())
}

/// A leaf of a row, unless it is in the output already, and its output.
type Given<'a, 'b, T> = (Option<&'a [T]>, &'b mut [T]);

/// Writes one row, given in leaves `(row, out)` of equal lengths, clipped as a whole, and returns its norm.
///
/// # Panics
/// If `row` and `out` of a leaf differ in length.
pub fn clip_one<T: Float>(isa: Isa, leaves: &mut [(&[T], &mut [T])], clip: ClipNorm, order: Order) -> f64 {
    let mut leaves: Vec<_> = leaves.iter_mut().map(|(row, out)| (Some(*row), &mut **out)).collect();
    clip_leaves(isa, &mut leaves, clip, order)
}

/// The same for leaves of which some are in `out` already.
fn clip_leaves<T: Float>(isa: Isa, leaves: &mut [Given<'_, '_, T>], clip: ClipNorm, order: Order) -> f64 {
    in_default_environment(|| {
        let Decision { norm, fate, .. } = match order {
            Order::One => copy_and_decide(isa, Power::First, leaves, clip),
            Order::Two => copy_and_decide(isa, Power::Second, leaves, clip),
            Order::Infinity => copy_and_clamp(isa, leaves, clip),
        };
        for (_, out) in leaves {
            match fate {
                Fate::Keep { .. } => {}
                Fate::Zero => out.fill(T::default()),
                Fate::Shrink { scale, factor } => dispatch::run(isa, Scale { out, scale, factor }),
            }
        }
        norm
    })
}

fn copy_and_decide<T: Float>(isa: Isa, power: Power, leaves: &mut [Given<'_, '_, T>], clip: ClipNorm) -> Decision {
    let budget = ErrorBudget::new(leaves.iter().map(|(_, out)| out.len()));
    let mut total = [0.0];
    for (row, out) in &mut *leaves {
        assert!(row.is_none_or(|row| row.len() == out.len()), "a leaf and its output have one length");
        for (block, out) in out.chunks_mut(BLOCK_ELEMENTS).enumerate() {
            if let Some(row) = row {
                out.copy_from_slice(&row[block * BLOCK_ELEMENTS..][..out.len()]);
            }
            add_powers(isa, power, out, out.len(), 1.0, &mut total);
        }
    }
    Rule { isa, power, bound: clip.value(), stability: None, budget }
        .decide(total[0], leaves.iter().map(|(_, out)| &**out))
}

fn copy_and_clamp<T: Float>(isa: Isa, leaves: &mut [Given<'_, '_, T>], clip: ClipNorm) -> Decision {
    for (row, out) in &mut *leaves {
        if let Some(row) = row {
            out.copy_from_slice(row);
        }
    }
    let norm = largest_magnitude(isa, leaves.iter().map(|(_, out)| &**out));
    if norm.is_nan() {
        return Decision::NOT_FINITE;
    }
    let bound = T::narrow(clip.value()).widen();
    leaves.iter_mut().for_each(|(_, out)| dispatch::run(isa, Clamp { out, bound }));
    Decision { norm, within: norm <= bound, fate: Fate::Keep { near: false } }
}

/// Multiplies by `scale` and `factor`, rounding toward zero where `T` is narrower than `f64`.
struct Scale<'a, T> {
    out: &'a mut [T],
    scale: f64,
    factor: f64,
}

impl<T: Float> Kernel for Scale<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const NATIVE: bool>(self) {
        for x in self.out {
            *x = T::narrow(x.widen() * self.scale * self.factor);
        }
    }
}

/// Moves elements beyond ± `bound`, a number of type `T`, there.
struct Clamp<'a, T> {
    out: &'a mut [T],
    bound: f64,
}

impl<T: Float> Kernel for Clamp<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const NATIVE: bool>(self) {
        for x in self.out {
            *x = T::narrow(x.widen().clamp(-self.bound, self.bound));
        }
    }
}
