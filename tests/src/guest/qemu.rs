// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The emulator: started, waited for, and gone whatever happens.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::host::Reading;
use super::{Guest, GuestKind, Outcome, cache, outcome};

/// `panic=-1` with `-no-reboot` ends the emulator at once when the kernel
/// panics, which a fault and a CPU that hangs in the kernel for 20 s are turned
/// into. `maxcpus=1`: `tests/guest/run.sh` starts the others. The rest
/// saves time: the mitigations cost an emulated CPU much and protect nothing, its
/// random numbers need no waiting for, and each CPU that is started by hand would
/// measure its speed again, for up to 2 s (`lpj`; delays go by the counter anyway).
const COMMAND_LINE: &str = "console=ttyS0 quiet loglevel=4 panic=-1 tsc=reliable \
                            mitigations=off random.trust_cpu=on oops=panic softlockup_panic=1 \
                            maxcpus=1 noreplace-smp lpj=12000000";

/// Without cmpxchg16b: with it, about every fifth boot of 6.12 ended in a
/// fault with an impossible EFLAGS (QEMU 7.2), whatever the model; without it
/// none of ten. The kernel uses it in its allocator where the CPU has it.
const CPU_MODEL: &str = "max,cx16=off";

/// How often we look whether the emulator has ended.
const POLL: Duration = Duration::from_millis(50);

/// The emulator's path.
pub fn program() -> anyhow::Result<PathBuf> {
    cache::tool("qemu-system-x86_64", "qemu-system-x86")
}

/// Boots and waits for the end; `work` takes the two serial lines' output.
pub fn run(
    guest: &Guest,
    kernel: &Path,
    initrd: &Path,
    work: &Path,
) -> anyhow::Result<Vec<Outcome>> {
    let [console, results] = ["console", "results"].map(|name| work.join(name));
    // The root is in memory twice while the kernel unpacks it.
    let (init, memory_mib) = match guest.kind {
        GuestKind::Bare => ("rdinit=/init", 768),
        GuestKind::Systemd => (
            "rdinit=/usr/lib/systemd/systemd systemd.unit=scenario.service \
             systemd.show_status=0",
            1536,
        ),
    };
    let line = format!("{COMMAND_LINE} {} {init}", guest.parameters.join(" "));
    // setpriv: the emulator dies with us even if we are killed.
    let mut command = Command::new(cache::tool("setpriv", "util-linux")?);
    command
        .args(["--pdeathsig", "KILL", "--"])
        .arg(program()?)
        .args(["-accel", "tcg,thread=multi", "-cpu", CPU_MODEL])
        .args(["-smp", &guest.cpus.to_string()])
        .args(["-m", &memory_mib.to_string()])
        .args(["-nodefaults", "-no-user-config", "-no-reboot"])
        .args(["-display", "none"])
        .args(["-serial", &format!("file:{}", console.display())])
        .args(["-serial", &format!("file:{}", results.display())])
        .arg("-kernel")
        .arg(kernel)
        .arg("-initrd")
        .arg(initrd)
        .args(["-append", &line])
        .stdin(Stdio::null());

    let (start, before) = (Instant::now(), Reading::now()?);
    let mut emulator = Emulator(command.spawn().context("cannot start the emulator")?);
    let ended = emulator.wait(start + guest.timeout, SILENCE, &results)?;
    drop(emulator);
    let total = start.elapsed();
    let others_pct = Reading::now()?.others_pct(&before);
    // What a serial line carried may be cut anywhere, and by a fault contain
    // anything.
    let read = |path: &Path| {
        fs::read(path).map_or_else(
            |_| String::new(),
            |bytes| String::from_utf8_lossy(&bytes).into_owned(),
        )
    };
    let (console, results) = (read(&console), read(&results));
    let story = || {
        // The cause comes before a trace that fills many lines.
        let broke = console.lines().find(|line| is_broken(line));
        format!(
            "{}last lines of the scenario:\n{}last lines of the console:\n{}",
            broke.map_or_else(String::new, |line| format!("{line}\n")),
            outcome::tail(&results, 20),
            outcome::tail(&console, TRACE)
        )
    };
    match ended {
        End::Late => bail!("killed after {:.0?}; {}", guest.timeout, story()),
        End::Still => bail!("{STOOD_STILL} for {SILENCE:.0?}; {}", story()),
        End::Done(status) if !status.success() => {
            bail!("the emulator failed ({status}); {}", story())
        }
        End::Done(_) => Outcome::parse(&results, total, others_pct).with_context(story),
    }
}

/// Lines of the console that an error shows: a trace of one CPU and its cause.
const TRACE: usize = 60;

/// Begins the error for a guest that neither ended nor printed anything. An
/// emulated 6.1 kernel on 4 CPUs did that twice.
const STOOD_STILL: &str = "the guest stood still";
/// Scenarios print more often.
const SILENCE: Duration = Duration::from_secs(75);

/// How an emulator ended.
enum End {
    /// By itself.
    Done(ExitStatus),
    /// It had to be killed: not done in time.
    Late,
    /// It had to be killed: nothing came any more.
    Still,
}

/// Whether a line of the console says that the kernel is at its end.
pub fn is_broken(line: &str) -> bool {
    [
        "Kernel panic",
        "Oops",
        "soft lockup",
        "rcu_preempt detected stalls",
        "rcu_sched detected stalls",
    ]
    .iter()
    .any(|words| line.contains(words))
}

/// Whether it failed because it stood still.
pub fn stood_still(error: &anyhow::Error) -> bool {
    format!("{error}").starts_with(STOOD_STILL)
}

/// A child that is killed and reaped when dropped.
struct Emulator(Child);

impl Emulator {
    /// Waits for its end; `results` grows while all is well.
    fn wait(
        &mut self,
        deadline: Instant,
        silence: Duration,
        results: &Path,
    ) -> anyhow::Result<End> {
        let (mut length, mut grew) = (0, Instant::now());
        loop {
            if let Some(status) = self.0.try_wait()? {
                return Ok(End::Done(status));
            }
            if Instant::now() >= deadline {
                return Ok(End::Late);
            }
            let now = fs::metadata(results).map_or(0, |meta| meta.len());
            if now != length {
                (length, grew) = (now, Instant::now());
            } else if grew.elapsed() > silence {
                return Ok(End::Still);
            }
            std::thread::sleep(POLL);
        }
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        // Both fail if it has ended already, which is what is wanted.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper() -> Emulator {
        Emulator(Command::new("sleep").arg("600").spawn().unwrap())
    }

    const SOON: Duration = Duration::from_millis(10);
    const LATER: Duration = Duration::from_secs(60);

    fn wait(mut emulator: Emulator, most: Duration, silence: Duration) -> End {
        let nothing = Path::new("/dev/null");
        emulator
            .wait(Instant::now() + most, silence, nothing)
            .unwrap()
    }

    #[test]
    fn an_emulator_past_its_deadline_is_killed() {
        let emulator = sleeper();
        let pid = nix::unistd::Pid::from_raw(i32::try_from(emulator.0.id()).unwrap());
        assert!(matches!(wait(emulator, SOON, LATER), End::Late));
        assert!(nix::sys::signal::kill(pid, None).is_err());
    }

    #[test]
    fn one_that_says_nothing_any_more_is_killed() {
        assert!(matches!(wait(sleeper(), LATER, SOON), End::Still));
    }

    #[test]
    fn one_that_ends_by_itself_gives_its_status() {
        let emulator = Emulator(Command::new("false").spawn().unwrap());
        match wait(emulator, LATER, LATER) {
            End::Done(status) => assert_eq!(status.code(), Some(1)),
            _ => panic!("killed"),
        }
    }
}
