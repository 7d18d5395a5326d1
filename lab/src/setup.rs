// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The parameters of all experiments: programs, CPUs, form and limits.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use sandbag_linux::CpuList;
use sandbag_ui::BadInput;

use crate::condition::Condition;
use crate::experiment::Choices;
use crate::place::{RunPlace, Runner as _};
use crate::workload::WorkReport;

#[derive(Debug, Clone)]
pub struct Setup {
    pub sandbag: PathBuf,
    /// This program, for the lab's own workloads.
    pub own: PathBuf,
    pub cpus: CpuList,
    /// The short form: fewer cells, shorter programs, fewer rounds.
    pub quick: bool,
    pub methods: Methods,
    /// What the user chose in place of the experiment's own.
    pub chosen: Selection,
    pub limit: Duration,
    /// A source tree to compile, in place of the one that was fetched.
    pub sources: Option<PathBuf>,
    pub scratch: PathBuf,
    /// The experiment's own directory, which stays.
    pub dir: PathBuf,
}

/// Parts of an experiment; of what is empty it has all of its own.
#[derive(Debug, Clone, Default, PartialEq, clap::Args)]
pub struct Selection {
    /// Only these programs
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub programs: Vec<String>,

    /// These loads, percent (competitor)
    #[arg(long, value_name = "LOADS", value_delimiter = ',', value_parser = load)]
    pub loads: Vec<f64>,

    /// These speeds (hpcc-figure-2, -3, -5, -6)
    #[arg(long, value_name = "SPEEDS", value_delimiter = ',', value_parser = speed)]
    pub speeds: Vec<f64>,

    /// Numbers of CPUs, counted from the first (hpcc-figure-5, -6)
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    pub cores: Vec<usize>,

    /// MiB of the file that is copied (krash-table-3), processes that exchange
    /// messages (krash-table-4), requests per second of each service (competitor)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub size: Option<u32>,

    /// A recording whose first hour krash-figure-2 --programs hour replays
    /// [default: an hour of a day of a model]
    #[arg(long, value_name = "FILE")]
    pub profile: Option<PathBuf>,
}

fn load(text: &str) -> std::result::Result<f64, String> {
    match text.parse() {
        Ok(pct) if (1.0..=99.0).contains(&pct) => Ok(pct),
        _ => Err("a load lies between 1 and 99 %".to_owned()),
    }
}

fn speed(text: &str) -> std::result::Result<f64, String> {
    match text.parse() {
        Ok(speed) if (0.01..=1.0).contains(&speed) => Ok(speed),
        _ => Err("a speed lies between 0.01 and 1".to_owned()),
    }
}

impl Selection {
    /// Whether a program of this name is among those chosen.
    pub fn has(&self, program: &str) -> bool {
        self.programs.is_empty() || self.programs.iter().any(|name| name == program)
    }

    /// # Errors
    /// A chosen program is none of these, which are all that an experiment has.
    pub fn check<'a>(&self, all: impl Iterator<Item = &'a str>) -> Result<(), BadInput> {
        let all: Vec<&str> = all.collect();
        match self
            .programs
            .iter()
            .find(|name| !all.contains(&name.as_str()))
        {
            None => Ok(()),
            Some(name) => Err(BadInput(format!(
                "--programs {name}: the programs are {}",
                all.join(", ")
            ))),
        }
    }

    /// As the terms of rows name it: what changes what a row is.
    pub fn terms(&self) -> String {
        let size = self.size.map(|size| format!("size {size}"));
        let profile = self.profile.as_ref();
        let profile = profile.map(|path| format!("profile {}", path.display()));
        let terms: Vec<String> = size.into_iter().chain(profile).collect();
        terms.join(", ")
    }
}

/// A choice that changes what a row is, for [`Terms`](crate::journal::Terms); nothing for none.
pub fn of_list<T: ToString>(name: &str, values: &[T]) -> String {
    let values: Vec<String> = values.iter().map(T::to_string).collect();
    if values.is_empty() {
        String::new()
    } else {
        format!("{name} {}", values.join(","))
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Methods {
    pub loading: Vec<String>,
    pub slowing: Vec<String>,
    /// The reasons of those that do not work.
    pub refused: Vec<String>,
}

impl Setup {
    pub fn place<'a>(&'a self, cpus: &'a CpuList) -> RunPlace<'a> {
        RunPlace {
            sandbag: &self.sandbag,
            cpus,
            scratch: &self.scratch,
            limit: self.limit,
        }
    }

    /// Words that run one of the lab's own programs.
    pub fn work(&self, words: &str) -> Vec<OsString> {
        let own = std::iter::once(self.own.clone().into_os_string());
        own.chain(["work".into()])
            .chain(words.split(' ').map(OsString::from))
            .collect()
    }

    /// The report of one of the lab's own programs that finds how much it does in this
    /// time, ms, at full speed.
    pub fn calibrated(&self, program: &str, length_ms: u64) -> Result<WorkReport> {
        let one = CpuList::from_iter(self.cpus.iter().take(1));
        let words = self.work(&format!("{program} --within {length_ms}"));
        let met = self.place(&one).meet(&Condition::Unloaded, &words)?;
        let done: WorkReport = serde_json::from_str(&met.ended.out)
            .with_context(|| format!("{program} said {:?}", met.ended.out))?;
        ensure!(done.right, "the result of {program} is wrong");
        Ok(done)
    }

    /// How much one of the lab's own programs does in this time, ms; what was chosen
    /// before, where an experiment goes on.
    pub fn amount(&self, program: &str, length_ms: u64, chosen: &mut Choices) -> Result<u64> {
        let what = format!("{program} in {length_ms} ms");
        let amount = match chosen.get(&what) {
            Some(amount) => amount.parse().context("a number that was chosen before")?,
            None => self.calibrated(program, length_ms)?.amount.max(1),
        };
        chosen.insert(what, amount.to_string());
        Ok(amount)
    }

    /// One value for the short form, one for the full one.
    pub fn form<T>(&self, quick: T, full: T) -> T {
        if self.quick { quick } else { full }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::path::Path;

    pub(crate) fn setup(dir: &Path) -> Setup {
        Setup {
            sandbag: PathBuf::from("/no/sandbag"),
            own: "sandbag-lab".into(),
            cpus: CpuList::from_iter([0]),
            quick: true,
            methods: Methods::default(),
            chosen: Selection::default(),
            limit: Duration::from_secs(1),
            sources: None,
            scratch: dir.to_owned(),
            dir: dir.to_owned(),
        }
    }
}
