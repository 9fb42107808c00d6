//! What a stream adds noise to.

/// A type that a stream adds noise to.
pub trait Value: Copy + Send + Sync + 'static {
    /// Adds noise in floating point, for `f32` and `f64`.
    #[doc(hidden)]
    fn widen(self) -> f64;
    /// Returns the number nearest to `x`, at most the largest finite one in size.
    #[doc(hidden)]
    fn narrow(x: f64) -> Self;
}

impl Value for f32 {
    #[inline(always)]
    fn widen(self) -> f64 {
        f64::from(self)
    }

    #[inline(always)]
    fn narrow(x: f64) -> Self {
        x.max(f64::from(Self::MIN)).min(f64::from(Self::MAX)) as Self + 0.0
    }
}

impl Value for f64 {
    #[inline(always)]
    fn widen(self) -> f64 {
        self
    }

    #[inline(always)]
    fn narrow(x: f64) -> Self {
        x.clamp(Self::MIN, Self::MAX)
    }
}
