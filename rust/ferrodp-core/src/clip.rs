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
//! *Proof.* The row is kept or shrunk (`rule::decide`). Kept, `‖x‖ ≤ C` holds exactly, and `k = trunc(x/g)`, the division by
//! a power of two being exact wherever the quotient reaches 1. Shrunk, `k = trunc(v)`, where the computed products `v`
//! have `‖v‖ ≤ C/g`: the factor is `C/‖x‖`, shrunk by more than all rounding errors together (`rule::error_budget`). Truncation
//! toward zero makes no magnitude larger. A row that is not finite gives zeros. Norms depend on the row alone because
//! their order of summation is fixed (`kernels::measure`). ∎
//!
//! **Normalized rows.** [`GridSum::normalizing`] multiplies every row by `C/(‖x‖ + γ)`, shrunk in the same way. The factor
//! is below the one that a longer row has without γ, so `‖v‖ ≤ C/g` and the theorem hold, and the certificate is the same.
//! The integers depend on γ as well.
//!
//! **Rows within the bound.** [`GridSum::count_within`] is the number of rows with `‖x‖ ≤ C`, decided exactly for each by
//! itself (`rule::decide`): adding or removing a row moves it by at most 1.
//!
//! Nothing above is taken on trust: what was added carries a certificate of its norm (`kernels::add_rows`), formed from the
//! very numbers that were added. It cannot fail unless the row changed between the two readings; then the sum refuses
//! all further use.
//!
//! Quantization costs at most `g` per row and element, always toward zero.
//!
//! # The algorithm
//!
//! ```text
//! add(rows, sums, threads):                                      drive.rs
//!     route = Route::of(shape of rows, threads)                  route.rs
//!     for each thread's share of the rows, with sums of its own:
//!         for each tile of rows:
//!             where the route copies: copy the rows              source/copy.rs, kernels/transpose.rs
//!                 to contiguous numbers of one type
//!             for each row: s = sum of squares of its elements,  kernels/measure.rs, panel_squares.rs
//!                 leaf by leaf, in 32 lanes, in a fixed order
//!             for each row: step = decide(s)
//!             add(tile, steps, sums)
//!             if some row is not certified: refuse all further use
//!     add the threads' sums: integers, in any order
//!
//! decide(s):                                                     rule/
//!     if s is trusted and clearly below C²: keep                 limits.rs, many rows at once
//!     if s is trusted and clearly above C²: shrink
//!     if s overflowed or underflowed: form it again, of          decide.rs
//!         elements times the power of two that brings the
//!         largest one near 1
//!     if an element is not finite: count as zero
//!     near the bound: compare sums of twice the precision,       near_bound.rs
//!         or, where these do not decide, exact ones
//!     keep:   factor = 1/g
//!     shrink: factor = C / (√s + γ) · (1 − slack) / g            error_budget.rs
//!
//! add(tile, steps, sums):                                        kernels/add_rows.rs, panels.rs
//!     for each row and column:
//!         v = x · factor
//!         sums[column] += trunc(v)
//!         certificate[row] += v²         near the bound: trunc(v)², in integers
//!
//! certified(row):                                                rule/row_decisions.rs
//!     certificate[row] <= (C/g)² · (1 − slack), or <= ⌊(C/g)²⌋ for the sum in integers
//! ```
//!
//! # Routes
//!
//! What differs between routes is where elements are when they are computed with, and which elements a vector holds. `reference.rs`
//! is what each of them answers to, bit for bit; `route.rs` alone chooses, and has all thresholds.
//!
//! | route | what it is | chosen for | files |
//! |---|---|---|---|
//! | `SharedColumns` | One row after the other, the columns of each shared among threads | contiguous rows, several threads: fewer than two rows a thread, or rows of 2²¹ columns | `measure`, `add_rows` |
//! | `RowTiles` | Tiles of contiguous rows, read where they are: measured, then added | all other contiguous rows, leaves of 64 columns or more on average | `measure`, `add_rows`; from memory `fused_measure`: four rows are measured while four are added |
//! | `CopiedTiles` | Rows copied into contiguous ones, block by block, and these in tiles | smaller leaves, and all other layouts and types | `source/copy`, then as `RowTiles` |
//! | `Panels` | Contiguous rows of few columns, transposed in panels of 32 | one leaf of up to 63 contiguous columns (`f64`: 127) and 32 rows or more | `transpose` (AVX-512: `transpose_avx512`), `panel_squares`, `panels` |
//! | `CopiedPanels` | Rows copied into contiguous ones of few columns, and these in panels | the same columns in other layouts and types | `source/copy`, then as `Panels` |
//! | `ColumnPanels` | Columns that are contiguous, copied in panels of 32 rows | Fortran order, up to 256 columns; above 16 MiB up to 1024 (`f64`: 896) | `transpose`, `panel_squares`, `panels` |
//!
//! Files without a folder are in `kernels/`. Of an array in C order with 16 columns in `f32`, for instance, `route.rs` makes `Panels`,
//! and of one with 100 columns `RowTiles`; in `f64` both are `Panels`.
//!
//! # A type of elements more
//!
//! Elements of another type are converted where they are copied, and no kernel learns of them: a variant of
//! [`Form`](source::element::Form) with its size, its conversion to `f32` bits in `source/copy.rs`, and the binding's name of the
//! type.

mod drive;
mod float_rows;
mod grid_sum;
mod kernels;
#[cfg(test)]
mod reference;
mod release;
mod route;
mod rule;
mod source;
mod zeros;

pub use float_rows::{Order, clip_one, clip_rows, clip_rows_in_place};
pub use grid_sum::GridSum;
pub use rule::clip_norm::{ClipNorm, Stability};
pub use source::element::{Element, Float, Form};
pub use source::leaf::{Leaf, Rows};
