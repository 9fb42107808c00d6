use super::*;

fn made(values: &[(u64, &str, &str, f64)]) -> Vec<Row> {
    values.iter().map(|&(time, setting, test, p)| Row { time, setting: setting.into(), test: test.into(), p }).collect()
}

/// The middles of n equal parts: as uniform as n numbers can be, 1/2n from uniform.
fn evenly(n: usize, test: &'static str, change: impl Fn(f64) -> f64) -> Vec<Row> {
    let values = (0..n).map(|i| (i as u64, "made up", test, change((i as f64 + 0.5) / n as f64)));
    made(&values.collect::<Vec<_>>())
}

#[test]
fn a_file_is_read_line_by_line() {
    let text =
        format!("{COLUMN_NAMES}\n7,avx2,100,some law,mean,-1e0,2.5e-1,1e0\n8,avx2,100,some law,mean,0e0,1e0,1e0\n");
    assert_eq!(Ok(made(&[(7, "some law", "mean", 0.25), (8, "some law", "mean", 1.0)])), read(&text));
    assert_eq!(Ok(Vec::new()), read(&format!("{COLUMN_NAMES}\n")));
}

#[test]
fn other_lines_are_errors() {
    for bad in ["7,avx2,100,some law,mean,0e0,1.5e0,1e0", "7,avx2,100,some law,mean,0e0,NaN,1e0", "7,mean,0.5", ""] {
        let found = read(&format!("{COLUMN_NAMES}\n6,avx2,100,some law,mean,0e0,1e0,1e0\n{bad}\n"));
        assert_eq!(Err("line 3 is no p-value of a run".into()), found);
    }
    assert!(read("").is_err() && read("7,avx2,100,some law,mean,0e0,1e0,1e0\n").is_err());
    let twice = "7,avx2,100,some law,mean,0e0,1e0,1e0\n";
    assert!(
        read(&format!("{COLUMN_NAMES}\n{twice}{twice}"))
            .is_err_and(|message| message.starts_with("line 3 occurs twice"))
    );
}

#[test]
fn e_values_multiply_over_the_runs_of_one_test() {
    let rows = made(&[
        (1, "a", "mean", 0.25),  // 1
        (2, "a", "mean", 1e-4),  // 50
        (3, "a", "mean", 1.0),   // ½
        (1, "b", "mean", 1e-4),  // another setting
        (1, "a", "sign", 1e-30), // a million at most, however small
        (1, "c", "sign", 0.0),
    ]);
    let found = wagers(&rows);
    let of = |setting, test| {
        let wager = found.iter().find(|wager| wager.setting == setting && wager.test == test).expect("is there");
        (wager.runs, wager.ln_product.exp())
    };
    for (expected, product) in [((3, 25.0), of("a", "mean")), ((1, 50.0), of("b", "mean")), ((1, 1e6), of("a", "sign"))]
    {
        assert_eq!(expected.0, product.0);
        assert!((product.1 / expected.1 - 1.0).abs() < 1e-12); // some roundings of logarithms below 14
    }
    assert_eq!((1, 1e6), (of("c", "sign").0, of("c", "sign").1.round()));
    assert!(found.is_sorted_by(|a, b| a.ln_product >= b.ln_product));
}

#[test]
fn the_alarm_is_for_products_and_not_for_single_runs() {
    // No single p-value is small enough for one run's correction over 500 tests, 2e-9; ten runs of 1/100 make 5¹⁰ ≈ 10⁷.
    let mut rows: Vec<Row> = (0..8).flat_map(|time| made(&[(time, "a", "mean", 0.01)])).collect();
    assert!(!wagers(&rows)[0].is_alarm()); // 5⁸ = 390 625
    rows.extend(made(&[(8, "a", "mean", 0.01)]));
    assert!(wagers(&rows)[0].is_alarm()); // 5⁹
    rows.extend(made(&[(9, "a", "mean", 1.0)]));
    assert!(!wagers(&rows)[0].is_alarm());
}

#[test]
fn even_values_are_uniform_and_moved_ones_are_not() {
    for (test, expected) in [("mean", 1.0), ("beyond 4", 1.0)] {
        let found = uniformity(&evenly(100, test, |p| p));
        assert_eq!((1, 100, expected), (found.len(), found[0].count, found[0].p));
        assert!((found[0].distance - 0.005).abs() < 1e-12);
    }
    // √p is a quarter above p at p = ¼, p² a quarter below it at ½: 2·e^(−2·200·0.25²) = 2.8e-11.
    for change in [f64::sqrt, |p: f64| p * p] {
        let found = uniformity(&evenly(200, "mean", change));
        assert!((found[0].distance - 0.25).abs() < 0.01 && found[0].p < 1e-9, "{found:?}");
    }
}

#[test]
fn tests_that_err_upward_may() {
    assert_eq!(1.0, uniformity(&evenly(200, "kolmogorov", f64::sqrt))[0].p);
    assert_eq!(1.0, uniformity(&evenly(200, "beyond 6", |_| 1.0))[0].p);
    let found = uniformity(&evenly(200, "beyond 6", |p| p * p));
    assert!(found[0].p < 1e-9, "{found:?}");
}
