//! The kept deep runs, judged together whenever the tests run: what `deep --judge` prints.

use ferrodp_testkit::runs;
use ferrodp_testkit::verdict::holm;

const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/statistical/deep_runs.csv");

#[test]
fn no_wager_on_a_failure_has_won() {
    let rows = runs::read(&std::fs::read_to_string(KEPT).expect("is kept")).expect("is a file of runs");
    let wagers = runs::wagers(&rows);
    assert!(!wagers.is_empty() && !wagers[0].is_alarm(), "{:?}", wagers.first());
}

#[test]
fn kept_p_values_are_uniform() {
    let rows = runs::read(&std::fs::read_to_string(KEPT).expect("is kept")).expect("is a file of runs");
    let found = runs::uniformity(&rows);
    let adjusted = holm(&found.iter().map(|found| found.p).collect::<Vec<_>>());
    assert!(adjusted.iter().all(|p| *p > 1e-6), "{found:?}");
}
