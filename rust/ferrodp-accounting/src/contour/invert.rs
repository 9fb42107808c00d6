//! From a certified curve δ(ε) to certified ε(δ).

use super::line::LogDelta;
use crate::functions::UNIT;

/// Finds ε with certified δ(ε) on either side of the target, and the bounds on δ between them: Newton steps on ln δ propose, the bounds decide.
pub(super) fn invert(
    curve: impl Fn(f64) -> LogDelta,
    start: f64,
    ceiling: f64,
    log_delta: f64,
) -> (f64, f64, LogDelta) {
    let at_zero = curve(0.0);
    if at_zero.upper <= log_delta * (1.0 + 8.0 * UNIT) {
        return (0.0, 0.0, at_zero);
    }
    invert_above_zero(curve, start, ceiling, log_delta, 1e-15)
}

/// Finds the same where ε is expected above 0, until a step is at most `enough` of it: what it returns is proven in any case.
pub(super) fn invert_above_zero(
    curve: impl Fn(f64) -> LogDelta,
    start: f64,
    ceiling: f64,
    log_delta: f64,
    enough: f64,
) -> (f64, f64, LogDelta) {
    let (below, above) = (log_delta * (1.0 + 8.0 * UNIT), log_delta * (1.0 - 8.0 * UNIT));
    let (mut low, mut high) = (0.0, ceiling);
    let mut at = start;
    let mut found = curve(at);
    for _ in 0..60 {
        if found.middle > log_delta {
            low = at;
        } else {
            high = at;
        }
        let newton = at + (log_delta - found.middle) / found.slope;
        let next = if newton > low && newton < high || newton == 0.0 {
            newton
        } else if high.is_finite() {
            0.5 * (low + high)
        } else {
            2.0 * at + 1e-300
        };
        // a step of less than a thousandth of what is known about δ there gains nothing
        let doubt = ((found.upper - found.lower) / found.slope).abs().min(at.abs());
        if !(next - at).is_finite() || (next - at).abs() <= (enough * at.abs()).max(1e-3 * doubt) {
            break;
        }
        at = next;
        found = curve(at);
    }
    let slope = found.slope.abs().max(1e-300);
    let upper = bracket(at, ceiling, (found.upper - below) / slope, |epsilon| curve(epsilon).upper <= below);
    let lower =
        -bracket(-at, 0.0, (above - found.lower) / slope, |epsilon| epsilon >= 0.0 || curve(-epsilon).lower > above);
    (lower.max(0.0), upper, found)
}

/// Returns a point at or above `start`, but not above `limit`, that `holds`, close to the first one; `limit` if none is found.
fn bracket(start: f64, limit: f64, distance: f64, holds: impl Fn(f64) -> bool) -> f64 {
    let mut step = distance.max(0.0) * 1.001 + 1e-15 * start.abs() + f64::MIN_POSITIVE;
    for tries in 0..24 {
        let point = (start + step).min(limit);
        if point >= limit || !point.is_finite() {
            return limit;
        }
        if holds(point) {
            return point;
        }
        step *= if tries < 8 { 1.5 } else { 8.0 };
    }
    limit
}
