//! Does a branch or an address depend on the noise, where it is drawn in fixed time? See [`ferrodp_testkit::secrets`].
//!
//! ```text
//! cargo run -p ferrodp-testkit --bin secrets
//! cargo run --release --config 'profile.release.debug="line-tables-only"' --config 'profile.release.strip=false' \
//!     --target-dir target/secrets -p ferrodp-testkit --bin secrets
//! valgrind target/debug/secrets fixed-time
//! ```
//!
//! The second builds what is shipped, with numbers of lines; the third shows what valgrind itself says. Needs valgrind, and half a
//! minute. Exit code 1 if something depends on the noise or a planted defect was not reported, 2 if nothing could be asked.

use std::process::ExitCode;

use ferrodp_testkit::secrets::memcheck;
use ferrodp_testkit::secrets::{Group, judge};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    match (arguments.next(), arguments.next()) {
        (None, _) if memcheck::IS_KNOWN => judge_all(),
        (Some(name), None) if memcheck::is_running() && Group::named(&name).is_some() => {
            for case in Group::named(&name).into_iter().flat_map(Group::run) {
                println!("{case}");
            }
            ExitCode::SUCCESS
        }
        _ => {
            let names = Group::ALL.map(Group::name).join(", ");
            eprintln!("secrets: on x86-64, no arguments; or, under valgrind, one of {names}");
            ExitCode::from(2)
        }
    }
}

fn judge_all() -> ExitCode {
    let mut is_good = true;
    for group in Group::ALL {
        let verdict = match std::env::current_exe().and_then(|program| judge(&program, group)) {
            Ok(verdict) => verdict,
            Err(error) => {
                eprintln!("secrets: valgrind does not run: {error}");
                return ExitCode::from(2);
            }
        };
        let (samples, reports) =
            verdict.cases.iter().fold((0, 0), |sum, case| (sum.0 + case.samples, sum.1 + case.reports));
        let word = if verdict.is_good { "as it should be" } else { "WRONG" };
        println!(
            "{}: {} calls, {samples} samples, {reports} reports, {} other places: {word}",
            group.name(),
            verdict.cases.len(),
            verdict.places.len()
        );
        for place in verdict.places.iter().take(20) {
            println!("    {place}");
        }
        if !verdict.is_good {
            println!("    {}", verdict.complaint);
        }
        is_good &= verdict.is_good;
    }
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
