//! `Σ p_k·φ(β·l_k)` for sixteen orders at once: the loop in which all time is spent.
//!
//! Lanes are orders, so every lane adds its terms in the order of the nodes, whatever else is asked in the same call, and
//! the instruction set cannot show. Where `β·l_k > 40`, `φ` is an exponential to within `10⁻¹⁵` *from above*, and mass and
//! exponential are joined before either can leave the range of floats.

use ferrodp_core::Isa;
#[cfg(target_arch = "x86_64")]
use ferrodp_core::isa::Kind;

use super::table::{LARGE_EXPONENT, TERMS_PER_CHUNK, Table};
use crate::functions::lanes::Split;

/// Orders a call takes.
pub(in crate::rdp) const ORDER_LANES: usize = 16;

/// Bound on how far `eˣ` is above `φ(x) = eˣ·(1 − (1 + x)·e^{−x})` there, relatively: 41·e⁻⁴⁰ < 1.8·10⁻¹⁶.
pub(in crate::rdp) const LARGE_EXCESS: f64 = 2e-16;

type Lanes = [f64; ORDER_LANES];

/// Sixteen orders and the entries they need.
#[derive(Clone, Copy, Debug)]
pub(in crate::rdp) struct Request {
    /// `α − 1`.
    pub(in crate::rdp) beta: Lanes,
    /// Index of the last entry.
    pub(in crate::rdp) last: [usize; ORDER_LANES],
}

/// Sums, and the terms at either end.
#[derive(Clone, Copy, Debug)]
pub(in crate::rdp) struct Sums {
    pub(in crate::rdp) total: Lanes,
    /// Sum of the terms times their relative errors in units.
    pub(in crate::rdp) weighted: Lanes,
    pub(in crate::rdp) first: Lanes,
    pub(in crate::rdp) last: Lanes,
}

/// Returns `Σ p_k·φ(β·l_k)`, the same bits on every [`Isa`]. The entries are there.
pub(in crate::rdp) fn centered_on(isa: Isa, table: &Table, request: &Request) -> Sums {
    match isa.kind() {
        // SAFETY: only `isa.rs` can make an `Isa`, and only of a kind the CPU has reported.
        #[cfg(target_arch = "x86_64")]
        Kind::Avx512 => unsafe { centered_avx512(table, request) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Kind::Avx2 => unsafe { centered_avx2(table, request) },
        _ => centered(table, request),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw")]
fn centered_avx512(table: &Table, request: &Request) -> Sums {
    centered(table, request)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn centered_avx2(table: &Table, request: &Request) -> Sums {
    centered(table, request)
}

/// The one body.
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "iterators over several arrays keep compilers from making vectors")]
fn centered(table: &Table, request: &Request) -> Sums {
    let nearest = request.last.iter().copied().min().unwrap_or(0);
    let farthest = request.last.iter().copied().max().unwrap_or(0);
    let (mass, log_mass, loss) = (&table.mass[..=farthest], &table.log_mass[..=farthest], &table.loss[..=farthest]);
    let (constant, slope) = (&table.constant[..=farthest], &table.slope[..=farthest]);
    let ends = request.last.map(|last| last as f64);
    let mut sums = Sums {
        total: [0.0; ORDER_LANES],
        weighted: [0.0; ORDER_LANES],
        first: [0.0; ORDER_LANES],
        last: [0.0; ORDER_LANES],
    };
    for start in (0..=farthest).step_by(TERMS_PER_CHUNK) {
        let end = (start + TERMS_PER_CHUNK).min(farthest + 1);
        // From `nearest` on, some order may have had its last node.
        let whole = nearest.clamp(start, end);
        let mut part = [0.0; ORDER_LANES];
        for k in start..whole {
            // One loop from product to sum: if the terms were collected first, compilers would add them one by one.
            for lane in 0..ORDER_LANES {
                let term = term(request.beta[lane], mass[k], log_mass[k], loss[k]);
                part[lane] += term;
                sums.weighted[lane] += term * (constant[k] + request.beta[lane] * slope[k]);
            }
        }
        for k in whole..end {
            let here = k as f64;
            for lane in 0..ORDER_LANES {
                let term = term(request.beta[lane], mass[k], log_mass[k], loss[k]);
                let counted = chosen(here <= ends[lane], term, 0.0);
                part[lane] += counted;
                sums.weighted[lane] += counted * (constant[k] + request.beta[lane] * slope[k]);
                sums.last[lane] = chosen(here == ends[lane], term, sums.last[lane]);
            }
        }
        for lane in 0..ORDER_LANES {
            sums.total[lane] += part[lane];
        }
    }
    for lane in 0..ORDER_LANES {
        sums.first[lane] = term(request.beta[lane], mass[0], log_mass[0], loss[0]);
    }
    sums
}

/// Returns `p·φ(β·l)`.
#[inline(always)]
fn term(beta: f64, mass: f64, log_mass: f64, loss: f64) -> f64 {
    let x = beta * loss;
    let is_large = x > LARGE_EXPONENT;
    let split = Split::new(x + chosen(is_large, log_mass, 0.0));
    chosen(is_large, split.exponential(), mass * split.centered(x))
}

/// Returns `a` or else `b`, by their bits: compilers turn an `if` into two exponentials, one for either case.
#[inline(always)]
fn chosen(first: bool, a: f64, b: f64) -> f64 {
    let mask = u64::from(first).wrapping_neg();
    f64::from_bits((a.to_bits() & mask) | (b.to_bits() & !mask))
}
