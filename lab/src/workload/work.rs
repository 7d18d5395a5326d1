// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Doing the work of one of the programs.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::Args;
use sandbag_linux::Root;

use super::count::{self, CountKind};
use super::datagrams::Sender;
use super::ep::Class;
use super::service::{self, ServiceKind};
use super::stream::Stream;
use super::{Name, WorkReport, chain, ep, sleepers, stream, tasks};

/// One of the lab's programs
#[derive(Debug, Args)]
pub struct WorkArgs {
    #[arg(value_enum)]
    pub name: Name,
    /// How much: steps of the chain, datagrams, passes of STREAM; per task and
    /// per part
    #[arg(long, default_value_t = 0)]
    pub amount: u64,
    /// In place of an amount: find out how much is done within this many
    /// milliseconds
    #[arg(long, value_name = "MS")]
    pub within: Option<u64>,
    /// memory: elements of an array [default: beyond the last cache]
    #[arg(long, value_name = "N")]
    pub elements: Option<usize>,
    /// compute-sleep: how long the sleep is, milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    pub sleep: u64,
    /// ep: the class, S to C
    #[arg(long, default_value = "S", value_parser = class)]
    pub class: Class,
    /// ep: threads; sleepers: tasks that spin; count: tasks
    #[arg(long, default_value_t = 1)]
    pub tasks: u64,
    /// count: what the tasks are
    #[arg(long, value_enum, default_value_t)]
    pub kind: CountKind,
    /// service: which
    #[arg(long, value_enum, default_value_t)]
    pub service: ServiceKind,
    /// service: requests per second
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub rate: u32,
    /// service: its directory; made where it is not there
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

fn class(name: &str) -> Result<Class, String> {
    Class::by_name(name).ok_or_else(|| "a class is S, W, A, B or C".to_owned())
}

pub fn work(args: &WorkArgs) -> Result<WorkReport> {
    let within = args.within.map(Duration::from_millis);
    match (args.name, within) {
        (Name::Compute | Name::ComputeSleep | Name::Processes | Name::Threads, Some(time)) => {
            timed(|| Ok(WorkReport::of(chain::in_time(time), true)))
        }
        (Name::Compute, None) => timed(|| Ok(compute(args.amount))),
        (Name::ComputeSleep, None) => timed(|| Ok(compute_sleep(args))),
        (Name::Threads, None) => timed(|| Ok(joined(args.amount, tasks::threads(args.amount)))),
        (Name::Processes, None) => {
            timed(|| Ok(joined(args.amount, tasks::processes(args.amount)?)))
        }
        (Name::Datagrams, _) => {
            let sender = Sender::open()?;
            let mut work = timed(|| Ok(datagrams(&sender, args.amount, within)))?;
            let way = sender.way.to_owned();
            work.notes.insert("way".to_owned(), way);
            Ok(work)
        }
        (Name::Memory, _) => {
            let elements = args
                .elements
                .unwrap_or_else(|| stream::elements(&Root::default()));
            let mut stream = Stream::new(elements);
            let mut work = timed(|| Ok(memory(&mut stream, args.amount, within)))?;
            work.right &= stream.is_right();
            let mib = ((elements * 8) >> 20).to_string();
            work.notes.insert("array_mib".to_owned(), mib);
            work.notes
                .insert("elements".to_owned(), elements.to_string());
            Ok(work)
        }
        (Name::Ep, _) => timed(|| {
            let sums = ep::run(args.class, args.tasks.max(1));
            Ok(WorkReport::of(
                args.class.pairs(),
                sums.are_right(args.class),
            ))
        }),
        (Name::Sleepers, _) => timed(|| {
            let seen = sleepers::run(args.tasks, within.unwrap_or(Duration::from_secs(1)))?;
            let count = seen.count();
            Ok(WorkReport {
                figures: seen.figures(),
                ..WorkReport::of(count, true)
            })
        }),
        (Name::Service, _) => timed(|| {
            let time = within.unwrap_or(Duration::from_secs(1));
            let dir = args.dir.as_deref().context("a service has a --dir")?;
            let answers = service::run(args.service, dir, args.rate, time)?;
            let count = answers.latencies_ns.len() as u64;
            Ok(WorkReport {
                figures: answers.figures(),
                ..WorkReport::of(count, count > 0)
            })
        }),
        (Name::Count, _) => timed(|| {
            let time = within.unwrap_or(Duration::from_secs(1));
            let counted = count::run(args.kind, args.tasks, time)?;
            Ok(WorkReport {
                figures: counted.figures(),
                ..WorkReport::of(counted.steps(), true)
            })
        }),
    }
}

fn timed(work: impl FnOnce() -> Result<WorkReport>) -> Result<WorkReport> {
    let begin = Instant::now();
    let mut report = work()?;
    report.seconds = begin.elapsed().as_secs_f64();
    Ok(report)
}

/// Also a task of the five processes, whose parent reads its end.
fn compute(amount: u64) -> WorkReport {
    let task = tasks::Task::run(amount);
    let mut work = WorkReport::of(amount, task.is_right(amount));
    task.note(&mut work.notes);
    work
}

fn compute_sleep(args: &WorkArgs) -> WorkReport {
    let first = chain::steps(args.amount);
    thread::sleep(Duration::from_millis(args.sleep));
    let second = chain::steps(args.amount);
    let end = chain::end(args.amount);
    WorkReport {
        slept_s: args.sleep as f64 / 1e3,
        ..WorkReport::of(args.amount, first == end && second == end)
    }
}

fn joined(amount: u64, ends: tasks::Ends) -> WorkReport {
    let mut work = WorkReport::of(amount, ends.are_right(amount));
    work.figures
        .insert("ends_spread_s".to_owned(), ends.spread_s());
    work
}

fn datagrams(sender: &Sender, amount: u64, within: Option<Duration>) -> WorkReport {
    match within {
        Some(time) => WorkReport::of(sender.in_time(time), true),
        None => {
            sender.send(amount);
            WorkReport::of(amount, true)
        }
    }
}

fn memory(stream: &mut Stream, amount: u64, within: Option<Duration>) -> WorkReport {
    let Some(time) = within else {
        let right = stream.advance(amount);
        return WorkReport::of(amount, right);
    };
    let begin = Instant::now();
    let (mut count, mut right) = (0, true);
    while begin.elapsed() < time {
        right &= stream.advance(1);
        count += 1;
    }
    WorkReport::of(count, right)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(name: Name) -> WorkArgs {
        WorkArgs {
            name,
            amount: 1000,
            within: None,
            elements: None,
            sleep: 20,
            class: Class::S,
            tasks: 1,
            kind: CountKind::Threads,
            service: ServiceKind::default(),
            rate: 1,
            dir: None,
        }
    }

    #[test]
    fn programs_check_their_own_results() {
        for name in [Name::Compute, Name::Threads] {
            let done = work(&args(name)).unwrap();
            assert!(done.right && done.amount == 1000, "{done:?}");
            if let Some(spread) = done.figures.get("ends_spread_s") {
                assert!((0.0..done.seconds).contains(spread), "{done:?}");
            }
        }
        let done = work(&args(Name::ComputeSleep)).unwrap();
        assert!(done.right && done.seconds >= 0.02, "{done:?}");
        assert!((done.slept_s - 0.02).abs() < 1e-12);
        let mut args = args(Name::Compute);
        args.within = Some(5);
        let done = work(&args).unwrap();
        assert!(
            done.amount > 0 && done.seconds >= 0.005,
            "an amount is found"
        );
    }

    #[test]
    fn the_size_of_the_arrays_can_be_kept() {
        let mut args = args(Name::Memory);
        (args.amount, args.elements) = (2, Some(1000));
        let done = work(&args).unwrap();
        assert!(done.right && done.notes["elements"] == "1000", "{done:?}");
    }
}
