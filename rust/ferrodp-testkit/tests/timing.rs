//! The light version of `cargo run --release -p ferrodp-testkit --bin timing`: it sees an advantage of about 0.15.
//!
//! Limits are 6.5 standard errors: where time says nothing, a test fails once in 10¹⁰ runs, however noisy the machine.

use ferrodp_core::discrete::Law;
use ferrodp_testkit::timing::{advantage, planted};

const MEASUREMENTS: usize = 3000;

#[test]
fn fixed_time_says_nothing() {
    for (law, scale, far) in [(Law::Gaussian, 10.0, 3.5), (Law::Laplace, 10.0, 7.0)] {
        let found = advantage(law, scale, far, true, MEASUREMENTS);
        assert!(found.deviations() < 6.5, "{law:?}: {found:?}");
    }
}

#[test]
fn a_planted_defect_is_seen() {
    // One of four is late: an advantage of 0.25 is 16.8 standard errors of 0.0149, the limit 6.5.
    for (law, scale, far) in [(Law::Gaussian, 10.0, 3.5), (Law::Laplace, 10.0, 7.0)] {
        let found = planted(law, scale, far, 0.25, MEASUREMENTS);
        assert!(found.value > 0.0 && found.deviations() > 6.5, "{law:?}: {found:?}");
    }
}

#[test]
fn the_other_sampler_tells_and_is_seen() {
    for (law, scale, far) in [(Law::Gaussian, 1000.0, 3.7), (Law::Laplace, 1e4, 9.0)] {
        let found = advantage(law, scale, far, false, MEASUREMENTS);
        assert!(found.deviations() > 6.5, "{law:?}: {found:?}");
    }
}
