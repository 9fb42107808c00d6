//! What all deep runs say together: a wager on every test that goes on from run to run, and whether p-values are uniform.
//!
//! - *Wagers.* For a p-value, `min(1/(2√p), 10⁶)` is a valid e-value: its mean is at most `∫ 1/(2√p) dp = 1` under the stated
//!   law (Vovk and Wang, *E-values: calibration, combination and applications*, Annals of Statistics, 2021, section 2).
//!   Draws of different runs are independent, so the product over the runs of one test is a wager that nobody expects to gain
//!   from, and the chance that it *ever* exceeds 10⁶ is below 10⁻⁶ (Ville, *Étude critique de la notion de collectif*, 1939): it
//!   does not matter when runs are stopped, or why.
//! - *Uniformity.* The p-values of one test, over settings and runs, are independent and, if the test is calibrated, uniform. The
//!   bound `2·exp(−2nD²)` for Kolmogorov's distance, `exp(−2nD²)` for one side of it, holds for every n (Massart, *The tight
//!   constant in the Dvoretzky–Kiefer–Wolfowitz inequality*, Annals of Probability, 1990). Tests of counts and of suprema over
//!   edges err upward by design: only an excess of small p-values counts against them.

use std::collections::{BTreeMap, BTreeSet};

/// The largest e-value of a single run, and the product beyond which a test has failed.
pub const ALARM_E_VALUE: f64 = 1e6;

/// The names of the columns of a file of runs.
pub const COLUMN_NAMES: &str = "unix_time,isa,draws,setting,test,statistic,p,adjusted_p";

/// Beginnings of the names of tests whose p-values err upward: discrete ones, and those of edges alone.
const UPWARD_TESTS: [&str; 6] = ["anderson darling", "beyond", "coincidences", "kolmogorov", "largest", "zeros"];

/// One p-value of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// When the run ended, in seconds.
    pub time: u64,
    /// What was drawn.
    pub setting: String,
    /// What was tested.
    pub test: String,
    /// The p-value.
    pub p: f64,
}

/// What is left of one unit that was staked on the failure of a test, over all its runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Wager {
    /// What was drawn.
    pub setting: String,
    /// What was tested.
    pub test: String,
    /// How often.
    pub runs: usize,
    /// The natural logarithm of the product of the e-values.
    pub ln_product: f64,
}

impl Wager {
    /// Returns whether the product exceeds [`ALARM_E_VALUE`].
    #[must_use]
    pub fn is_alarm(&self) -> bool {
        self.ln_product > ALARM_E_VALUE.ln()
    }
}

/// How far the p-values of one test are from uniform.
#[derive(Clone, Debug, PartialEq)]
pub struct Uniformity {
    /// What was tested.
    pub test: String,
    /// How many p-values there are.
    pub count: usize,
    /// Kolmogorov's distance; for tests that err upward only the side of small p-values.
    pub distance: f64,
    /// A bound on the chance of so large a distance.
    pub p: f64,
}

/// Returns the rows of a file of runs.
///
/// # Errors
/// Names the first line that is none of a run, or that occurs a second time.
pub fn read(text: &str) -> Result<Vec<Row>, String> {
    let mut lines = text.lines();
    if lines.next() != Some(COLUMN_NAMES) {
        return Err(format!("line 1 must be {COLUMN_NAMES}"));
    }
    let mut seen = BTreeSet::new();
    let mut rows = Vec::new();
    for (number, line) in lines.enumerate() {
        let row = row(line).ok_or_else(|| format!("line {} is no p-value of a run", number + 2))?;
        if !seen.insert((row.time, row.setting.clone(), row.test.clone())) {
            return Err(format!("line {} occurs twice: nothing may be wagered on it again", number + 2));
        }
        rows.push(row);
    }
    Ok(rows)
}

fn row(line: &str) -> Option<Row> {
    let fields: Vec<&str> = line.split(',').collect();
    let &[time, _, _, setting, test, _, p, _] = fields.as_slice() else { return None };
    let p: f64 = p.parse().ok()?;
    let is_sound = (0.0..=1.0).contains(&p) && !setting.is_empty() && !test.is_empty();
    is_sound.then_some(Row { time: time.parse().ok()?, setting: setting.into(), test: test.into(), p })
}

/// Returns the wagers of all tests, the largest product first.
#[must_use]
pub fn wagers(rows: &[Row]) -> Vec<Wager> {
    let mut found: BTreeMap<(&str, &str), (usize, f64)> = BTreeMap::new();
    for row in rows {
        let (runs, ln_product) = found.entry((&row.setting, &row.test)).or_default();
        *runs += 1;
        *ln_product += (0.5 / row.p.sqrt()).min(ALARM_E_VALUE).ln();
    }
    let mut wagers: Vec<Wager> = found
        .into_iter()
        .map(|((setting, test), (runs, ln_product))| Wager {
            setting: setting.into(),
            test: test.into(),
            runs,
            ln_product,
        })
        .collect();
    wagers.sort_by(|a, b| b.ln_product.total_cmp(&a.ln_product));
    wagers
}

/// Returns how uniform the p-values of each test are.
#[must_use]
pub fn uniformity(rows: &[Row]) -> Vec<Uniformity> {
    let mut found: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for row in rows {
        found.entry(&row.test).or_default().push(row.p);
    }
    found
        .into_iter()
        .map(|(test, mut values)| {
            values.sort_by(f64::total_cmp);
            let errs_upward = UPWARD_TESTS.iter().any(|name| test.starts_with(name));
            let n = values.len() as f64;
            let distance = values.iter().enumerate().fold(0.0_f64, |distance, (i, p)| {
                let few = if errs_upward { 0.0 } else { p - i as f64 / n };
                distance.max((i as f64 + 1.0) / n - p).max(few)
            });
            let side = (-2.0 * n * distance * distance).exp();
            // Massart's bound of one side is for those that are at most a half.
            let p = if !errs_upward {
                (2.0 * side).min(1.0)
            } else if side <= 0.5 {
                side
            } else {
                1.0
            };
            Uniformity { test: test.into(), count: values.len(), distance, p }
        })
        .collect()
}

#[cfg(test)]
mod tests;
