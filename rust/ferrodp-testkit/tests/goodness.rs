//! The production path has the stated laws: 2²¹ draws of every setting.
//!
//! Keys are constants made of names, so each test passes or fails for ever. With fresh keys one run in a million would
//! fail (Holm over all p-values of the run); `deep` does that with 10⁸ draws.

use ferrodp_core::isa::Isa;
use ferrodp_testkit::draws::{DRAW_SETTINGS, Setting, key_of};
use ferrodp_testkit::finding::Finding;
use ferrodp_testkit::verdict::holm;

const DRAWS: u64 = 1 << 21;
const FAMILY_WISE: f64 = 1e-6;

fn findings(setting: &Setting, isa: Isa) -> Vec<Finding> {
    let mut calls = 0..;
    let mut next_key = || Ok::<_, core::convert::Infallible>(key_of(setting.name, calls.next().expect("endless")));
    let Ok(found) = setting.findings(isa, DRAWS, 1 << 20, &mut next_key);
    found
}

#[test]
fn every_setting_has_its_law() {
    let all: Vec<(&str, Finding)> = DRAW_SETTINGS
        .iter()
        .flat_map(|setting| findings(setting, Isa::best()).into_iter().map(|finding| (setting.name, finding)))
        .collect();
    let adjusted = holm(&all.iter().map(|(_, finding)| finding.p).collect::<Vec<_>>());

    let failed: Vec<_> = all.iter().zip(&adjusted).filter(|(_, p)| **p <= FAMILY_WISE).collect();
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn p_values_are_as_uniform_as_they_claim() {
    // About 240 p-values, nearly independent: under the claim the count below 0.05 is binomial with mean 12 and standard
    // deviation 3.4. Outside 0 … 38 (7.7 deviations) with chance below 1e-9; tests that never fire show here too.
    let p_values: Vec<f64> =
        DRAW_SETTINGS.iter().flat_map(|setting| findings(setting, Isa::best())).map(|finding| finding.p).collect();

    let small = p_values.iter().filter(|p| **p < 0.05).count();
    let large = p_values.iter().filter(|p| **p > 0.95).count();
    assert!((1..=38).contains(&small), "{small} of {} below 0.05", p_values.len());
    assert!(large >= 1, "none of {} above 0.95", p_values.len());
}
