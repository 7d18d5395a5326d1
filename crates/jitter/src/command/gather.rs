// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag jitter gather`: which of many hosts is noisier.
//!
//! The time lost in each second, in the mean of the CPUs, is a figure; a host's noise is their mean.
//! CPUs do not count one by one: a stop by the hypervisor is on all of them at once. The interval
//! (Student) is that for all hosts at once (Bonferroni). A host is noisier if all of it is above the
//! middle of all hosts.

mod report;

use std::path::{Path, PathBuf};

use clap::Args;
use sandbag_stats::{median, quantile, student_half_width};
use sandbag_ui::failure::Result;
use sandbag_ui::messages::Messages;
use sandbag_ui::quantity::time;
use sandbag_ui::report::{ReportArgs, files};
use sandbag_ui::{BadInput, exit};
use serde::Serialize;

use crate::import::{self, ImportOptions, JitterRecording};
use crate::trace_file::open_trace;
use crate::{CpuTrace, JitterTrace, Selection};
use report::{csv, page, terminal};

pub(super) const HELP: &str = "\
Exit codes:
  0 no host is noisier, 1 a trace cannot be used, or sandbag failed, 2 wrong
  usage or bad input, 3 a host is noisier, 4 undecided: fewer than two hosts
  have two seconds.";

/// Compare the jitter of many hosts: which is noisier
///
/// A host is noisier if its share of time lost is above the middle of all hosts, at 99 %
/// confidence over all hosts.
#[derive(Debug, Args)]
pub struct GatherArgs {
    /// A directory of traces as `sandbag jitter record -o HOST.sbj` wrote them, or the files
    #[arg(value_name = "DIR|FILE", required = true)]
    files: Vec<PathBuf>,

    #[command(flatten)]
    report: ReportArgs,
}

const CONFIDENCE: f64 = 0.99;
/// A figure is of this time of a CPU, ns.
const PIECE_NS: u64 = 1_000_000_000;
/// No trace is longer, ns: ten years.
const LONGEST_NS: u64 = 315_360_000 * PIECE_NS;
/// Rows on a terminal.
const SHOWN: usize = 20;
const FORMAT: u32 = 1;

/// What the traces of many hosts say together; the noisiest first.
#[derive(Debug, Serialize)]
struct NoiseCluster {
    format: u32,
    sandbag: &'static str,
    confidence: f64,
    /// Of the hosts' shares, percent.
    middle_pct: f64,
    hosts: Vec<HostNoise>,
    left_out: Vec<(String, String)>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct HostNoise {
    host: String,
    cpus: usize,
    /// The least and the most that a CPU lost, percent.
    cpu_range_pct: (f64, f64),
    /// The CPU that lost most.
    worst_cpu: u32,
    known_s: f64,
    /// Share of time lost, percent.
    noise_pct: f64,
    /// For all hosts at once; none with fewer than two seconds.
    interval_pct: Option<(f64, f64)>,
    rate_per_s: f64,
    p99_ns: u64,
    longest_ns: u64,
    is_noisier: bool,
    #[serde(skip)]
    pieces: Pieces,
    /// Shorter events could not be seen on every CPU.
    #[serde(skip)]
    least_seen_ns: u64,
    #[serde(skip)]
    shortest_ns: Option<u64>,
}

/// The shares of a host's pieces, percent, by Welford's recurrence.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Pieces {
    count: u32,
    mean: f64,
    /// Sum of the squares of the differences from the mean.
    squares: f64,
}

pub fn main(args: &GatherArgs, messages: &Messages) -> Result<u8> {
    args.report.check()?;
    let paths = files(&args.files, "sbj", messages)?;
    let (hosts, left_out) = read(paths, messages);
    if hosts.is_empty() {
        let why = left_out.first().map(|(_, why)| format!(": {why}"));
        let text = format!("no trace of a host{}", why.unwrap_or_default());
        return Err(BadInput(text).into());
    }
    let found = gather(hosts, left_out);
    args.report.put(
        &found,
        || terminal(&found),
        || page(&found),
        || csv(&found),
        messages,
    )?;
    let is_noisier = found.hosts.iter().any(|host| host.is_noisier);
    Ok(match (found.left_out.is_empty(), is_noisier) {
        (false, _) => exit::FAILED,
        (_, true) => exit::MISSED,
        _ if !found.says_something() => exit::UNDECIDED,
        _ => exit::KEPT,
    })
}

/// Without the causes of events.
const EVENTS: ImportOptions = ImportOptions {
    unit: None,
    cpu: None,
    without_causes: true,
};

/// The hosts of these files, and the files that cannot be used.
fn read(paths: Vec<PathBuf>, messages: &Messages) -> (Vec<HostNoise>, Vec<(String, String)>) {
    let (mut hosts, mut left_out) = (Vec::<(PathBuf, HostNoise)>::new(), Vec::new());
    for path in paths {
        let trace = open_trace(&path, &EVENTS, messages).map_err(|error| error.to_string());
        let host = trace.and_then(|trace| {
            let host = host(&trace, &path);
            if hosts.iter().any(|(_, known)| known.host == host) {
                return Err(format!("another trace of {host} was read before it"));
            }
            of_host(&host, &trace)
        });
        match host {
            Ok(host) => hosts.push((path, host)),
            Err(why) => left_out.push((path.display().to_string(), why)),
        }
    }
    (seen_by_all(hosts, &mut left_out, messages), left_out)
}

/// All without the events that one of them could not have seen: recorders differ in what they
/// detect, and that is no difference of the hosts. Files with such events are read again, since
/// not all of them fit into memory.
fn seen_by_all(
    hosts: Vec<(PathBuf, HostNoise)>,
    left_out: &mut Vec<(String, String)>,
    messages: &Messages,
) -> Vec<HostNoise> {
    let all = hosts.iter().map(|(_, host)| host);
    let Some(coarsest) = all.max_by_key(|host| host.least_seen_ns) else {
        return Vec::new();
    };
    let (above_ns, coarsest) = (coarsest.least_seen_ns, coarsest.host.clone());
    let (mut seen, mut shortened, mut count) = (Vec::new(), Vec::new(), 0);
    for (path, host) in hosts {
        if host.shortest_ns.is_none_or(|ns| ns >= above_ns) {
            seen.push(host);
            continue;
        }
        match above(&path, &host.host, above_ns) {
            Ok((host, shorter)) => {
                count += shorter;
                shortened.push(host.host.clone());
                seen.push(host);
            }
            Err(why) => left_out.push((path.display().to_string(), why)),
        }
    }
    if count > 0 {
        messages.warning(&format!(
            "{count} events of {} are left out: they are shorter than {}, and {coarsest} could \
             not have seen such on every CPU",
            some(&shortened),
            time(above_ns as f64)
        ));
    }
    seen
}

/// A host once more, without its shorter events, and the number of these.
fn above(path: &Path, host: &str, above_ns: u64) -> Result<(HostNoise, usize), String> {
    if !path.is_file() {
        return Err(format!(
            "it has events shorter than {}, which not every host could have seen, and cannot be \
             read again without them: give a file",
            time(above_ns as f64)
        ));
    }
    let said = |error: crate::Error| error.to_string();
    // Its warnings were said before.
    let trace = import::open(path, &EVENTS).and_then(JitterRecording::into_trace);
    let trace = trace.map_err(said)?;
    let all = trace.lengths_ns().len();
    let selection = Selection {
        above_ns,
        ..Selection::default()
    };
    let trace = selection.of(trace).map_err(said)?;
    let host = of_host(host, &trace)?;
    Ok((host, all - trace.lengths_ns().len()))
}

/// The first five names.
fn some(names: &[impl AsRef<str>]) -> String {
    let first: Vec<&str> = names.iter().take(5).map(AsRef::as_ref).collect();
    let more = if names.len() > 5 { ", ..." } else { "" };
    format!("{}{more}", first.join(", "))
}

fn host(trace: &JitterTrace, path: &Path) -> String {
    let of_file = || {
        path.file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    };
    trace.header.host.clone().unwrap_or_else(of_file)
}

impl NoiseCluster {
    /// Whether hosts can be told from each other.
    fn says_something(&self) -> bool {
        let with = |host: &&HostNoise| host.interval_pct.is_some();
        self.hosts.iter().filter(with).count() > 1
    }
}

/// All hosts together; `left_out` are files that cannot be used.
fn gather(mut hosts: Vec<HostNoise>, left_out: Vec<(String, String)>) -> NoiseCluster {
    let all = hosts.len();
    for host in &mut hosts {
        host.interval_pct = host.pieces.interval(all);
    }
    let shares: Vec<f64> = hosts.iter().map(|host| host.noise_pct).collect();
    let middle_pct = median(&shares).unwrap_or(0.0);
    for host in &mut hosts {
        host.is_noisier = host.interval_pct.is_some_and(|(low, _)| low > middle_pct);
    }
    hosts.sort_by(|a, b| {
        b.is_noisier
            .cmp(&a.is_noisier)
            .then(b.noise_pct.total_cmp(&a.noise_pct))
    });
    NoiseCluster {
        format: FORMAT,
        sandbag: env!("CARGO_PKG_VERSION"),
        confidence: CONFIDENCE,
        middle_pct,
        hosts,
        left_out,
    }
}

/// One host; its interval depends on how many there are.
fn of_host(host: &str, trace: &JitterTrace) -> Result<HostNoise, String> {
    for cpu in &trace.cpus {
        let until = cpu.known.iter().map(|span| span.until_ns).max();
        let from = cpu.known.iter().map(|span| span.from_ns).min();
        if until.unwrap_or(0).saturating_sub(from.unwrap_or(0)) > LONGEST_NS {
            return Err(format!("CPU {} has more than ten years", cpu.cpu));
        }
    }
    let pieces = Pieces::of(&trace.cpus);
    let share = |cpu: &CpuTrace| {
        let known_ns = cpu.known_ns().max(1) as f64;
        (cpu.noise_ns() as f64 / known_ns * 100.0, cpu.cpu)
    };
    let mut cpus: Vec<(f64, u32)> = trace.cpus.iter().map(share).collect();
    cpus.sort_by(|a, b| a.0.total_cmp(&b.0));
    let known_ns = trace.known_ns();
    let mut lengths = trace.lengths_ns();
    lengths.sort_unstable();
    let noise_ns: u128 = lengths.iter().map(|ns| u128::from(*ns)).sum();
    let known_s = known_ns as f64 / 1e9;
    let worst = cpus.last().copied().unwrap_or_default();
    Ok(HostNoise {
        host: host.to_owned(),
        cpus: cpus.len(),
        cpu_range_pct: (cpus.first().map_or(0.0, |cpu| cpu.0), worst.0),
        worst_cpu: worst.1,
        known_s,
        noise_pct: noise_ns as f64 / known_ns.max(1) as f64 * 100.0,
        interval_pct: None,
        rate_per_s: if known_s > 0.0 {
            lengths.len() as f64 / known_s
        } else {
            0.0
        },
        p99_ns: quantile(&lengths, 99.0).unwrap_or(0),
        longest_ns: lengths.last().copied().unwrap_or(0),
        is_noisier: false,
        pieces,
        least_seen_ns: trace.least_seen_ns(),
        shortest_ns: lengths.first().copied(),
    })
}

/// The share of each whole piece of known time that events took, %. An event is of the piece in
/// which it begins.
fn shares(cpu: &CpuTrace) -> impl Iterator<Item = f64> {
    let mut events = cpu.events.iter().peekable();
    let mut spans = cpu.known.iter();
    let (mut from_ns, mut until_ns) = (0, 0);
    std::iter::from_fn(move || {
        // A piece may reach over pauses of the recording: rounds of a real-time loop are
        // shorter than one.
        let (mut known_ns, mut lost_ns) = (0, 0u64);
        while known_ns < PIECE_NS {
            if from_ns >= until_ns {
                let Some(span) = spans.next() else { break };
                (from_ns, until_ns) = (span.from_ns, span.until_ns);
                continue;
            }
            let to_ns = from_ns.saturating_add(PIECE_NS - known_ns).min(until_ns);
            while let Some(event) = events.next_if(|event| event.start_ns < to_ns) {
                if event.start_ns >= from_ns {
                    lost_ns = lost_ns.saturating_add(event.length_ns);
                }
            }
            known_ns += to_ns - from_ns;
            from_ns = to_ns;
        }
        // The last one of a recording of whole seconds lacks what its loop took to begin.
        (known_ns >= PIECE_NS / 10 * 9).then(|| lost_ns as f64 / known_ns as f64 * 100.0)
    })
}

impl Pieces {
    /// A figure is the mean of the CPUs' shares of one piece.
    fn of(cpus: &[CpuTrace]) -> Self {
        let mut pieces = Self::default();
        let mut cpus: Vec<_> = cpus.iter().map(shares).collect();
        loop {
            let piece: Vec<f64> = cpus.iter_mut().filter_map(Iterator::next).collect();
            if piece.is_empty() {
                return pieces;
            }
            pieces.push(piece.iter().sum::<f64>() / piece.len() as f64);
        }
    }

    fn push(&mut self, pct: f64) {
        self.count += 1;
        let from_mean = pct - self.mean;
        self.mean += from_mean / f64::from(self.count);
        self.squares += from_mean * (pct - self.mean);
    }

    /// Of the mean, for all of `hosts` at once.
    fn interval(self, hosts: usize) -> Option<(f64, f64)> {
        let freedom = self.count.checked_sub(1).filter(|freedom| *freedom > 0)?;
        let p = 1.0 - (1.0 - CONFIDENCE) / hosts as f64;
        let variance = self.squares / f64::from(freedom) / f64::from(self.count);
        let half = student_half_width(p, freedom) * variance.sqrt();
        Some(((self.mean - half).max(0.0), self.mean + half))
    }
}

#[cfg(test)]
mod tests {
    use sandbag_stats::Chance;

    use super::*;
    use crate::{CpuNotes, LoopClock, Notes, Span, TraceEvent, TraceHeader, format};

    /// Events of 100 us at random times, `rate` per second, on two CPUs for 20 s.
    fn trace(seed: u64, rate: f64) -> JitterTrace {
        let mut chance = Chance::new(seed, "gather");
        let cpu = |cpu| {
            let (mut events, mut at_s) = (Vec::new(), 0.0);
            loop {
                at_s += chance.exponential(1.0 / rate) + 1e-4;
                if at_s >= 19.9 {
                    break;
                }
                events.push(TraceEvent::new((at_s * 1e9) as u64, 100_000));
            }
            let known = vec![Span::new(0, 20_000_000_000)];
            CpuTrace::new(cpu, known, events)
        };
        let cpus = [0, 1].map(cpu);
        let header = TraceHeader::new("test", LoopClock::Imported, vec![0, 1]);
        JitterTrace::new(header, cpus.into(), None)
    }

    fn hosts(rate: impl Fn(u64) -> f64) -> Vec<HostNoise> {
        let host = |n| of_host(&format!("n{n}"), &trace(n, rate(n))).unwrap();
        (0..12).map(host).collect()
    }

    #[test]
    fn the_noisier_host_is_found_and_comes_first() {
        let found = gather(hosts(|n| if n == 7 { 60.0 } else { 30.0 }), Vec::new());
        let noisier = found.hosts.iter().filter(|host| host.is_noisier);
        let names: Vec<&str> = noisier.map(|host| host.host.as_str()).collect();
        assert_eq!(names, ["n7"]);
        assert_eq!(found.hosts[0].host, "n7");
        assert!(
            (found.middle_pct - 0.3).abs() < 0.03,
            "{}",
            found.middle_pct
        );
        assert!(terminal(&found).starts_with("noisier: n7; the middle of 12 hosts lost 0."));
        assert!(page(&found).contains("<svg"));
        assert_eq!(csv(&found).unwrap().lines().count(), 13);
    }

    #[test]
    fn equal_hosts_are_not_called_noisier() {
        let found = gather(hosts(|_| 30.0), Vec::new());
        assert!(found.hosts.iter().all(|host| !host.is_noisier), "{found:?}");
    }

    /// What all CPUs lose at the same time, as where the hypervisor stops the machine, is not
    /// more noise for being seen by each.
    #[test]
    fn stops_of_all_cpus_at_once_count_once() {
        let host = |seed| {
            let mut chance = Chance::new(seed, "stops");
            let seconds = (0..60).filter(|_| chance.uniform() < 0.1);
            let events: Vec<TraceEvent> = seconds
                .map(|s| TraceEvent::new(s * PIECE_NS + 1, 10_000_000))
                .collect();
            let known = vec![Span::new(0, 60 * PIECE_NS)];
            let cpus = (0..16).map(|cpu| CpuTrace::new(cpu, known.clone(), events.clone()));
            let header = TraceHeader::new("test", LoopClock::Imported, (0..16).collect());
            let trace = JitterTrace::new(header, cpus.collect(), None);
            of_host(&format!("n{seed}"), &trace).unwrap()
        };
        let noisier = |from: u64| {
            let found = gather((from..from + 10).map(host).collect(), Vec::new());
            found.hosts.iter().any(|host| host.is_noisier)
        };
        let clusters = (0..20).filter(|n| noisier(n * 10)).count();
        assert!(clusters <= 2, "{clusters} of 20 clusters of equal hosts");
    }

    #[test]
    fn events_that_one_host_cannot_see_are_left_out_of_all() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, least_ns: f64, events: &[(u64, u64)]| {
            let known = vec![Span::new(0, 3 * PIECE_NS)];
            let cpu = CpuTrace::new(0, known, crate::fixture::events(events));
            let notes = Notes {
                cpus: vec![CpuNotes {
                    least_ns: 10.0,
                    threshold_ns: least_ns + 10.0,
                    ..CpuNotes::default()
                }],
            };
            let mut header = TraceHeader::new("test", LoopClock::Imported, vec![0]);
            header.host = Some(name.to_owned());
            let trace = JitterTrace::new(header, vec![cpu], Some(notes));
            let path = dir.path().join(name);
            format::write(&trace, std::fs::File::create(&path).unwrap()).unwrap();
            path
        };
        let fine = file("fine", 90.0, &[(1000, 300), (2000, 100)]);
        let coarse = file("coarse", 200.0, &[(1000, 300)]);
        for paths in [[&fine, &coarse], [&coarse, &fine]] {
            let paths = paths.map(PathBuf::clone).into();
            let (hosts, left_out) = read(paths, &Messages::new(true, 0));
            assert!(left_out.is_empty(), "{left_out:?}");
            assert_eq!(hosts[0].noise_pct, hosts[1].noise_pct);
            assert_eq!(hosts[0].pieces, hosts[1].pieces);
            assert_eq!([0, 1].map(|at| hosts[at].shortest_ns), [Some(300); 2]);
        }
        // What cannot be read twice.
        let why = above(dir.path(), "fine", 200).unwrap_err();
        assert!(why.contains("give a file"), "{why}");
    }

    #[test]
    fn pieces_reach_over_the_pauses_of_a_real_time_recording() {
        let s = |tenths: u64| tenths * 100_000_000;
        let known = (0..10).map(|i| Span::new(s(10 * i), s(10 * i + 8)));
        let events = (0..10).map(|i| TraceEvent::new(s(10 * i), 10_000_000));
        let cpu = CpuTrace::new(0, known.collect(), events.collect());
        let pieces = Pieces::of(&[cpu]);
        assert_eq!(pieces.count, 8);
        assert!((pieces.mean - 1.25).abs() < 1e-9, "{}", pieces.mean);
    }

    #[test]
    fn short_and_forged_traces_say_nothing() {
        let with = |from_ns, until_ns| {
            let mut trace = trace(1, 30.0);
            for cpu in &mut trace.cpus {
                cpu.events.clear();
                cpu.known = vec![Span::new(from_ns, until_ns)];
            }
            of_host("n1", &trace)
        };
        let short = with(0, PIECE_NS / 2).unwrap();
        let found = gather(vec![short.clone(), short], Vec::new());
        assert!(terminal(&found).starts_with("nothing can be said"));
        assert!(with(0, u64::MAX).unwrap_err().contains("ten years"));
        // At the end of what a number holds.
        assert_eq!(
            with(u64::MAX - 3 * PIECE_NS, u64::MAX)
                .unwrap()
                .pieces
                .count,
            3
        );
    }
}
