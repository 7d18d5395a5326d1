// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The programs that have a load or a competitor beside them.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use anyhow::{Context as _, Result};
use tempfile::TempDir;

use super::super::programs::{self, Program};
use crate::experiment::NotHere;
use crate::program::ProgramExit;
use crate::reading::{ProgramResult, Reading, own_words, whole_time};
use crate::setup::Setup;
use crate::workload::service::ServiceKind;

/// How long programs run that run for a time, ms.
const LENGTH_MS: u64 = 4_000;
/// Requests per second of the services.
const RATE: u32 = 1000;
/// Transactions per second of PostgreSQL.
const RATE_POSTGRES: u32 = 200;
/// Spinning tasks beside the sleepers of a group.
const SPINNING: u32 = 5;

#[derive(Debug)]
pub struct Subject {
    pub name: &'static str,
    pub about: String,
    pub words: Vec<OsString>,
    /// It wants all of its CPUs all the time.
    pub hungry: bool,
    /// It has a given amount of work, not a given time.
    pub has_end: bool,
    program: Option<Program>,
    /// Of a service. Not in the results' directory: its user need not reach that, and the
    /// path of a socket is short.
    _dir: Option<TempDir>,
}

impl Subject {
    pub fn clear(&self) -> Result<()> {
        self.program.as_ref().map_or(Ok(()), Program::clear)
    }

    pub fn read(&self, programs: &[&str], ended: &ProgramExit) -> Reading {
        let Some(program) = &self.program else {
            return own_words(programs, ended);
        };
        match ended.status.map(|_| program.check(&ended.out)) {
            Some(Err(error)) => {
                let why = format!("{error:#}");
                let failed = ProgramResult::Failed { why };
                Reading::from([(self.name.to_owned(), failed)])
            }
            _ => whole_time(programs, ended),
        }
    }

    fn of(program: Program) -> Self {
        Self {
            name: program.name,
            about: program.about.clone(),
            words: program.words.clone(),
            hungry: true,
            has_end: true,
            program: Some(program),
            _dir: None,
        }
    }

    fn timed(name: &'static str, about: String, words: Vec<OsString>) -> Self {
        Self {
            name,
            about,
            words,
            hungry: false,
            has_end: false,
            program: None,
            _dir: None,
        }
    }
}

/// Those that can be had here; and why others cannot.
pub fn make(setup: &Setup) -> Result<(Vec<Subject>, Vec<String>)> {
    let sleepers = |tasks| setup.work(&format!("sleepers --tasks {tasks} --within {LENGTH_MS}"));
    let mut subjects = vec![
        Subject::timed(
            "sleepers",
            "A task on each CPU that sleeps 1 ms at a time, and nothing else.".to_owned(),
            sleepers(0),
        ),
        Subject {
            hungry: true,
            ..Subject::timed(
                "sleepers-and-spinners",
                format!("The same beside {SPINNING} tasks that spin."),
                sleepers(SPINNING),
            )
        },
    ];
    let mut skipped = Vec::new();
    for kind in ServiceKind::ALL {
        match kind.missing() {
            Some(why) => skipped.push(why),
            None => subjects.push(service(setup, kind)?),
        }
    }
    let mut made = vec![programs::openmp(setup)];
    // These take minutes beside a load of 80 %.
    if setup.quick {
        for name in ["exchange", "compile"] {
            skipped.push(format!("{name}: in the full form only"));
        }
    } else {
        made.extend([programs::exchange(setup), programs::compile(setup)]);
    }
    for made in made {
        match made.map_err(anyhow::Error::downcast) {
            Ok(some) => subjects.extend(some.into_iter().map(Subject::of)),
            Err(Ok(NotHere(why))) => skipped.push(why),
            Err(Err(error)) => return Err(error),
        }
    }
    let name_of = |why: &str| why.split(':').next().unwrap_or_default().to_owned();
    let left_out: Vec<String> = skipped.iter().map(|why| name_of(why)).collect();
    let names = subjects.iter().map(|subject| subject.name);
    let names = names.chain(left_out.iter().map(String::as_str));
    setup.chosen.check(names)?;
    subjects.retain(|subject| setup.chosen.has(subject.name));
    skipped.retain(|why| setup.chosen.has(&name_of(why)));
    Ok((subjects, skipped))
}

fn service(setup: &Setup, kind: ServiceKind) -> Result<Subject> {
    let name = kind.as_str();
    let rate = setup.chosen.size.unwrap_or(match kind {
        ServiceKind::Postgres => RATE_POSTGRES,
        _ => RATE,
    });
    let dir = tempfile::Builder::new()
        .permissions(fs::Permissions::from_mode(0o755))
        .tempdir()
        .context("a directory for a service")?;
    let mut words = setup.work(&format!(
        "service --service {name} --rate {rate} --within {LENGTH_MS} --dir"
    ));
    words.push(dir.path().into());
    let about = format!("A server of {name} and four clients, {rate} requests per second in all.");
    Ok(Subject {
        _dir: Some(dir),
        ..Subject::timed(name, about, words)
    })
}
