//! The long timing test: does the time of a call tell small noise from large, by an advantage of 0.02 or more?
//!
//! ```text
//! cargo run --release -p ferrodp-testkit --bin timing
//! ```
//!
//! 500 000 measurements of each kind: the standard error is 0.0012, and the limit of 5.5 of them, 0.0064, is passed once in 10⁷
//! runs by chance; an advantage of 0.02 is more than ten further standard errors beyond it. So that nobody has to believe it, two
//! positive controls have to pass the limit on this very machine: a planted defect whose advantage is 0.02, and the sampler without
//! fixed time. Exit code 1 if anything is not so. Also prints how many samples a second each draws.

use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::time::Instant;

use ferrodp_core::discrete::fixed::FixedTime;
use ferrodp_core::discrete::{Law, Scale};
use ferrodp_core::isa::Isa;
use ferrodp_core::random::Key;
use ferrodp_testkit::timing::{Advantage, advantage, planted};

const DEFAULT_MEASUREMENTS: usize = 500_000;
const MAX_DEVIATIONS: f64 = 5.5;
const PLANTED_LEAK: f64 = 0.02;

fn main() -> ExitCode {
    let mut is_good = true;
    for (law, scale, far) in
        [(Law::Gaussian, 1.0, 3.0), (Law::Gaussian, 40.0, 3.5), (Law::Laplace, 1.0, 7.0), (Law::Laplace, 1e4, 9.0)]
    {
        let found = advantage(law, scale, far, true, DEFAULT_MEASUREMENTS);
        is_good &= found.deviations() <= MAX_DEVIATIONS;
        print(law, scale, "in fixed time", found);
        let found = planted(law, scale, far, PLANTED_LEAK, DEFAULT_MEASUREMENTS);
        is_good &= found.value > 0.0 && found.deviations() > MAX_DEVIATIONS;
        print(law, scale, "in fixed time, 1 of 50 large ones late", found);
    }
    for (law, scale, far) in [(Law::Gaussian, 1e3, 3.7), (Law::Laplace, 1e4, 9.0)] {
        let found = advantage(law, scale, far, false, DEFAULT_MEASUREMENTS);
        is_good &= found.deviations() > MAX_DEVIATIONS;
        print(law, scale, "by rejection", found);
    }
    speed();
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn print(law: Law, scale: f64, kind: &str, found: Advantage) {
    println!("{law:?} {scale} {kind}: advantage {:+.4} ± {:.4}", found.value, found.standard_error);
}

fn speed() {
    let mut values = vec![0_i64; 1 << 12]; // short enough to be left alone now and then
    for (law, scales) in [(Law::Gaussian, [1.0, 10.0, 64.0]), (Law::Laplace, [1.0, 1e3, 1e9])] {
        for scale in scales {
            let sampler = FixedTime::new(law, Scale::from_float(scale).expect("in range")).expect("not too large");
            let best = (0..200).map(|_| {
                let start = Instant::now();
                sampler.add(Isa::best(), &Key::from_bytes([1; 32]), &mut values, NonZeroUsize::MIN);
                start.elapsed().as_secs_f64()
            });
            let best = best.fold(f64::INFINITY, f64::min);
            println!("{law:?} {scale} in fixed time: {:.1} M/s", values.len() as f64 / best / 1e6);
        }
    }
}
