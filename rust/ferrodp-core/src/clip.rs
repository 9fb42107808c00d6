//! Norms, scaling, rows quantized toward zero, and their sums in integers.
//!
//! Sensitivity is read off this module, so its bound holds in exact arithmetic, not up to rounding.
//!
//! **Theorem.** Let `C` be a clip norm and `g = 2^e` its grid, `C·2⁻³⁰ < g ≤ C·2⁻²⁹`. [`GridSum::add`] adds to the sums,
//! for every row `x`, integers `k` with `‖k‖₂ ≤ C/g` and `|kᵢ| < 2³⁰`, which depend on nothing but `C`, `x` and its
//! division into leaves. Hence adding or removing a row, or replacing it by zeros, moves `g · Σk` by at most `C` in L2
//! norm, and replacing a row by another by at most `2C`: no term grows with the dimension, and integer addition has no
//! order.
//!
//! *Proof.* The row is kept or shrunk (`decide`). Kept, `‖x‖ ≤ C` holds exactly, and `k = trunc(x/g)`, the division by
//! a power of two being exact wherever the quotient reaches 1. Shrunk, `k = trunc(v)`, where the computed products `v`
//! have `‖v‖ ≤ C/g`: the factor is `C/‖x‖`, shrunk by more than all rounding errors together (`error_budget`). Truncation
//! toward zero makes no magnitude larger. A row that is not finite gives zeros. Norms depend on the row alone because
//! their order of summation is fixed (`measure`). ∎
//!
//! **Normalized rows.** [`GridSum::normalizing`] multiplies every row by `C/(‖x‖ + γ)`, shrunk in the same way. The factor
//! is below the one that a longer row has without γ, so `‖v‖ ≤ C/g` and the theorem hold, and the certificate is the same.
//! The integers depend on γ as well.
//!
//! **Rows within the bound.** [`GridSum::count_within`] is the number of rows with `‖x‖ ≤ C`, decided exactly for each by
//! itself (`decide`): adding or removing a row moves it by at most 1.
//!
//! Nothing above is taken on trust: what was added carries a certificate of its norm (`quantize`), formed from the
//! very numbers that were added. It cannot fail unless the row changed between the two readings; then the sum refuses
//! all further use.
//!
//! Quantization costs at most `g` per row and element, always toward zero.

mod across;
mod adding;
mod bringing;
mod brought;
mod clip_norm;
mod close;
mod columns;
mod coming;
mod convert;
mod decide;
mod difference;
mod element;
mod error_budget;
mod float_rows;
mod foreign;
#[cfg(target_arch = "x86_64")]
mod fours;
mod gather;
mod gathering;
mod grid_sum;
mod meanwhile;
mod measure;
mod narrow;
mod panel;
mod quantize;
mod release;
mod rows;
mod scattered;
mod settle;
mod shares;
mod side_by_side;
mod steps;
mod turn;
mod zeros;

pub use clip_norm::{ClipNorm, Stability};
pub use element::{Brain, Element, Float, Form, Half};
pub use float_rows::{Order, clip_one, clip_rows, clip_rows_in_place};
pub use foreign::Foreign;
pub use grid_sum::GridSum;
pub use rows::{Leaf, Rows, Strided};
pub use scattered::{Run, Scattered, Spot};
