//! Rows are measured where they lie with AVX-512 alone.

use super::super::across::Limits;
use super::super::coming::Coming;
use super::super::element::Element;
use super::super::rows::Strided;
use super::state::{Certified, State};
use crate::isa::Isa;

/// There are none.
pub(super) enum InRows {}

impl InRows {
    pub(super) const fn takes<T: Element>() -> bool {
        false
    }

    pub(super) fn of<T: Element>(_: &Strided<'_, T>, _: usize, _: usize) -> Option<Self> {
        None
    }

    pub(super) fn next(_: &mut Option<Self>) -> Option<&mut Self> {
        None
    }

    pub(super) fn finish(&self, _: &mut [i64]) {
        match *self {}
    }
}

/// There is none.
#[expect(dead_code, reason = "nothing is added")]
pub(super) struct Add<'a> {
    pub(super) in_rows: &'a mut InRows,
    pub(super) limits: &'a Limits,
    pub(super) certified: Certified,
    pub(super) state: &'a mut State,
    pub(super) coming: &'a mut Coming,
}

impl Add<'_> {
    /// # Safety
    /// There is none.
    pub(super) unsafe fn run<T: Element>(self, _: Isa, _: &Strided<'_, T>, _: usize) -> bool {
        match *self.in_rows {}
    }
}
