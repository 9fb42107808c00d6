//! Integer noise has the stated laws, and the tests that say so would see it if not: 2²⁰ draws of every setting.
//!
//! Keys are constants made of names, so each test passes or fails for ever; `deep` uses fresh keys and more draws.

use ferrodp_core::isa::Isa;
use ferrodp_core::random::Keystream;
use ferrodp_testkit::draws::key_of;
use ferrodp_testkit::finding::Finding;
use ferrodp_testkit::integers::census::Census;
use ferrodp_testkit::integers::integer_law::IntegerLaw;
use ferrodp_testkit::integers::{INTEGER_SETTINGS, IntegerSetting};
use ferrodp_testkit::law::Law;
use ferrodp_testkit::verdict::holm;

const DRAWS: u64 = 1 << 20;
const FAMILY_WISE: f64 = 1e-6;

fn findings(setting: &IntegerSetting) -> Vec<Finding> {
    let mut calls = 0..;
    let key = || Ok::<_, core::convert::Infallible>(key_of(setting.name, calls.next().expect("endless")));
    let Ok(found) = setting.findings(Isa::best(), DRAWS, 1 << 18, key);
    found
}

#[test]
fn every_integer_setting_has_its_law() {
    let all: Vec<(&str, Finding)> = INTEGER_SETTINGS
        .iter()
        .flat_map(|setting| findings(setting).into_iter().map(|finding| (setting.name, finding)))
        .collect();
    let p_values: Vec<f64> = all.iter().map(|(_, finding)| finding.p).collect();
    let adjusted = holm(&p_values);

    let failed: Vec<_> = all.iter().zip(&adjusted).filter(|(_, p)| **p <= FAMILY_WISE).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    // About 470 p-values, those of rare events 1 more often than not: below 0.05 are binomial(470, 0.05) or fewer, mean 24,
    // deviation 4.8; more than 58 (7 deviations) has chance below 1e-10, and tests that never fire show as well.
    let small = p_values.iter().filter(|p| **p < 0.05).count();
    assert!((1..=58).contains(&small), "{small} of {} below 0.05", p_values.len());
}

/// Returns the tests that fail for the draws of a setting after a change.
fn failures(setting: &IntegerSetting, defect: impl Fn(&mut Vec<i64>)) -> Vec<String> {
    let mut draws = vec![0_i64; DRAWS as usize];
    setting.sampler().fill(Isa::best(), &key_of("integer power", 0), &mut draws, core::num::NonZeroUsize::MIN);
    let mut bytes = vec![0_u8; 8 * draws.len()];
    Keystream::new(Isa::best(), &key_of("integer power", 1)).fill(0, 0, &mut bytes);
    defect(&mut draws);
    let mut census = Census::new(IntegerLaw::new(setting.law, setting.scale));
    census.add(&draws, &bytes.as_chunks().0[..draws.len()]);
    let found = census.findings();
    let adjusted = holm(&found.iter().map(|finding| finding.p).collect::<Vec<_>>());
    found.into_iter().zip(adjusted).filter(|(_, p)| *p <= FAMILY_WISE).map(|(finding, _)| finding.test).collect()
}

/// Asserts that each of some settings fails `test` after a change of its draws.
fn assert_found(test: &str, names: &[&str], defect: impl Fn(&mut Vec<i64>, f64)) {
    for setting in INTEGER_SETTINGS.iter().filter(|setting| names.contains(&setting.name)) {
        let failed = failures(setting, |draws| defect(draws, setting.scale));
        assert!(failed.iter().any(|name| name.starts_with(test)), "{}: {test} not in {failed:?}", setting.name);
    }
}

const SOME: [&str; 4] =
    ["discrete gaussian 10", "discrete gaussian 1e6", "discrete laplace 1000", "discrete laplace 1e9"];

#[test]
fn unchanged_draws_pass() {
    for setting in &INTEGER_SETTINGS {
        assert_eq!(Vec::<String>::new(), failures(setting, |_| ()), "{}", setting.name);
    }
}

#[test]
fn zeros_counted_twice_are_found() {
    // 42 000 zeros are due at σ = 10; a 32nd of 2²⁰ more draws of zero is 150 standard errors.
    for test in ["zeros", "histogram", "transform", "anderson"] {
        assert_found(test, &["discrete gaussian 10", "discrete gaussian 1"], |draws, _| {
            draws.iter_mut().step_by(32).for_each(|n| *n = 0);
        });
    }
}

#[test]
fn a_wrong_scale_is_found() {
    assert_found("variance", &SOME[1..], |draws, _| draws.iter_mut().for_each(|n| *n = (*n as f64 * 1.01) as i64));
}

#[test]
fn a_biased_sign_is_found() {
    assert_found("sign", &SOME, |draws, _| draws.iter_mut().step_by(64).for_each(|n| *n = n.abs()));
}

#[test]
fn a_cut_tail_is_found() {
    assert_found("beyond", &SOME, |draws, scale| {
        let law = if draws.iter().any(|n| n.abs() as f64 > 8.0 * scale) { Law::Laplace } else { Law::Gaussian };
        draws.retain(|n| (n.abs() as f64) < law.far()[0] * scale);
        draws.truncate(draws.len() / 1024 * 1024);
    });
}

#[test]
fn heavier_parities_are_found() {
    assert_found("low bits", &SOME, |draws, _| draws.iter_mut().step_by(16).for_each(|n| *n &= !1));
}

#[test]
fn a_missing_half_step_is_found() {
    // Rounding toward zero of noise meant to be rounded to nearest: at σ = 10 the law shifts by half an integer.
    assert_found("histogram", &["discrete gaussian 10", "discrete laplace 10"], |draws, _| {
        draws.iter_mut().step_by(8).for_each(|n| *n -= n.signum());
    });
}

#[test]
fn an_order_by_size_within_a_chunk_is_found() {
    // What finishing slow samples last would do: the last 32 of 1024 are the larger ones of their pairs.
    assert_found("positions folded", &SOME, |draws, _| {
        for chunk in draws.chunks_mut(1024) {
            for i in 0..32 {
                if chunk[i].abs() > chunk[1023 - i].abs() {
                    chunk.swap(i, 1023 - i);
                }
            }
        }
    });
}

#[test]
fn neighbors_that_share_bits_are_found() {
    assert_found("lag 1", &SOME, |draws, _| {
        for i in (1..draws.len()).step_by(64) {
            draws[i] = draws[i - 1];
        }
    });
}
