//! Rows are measured where they lie with AVX-512 alone.

use super::super::across::Aligned;
use super::super::coming::Coming;
use super::super::element::Element;
use super::super::rows::Strided;
use super::super::turn::Turned;

/// There is none.
pub(super) enum InRows {}

impl InRows {
    pub(super) const fn takes<T: Element>() -> bool {
        false
    }

    pub(super) fn of<T: Element>(_: &Strided<'_, T>, _: usize, _: usize) -> Option<Self> {
        None
    }

    pub(super) fn begins(&mut self) -> bool {
        match *self {}
    }

    pub(super) fn ends(&mut self, _: bool) -> bool {
        match *self {}
    }

    /// # Safety
    /// It is never called.
    pub(super) unsafe fn copy<T: Element>(
        &mut self,
        _: &Strided<'_, T>,
        _: usize,
        _: &mut Coming,
    ) -> Aligned<Turned<f64>> {
        match *self {}
    }

    /// # Safety
    /// It is never called.
    pub(super) unsafe fn add(&mut self, _: &Turned<f64>, _: &mut Coming) -> Aligned<Turned<f64>> {
        match *self {}
    }

    pub(super) fn finish(&self, _: &mut [i64]) {
        match *self {}
    }
}
