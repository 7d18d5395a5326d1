// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag record`: the load of each CPU as a profile; with CMD the opposing
//! load, what everything except CMD put on them.

use std::cell::RefCell;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::record::{
    Error, LiveClock, MIN_INTERVAL_NS, RecordClock, RecordOptions, RecordReport, Recorder, Wake,
};
use clap::Args;
use sandbag_linux::procstat::ProcStat;
use sandbag_linux::stop_signals::StopSignals;
use sandbag_linux::topology::Topology;
use sandbag_linux::user::User;
use sandbag_linux::{CpuList, Root, machine};
use sandbag_run::command::CommandSpec;
use sandbag_run::layout::Layout;
use sandbag_run::registry::Registry;
use sandbag_run::wrapped_command::{WaitEnd, WrappedCommand};
use sandbag_ui::failure::{Context as _, Result};

use sandbag_profile::command::reshape::Steal;
use sandbag_run::program;
use sandbag_ui::exit;
use sandbag_ui::messages::Messages;
use sandbag_ui::output::{Overwrite, new_name, refuse_ending};
use sandbag_ui::progress::Progress;
use sandbag_ui::units::{self, Cpus, nanos};

/// Record the load of each CPU as a profile
///
/// With CMD it is the opposing load: what everything except CMD put on the
/// CPUs while CMD ran.
#[derive(Debug, Args)]
pub struct RecordArgs {
    /// How long; without it until CMD ends, or until Ctrl-C
    #[arg(short, long, value_name = "TIME", value_parser = time)]
    duration: Option<Duration>,

    /// Length of a row; at least 100ms
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = time)]
    interval: Duration,

    /// The file to write, or - for standard output
    /// [default: sandbag-load-<time>.csv]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    #[command(flatten)]
    overwrite: Overwrite,

    /// Which CPUs: 0,2-3, or all, even, odd, core (one per core) [default:
    /// those online at the beginning]
    #[arg(short, long, value_name = "LIST", value_parser = units::cpus)]
    cpus: Option<Cpus>,

    /// What to do with steal: leave it out and record it in columns of its own,
    /// or add it to the load
    #[arg(long, value_name = "WHAT", default_value = "exclude")]
    steal: Steal,

    /// With sudo, run CMD as root and not as the calling user
    #[arg(long)]
    as_root: bool,

    /// Make CMD's group in this cgroup, which was delegated to us
    #[arg(long, value_name = "PATH", requires = "command")]
    cgroup: Option<PathBuf>,

    /// The program to record beside, and its arguments; needs root, or a
    /// delegated v2 group and CAP_PERFMON
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// The kernel counts in ticks of 10 ms; less than ten of them tell no load.
fn time(text: &str) -> std::result::Result<Duration, String> {
    match units::duration(text)? {
        time if nanos(time) < MIN_INTERVAL_NS => {
            Err("must be 100ms or longer: the kernel counts busy time in ticks of 10 ms".to_owned())
        }
        time => Ok(time),
    }
}

impl RecordArgs {
    pub fn has_command(&self) -> bool {
        !self.command.is_empty()
    }

    fn options(&self, root: &Root) -> Result<RecordOptions> {
        let topology = Topology::read(root)?;
        let cpus = self.cpus.as_ref();
        let cpus = cpus.map(|cpus| cpus.some(&topology, "--cpus"));
        let cpus = cpus.transpose()?;
        if let Some(cpu) = cpus
            .iter()
            .flat_map(CpuList::iter)
            .find(|cpu| !topology.present.contains(*cpu))
        {
            return Err(sandbag_run::Error::NoCpu {
                cpu,
                state: "not present",
                online: topology.online,
            }
            .into());
        }
        Ok(RecordOptions {
            interval_ns: nanos(self.interval),
            duration_ns: self.duration.map(nanos),
            cpus,
            steal_as_load: self.steal == Steal::Load,
            host: machine::host(root),
        })
    }
}

pub fn main(args: &RecordArgs, messages: &Messages) -> Result<u8> {
    program::check(&args.command)?;
    args.overwrite.check(args.output.as_deref())?;
    if let Some(path) = &args.output {
        refuse_ending(path, &["csv"])?;
    }
    let root = Root::default();
    let options = args.options(&root)?;
    let user = User::behind_sudo().filter(|_| !args.as_root);
    if !args.has_command() {
        record_machine(args, &root, options, user.as_ref(), messages)
    } else {
        record_command(args, &root, options, user, messages)
    }
}

fn record_machine(
    args: &RecordArgs,
    root: &Root,
    options: RecordOptions,
    user: Option<&User>,
    messages: &Messages,
) -> Result<u8> {
    let signals = StopSignals::block()?;
    let mut output = Output::open(args.output.as_deref(), user)?;
    let mut clock = Sampling::new(vec![signals.descriptor()?], options.duration_ns, None)?;
    if !output.is_stdout() {
        clock.progress = Progress::start(messages, options.duration_ns.is_some());
    }
    let recorder = Recorder::new(ProcStat::open(root)?, clock, options)?;
    output.begin()?;
    let recorded = recorder.run(&mut output.file, None);
    // Answered here, so that it does not end us on the way out.
    while signals.take()?.is_some() {}
    match recorded {
        Ok(report) => say(&report, &output, "load", messages),
        Err(error) if output.reader_left(&error) => {}
        Err(error) => return Err(error).context(output.name()),
    }
    Ok(exit::KEPT)
}

fn record_command(
    args: &RecordArgs,
    root: &Root,
    options: RecordOptions,
    user: Option<User>,
    messages: &Messages,
) -> Result<u8> {
    let layout = Layout::find(root, args.cgroup.as_deref())?;
    let stat = ProcStat::open(root)?;
    let mut output = Output::open(args.output.as_deref(), user.as_ref())?;
    let spec = CommandSpec {
        arguments: args.command.clone(),
        user,
        kill: false,
        environment: Vec::new(),
        word_on: None,
    };
    let wrapped = WrappedCommand::admit(root, &layout, &Registry::open()?, &spec, "recording")?;
    let wrapped = RefCell::new(wrapped);
    let clock = Sampling::new(vec![wrapped.borrow().descriptor()?], None, Some(&wrapped))?;
    let recorder = Recorder::new(stat, clock, options)?;
    let command = wrapped.borrow().clock(root, recorder.cpus())?;
    wrapped.borrow_mut().go()?;
    // CMD runs from here on and is waited for, also if the recording fails.
    let recorded = match output.begin() {
        Ok(()) => recorder.run(&mut output.file, Some(command)),
        Err(error) => {
            drop(recorder);
            Err(Error::Output(error))
        }
    };
    let mut wrapped = wrapped.into_inner();
    if wrapped.answer().is_none() {
        messages.detail("the recording is over; CMD goes on");
    }
    let over = wrapped.wait();
    for warning in wrapped.leave() {
        messages.warning(&warning);
    }
    match recorded {
        Ok(report) => say(&report, &output, "opposing load", messages),
        Err(error) if output.reader_left(&error) => {}
        Err(error) => return Err(error).context(output.name()),
    }
    Ok(match over? {
        WaitEnd::Interrupted => 130,
        WaitEnd::Ended(how) => exit::of_command(how.exit_code, how.signal),
    })
}

fn say(report: &RecordReport, output: &Output, what: &str, messages: &Messages) {
    let cpus: CpuList = report.cpus.iter().map(|cpu| cpu.cpu).collect();
    messages.say(&format!(
        "{}: {what} of CPUs {cpus}, {} samples in {:.1} s, {} late (worst {:.1} ms), {} missed; \
         recording took {:.3} % of one CPU",
        output.name(),
        report.samples,
        report.length_ns as f64 / 1e9,
        report.late,
        report.worst_late_ns as f64 / 1e6,
        report.missed,
        report.cost_pct(),
    ));
    let number = |pct: Option<f64>| pct.map_or("unknown".to_owned(), |pct| format!("{pct:.2} %"));
    for cpu in &report.cpus {
        messages.say(&format!(
            "  CPU {}: mean {what} {}, steal {}",
            cpu.cpu,
            number(cpu.load_pct),
            number(cpu.steal_pct)
        ));
    }
    for warning in report.warnings() {
        messages.warning(&warning);
    }
}

/// Where the rows go. What the file held before stays until the recording
/// begins, and a new file without a recording does not stay at all.
struct Output {
    file: File,
    /// `None`: standard output.
    path: Option<PathBuf>,
    is_new: bool,
    begun: bool,
}

impl Output {
    fn open(path: Option<&Path>, user: Option<&User>) -> Result<Self> {
        if path == Some(Path::new("-")) {
            use std::os::fd::AsFd as _;
            return Ok(Self {
                file: io::stdout().as_fd().try_clone_to_owned()?.into(),
                path: None,
                is_new: false,
                begun: false,
            });
        }
        let path = path.map_or_else(|| new_name("sandbag-load", ".csv"), Path::to_owned);
        let is_new = !path.exists();
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .with_context(|| {
                format!(
                    "{}: the recording cannot be written there (-o FILE gives another place)",
                    path.display()
                )
            })?;
        let output = Self {
            file,
            path: Some(path),
            is_new,
            begun: false,
        };
        if let (Some(user), true) = (user, is_new) {
            // Under sudo the calling user owns what we leave.
            std::os::unix::fs::fchown(&output.file, Some(user.uid), Some(user.gid))?;
        }
        Ok(output)
    }

    fn begin(&mut self) -> io::Result<()> {
        self.begun = true;
        // A pipe or a device has nothing to take away.
        if self.path.is_some() && self.file.metadata()?.is_file() {
            self.file.set_len(0)
        } else {
            self.file.flush()
        }
    }

    fn is_stdout(&self) -> bool {
        self.path.is_none()
    }

    fn name(&self) -> String {
        match &self.path {
            Some(path) => path.display().to_string(),
            None => "standard output".to_owned(),
        }
    }

    /// A reader that has seen enough, such as head.
    fn reader_left(&self, error: &Error) -> bool {
        matches!(error, Error::Output(cause) if cause.kind() == io::ErrorKind::BrokenPipe)
            && self.is_stdout()
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let (true, false, Some(path)) = (self.is_new, self.begun, &self.path) {
            let _ = fs::remove_file(path);
        }
    }
}

/// The recorder's clock; while it waits, what concerns the command is
/// answered and progress is shown.
struct Sampling<'a> {
    inner: LiveClock,
    progress: Option<Progress>,
    began_ns: u64,
    length_ns: Option<u64>,
    samples: u64,
    wrapped: Option<&'a RefCell<WrappedCommand>>,
}

impl<'a> Sampling<'a> {
    fn new(
        stops: Vec<std::os::fd::OwnedFd>,
        length_ns: Option<u64>,
        wrapped: Option<&'a RefCell<WrappedCommand>>,
    ) -> io::Result<Self> {
        let inner = LiveClock::new(stops)?;
        Ok(Self {
            began_ns: inner.now_ns(),
            inner,
            progress: None,
            length_ns,
            samples: 0,
            wrapped,
        })
    }
}

impl RecordClock for Sampling<'_> {
    fn now_ns(&self) -> u64 {
        self.inner.now_ns()
    }

    fn wait_until(&mut self, deadline_ns: u64) -> io::Result<Wake> {
        let passed_ns = self.now_ns() - self.began_ns;
        if let Some(progress) = &mut self.progress {
            let length_ns = self.length_ns.unwrap_or(u64::MAX);
            let share = passed_ns as f64 / length_ns as f64;
            progress.update(share, &format!("{} samples", self.samples));
        }
        self.samples += 1;
        loop {
            let wake = self.inner.wait_until(deadline_ns)?;
            match (wake, self.wrapped) {
                // A signal for the command, or the end of another child.
                (Wake::Stopped, Some(wrapped)) if wrapped.borrow_mut().answer().is_none() => {}
                _ => return Ok(wake),
            }
        }
    }

    fn cpu_ns(&self) -> u64 {
        self.inner.cpu_ns()
    }

    fn suspended_ns(&self) -> u64 {
        self.inner.suspended_ns()
    }

    fn date(&self) -> jiff::Timestamp {
        self.inner.date()
    }
}
