//! The tests are tested: sound draws pass, and each of these defects is found at 2²⁰ draws.
//!
//! The draws here come from a float sampler over the keystream (Box and Muller, 53-bit uniforms), whose own defects are
//! far below what 2²⁰ draws can show; the samplers of the core are judged in `goodness.rs`.

use ferrodp_core::isa::Isa;
use ferrodp_core::random::Keystream;
use ferrodp_testkit::draws::key_of;
use ferrodp_testkit::law::Law;
use ferrodp_testkit::tally::Tally;
use ferrodp_testkit::verdict::holm;

const DRAWS: usize = 1 << 20;
const RATIO: f64 = 1.3 * (1 << 20) as f64;
/// Keys are constants, so a test passes or fails for ever; were they fresh, each sound law would fail once in a million
/// runs (Holm).
const FAMILY_WISE: f64 = 1e-6;

fn uniforms(name: &str) -> impl Iterator<Item = f64> {
    let mut bytes = vec![0; 16 * DRAWS];
    Keystream::new(Isa::best(), &key_of(name, 0)).fill(0, 0, &mut bytes);
    let words = bytes.as_chunks::<8>().0.to_vec();
    words.into_iter().map(|word| ((u64::from_le_bytes(word) >> 11) as f64 + 0.5) / (1_u64 << 53) as f64)
}

fn sound(law: Law) -> Vec<i64> {
    let uniform: Vec<f64> = uniforms(&format!("power {law:?}")).collect();
    let z = uniform.as_chunks::<2>().0.iter().map(|&[a, b]| match law {
        Law::Gaussian => (-2.0 * a.ln()).sqrt() * (core::f64::consts::TAU * b).cos(),
        Law::Laplace if b < 0.5 => -a.ln(),
        Law::Laplace => a.ln(),
    });
    z.map(|z| (z * RATIO).round() as i64).collect()
}

/// Returns the names of the tests that fail.
fn failures(law: Law, draws: &[i64]) -> Vec<String> {
    let mut tally = Tally::new(law, 0.0, RATIO);
    tally.add(draws);
    let findings = tally.findings();
    let adjusted = holm(&findings.iter().map(|finding| finding.p).collect::<Vec<_>>());
    findings.into_iter().zip(adjusted).filter(|(_, p)| *p <= FAMILY_WISE).map(|(finding, _)| finding.test).collect()
}

/// Asserts that a change of the draws makes `test` fail, for both laws.
fn assert_found(test: &str, defect: impl Fn(Law, &mut Vec<i64>)) {
    for law in [Law::Gaussian, Law::Laplace] {
        let mut draws = sound(law);
        defect(law, &mut draws);

        let failed = failures(law, &draws);

        assert!(failed.iter().any(|name| name.starts_with(test)), "{law:?}: {test} is not among {failed:?}");
    }
}

#[test]
fn sound_draws_pass() {
    for law in [Law::Gaussian, Law::Laplace] {
        assert_eq!(Vec::<String>::new(), failures(law, &sound(law)), "{law:?}");
    }
}

#[test]
fn a_scale_off_by_a_hundredth_is_found() {
    // One percent is 14 standard errors of the Gaussian's variance, 9 of the Laplace's.
    assert_found("variance", |_, draws| draws.iter_mut().for_each(|n| *n = (*n as f64 * 1.01) as i64));
}

#[test]
fn a_shifted_center_is_found() {
    assert_found("mean", |_, draws| draws.iter_mut().for_each(|n| *n += (0.01 * RATIO) as i64));
}

#[test]
fn a_biased_sign_is_found() {
    // Every 64th draw made positive moves the share of positives by 1/128: 16 standard errors.
    assert_found("sign", |_, draws| draws.iter_mut().step_by(64).for_each(|n| *n = n.abs()));
}

#[test]
fn a_tail_that_is_cut_is_found() {
    // 66 draws are due beyond 4 standard deviations, 129 beyond 9 Laplace scales: none is there.
    assert_found("beyond", |law, draws| {
        draws.retain(|n| n.abs() < (law.far()[0] * RATIO) as i64);
    });
}

#[test]
fn one_draw_beyond_belief_is_found() {
    assert_found("largest", |law, draws| {
        draws[77] = (RATIO * if law == Law::Gaussian { 10.0 } else { 50.0 }) as i64;
    });
}

#[test]
fn a_heavier_parity_is_found() {
    // The same law up to one grid step; one odd draw in 16 made even.
    assert_found("low bits", |_, draws| draws.iter_mut().step_by(16).for_each(|n| *n &= !1));
}

#[test]
fn coarse_draws_of_the_tail_are_found() {
    // As a 20-bit uniform would give: beyond two scales the low bits are always zero.
    assert_found("low bits by size", |_, draws| {
        draws.iter_mut().filter(|n| n.abs() > (2.0 * RATIO) as i64).for_each(|n| *n &= !15);
    });
}

#[test]
fn lanes_that_share_words_are_found() {
    for (distance, test) in [(1, "lag 1"), (4, "lag 4"), (8, "lag 8"), (16, "lag 16"), (32, "lag 32")] {
        assert_found(test, |_, draws| {
            for i in (distance..DRAWS).step_by(64) {
                draws[i] = draws[i - distance];
            }
        });
    }
}

#[test]
fn equal_sizes_with_fresh_signs_are_found() {
    assert_found("lag 2 folded", |_, draws| {
        for i in (2..DRAWS).step_by(32) {
            draws[i] = if draws[i] > 0 { draws[i - 2].abs() } else { -draws[i - 2].abs() };
        }
    });
}

#[test]
fn a_neighbor_that_follows_only_large_draws_is_found() {
    assert_found("neighbors", |_, draws| {
        for i in (0..DRAWS).step_by(2) {
            if draws[i].abs() > (2.0 * RATIO) as i64 {
                draws[i + 1] = draws[i + 1].abs();
            }
        }
    });
}

#[test]
fn a_lane_with_a_law_of_its_own_is_found() {
    assert_found("positions folded", |_, draws| {
        draws.iter_mut().skip(15).step_by(16).for_each(|n| *n = *n * 19 / 20);
    });
}

#[test]
fn a_lane_with_a_bias_of_its_own_is_found() {
    assert_found("positions plain", |_, draws| {
        draws.iter_mut().skip(63).step_by(64).for_each(|n| *n += (0.15 * RATIO) as i64);
    });
}

#[test]
fn a_stretch_that_returns_is_found() {
    // At a distance that no lag looks at, within the draws kept for coincidences (16 √ratio = 18 682 of them).
    assert_found("coincidences", |_, draws| draws.copy_within(0..128, 5000));
}
