// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a profile is read and reshaped: what `replay`, `convert` and `show`
//! have in common.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::{
    BoxSteps, Error, Fault, Format, Gaps, InputSource, MapRule, Place, ProfileSummary, ReadOptions,
    Result, Spread, algebra,
};
use clap::{Args, ValueEnum};
use sandbag_linux::topology::Topology;
use sandbag_linux::{CpuList, Root, launcher, machine};
use sandbag_ui::address::public;
use sandbag_ui::text::visible;

use crate::command::prometheus;
use crate::command::second_source::source_once;
use crate::stream::{change_steps, no_warning};
use sandbag_ui::units::{self, Cpus, nanos};

#[derive(Debug, Clone, Args)]
pub struct Reshape {
    /// Format of the profile [default: detected; see `sandbag show --formats`]
    #[arg(long, value_name = "FORMAT")]
    pub from: Option<Format>,

    /// The machine, of a file that holds several, by its name there
    ///
    /// auto: the one with this host's name, else the one whose place in the file is this host's
    /// rank among those that a launcher started.
    #[arg(long, value_name = "NAME")]
    pub machine: Option<String>,

    /// With --machine auto: which machine a host takes, in place of the one of its name:
    /// HOST=NAME,HOST=NAME
    #[arg(long, value_name = "HOST=NAME", value_delimiter = ',', value_parser = pair)]
    pub map_machines: Vec<(String, String)>,

    /// CPUs for a file with one value per machine: N or even:N (the same load
    /// on each), pack:N (one filled after the other); for a job log the number
    /// of CPUs that run it
    #[arg(long, value_name = "[RULE:]N")]
    pub spread: Option<Spread>,

    /// The CPUs to lay the profile on [default: those it names]
    ///
    /// With --map, or where this machine lacks some of those, the default is all that
    /// are online and that the cpuset of this process has.
    #[arg(short, long, value_name = "LIST", value_parser = units::cpus)]
    pub cpus: Option<Cpus>,

    /// How a profile of more CPUs is put on those: first (the others are left
    /// out), mean, max (of neighbours), wrap (added and clipped at 100 %)
    #[arg(long, value_name = "RULE")]
    pub map: Option<MapRule>,

    /// What stands where the profile has no value: keep, hold, zero, cut,
    /// error [default: error for a replay, keep otherwise]
    #[arg(long, value_name = "WHAT")]
    pub gaps: Option<Gaps>,

    /// What to do with steal: leave it out, or add it to the load
    #[arg(long, value_name = "WHAT", default_value = "exclude")]
    pub steal: Steal,

    /// End of a profile that has none, from its beginning
    #[arg(long, value_name = "TIME", value_parser = units::positive_duration)]
    pub end: Option<Duration>,

    /// Multiply all loads (clipped at 100, and counted)
    #[arg(long, value_name = "FACTOR")]
    pub scale_load: Option<f64>,

    /// Multiply all times: 0.5 is twice as fast
    #[arg(long, value_name = "FACTOR")]
    pub scale_time: Option<f64>,

    /// Resample to pieces of this length (time-weighted means); at least 100ms
    #[arg(long, value_name = "TIME", value_parser = piece)]
    pub resample: Option<Duration>,

    /// Only the part FROM..TO of the profile (before any scaling)
    #[arg(long, value_name = "FROM..TO", value_parser = range)]
    pub cut: Option<(u64, u64)>,

    /// Only these CPUs of the profile, by their numbers in it
    #[arg(long, value_name = "LIST", value_parser = select)]
    pub select: Option<CpuList>,

    /// Put this much time without load before it
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    pub delay: Option<Duration>,

    /// Put another profile of the same CPUs after it, as it stands there; may
    /// be given more than once
    #[arg(long, value_name = "FILE")]
    pub append: Vec<PathBuf>,

    /// Add another profile to it, from the same beginning (clipped at 100, and
    /// counted); may be given more than once
    #[arg(long, value_name = "FILE")]
    pub add: Vec<PathBuf>,

    /// Repeat all of that N times
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub times: Option<u64>,
}

/// What becomes of the time that a hypervisor withheld.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Steal {
    /// Load is the busy share of the delivered time.
    Exclude,
    /// Load is the share of all time in which the CPU was not to be had.
    Load,
}

/// The interval at which burners note their clocks, ns.
const SHORTEST_PIECE_NS: u64 = 100_000_000;

/// What is got cannot be told in pieces shorter than the 100 ms at which
/// burners note their clocks; a profile of an hour in pieces of 1 ns would be
/// made for days.
fn piece(text: &str) -> std::result::Result<Duration, String> {
    match units::duration(text)? {
        time if nanos(time) < SHORTEST_PIECE_NS => {
            Err("must be 100ms or longer: shorter pieces cannot be held and measured".to_owned())
        }
        time => Ok(time),
    }
}

fn select(text: &str) -> std::result::Result<CpuList, String> {
    match text.parse::<CpuList>() {
        Ok(list) if !list.is_empty() => Ok(list),
        _ => Err("expected CPUs of the profile, such as 0,2-3".to_owned()),
    }
}

/// Of `--machine`.
const AUTO: &str = "auto";

fn pair(text: &str) -> std::result::Result<(String, String), String> {
    match text.split_once('=') {
        Some((host, name)) if !host.is_empty() && !name.is_empty() => {
            Ok((host.to_owned(), name.to_owned()))
        }
        _ => Err("expected HOST=NAME".to_owned()),
    }
}

/// The machine of this host among `names`: as it was mapped, by its name, by its rank.
fn choose(
    host: &str,
    rank: Option<u32>,
    map: &[(String, String)],
    names: &[String],
) -> Result<String> {
    let same = |a: &str, b: &str| launcher::is_same_host(a, b);
    if let Some((_, name)) = map.iter().find(|(of, _)| same(of, host)) {
        return Ok(name.clone());
    }
    // A machine of Prometheus may have its port behind it.
    let bare = |name: &str| {
        name.rsplit_once(':')
            .map_or(name, |(name, _)| name)
            .to_owned()
    };
    let mut own = names
        .iter()
        .filter(|name| same(name, host) || same(&bare(name), host));
    match (own.next(), own.next(), rank) {
        (Some(name), None, _) => return Ok(name.clone()),
        (Some(_), Some(_), _) => {
            let text = format!("{AUTO} (several machines have the name of this host, {host})");
            return Err(Fault::argument("--machine", text, "--map-machines").into());
        }
        (None, _, None) => {
            let text = format!("{AUTO} (no machine has the name of this host, {host})");
            let expected = "a name, --map-machines, or a launcher that gives ranks";
            return Err(Fault::argument("--machine", text, expected).into());
        }
        (None, _, Some(_)) => {}
    }
    let at = rank.unwrap_or(0) as usize;
    names.get(at).cloned().ok_or_else(|| {
        let text = format!(
            "{AUTO} (the number of machines is {}, and this is host {})",
            names.len(),
            at + 1
        );
        Fault::argument(
            "--machine",
            text,
            "a name, or the profile must have as many machines as there are hosts",
        )
        .into()
    })
}

fn range(text: &str) -> std::result::Result<(u64, u64), String> {
    let (from, to) = text
        .split_once("..")
        .ok_or("expected FROM..TO, such as 10s..1m")?;
    let part = |text: &str, open: u64| match text.trim() {
        "" => Ok(open),
        text => units::duration(text).map(nanos),
    };
    match (part(from, 0)?, part(to, u64::MAX)?) {
        (from, to) if from < to => Ok((from, to)),
        _ => Err("the part ends before it begins".to_owned()),
    }
}

/// The profile behind a name. What is not a file of the disk (a pipe of the
/// shell's `<(...)`) can be read only once and is kept first, as standard
/// input is; so is what a Prometheus answers to a URL.
pub fn source(path: &Path) -> Result<InputSource> {
    if let Some(url) = prometheus::url(path) {
        return prometheus::source(url);
    }
    let word = path.to_string_lossy();
    if word.contains("://") && !path.exists() {
        return Err(Fault::argument(
            "profile",
            public(&word),
            "a file, or prometheus+http://HOST:9090/?instance=... (prometheus+https://)",
        )
        .into());
    }
    let is_stream = path
        .metadata()
        .is_ok_and(|meta| !meta.is_file() && !meta.is_dir());
    if path.as_os_str() == "-" || !is_stream {
        return InputSource::new(path);
    }
    let name = path.to_string_lossy().into();
    match File::open(path) {
        Ok(mut file) => InputSource::spool(&mut file, name),
        Err(cause) => Err(Fault::Io(cause).at(&name, None)),
    }
}

impl Reshape {
    /// The profile as a stream, reshaped, on the CPUs that were asked for;
    /// once per pass.
    ///
    /// # Errors
    /// What is wrong with the profile, or an operation that cannot be done;
    /// always with the file, also while it is read.
    pub fn open(&self, source: &Arc<InputSource>, topology: &Topology) -> Result<BoxSteps> {
        let opened = self
            .read(source, Gaps::Keep)
            .and_then(|steps| match self.target(topology) {
                None => Ok(steps),
                Some(target) => algebra::map_cpus(steps, self.map, &target),
            });
        name_errors(opened, source)
    }

    /// The same for a profile that is to be held here: what names CPUs that
    /// are not usable is laid on those that are, and unknown loads are an
    /// error.
    ///
    /// # Errors
    /// As [`Reshape::open`].
    pub fn open_for_here(
        &self,
        source: &Arc<InputSource>,
        topology: &Topology,
    ) -> Result<BoxSteps> {
        let here = |cpu: &u32| topology.usable.contains(*cpu);
        let opened = self.read(source, Gaps::Error).and_then(|steps| {
            let target = match self.target(topology) {
                None if steps.header().cpus.iter().all(here) => return Ok(steps),
                None => topology.usable.iter().collect(),
                Some(target) => target,
            };
            let unloaded = unloaded(&steps.header().cpus, &target);
            let mapped = algebra::map_cpus(steps, self.map, &target)?;
            Ok(tell_unloaded(mapped, source.name(), unloaded))
        });
        name_errors(opened, source)
    }

    /// `gaps` is what happens to unknown loads where the user did not say.
    fn read(&self, source: &Arc<InputSource>, gaps: Gaps) -> Result<BoxSteps> {
        match self.times {
            None => self.once(source, gaps),
            times => {
                let (this, source) = (self.clone(), Arc::clone(source));
                algebra::repeat(times, move || this.once(&source, gaps))
            }
        }
    }

    fn once(&self, source: &InputSource, gaps: Gaps) -> Result<BoxSteps> {
        let options = self.options(source, gaps)?;
        // Only holes of what is left matter, and the times of a cut are those of
        // the file.
        let reading = ReadOptions {
            gaps: Gaps::Keep,
            ..options.clone()
        };
        let mut steps = source.open(self.from, &reading)?;
        if let Some(cpus) = &self.select {
            let cpus: Vec<u32> = cpus.iter().collect();
            steps = algebra::select_cpus(steps, &cpus)?;
        }
        let (from, to) = self.cut.unwrap_or((0, u64::MAX));
        if options.gaps == Gaps::Hold {
            steps = algebra::fill_gaps_of_part(steps, Gaps::Hold, from..to);
        }
        if self.cut.is_some() {
            steps = algebra::cut(steps, from, to)?;
        }
        if options.gaps != Gaps::Hold {
            steps = algebra::fill_gaps_of_part(steps, options.gaps, from..to);
        }
        if let Some(factor) = self.scale_time {
            steps = algebra::scale_time(steps, factor)?;
        }
        if let Some(factor) = self.scale_load {
            steps = algebra::scale_load(steps, factor)?;
        }
        if let Some(step) = self.resample {
            steps = algebra::resample(steps, nanos(step))?;
        }
        steps = algebra::delay(steps, self.delay.map_or(0, nanos));
        for path in &self.append {
            let other = self.read_other(path, &options)?;
            steps = algebra::append(steps, other)?;
        }
        for path in &self.add {
            let other = self.read_other(path, &options)?;
            steps = algebra::add(steps, other);
        }
        Ok(steps)
    }

    fn options(&self, source: &InputSource, gaps: Gaps) -> Result<ReadOptions> {
        let mut options = ReadOptions {
            gaps: self.gaps.unwrap_or(gaps),
            steal_as_load: self.steal == Steal::Load,
            end_ns: self.end.map(nanos),
            machine: self.machine.clone(),
            spread: self.spread,
        };
        if self.machine.as_deref() != Some(AUTO) && !self.map_machines.is_empty() {
            let text = self.map_machines[0].0.clone();
            return Err(Fault::argument("--map-machines", text, "--machine auto").into());
        }
        if self.machine.as_deref() == Some(AUTO) {
            let host = machine::host(&Root::default()).unwrap_or_default();
            let rank = launcher::launched().map(|launched| launched.rank);
            options.machine = None;
            options.machine = match source.open(self.from, &options) {
                Err(error) => match *error.fault {
                    Fault::WhichMachine { ref names, .. } => {
                        Some(choose(&host, rank, &self.map_machines, names)?)
                    }
                    _ => return Err(error),
                },
                // Of one machine, or without names: the first host's.
                Ok(steps) => {
                    let name = steps.header().host.clone();
                    let names: Vec<String> = name.clone().into_iter().collect();
                    let known = if names.is_empty() {
                        vec![String::new()]
                    } else {
                        names
                    };
                    choose(&host, rank, &self.map_machines, &known)?;
                    name
                }
            };
        }
        Ok(options)
    }

    /// A second profile. It is opened anew for each pass, which a stream does
    /// not allow.
    fn read_other(&self, path: &Path, options: &ReadOptions) -> Result<BoxSteps> {
        let is_stream = path
            .metadata()
            .is_ok_and(|meta| !meta.is_file() && !meta.is_dir());
        if path.as_os_str() == "-" || is_stream {
            return Err(
                Fault::argument("profile to append or add", path.display(), "a file").into(),
            );
        }
        let other = source_once(path)?;
        let opened = match (other.open(None, options), self.from) {
            // A format that looks like anything is only read where it is named.
            (Err(error), Some(from)) if matches!(*error.fault, Fault::UnknownFormat { .. }) => {
                other.open(Some(from), options)
            }
            (opened, _) => opened,
        };
        name_errors(opened, &other)
    }

    fn target(&self, topology: &Topology) -> Option<Vec<u32>> {
        match (&self.cpus, self.map) {
            (Some(cpus), _) => Some(cpus.on(topology).iter().collect()),
            (None, Some(_)) => Some(topology.usable.iter().collect()),
            (None, None) => None,
        }
    }
}

/// The CPUs of these that get no load of a profile of fewer, as [`algebra::map_cpus`] lays it.
fn unloaded(from: &[u32], target: &[u32]) -> CpuList {
    if from.iter().all(|cpu| target.contains(cpu)) {
        let without = |cpu: &u32| !from.contains(cpu);
        target.iter().copied().filter(without).collect()
    } else {
        target.iter().copied().skip(from.len()).collect()
    }
}

/// Warns of them.
fn tell_unloaded(steps: BoxSteps, name: &str, cpus: CpuList) -> BoxSteps {
    if cpus.is_empty() {
        return steps;
    }
    let header = steps.header().clone();
    let text = format!("{name} has no load for CPUs {cpus}, which get none");
    let told = move |_| Some(text.clone());
    change_steps(steps, header, told, |inner, _| inner.next_step())
}

/// A profile whose errors name its file, also those of operations on it.
fn name_errors(opened: Result<BoxSteps>, source: &InputSource) -> Result<BoxSteps> {
    let file = Arc::clone(source.name());
    let steps = opened.map_err(|error| in_file(error, &file))?;
    let header = steps.header().clone();
    Ok(change_steps(steps, header, no_warning, move |inner, _| {
        inner.next_step().map_err(|error| in_file(error, &file))
    }))
}

fn in_file(mut error: Error, file: &Arc<str>) -> Error {
    error.place.get_or_insert_with(|| Place {
        file: Arc::clone(file),
        line: None,
        column: None,
    });
    error
}

/// One line about a profile: what was detected and what is in it.
pub fn describe(name: &str, format: Format, summary: &ProfileSummary) -> String {
    let cpus: CpuList = summary.cpus.iter().map(|cpu| cpu.cpu).collect();
    let mean: Vec<f64> = summary
        .cpus
        .iter()
        .filter_map(|cpu| cpu.mean_load_pct)
        .collect();
    let mean = match mean.len() {
        0 => "no load known".to_owned(),
        count => format!("mean load {:.1} %", mean.iter().sum::<f64>() / count as f64),
    };
    let ends = [summary.shortest_step_ns, summary.longest_step_ns].map(|ns| ns as f64 / 1e6);
    let pieces = match (summary.steps, ends) {
        (1, [length, _]) => format!("1 piece of {length} ms"),
        (n, [shortest, longest]) if shortest == longest => format!("{n} pieces of {shortest} ms"),
        (n, [shortest, longest]) => format!("{n} pieces of {shortest} to {longest} ms"),
    };
    format!(
        "{} ({format}): CPUs {cpus}, {:.1} s in {pieces}, {mean}",
        visible(name),
        summary.end_ns as f64 / 1e9,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Profile, Step};
    use sandbag_ui::ExitStatus as _;

    #[test]
    fn parts_of_a_profile() {
        assert_eq!(range("10s..1m").unwrap(), (10_000_000_000, 60_000_000_000));
        assert_eq!(range("..1s").unwrap(), (0, 1_000_000_000));
        assert_eq!(range("1s..").unwrap(), (1_000_000_000, u64::MAX));
        assert!(range("1s").is_err() && range("2s..1s").is_err() && range("x..").is_err());
    }

    #[test]
    fn cpus_that_get_no_load_are_known() {
        let of = |from: &[u32], target: &[u32]| unloaded(from, target).to_string();
        assert_eq!(of(&[0], &[0, 1, 2]), "1,2");
        assert_eq!(of(&[7, 8], &[0, 1, 2]), "2");
        assert_eq!(of(&[1, 2, 3], &[0, 1]), "");
    }

    /// The options as on the command line.
    fn reshape(words: &str) -> Reshape {
        use clap::FromArgMatches as _;
        let command = Reshape::augment_args(clap::Command::new("x").no_binary_name(true));
        let matches = command.try_get_matches_from(words.split_whitespace());
        Reshape::from_arg_matches(&matches.unwrap()).unwrap()
    }

    #[test]
    fn only_holes_of_what_is_left_are_treated() {
        let text = b"time,cpu0,cpu1\n0,10,\n10,20,30\n20,40,\n30,end\n";
        let source = Arc::new(InputSource::spool(&mut &text[..], "p.csv".into()).unwrap());
        let loads = |words: &str| -> Result<Vec<Vec<f64>>> {
            let read = Profile::collect(reshape(words).read(&source, Gaps::Error)?)?;
            let of = |step: &Step| -> Vec<f64> {
                let known = step.cells.iter().flatten();
                known.map(|cell| cell.load_pct).collect()
            };
            Ok(read.steps.iter().map(of).collect())
        };
        for words in ["", "--cut 5s..", "--select 1"] {
            let error = loads(words).unwrap_err();
            assert!(
                matches!(*error.fault, Fault::Hole { cpu: 1, .. }),
                "{error}"
            );
        }
        assert_eq!(loads("--select 0").unwrap(), [[10.0], [20.0], [40.0]]);
        for gaps in ["error", "cut", "zero", "hold"] {
            let words = format!("--gaps {gaps} --cut 10s..20s");
            assert_eq!(loads(&words).unwrap(), [[20.0, 30.0]], "{gaps}");
        }
        // The load that is held lies before the part.
        let held = loads("--gaps hold --cut 20s..").unwrap();
        assert_eq!(held, [[40.0, 30.0]]);
        // The warning is of the part, too.
        let told = |words: &str| -> Result<Vec<String>> {
            Ok(Profile::collect(reshape(words).read(&source, Gaps::Error)?)?.warnings)
        };
        for part in ["--select 0", "--cut 10s..20s"] {
            let warnings = told(&format!("--gaps hold {part}")).unwrap();
            assert!(warnings.is_empty(), "{warnings:?}");
        }
        let warnings = told("--gaps hold --cut 5s..15s").unwrap();
        assert!(warnings[0].starts_with("in 5 s an unknown"), "{warnings:?}");
        let error = told("--cut 15s..").unwrap_err().to_string();
        assert!(error.contains("from 20 s to 30 s"), "{error}");
    }

    #[test]
    fn pieces_have_a_least_length() {
        assert_eq!(piece("100ms"), Ok(Duration::from_millis(100)));
        for short in ["1ns", "99ms", "0"] {
            assert!(piece(short).unwrap_err().contains("100ms or longer"));
        }
    }

    #[test]
    fn a_host_takes_its_machine_by_map_name_or_rank() {
        let names = ["n1:9100", "n2:9100", "n3:9100"].map(str::to_owned);
        let take = |host, rank| choose(host, rank, &[pair("a=n3:9100").unwrap()], &names);
        assert_eq!(take("a", Some(0)).unwrap(), "n3:9100");
        assert_eq!(take("n2.site", Some(0)).unwrap(), "n2:9100");
        assert_eq!(take("b", Some(1)).unwrap(), "n2:9100");
        let told = take("b", Some(3)).unwrap_err().to_string();
        assert!(told.contains("machines is 3, and this is host 4"), "{told}");
        assert!(
            take("b", None)
                .unwrap_err()
                .to_string()
                .contains("no machine has the name")
        );
        assert!(pair("a").is_err() && pair("=b").is_err());
    }

    #[test]
    fn a_fault_says_which_option_mends_it() {
        let hole = Fault::MapNeeded {
            profile: 4,
            target: 2,
        };
        let error = sandbag_ui::Failure::from(Error::from(hole)).context("replay");
        assert_eq!(error.option(), Some("--map"));
        assert_eq!(Error::from(Fault::Empty).option(), None);
        for (fault, option) in [
            (Fault::NoEnd("give it"), "--end"),
            (Fault::TooManyCpus(70_000), "--spread"),
        ] {
            assert_eq!(Error::from(fault).option(), Some(option));
        }
        let lacks = Fault::lacks(Format::Nmon, String::new());
        assert_eq!(Error::from(lacks).option(), None);
    }
}
