//! Where the system has no locks of open files, nothing holds a ledger's files together: that is refused.

use std::fs::File;
use std::path::Path;

use crate::error::Fault;

#[derive(Debug)]
pub(crate) enum Guard {}

impl Guard {
    pub(crate) fn new(_: File, _: &Path, path: &Path) -> Result<Self, Fault> {
        Err(Fault::new("locks", path))
    }

    pub(crate) fn replaced(&self, _: bool) -> Option<Fault> {
        match *self {}
    }

    pub(crate) fn cut(&self) -> Option<Fault> {
        match *self {}
    }

    pub(crate) fn same_end(&self) -> Result<bool, Fault> {
        match *self {}
    }

    pub(crate) fn find_mark(&mut self, _: &[u8; 16]) -> bool {
        match *self {}
    }

    pub(crate) fn mark(&self) -> Option<u64> {
        match *self {}
    }

    pub(crate) fn raise_mark(&self, _: u64) -> bool {
        match *self {}
    }
}
