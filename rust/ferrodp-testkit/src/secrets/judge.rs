//! What memcheck reported, against what it should have.

use std::io;
use std::path::Path;
use std::process::Command;

use super::cases::{Case, Group};

/// The file with the one branch that may depend on the noise, and the branch.
const BRANCH_FILE: &str = "fixed.rs";
const BRANCH_SOURCE: &str = include_str!("../../../ferrodp-core/src/discrete/fixed.rs");
const OPEN_BRANCH: &str = "if is_open {";

/// What became of a group.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// Whether all is as it should be.
    pub is_good: bool,
    /// The calls and their reports.
    pub cases: Vec<Case>,
    /// Where secrets were seen, once for every way there, the one branch left out: kind, function, file and line.
    pub places: Vec<String>,
    /// What is wrong, if something is.
    pub complaint: String,
}

/// Runs a group under valgrind and judges it. The program has to run the group that is its only argument and print its cases.
///
/// # Errors
/// If there is no valgrind.
pub fn judge(program: &Path, group: Group) -> io::Result<Verdict> {
    // No options from files or the environment, and every report counts.
    let run = Command::new("valgrind")
        .args(["--command-line-only=yes", "--tool=memcheck", "--quiet", "--error-limit=no", "--leak-check=no"])
        .args(["--xml=yes", "--xml-fd=2", "--show-leak-kinds=none"])
        .arg(program)
        .arg(group.name())
        .output()?;
    let (out, log) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    let mut verdict = judged(group, &out, &log);
    if !run.status.success() {
        verdict.is_good = false;
        verdict.complaint = format!("{}: {log}", run.status);
    }
    Ok(verdict)
}

fn judged(group: Group, out: &str, log: &str) -> Verdict {
    let cases: Vec<Case> = out.lines().filter_map(Case::parsed).collect();
    let tie = format!("{BRANCH_FILE}:{}", line_of_branch());
    let (ties, places): (Vec<_>, Vec<_>) =
        reports(log).into_iter().partition(|place| place.starts_with("UninitCondition ") && place.ends_with(&tie));
    let complaint = if cases.is_empty() || !log.contains("</valgrindoutput>") {
        format!("it did not end: {log}")
    } else if let Some((kind, file)) = group.defect() {
        let is_defect = |place: &String| place.starts_with(kind) && place.contains(&format!(" at {file}:"));
        if places.iter().any(is_defect) { String::new() } else { format!("no {kind} of {file} was reported") }
    } else if !places.is_empty() {
        "something depends on a secret".into()
    } else {
        let wanted = |case: &Case| if group == Group::FixedTime { case.samples } else { 0 };
        match cases.iter().find(|case| case.reports != wanted(case)) {
            Some(case) => format!("{case}; {} expected, for {} places at {tie}", wanted(case), ties.len()),
            None => String::new(),
        }
    };
    Verdict { is_good: complaint.is_empty(), cases, places, complaint }
}

/// Returns the line of the one branch: if it is not the only one of its kind, the text above is to be mended.
fn line_of_branch() -> usize {
    let lines: Vec<_> = BRANCH_SOURCE.lines().enumerate().filter(|(_, line)| line.trim() == OPEN_BRANCH).collect();
    let [(index, _)] = lines[..] else { panic!("{BRANCH_FILE} has {} lines like {OPEN_BRANCH}", lines.len()) };
    index + 1
}

/// Returns kind, function, file and line of every report in a log of valgrind, which is XML.
fn reports(log: &str) -> Vec<String> {
    let errors = log.split("<error>").skip(1).map(|rest| rest.split("</error>").next().unwrap_or(rest));
    errors
        .map(|error| {
            // The innermost frame comes first, inlined functions included.
            let text = |tag: &str| element(error, tag).unwrap_or("?");
            format!("{} in {} at {}:{}", text("kind"), text("fn"), text("file"), text("line"))
        })
        .collect()
}

/// Returns the text of the first element of that name.
fn element<'a>(xml: &'a str, tag: &str) -> Option<&'a str> {
    let (_, rest) = xml.split_once(&format!("<{tag}>"))?;
    rest.split_once(&format!("</{tag}>")).map(|(text, _)| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(kind: &str, file: &str, line: usize) -> String {
        let frame = |file: &str, line: usize| {
            format!("<frame><ip>0x1</ip><fn>add</fn><file>{file}</file><line>{line}</line></frame>")
        };
        let stack = format!("<stack>{}{}</stack>", frame(file, line), frame("blocks.rs", 3));
        format!("<valgrindoutput><error><kind>{kind}</kind>{stack}</error></valgrindoutput>")
    }

    #[test]
    fn the_one_branch_is_left_out_and_nothing_else() {
        let line = line_of_branch();
        let once_each = "Gaussian: 3 samples, 3 reports\nLaplace: 5 samples, 5 reports\n";
        let good = |out: &str, log: &str| judged(Group::FixedTime, out, log).is_good;
        assert!(good(once_each, &log("UninitCondition", BRANCH_FILE, line)));
        assert!(!good(once_each, &log("UninitCondition", BRANCH_FILE, line + 1)), "another branch");
        assert!(!good(once_each, &log("UninitValue", BRANCH_FILE, line)), "an address");
        assert!(!good(once_each, &log("UninitCondition", "blocks.rs", line)), "another file");
        assert!(!good(once_each, "<valgrindoutput>"), "it died");
        assert!(!good("", "<valgrindoutput></valgrindoutput>"), "it did nothing");
        for reports in [0, 2, 4] {
            let out = format!("Gaussian: 3 samples, {reports} reports\n");
            assert!(!good(&out, &log("UninitCondition", BRANCH_FILE, line)), "{reports} reports of 3 samples");
        }
    }

    #[test]
    fn planted_defects_are_wanted_elsewhere() {
        let out = "with a branch: 3 samples, 6 reports\n";
        let found = |log: &str| judged(Group::Branch, out, log).is_good;
        assert!(found(&log("UninitCondition", "secrets.rs", 9)));
        assert!(!found(&log("UninitValue", "secrets.rs", 9)), "an address, where a branch was planted");
        assert!(!found(&log("UninitCondition", "discrete.rs", 9)), "somewhere else");
        assert!(!found(&log("UninitCondition", BRANCH_FILE, line_of_branch())), "that is no defect");
        assert!(!judged(Group::Open, "open: 3 samples, 1 reports\n", "<valgrindoutput></valgrindoutput>").is_good);
        assert_eq!(
            vec!["UninitValue in add at a.rs:7"],
            judged(Group::Branch, out, &log("UninitValue", "a.rs", 7)).places
        );
    }
}
