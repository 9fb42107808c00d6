//! `cargo run -p ferrodp-testkit --bin secrets`, group by group: nothing but a tie depends on noise in fixed time.
//!
//! Needs valgrind (of x86-64). Without it every test says so on the error stream, where the test runner keeps nothing back.

use std::io::{ErrorKind, Write};
use std::path::Path;

use ferrodp_core::discrete::Law;
use ferrodp_testkit::secrets::memcheck;
use ferrodp_testkit::secrets::{Group, judge};

fn check(group: Group) {
    let found = judge(Path::new(env!("CARGO_BIN_EXE_secrets")), group);
    if !memcheck::IS_KNOWN || found.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
        let line = format!("SKIPPED, valgrind for x86-64 is missing: the memory check of {}\n", group.name());
        std::io::stderr().write_all(line.as_bytes()).expect("the error stream is open");
        return;
    }
    let verdict = found.expect("valgrind runs");
    assert!(verdict.is_good, "{}: {}\n{:#?}", group.name(), verdict.complaint, verdict.places);
}

#[test]
fn nothing_but_a_tie_depends_on_noise_in_fixed_time() {
    check(Group::FixedTime);
}

#[test]
fn the_cipher_depends_on_no_key() {
    check(Group::Keystream);
}

#[test]
fn without_a_secret_nothing_is_reported() {
    check(Group::Open);
}

#[test]
fn rejection_is_reported() {
    check(Group::Rejection(Law::Gaussian));
    check(Group::Rejection(Law::Laplace));
}

#[test]
fn planted_branches_and_addresses_are_reported() {
    check(Group::Branch);
    check(Group::Address);
}
