// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Under a terminal: its keys reach sandbag and the command at once.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::{Arc, Mutex};

use nix::pty::openpty;

use crate::prelude::*;

cases! { CASES: root;
    ctrl_c_ends_the_command,
    a_second_ctrl_c_ends_us_at_once,
    ctrl_c_without_a_command_ends_the_load,
    ctrl_z_and_fg_pause_and_continue,
    ctrl_z_stops_what_lim_had_stopped,
    ctrl_z_stops_the_nodes_of_a_file,
    ctrl_z_is_nothing_where_no_shell_could_continue_us,
    ctrl_s_does_not_stop_the_load,
    a_terminal_that_closes_ends_the_run,
    a_terminal_that_closes_ends_the_command_of_its_leader,
}

/// A shell with job control on a terminal of its own, and what it says.
pub struct Terminal {
    keys: Option<File>,
    shell: Child,
    said: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    pub fn new(place: &MachinePlace, script: &str) -> Result<Self> {
        let ends = openpty(None, None)?;
        let (master, slave): (OwnedFd, OwnedFd) = (ends.master, ends.slave);
        let mut command = place.program("bash", ["-mc", script]);
        command.env("SANDBAG", &place.sandbag);
        command
            .stdin(Stdio::from(slave.try_clone()?))
            .stdout(Stdio::from(slave.try_clone()?))
            .stderr(Stdio::from(slave));
        let master_fd = master.as_raw_fd();
        // SAFETY: async-signal-safe calls on the child's own descriptors.
        unsafe {
            command.pre_exec(move || {
                nix::unistd::setsid()?;
                nix::unistd::close(master_fd)?;
                control(0)?;
                Ok(())
            });
        }
        let shell = command.spawn()?;
        drop(command);
        let mut output = File::from(master.try_clone()?);
        let said = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&said);
        // Until the last process closes it, which may be after the test.
        std::thread::spawn(move || {
            let mut bytes = [0; 1024];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                lock(&heard).extend_from_slice(&bytes[..count]);
            }
        });
        Ok(Self {
            keys: Some(master.into()),
            shell,
            said,
        })
    }

    pub fn press(&mut self, key: u8) -> Result<()> {
        if let Some(keys) = &mut self.keys {
            keys.write_all(&[key])?;
        }
        Ok(())
    }

    /// Hangs up as the kernel would: the thread that listens holds the terminal open.
    pub fn hang_up(mut self, programs: &[Pid]) -> Result<()> {
        drop(self.keys.take());
        nix::sys::signal::killpg(pid_of(&self.shell), Signal::SIGHUP)?;
        for pid in programs {
            kill(*pid, Signal::SIGHUP)?;
        }
        self.finish().map(drop)
    }

    /// What was said until the shell ended.
    pub fn finish(mut self) -> Result<String> {
        let end = wait_for("the shell to end", || self.shell.try_wait().ok().flatten());
        if end.is_err() {
            self.shell.kill()?;
            self.shell.wait()?;
        }
        // What it said last may still be on its way.
        std::thread::sleep(Duration::from_millis(100));
        let said = String::from_utf8_lossy(&lock(&self.said)).into_owned();
        end.map(|_| said.clone())
            .map_err(|error| error.context(said))
    }
}

nix::ioctl_none_bad!(hang_up, nix::libc::TIOCVHANGUP);
nix::ioctl_write_int_bad!(set_controlling, nix::libc::TIOCSCTTY);

fn lock(said: &Mutex<Vec<u8>>) -> std::sync::MutexGuard<'_, Vec<u8>> {
    said.lock().unwrap_or_else(|poison| poison.into_inner())
}

/// Makes a terminal the controlling one of our session.
fn control(fd: i32) -> nix::Result<()> {
    // SAFETY: the descriptor is open, the argument is not a pointer.
    unsafe { set_controlling(fd, 0) }.map(drop)
}

pub const CTRL_C: u8 = 3;
const CTRL_Q: u8 = 17;
const CTRL_S: u8 = 19;
const CTRL_Z: u8 = 26;

fn ctrl_c_ends_the_command(place: &MachinePlace) -> Result<()> {
    let mut terminal = Terminal::new(
        place,
        "$SANDBAG load 20 --no-settle --no-out -q -- \
         sh -c 'echo $$ > pid; exec sleep 1000'; echo code $? end",
    )?;
    place.written("pid")?;
    std::thread::sleep(Duration::from_millis(100));
    terminal.press(CTRL_C)?;
    let said = terminal.finish()?;
    ensure!(said.contains("code 130 end"), "{said}");
    Ok(())
}

fn a_second_ctrl_c_ends_us_at_once(place: &MachinePlace) -> Result<()> {
    let mut terminal = Terminal::new(
        place,
        "$SANDBAG load 20 --no-settle --no-out -q -- \
         sh -c 'trap \"echo got INT >> got\" INT; echo $$ > pid; \
         while :; do sleep 0.05; done'; echo code $? end; trap '' HUP",
    )?;
    let command = place.pid("pid")?;
    terminal.press(CTRL_C)?;
    place.written("got")?;
    std::thread::sleep(Duration::from_millis(300));
    ensure!(place.ours(Role::Supervisor).len() == 1);
    let got = std::fs::read_to_string(place.path("got"))?;
    ensure!(got.lines().count() == 1, "the command got it twice: {got}");
    terminal.press(CTRL_C)?;
    wait_until("our end", || place.ours(Role::Supervisor).is_empty())?;
    let alive = lives(command);
    let said = terminal.finish()?;
    ensure!(said.contains("code 130 end"), "{said}");
    // The terminal's end hangs it up; until then it lives.
    ensure!(alive, "the command was ended");
    if lives(command) {
        lives_at_home(command)?;
    }
    Ok(())
}

fn ctrl_c_without_a_command_ends_the_load(place: &MachinePlace) -> Result<()> {
    let mut terminal = Terminal::new(place, "$SANDBAG load 20 --cpus 0 --out r; echo code $? end")?;
    place.burners(1)?;
    std::thread::sleep(Duration::from_millis(2200));
    terminal.press(CTRL_C)?;
    let said = terminal.finish()?;
    let mut ends = ["code 0 end", "code 3 end", "code 4 end"].iter();
    ensure!(ends.any(|end| said.contains(end)), "{said}");
    place.record("r")?;
    Ok(())
}

/// Runs it in front, presses Ctrl-Z once its command runs, and lets it go on after 1.5 s; the
/// record in `report` has the pause.
fn pauses(place: &MachinePlace, words: &str, report: &str) -> Result<()> {
    let script = format!("$SANDBAG {words}; echo stopped $? now; sleep 1.5; fg; echo code $? end");
    let mut terminal = Terminal::new(place, &script)?;
    let command = place.pid("pid")?;
    std::thread::sleep(Duration::from_millis(700));
    terminal.press(CTRL_Z)?;
    let stopped = wait_until("the stop", || {
        let mut all = place.ours(Role::Supervisor).into_iter().chain([command]);
        all.all(|pid| state_of(pid) == Some('T'))
    });
    let said = terminal.finish()?;
    stopped?;
    // 128 + SIGTSTP or SIGSTOP.
    let mut stops = ["stopped 148 now", "stopped 147 now"].iter();
    ensure!(stops.any(|stop| said.contains(stop)), "{said}");
    ensure!(said.contains("code 0 end"), "{said}");
    let record = place.record(report)?;
    figure!((1.3..2.6).contains(&record.paused_s), "{record:?}");
    place.as_before()?;
    Ok(())
}

fn ctrl_z_and_fg_pause_and_continue(place: &MachinePlace) -> Result<()> {
    let words = "load 50 --cpus 0 --out r -q -- sh -c 'echo $$ > pid; exec sleep 2'";
    pauses(place, words, "r")
}

/// Its release by the node's pause makes the terminal's stop void.
fn ctrl_z_stops_what_lim_had_stopped(place: &MachinePlace) -> Result<()> {
    let mut terminal = Terminal::new(
        place,
        "$SANDBAG slow --cpus 0 --speed .2 --method lim --no-out -q -- \
         sh -c 'echo $$ > pid; while ! test -e end; do i=0; \
         while [ $i -lt 1000 ]; do i=$((i+1)); done; done'; \
         for_word() { echo > at-$1; while ! test -e go-$1; do sleep 0.05; done; }; \
         for_word 1; fg; for_word 2; fg; for_word 3; fg; for_word 4; fg; echo code $? end",
    )?;
    let command = place.pid("pid")?;
    let mut all_stand = Vec::new();
    for turn in 1..=4 {
        std::thread::sleep(Duration::from_millis(600));
        terminal.press(CTRL_Z)?;
        wait_until("the shell", || place.path(&format!("at-{turn}")).exists())?;
        all_stand.push(wait_until("the command to stand still", || {
            state_of(command) == Some('T')
        }));
        std::thread::sleep(Duration::from_millis(300));
        ensure!(state_of(command) == Some('T'), "turn {turn}: it runs");
        fs::write(place.path(&format!("go-{turn}")), "")?;
        wait_until("the command to go on", || state_of(command) != Some('T'))?;
    }
    fs::write(place.path("end"), "")?;
    let said = terminal.finish()?;
    all_stand.into_iter().collect::<Result<Vec<_>>>()?;
    ensure!(said.contains("code 0 end"), "{said}");
    place.as_before()?;
    Ok(())
}

/// They are in process groups of their own, which the terminal does not stop.
fn ctrl_z_stops_the_nodes_of_a_file(place: &MachinePlace) -> Result<()> {
    let text = "[[node]]\nname = \"a\"\ncpus = 0\nspeed = 0.5\n\
                command = [\"sh\", \"-c\", \"echo $$ > pid; exec sleep 3\"]\n";
    fs::write(place.path("n.toml"), text)?;
    pauses(place, "slow n.toml --out r -q", "r/a")
}

/// As in `tmux new 'sandbag ...'`: it leads the session of its terminal.
fn ctrl_z_is_nothing_where_no_shell_could_continue_us(place: &MachinePlace) -> Result<()> {
    let script = "exec $SANDBAG load 20 --no-settle --no-out -q -- \
                  sh -c 'echo $$ > pid; exec sleep 1000'";
    let mut terminal = Terminal::new(place, script)?;
    place.written("pid")?;
    let sandbag = pid_of(&terminal.shell);
    terminal.press(CTRL_Z)?;
    std::thread::sleep(Duration::from_millis(700));
    ensure!(state_of(sandbag) != Some('T'), "it stands still for good");
    terminal.press(CTRL_C)?;
    terminal.finish()?;
    place.as_before()?;
    Ok(())
}

/// Its progress is not drawn on a terminal that takes nothing, and its profile ends.
fn ctrl_s_does_not_stop_the_load(place: &MachinePlace) -> Result<()> {
    let mut terminal = Terminal::new(
        place,
        "TERM=xterm $SANDBAG load 20 --cpus 0 -d 6 --no-out; echo code $? end",
    )?;
    wait_until("the progress", || {
        String::from_utf8_lossy(&lock(&terminal.said)).contains("mean error")
    })?;
    terminal.press(CTRL_S)?;
    let ended = wait_until("the end of the load", || {
        place.ours(Role::Burner).is_empty()
    });
    terminal.press(CTRL_Q)?;
    let said = terminal.finish()?;
    ended?;
    let mut ends = ["code 0 end", "code 3 end", "code 4 end"].iter();
    ensure!(ends.any(|end| said.contains(end)), "{said}");
    Ok(())
}

fn a_terminal_that_closes_ends_the_run(place: &MachinePlace) -> Result<()> {
    let terminal = Terminal::new(place, "$SANDBAG load 20 --no-out -q; true")?;
    place.burners(1)?;
    terminal.hang_up(&place.ours(Role::Supervisor))?;
    place.as_before()?;
    Ok(())
}

/// As by `ssh -t HOST sandbag ... -- CMD`: the kernel tells the leader of the session only.
fn a_terminal_that_closes_ends_the_command_of_its_leader(place: &MachinePlace) -> Result<()> {
    let mut terminal = Terminal::new(
        place,
        "exec $SANDBAG load 20 --no-settle --no-out -q -- \
         sh -c 'echo $$ > pid; exec sleep 1000'",
    )?;
    let command = place.pid("pid")?;
    let leader = terminal.shell.id();
    ensure!(place.ours(Role::Supervisor) == [pid_of(&terminal.shell)]);
    let line = OpenOptions::new()
        .read(true)
        .custom_flags(nix::libc::O_NOCTTY)
        .open(format!("/proc/{leader}/fd/0"))?;
    // SAFETY: the descriptor is open.
    unsafe { hang_up(line.as_raw_fd())? };
    drop(terminal.keys.take());
    wait_until("the command's end", || !lives(command))?;
    terminal.finish()?;
    place.as_before()?;
    Ok(())
}
