//! Samples that are hard to round, and tails that no stream of words gets to: `tests/vectors/decisions.tsv`, made by the
//! reference in Python and verified there by integers alone.

use ferrodp_core::params::Granularity;
use ferrodp_core::sample::{Law, Noise, decide};

const VECTORS: &str = include_str!("../../../tests/vectors/decisions.tsv");

struct Case<'a> {
    line: &'a str,
    reason: &'a str,
    noise: Noise,
    offset: f64,
    word: u64,
    extension: Vec<u64>,
    answer: i128,
}

impl Case<'_> {
    fn settled_by(&self, noise: &Noise) -> i128 {
        let word = |i: u64| self.extension.get(i as usize).copied().unwrap_or(0);
        decide::settle_word(noise, self.word, |block| [word(2 * block), word(2 * block + 1)], self.offset)
    }
}

/// Reads a number as Python's `float.hex` writes it.
fn hexadecimal_float(text: &str) -> f64 {
    let (mantissa, exponent) = text.split_once('p').expect("a binary exponent");
    let (sign, digits) = mantissa.strip_prefix('-').map_or((1.0, mantissa), |rest| (-1.0, rest));
    let (whole, fraction) = digits.strip_prefix("0x").and_then(|rest| rest.split_once('.')).expect("0x1.8p0");
    let integer = u64::from_str_radix(&format!("{whole}{fraction}"), 16).expect("hexadecimal digits");
    let exponent: i32 = exponent.parse().expect("a decimal exponent");
    // Two factors, since the smallest of them all is not a normal number; the second product is exact.
    let shift = exponent - 4 * fraction.len() as i32;
    sign * integer as f64 * 2.0_f64.powi(shift / 2) * 2.0_f64.powi(shift - shift / 2)
}

fn cases() -> Vec<Case<'static>> {
    let parse = |line: &'static str| {
        let fields: Vec<&str> = line.split('\t').collect();
        let &[reason, law, exponent, scale, offset, word, extension, answer] = fields.as_slice() else {
            panic!("eight fields: {line}");
        };
        let law = if law == "gaussian" { Law::Gaussian } else { Law::Laplace };
        let granularity = Granularity::from_exponent(exponent.parse().expect("an exponent")).expect("in range");
        let listed = extension.split(',').filter(|word| *word != "-");
        Case {
            line,
            reason,
            noise: Noise::new(law, hexadecimal_float(scale), granularity).expect("in range"),
            offset: hexadecimal_float(offset),
            word: u64::from_str_radix(word, 16).expect("hexadecimal digits"),
            extension: listed.map(|word| u64::from_str_radix(word, 16).expect("hexadecimal digits")).collect(),
            answer: answer.parse().expect("an integer"),
        }
    };
    VECTORS.lines().skip(1).map(parse).collect()
}

#[test]
fn hexadecimal_floats_are_read_exactly() {
    let expected = [("0x1.8000000000000p+0", 1.5), ("-0x1.0000000000000p-1", -0.5), ("0x0.0p+0", 0.0)];
    for (text, value) in expected {
        assert_eq!(value, hexadecimal_float(text));
    }
    assert_eq!(5e-324, hexadecimal_float("0x0.0000000000001p-1022"));
}

#[test]
fn every_hard_sample_is_rounded_as_the_reference_does() {
    let wrong: Vec<_> =
        cases().iter().filter(|case| case.settled_by(&case.noise) != case.answer).map(|c| c.line).collect();

    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn later_stages_give_the_same_answers() {
    for widening in [1.0 / 256.0, 1.0 / 8.0] {
        let cases = cases();
        let settled = cases.iter().map(|case| case.settled_by(&case.noise.clone().with_widened_margins(widening)));
        let wrong: Vec<_> =
            settled.zip(&cases).filter(|(n, case)| *n != case.answer).map(|(n, c)| (n, c.line)).collect();

        assert!(wrong.is_empty(), "widened by {widening}: {wrong:#?}");
    }
}

#[test]
fn the_vectors_reach_where_they_are_meant_to() {
    let cases = cases();
    let farthest = |law_name: &str| {
        let of_law = cases.iter().filter(|case| case.line.split('\t').nth(1) == Some(law_name));
        of_law
            .map(|case| {
                let fields: Vec<&str> = case.line.split('\t').collect();
                let exponent: i32 = fields[2].parse().expect("an exponent");
                case.answer.unsigned_abs() as f64 * 2.0_f64.powi(exponent) / hexadecimal_float(fields[3])
            })
            .fold(0.0, f64::max)
    };

    assert!(farthest("gaussian") > 36.9);
    assert!(farthest("laplace") > 680.0);
    for reason in ["tail", "below", "above", "near zero", "hard exponential"] {
        assert!(cases.iter().filter(|case| case.reason == reason).count() >= 30, "{reason}");
    }
}
