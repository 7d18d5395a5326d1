// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag jitter replay --inside`: within each process of the program, by a
//! library that is loaded into it.

use std::fmt::Write as _;
use std::os::unix::fs::fchown;

use crate::JitterTrace;
use crate::inside::library::LibraryDir;
use crate::inside::outcome::{InsideOutcome, SufferEnd};
use crate::inside::overhead::{self, Overhead};
use crate::inside::plan::{self, InsideOptions, PlanFile, Portion, ProgramFilter};
use crate::inside::preloadable;
use crate::replay::hold::{HoldEnd, HoldOutcome};
use crate::replay::outcome::EventCounts;
use crate::replay::{PlanColumn, PlannedEvent, Replay, ReplayPlan, Sync};
use clap::Args;
use sandbag_linux::{Root, clock};
use sandbag_run::program::{self, words};
use sandbag_ui::BadInput;
use sandbag_ui::failure::{Context as _, Result};
use sandbag_ui::messages::Messages;
use sandbag_ui::quantity::time;
use sandbag_ui::text::command_line;

use super::super::plan_args::{MethodArg, PlanExtras};
use super::beside::without_warning;
use super::record::{InsideMethod, InsideRecord, MethodRecord, SummedUp};
use super::verdict::Due;
use super::{ReplayArgs, ReplayMethod, ReplayOutcome, Safeguard};

/// Jitter within the program.
#[derive(Debug, Clone, Args)]
pub struct InsideArgs {
    /// Replay within each process of CMD, by a library that is loaded into
    /// it, instead of beside it; CMD must be dynamically linked
    #[arg(long, requires = "command", conflicts_with_all = ["cpus", "priority", "scale_factor"])]
    inside: bool,

    /// With --inside, within each thread and not only the initial one
    #[arg(long, requires = "inside")]
    per_thread: bool,

    /// With --inside, only in these processes: NAME of a program, rank (those
    /// that have one: Open MPI, PMI, PMIx, Slurm) or rank=0,2-5; may be given
    /// more than once
    #[arg(long, requires = "inside", value_name = "NAME|rank[=LIST]", value_parser = str::parse::<ProgramFilter>)]
    only: Vec<ProgramFilter>,

    /// With --inside, not in processes that were forked and run the same
    /// program
    #[arg(long, requires = "inside")]
    no_fork: bool,
}

impl InsideArgs {
    pub fn is_requested(&self) -> bool {
        self.inside
    }
}

/// Number of portions for ranks, at least (those beyond are computed by the library), and for
/// processes without a rank.
const RANKED: u64 = 512;
const OTHERS: u64 = 512;

pub struct InsideReplay<'a> {
    args: &'a ReplayArgs,
    trace: JitterTrace,
    plan: ReplayPlan,
    polled: bool,
    only: ProgramFilter,
    columns: Vec<PlanColumn>,
    portions: Vec<Portion>,
}

/// The plan of CMD's processes, and where it lies.
pub struct PlanInUse {
    file: PlanFile,
    paused_ns: u64,
    place: LibraryDir,
    overhead: Option<Overhead>,
}

impl<'a> InsideReplay<'a> {
    /// Checks the options; changes nothing.
    pub fn new(args: &'a ReplayArgs, messages: &Messages) -> Result<Self> {
        let polled = needs_polling(args)?;
        let only = ProgramFilter::all(args.inside.only.clone());
        let only = only.map_err(|why| BadInput(format!("--only: {why}")))?;
        let program = program::locate(&args.command)?;
        let (uid, gid) = match args.user() {
            Some(user) => (user.uid, user.gid),
            None => (
                nix::unistd::getuid().as_raw(),
                nix::unistd::getgid().as_raw(),
            ),
        };
        preloadable::check(&program, uid, gid)?;
        let trace = args.plan.trace(&args.trace, messages)?;
        let more = PlanExtras {
            random: args.guards(Safeguard::Share),
            factor: 1.0,
            repeat: args.repeat,
        };
        let plan = args.plan.plan(&trace, usize::MAX, more)?;
        let (columns, portions) = plan_contents(&plan);
        fits(&columns, args.plan.most_bytes(&Root::default())?)?;
        Ok(Self {
            args,
            trace,
            plan,
            polled,
            only,
            columns,
            portions,
        })
    }
}

impl InsideReplay<'_> {
    /// CPU time of CMD and of all that it waited for, ns, if all of these were to have jitter.
    fn command_ns(&self, held: HoldOutcome) -> Option<u64> {
        let InsideArgs { only, no_fork, .. } = &self.args.inside;
        let all = !self.polled && only.is_empty() && !no_fork && held.without_ns == 0;
        match held.end {
            HoldEnd::Command(how) if all => Some(((how.user_s + how.system_s) * 1e9) as u64),
            _ => None,
        }
    }
}

impl ReplayMethod for InsideReplay<'_> {
    type Replay = PlanInUse;

    fn trace(&self) -> &JitterTrace {
        &self.trace
    }

    fn dry_run(&self) -> Result<String> {
        let Self {
            columns, portions, ..
        } = self;
        let mut out = String::new();
        for (rank, portion) in portions.iter().take(columns.len()).enumerate() {
            writeln!(
                out,
                "rank {rank}: {} events of the trace in {}, of which {} from {} on",
                columns[portion.column].events.len(),
                time(columns[portion.column].known_ns as f64),
                time(portion.length_ns as f64),
                time(portion.offset_ns as f64),
            )?;
        }
        let command = command_line(&words(&self.args.command));
        writeln!(out, "and so on, inside: {command}")?;
        Ok(out)
    }

    fn start(&mut self, _: &mut Vec<String>, messages: &Messages) -> Result<PlanInUse> {
        let owner = self.args.user().map(|user| (user.uid, user.gid));
        let columns = std::mem::take(&mut self.columns);
        let portions = std::mem::take(&mut self.portions);
        let bytes = plan::size(&columns, &portions, &InsideOptions::default());
        let place = LibraryDir::make(owner, bytes)?;
        let overhead = if self.polled {
            None
        } else {
            Some(overhead::measure(&place, None, None)?)
        };
        report_overhead(overhead, messages);
        let only = std::mem::take(&mut self.only);
        let options = options(self.args, &self.plan, self.polled, only, overhead);
        let file = PlanFile::create(&place.plan(), &columns, &portions, &options)?;
        if let Some((uid, gid)) = owner {
            fchown(file.file(), Some(uid), Some(gid))
                .with_context(|| file.path().display().to_string())?;
        }
        Ok(PlanInUse {
            file,
            paused_ns: 0,
            place,
            overhead,
        })
    }

    fn run_entry(&self, _: &PlanInUse) -> (String, &'static str, &[u32]) {
        let what = format!("jitter of {} inside", self.args.trace.display());
        (what, method(self.polled), &[])
    }

    fn environment(&self, followed: &PlanInUse) -> Result<Vec<(String, String)>> {
        environment(&followed.place)
    }

    fn outcome(&self, mut followed: PlanInUse, held: HoldOutcome) -> Result<ReplayOutcome> {
        let outcome = followed.file.outcome()?;
        let mut warnings = warnings(&outcome, self.polled);
        warnings.extend(without_warning(held));
        let total = outcome.total();
        warnings.extend(without_phase(self.args.plan.sync, &total.counts));
        let running = followed.place.keep_for_running();
        if running > 0 {
            warnings.push(format!(
                "{running} processes of CMD live on, without jitter; the library stays for them \
                 in {} until the next replay after they have ended",
                followed.place.dir().display()
            ));
        }
        Ok(ReplayOutcome {
            own: MethodRecord::Inside(Box::new(InsideRecord {
                method: InsideMethod {
                    used: method(self.polled).to_owned(),
                    per_thread: self.args.inside.per_thread,
                    forks: !self.args.inside.no_fork,
                },
                measured: followed.overhead,
                all: (&total).into(),
                processes: outcome.slots.iter().map(Into::into).collect(),
                processes_summed_up: SummedUp {
                    count: outcome.recycled,
                    suffered: (&outcome.gone).into(),
                },
                without: outcome.refused,
            })),
            due: Due::of_processes(&outcome, self.command_ns(held)),
            warnings,
            achieved: Vec::new(),
        })
    }
}

fn method(polled: bool) -> &'static str {
    if polled { "polled" } else { "timer" }
}

/// Whether the program is to poll.
fn needs_polling(args: &ReplayArgs) -> Result<bool> {
    match args.plan.method {
        MethodArg::Auto => Ok(false),
        MethodArg::Polled => Ok(true),
        MethodArg::Fifo | MethodArg::Fair => Err(BadInput(
            "--inside injects by timers within CMD (--method auto), or when CMD asks (polled); \
             fifo and fair are for replays beside it"
                .to_owned(),
        )
        .into()),
    }
}

/// Number of portions for ranks: each column is among them.
fn ranked(plan: &ReplayPlan) -> u64 {
    RANKED.max(plan.columns() as u64)
}

/// Ranks with a position of their own; 0: all have the same.
fn group(plan: &ReplayPlan) -> u32 {
    let options = plan.options();
    if options.random && options.sync == Sync::None {
        options.group
    } else {
        0
    }
}

fn plan_contents(plan: &ReplayPlan) -> (Vec<PlanColumn>, Vec<Portion>) {
    let columns = (0..plan.columns() as u64).map(|number| plan.column(number).clone());
    let portions = (0..ranked(plan) + OTHERS).map(|rank| {
        let portion = plan.rank(rank);
        Portion {
            column: (rank % plan.columns() as u64) as usize,
            offset_ns: portion.offset_ns(),
            length_ns: portion.length_ns(),
        }
    });
    (columns.collect(), portions.collect())
}

fn fits(columns: &[PlanColumn], most_bytes: u64) -> Result<()> {
    let events: usize = columns.iter().map(|column| column.events.len()).sum();
    let bytes = events as u64 * size_of::<PlannedEvent>() as u64;
    if bytes <= most_bytes {
        Ok(())
    } else {
        Err(BadInput(format!(
            "the plan for {events} events takes {} MiB, and {} MiB may be used (--max-memory)",
            bytes.div_ceil(1 << 20),
            most_bytes >> 20
        ))
        .into())
    }
}

fn options(
    args: &ReplayArgs,
    plan: &ReplayPlan,
    polled: bool,
    only: ProgramFilter,
    overhead: Option<Overhead>,
) -> InsideOptions {
    InsideOptions {
        seed: plan.options().seed,
        per_thread: args.inside.per_thread,
        repeat: args.repeat,
        polled,
        no_forks: args.inside.no_fork,
        only,
        phase_every: match plan.options().sync {
            Sync::Phases(every) => Some(u64::from(every)),
            Sync::None | Sync::Once => None,
        },
        ranked: ranked(plan) as u32,
        columns: plan.columns() as u32,
        group: group(plan),
        ..Overhead::guarded(
            overhead,
            args.guards(Safeguard::Overhead),
            args.guards(Safeguard::Interval),
        )
    }
}

fn environment(place: &LibraryDir) -> Result<Vec<(String, String)>> {
    let words = place.environment().into_iter().map(|(name, value)| {
        let value = value.into_string().map_err(|value| {
            BadInput(format!(
                "{name} would be {value:?}, which is not text: name another directory by TMPDIR, \
                 or unset what is there"
            ))
        })?;
        Ok((name.to_owned(), value))
    });
    words.collect()
}

fn report_overhead(overhead: Option<Overhead>, messages: &Messages) {
    match overhead {
        None => messages.say("injected by: CMD itself, when it asks"),
        Some(overhead) => messages.say(&format!(
            "injected by: timers within CMD; an injection takes {} beside its length, and begins \
             {} late (median; 90 %: {})",
            time(overhead.injection_ns as f64),
            time(overhead.start_ns as f64),
            time(overhead.start_90_ns as f64),
        )),
    }
}

/// Of ranks that are to be set back at their phases, and have none.
fn without_phase(sync: Sync, counts: &EventCounts) -> Option<String> {
    let has_jitter = counts.injected + counts.merged > 0;
    let none = matches!(sync, Sync::Phases(_)) && has_jitter && counts.phases == 0;
    none.then(|| {
        format!(
            "no process said when a phase began (sandbag_jitter_phase), so that --sync {sync} \
             changed nothing"
        )
    })
}

fn warnings(outcome: &InsideOutcome, polled: bool) -> Vec<String> {
    let refused = outcome.refused;
    let ended = |why| {
        let slots = outcome.slots.iter();
        slots.filter(|slot| slot.ended == why).count() as u64
    };
    let never_began = [
        (refused.no_slot, "more at the same time than can book"),
        (
            refused.no_signal,
            "all signals that would do are used by the program",
        ),
        (
            refused.no_timer,
            "the kernel refused a timer (RLIMIT_SIGPENDING, seccomp)",
        ),
        (refused.seccomp, "they run under a seccomp filter"),
        (refused.no_room, "a process with more than 1024 threads"),
        (
            ended(SufferEnd::TooShort),
            "no event of their portion of the trace is longer than what injecting costs",
        ),
    ];
    let ended_early = [
        (
            ended(SufferEnd::Conflict),
            "the program uses the signal itself",
        ),
        (
            ended(SufferEnd::Seccomp),
            "the program forbade system calls",
        ),
        (
            ended(SufferEnd::Timer),
            "the kernel refused to arm the timer",
        ),
        (
            ended(SufferEnd::Exhausted),
            "their portion of the trace was used up (--loop begins again, --share replays more)",
        ),
    ];
    let mut warnings = Vec::new();
    for (what, reasons) in [
        ("without jitter", &never_began[..]),
        ("had no more jitter", &ended_early),
    ] {
        let some = reasons.iter().filter(|(count, _)| *count > 0);
        let text = |(count, why): &_| format!("{count} processes or threads {what}: {why}");
        warnings.extend(some.map(text));
    }
    if outcome.slots.is_empty() && outcome.recycled == 0 {
        warnings.push(match (polled, refused.not_meant) {
            (true, _) => "no process asked for its jitter (sandbag_jitter_init)".to_owned(),
            (false, 0) => "no process loaded the library: CMD, or the wrapper that it is, may \
                           have started its programs without LD_PRELOAD"
                .to_owned(),
            (false, count) => format!("none of {count} processes was meant by --only"),
        });
    }
    warnings
}

impl Replay for PlanInUse {
    fn begin(&mut self) -> Result<u64> {
        let now_ns = clock::monotonic();
        self.file.begin(now_ns)?;
        Ok(now_ns)
    }

    fn pause(&mut self) {
        let _ = self.file.pause();
    }

    fn go_on(&mut self, after_ns: u64) {
        self.paused_ns += after_ns;
        let _ = self.file.go_on(self.paused_ns);
    }

    fn end(&mut self) {
        // The processes see it at once in their mapping.
        let _ = self.file.stop();
    }
}

#[cfg(test)]
mod tests {
    use crate::CpuTrace;
    use crate::fixture::{events, spans};
    use crate::inside::layout::{Plain as _, PlanHeader, PlanPortion};
    use crate::replay::ReplayOptions;

    use super::*;

    #[test]
    fn phases_that_nobody_names_are_warned_of() {
        let warned = |sync, injected, phases| {
            let counts = EventCounts {
                injected,
                phases,
                ..EventCounts::default()
            };
            without_phase(sync, &counts)
        };
        let said = warned(Sync::Phases(1), 200, 0).unwrap();
        assert!(said.contains("--sync phase changed nothing"), "{said}");
        assert_eq!(warned(Sync::Phases(1), 200, 3), None);
        // Another warning says why.
        assert_eq!(warned(Sync::Phases(1), 0, 0), None);
        assert_eq!(warned(Sync::Once, 200, 0), None);
    }

    unsafe extern "C" {
        /// Of c/jitter_threads.inc.
        fn sbj_portion_of(
            head: *const PlanHeader,
            all: *const PlanPortion,
            rank: u32,
            portion: *mut PlanPortion,
        ) -> u32;
    }

    /// Also ranks beyond the portions of the plan.
    #[test]
    fn the_library_has_the_portion_of_each_rank() {
        let cpus: Vec<CpuTrace> = (0..3)
            .map(|cpu| {
                let all: Vec<(u64, u64)> = (0..=cpu).map(|i| (u64::from(i) * 100, 7)).collect();
                CpuTrace::new(cpu, spans(&[(0, 1_000_000_007)]), events(&all))
            })
            .collect();
        let cpus: Vec<&CpuTrace> = cpus.iter().collect();
        let defaults = ReplayOptions::default();
        for (random, sync, group) in [
            (true, Sync::None, 1),
            (true, Sync::None, 2),
            (true, Sync::None, 3),
            (true, Sync::Once, 1),
            (true, Sync::Phases(5), 1),
            (false, Sync::None, 1),
        ] {
            let of = ReplayOptions {
                seed: 7,
                random,
                sync,
                group,
                ..defaults.clone()
            };
            let plan = ReplayPlan::new(&cpus, &of).unwrap();
            let (columns, portions) = plan_contents(&plan);
            let options = InsideOptions {
                seed: of.seed,
                ranked: ranked(&plan) as u32,
                columns: plan.columns() as u32,
                group: super::group(&plan),
                ..InsideOptions::default()
            };
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("plan");
            let mut file = PlanFile::create(&path, &columns, &portions, &options).unwrap();
            file.begin(0).unwrap();
            let bytes = std::fs::read(&path).unwrap();
            let head = PlanHeader::of_bytes(&bytes);
            let table = bytes[head.portions_at as usize..head.events_at as usize]
                .chunks(size_of::<PlanPortion>());
            let table: Vec<PlanPortion> = table.map(PlanPortion::of_bytes).collect();
            for rank in [0, 1, 511, 512, 1023, 1024, 1025, 5000] {
                let mut found = PlanPortion::of_bytes(&[]);
                // SAFETY: reads the header and the portions that it counts, writes `found`.
                let number = unsafe {
                    sbj_portion_of(&raw const head, table.as_ptr(), rank, &raw mut found)
                };
                let expected = plan.rank(u64::from(rank));
                assert_eq!(number, rank);
                assert_eq!(found.offset_ns, expected.offset_ns(), "{of:?}, rank {rank}");
                assert_eq!(found.length_ns, expected.length_ns());
                assert_eq!(found.count, u64::from(rank % 3) + 1, "{of:?}, rank {rank}");
            }
        }
    }
}
