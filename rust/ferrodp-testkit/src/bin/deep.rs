//! The long statistical run: fresh keys from the operating system, the production path, every test.
//!
//! ```text
//! cargo run --release -p ferrodp-testkit --bin deep -- [--draws N] [--compare N] [--csv FILE] [--isa NAME]
//!     [--only TEXT]
//! cargo run --release -p ferrodp-testkit --bin deep -- --judge FILE
//! ```
//!
//! First every instruction set, 1, 2 and 7 threads, and filters with margins widened to 2⁻⁸ are compared bit by bit on
//! 10⁷ samples (or as many as `--compare` says) of each setting. Then each setting is drawn 10⁸ times (`--draws`) and
//! tested. `--only` runs the settings whose name begins or ends with a text, one of several with commas between. Holm's correction over all p-values keeps the chance of a false alarm below 10⁻⁶ a run. Exit code 1 if
//! anything failed. A failure is a finding: repeat it once with four times the draws, and keep both results. Runs are
//! kept in `tests/statistical/deep_runs.csv`.
//!
//! What a file holds with the new run is judged as a whole: the e-values of each test multiply from run to run, and a product
//! above 10⁶ fails however the runs were stopped; the p-values of each test have to be uniform. `--judge FILE` does that alone.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use ferrodp_core::discrete::Discrete;
use ferrodp_core::isa::Isa;
use ferrodp_core::random::Key;
use ferrodp_core::sample::Noise;
use ferrodp_testkit::draws::{DRAW_SETTINGS, Dtype, Setting};
use ferrodp_testkit::finding::Finding;
use ferrodp_testkit::integers::{INTEGER_SETTINGS, IntegerSetting};
use ferrodp_testkit::runs;
use ferrodp_testkit::verdict::holm;

const FAMILY_WISE: f64 = 1e-6;
const KNOWN_OPTIONS: [&str; 6] = ["draws", "compare", "csv", "isa", "only", "judge"];
const PER_CALL: usize = 1 << 20;

struct Options {
    draws: u64,
    compared: usize,
    csv: Option<String>,
    judged: Option<String>,
    isa: Isa,
    only: String,
}

impl Options {
    fn wants(&self, name: &str) -> bool {
        self.only.split(',').any(|text| name.starts_with(text) || name.ends_with(text))
    }
}

fn main() -> ExitCode {
    match options(std::env::args().skip(1)).and_then(|options| run(&options).map_err(|error| error.to_string())) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("deep: {message}");
            ExitCode::from(2)
        }
    }
}

fn options(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options {
        draws: 100_000_000,
        compared: 10_000_000,
        csv: None,
        judged: None,
        isa: Isa::best(),
        only: String::new(),
    };
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or(format!("{name} needs a value"))?;
        match name.as_str() {
            "--draws" => options.draws = value.parse().map_err(|_| format!("{value} is no number of draws"))?,
            "--compare" => options.compared = value.parse().map_err(|_| format!("{value} is no number of samples"))?,
            "--csv" => options.csv = Some(value),
            "--judge" => options.judged = Some(value),
            "--isa" => options.isa = Isa::named(&value).ok_or(format!("this CPU has no {value}"))?,
            "--only" => options.only = value,
            _ => return Err(format!("unknown option {name}; there are --{}", KNOWN_OPTIONS.join(", --"))),
        }
    }
    if options.draws < 1 << 20 {
        return Err("fewer than 2^20 draws are too few for the approximations of the tests".into());
    }
    Ok(options)
}

/// Returns whether all went well.
fn run(options: &Options) -> Result<bool, Box<dyn core::error::Error>> {
    if let Some(path) = &options.judged {
        return judged(path);
    }
    let mut sound = true;
    for setting in DRAW_SETTINGS.iter().filter(|setting| options.wants(setting.name)) {
        sound &= compared(setting.name, options, || same_bits(setting, options.compared))?;
    }
    for setting in INTEGER_SETTINGS.iter().filter(|setting| options.wants(setting.name)) {
        sound &= compared(setting.name, options, || same_integers(setting, options.compared))?;
    }
    let mut found: Vec<(&str, Finding)> = Vec::new();
    let mut judge = |name: &'static str, findings: &mut dyn FnMut() -> Result<Vec<Finding>, ferrodp_core::Error>| {
        if options.wants(name) {
            let begin = Instant::now();
            found.extend(findings()?.into_iter().map(|finding| (name, finding)));
            eprintln!("{name:28} {} draws in {:.1} s", options.draws, begin.elapsed().as_secs_f64());
        }
        Ok::<_, ferrodp_core::Error>(())
    };
    for setting in DRAW_SETTINGS {
        judge(setting.name, &mut || setting.findings(options.isa, options.draws, PER_CALL, Key::fresh))?;
    }
    for setting in INTEGER_SETTINGS {
        judge(setting.name, &mut || setting.findings(options.isa, options.draws, PER_CALL, Key::fresh))?;
    }
    let adjusted = holm(&found.iter().map(|(_, finding)| finding.p).collect::<Vec<_>>());
    println!("\n{:28} {:20} {:>14} {:>12} {:>10}", "setting", "test", "statistic", "p", "adjusted");
    for ((setting, finding), &adjusted) in found.iter().zip(&adjusted) {
        let Finding { test, statistic, p } = finding;
        let mark = if adjusted <= FAMILY_WISE { "FAILED" } else { "" };
        println!("{setting:28} {test:20} {statistic:14.4} {p:12.4e} {adjusted:10.3e} {mark}");
    }
    let failed = adjusted.iter().filter(|p| **p <= FAMILY_WISE).count();
    println!("\n{} tests, {failed} failed at family-wise {FAMILY_WISE:e} ({:?})", found.len(), options.isa);
    if let Some(path) = &options.csv {
        write_csv(path, options, &found, &adjusted)?;
        sound &= judged(path)?;
    }
    Ok(sound && failed == 0)
}

/// Prints what all runs of a file say together, and returns whether nothing speaks against the laws.
fn judged(path: &str) -> Result<bool, Box<dyn core::error::Error>> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let rows = runs::read(&text).map_err(|message| format!("{path}: {message}"))?;
    let wagers = runs::wagers(&rows);
    let alarms = wagers.iter().filter(|wager| wager.is_alarm()).count();
    println!("\n{} kept p-values of {} tests; largest products of their e-values:", rows.len(), wagers.len());
    for wager in wagers.iter().take(alarms.max(3)) {
        let mark = if wager.is_alarm() { "FAILED" } else { "" };
        let product = wager.ln_product.exp();
        println!("{:28} {:20} {:14} runs {product:12.4e} {mark}", wager.setting, wager.test, wager.runs);
    }
    let mut uniformity = runs::uniformity(&rows);
    uniformity.sort_by(|a, b| a.p.total_cmp(&b.p));
    let adjusted = holm(&uniformity.iter().map(|found| found.p).collect::<Vec<_>>());
    let skewed = adjusted.iter().filter(|p| **p <= FAMILY_WISE).count();
    println!("distances of p-values from uniform, the least likely first:");
    for (found, adjusted) in uniformity.iter().zip(&adjusted).take(skewed.max(3)) {
        let mark = if *adjusted <= FAMILY_WISE { "FAILED" } else { "" };
        let runs::Uniformity { test, count, distance, p } = found;
        println!("{test:28} {count:20} values {distance:14.4} {p:12.4e} {adjusted:10.3e} {mark}");
    }
    Ok(alarms == 0 && skewed == 0)
}

/// Prints and returns whether a setting's bits are the same on every path.
fn compared(
    name: &str,
    options: &Options,
    same: impl FnOnce() -> Result<bool, ferrodp_core::Error>,
) -> Result<bool, ferrodp_core::Error> {
    let begin = Instant::now();
    let same = same()?;
    let verdict = if same { "same bits" } else { "DIFFER" };
    println!("{name:28} {} samples on every path: {verdict}", options.compared);
    eprintln!("{name:28} compared in {:.1} s", begin.elapsed().as_secs_f64());
    Ok(same)
}

/// The same for integers.
fn same_integers(setting: &IntegerSetting, compared: usize) -> Result<bool, ferrodp_core::Error> {
    let key = Key::fresh()?;
    let (law, widened) = (setting.sampler(), setting.sampler().with_widened_margins(1.0 / 256.0));
    let drawn = |law: &Discrete, isa, threads| {
        let mut values = vec![0_i64; compared];
        law.fill(isa, &key, &mut values, NonZeroUsize::new(threads).unwrap_or(NonZeroUsize::MIN));
        values
    };
    let expected = drawn(&law, Isa::PORTABLE, 1);
    let mut same = drawn(&widened, Isa::best(), 1) == expected;
    for isa in Isa::available() {
        for threads in [1, 2, 7] {
            same &= drawn(&law, isa, threads) == expected;
        }
    }
    Ok(same)
}

/// Returns whether every instruction set, number of threads and margin gives the same bits under a fresh key.
fn same_bits(setting: &Setting, compared: usize) -> Result<bool, ferrodp_core::Error> {
    let key = Key::fresh()?;
    let noise = setting.noise();
    let widened = noise.clone().with_widened_margins(1.0 / 256.0);
    let expected = bits(setting, &noise, Isa::PORTABLE, &key, 1, compared);
    let mut same = bits(setting, &widened, Isa::best(), &key, 1, compared) == expected;
    for isa in Isa::available() {
        for threads in [1, 2, 7] {
            same &= bits(setting, &noise, isa, &key, threads, compared) == expected;
        }
    }
    Ok(same)
}

fn bits(setting: &Setting, noise: &Noise, isa: Isa, key: &Key, threads: usize, count: usize) -> Vec<u64> {
    let threads = NonZeroUsize::new(threads).unwrap_or(NonZeroUsize::MIN);
    match setting.dtype {
        Dtype::Single => {
            let mut values = vec![setting.value as f32; count];
            noise.add(isa, key, &mut values, threads);
            values.into_iter().map(|value| u64::from(value.to_bits())).collect()
        }
        Dtype::Double => {
            let mut values = vec![setting.value; count];
            noise.add(isa, key, &mut values, threads);
            values.into_iter().map(f64::to_bits).collect()
        }
    }
}

/// Appends one line a test; a new file begins with the names of the columns.
fn write_csv(path: &str, options: &Options, found: &[(&str, Finding)], adjusted: &[f64]) -> io::Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    if file.metadata()?.len() == 0 {
        writeln!(file, "{}", runs::COLUMN_NAMES)?;
    }
    let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    for ((setting, Finding { test, statistic, p }), adjusted) in found.iter().zip(adjusted) {
        let draws = options.draws;
        writeln!(file, "{time},{:?},{draws},{setting},{test},{statistic:e},{p:e},{adjusted:e}", options.isa)?;
    }
    Ok(())
}
