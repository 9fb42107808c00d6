//! What is run under memcheck, by name, and what it reported.

use core::fmt;

use ferrodp_core::discrete::Law;

use crate::secrets::memcheck::count_reports;

/// What one process does under valgrind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Noise in fixed time: one report a sample, for whether a decision is open.
    FixedTime,
    /// The keystream alone: no report.
    Keystream,
    /// Noise by rejection, the key no secret: no report.
    Open,
    /// Noise by rejection of either law: reported.
    Rejection(Law),
    /// Noise in fixed time, and a branch on its sign: reported.
    Branch,
    /// Noise in fixed time, and a table read where it says: reported.
    Address,
}

impl Group {
    /// All there are.
    pub const ALL: [Self; 7] = [
        Self::FixedTime,
        Self::Keystream,
        Self::Open,
        Self::Rejection(Law::Gaussian),
        Self::Rejection(Law::Laplace),
        Self::Branch,
        Self::Address,
    ];

    /// Returns the name that [`Group::named`] takes.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::FixedTime => "fixed-time",
            Self::Keystream => "keystream",
            Self::Open => "open",
            Self::Rejection(Law::Gaussian) => "rejection-gaussian",
            Self::Rejection(Law::Laplace) => "rejection-laplace",
            Self::Branch => "planted-branch",
            Self::Address => "planted-address",
        }
    }

    /// Returns the group of that name, if there is one.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|group| group.name() == name)
    }

    /// Returns what has to be reported and in which file, if there is a defect in it.
    pub(super) const fn defect(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::FixedTime | Self::Keystream | Self::Open => None,
            // Its table is read where the first word says.
            Self::Rejection(_) => Some(("UninitValue", "discrete.rs")),
            Self::Branch => Some(("UninitCondition", "secrets.rs")),
            Self::Address => Some(("UninitValue", "secrets.rs")),
        }
    }
}

/// One call with its secrets, and how many reports it gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// What was called.
    pub name: String,
    /// How many samples (or blocks of the keystream).
    pub samples: usize,
    /// How many reports, repeated ones included.
    pub reports: usize,
}

impl Case {
    pub(super) fn counted(name: String, samples: usize, call: impl FnOnce()) -> Self {
        let before = count_reports();
        call();
        Self { name, samples, reports: count_reports() - before }
    }

    /// Reads what `to_string` wrote.
    pub(super) fn parsed(line: &str) -> Option<Self> {
        let (name, rest) = line.split_once(": ")?;
        let (samples, rest) = rest.split_once(" samples, ")?;
        let reports = rest.strip_suffix(" reports")?;
        Some(Self { name: name.into(), samples: samples.parse().ok()?, reports: reports.parse().ok()? })
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} samples, {} reports", self.name, self.samples, self.reports)
    }
}
