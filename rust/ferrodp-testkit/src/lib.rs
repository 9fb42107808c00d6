//! Goodness of fit for the samplers; used by tests, never shipped.
