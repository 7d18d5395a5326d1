// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag record -- CMD`: the load that everyone but CMD put on the CPUs.
//!
//! The expected load is computed from other clocks: the spinner's own,
//! `getrusage` by bash, and `/proc/stat`. So the bounds also hold on a machine
//! in use.

use crate::prelude::*;

cases! { CASES: root;
    a_recording_passes_the_command_s_exit_code_on,
    a_recorder_that_is_killed_leaves_what_it_had,
    an_interrupt_ends_command_and_recording,
}

cases! { OPPOSING: two_cpus; the_command_s_own_load_is_left_out }

cases! { FAMILY: family;
    threads_children_and_short_lived_ones_are_the_command_s,
}

/// How far a recorded load may be off, points.
const POINTS: f64 = 10.0;

fn family() -> Result<(), String> {
    root()?;
    have(&["bash", "taskset", "timeout", "xz"])
}

/// A recording, as any reader of CSV would see it.
pub struct Recording {
    heads: Vec<String>,
    rows: Vec<Vec<f64>>,
    pub end_s: Option<f64>,
}

impl Recording {
    pub fn read(path: &Path) -> Result<Self> {
        let text = text_of(path)?;
        let mut lines = text.lines().filter(|line| !line.starts_with('#'));
        let heads = lines.next().context("an empty recording")?;
        let mut this = Self {
            heads: heads.split(',').map(str::to_owned).collect(),
            rows: Vec::new(),
            end_s: None,
        };
        for line in lines {
            match line.strip_suffix(",end") {
                Some(time) => this.end_s = Some(time.parse()?),
                None => {
                    // Nothing was counted in a row that is too short.
                    let row: Result<Vec<f64>, _> = line
                        .split(',')
                        .map(|cell| match cell {
                            "" => Ok(f64::NAN),
                            number => number.parse(),
                        })
                        .collect();
                    let row = row.with_context(|| line.to_owned())?;
                    ensure!(row.len() == this.heads.len(), "a broken row: {line}");
                    this.rows.push(row);
                }
            }
        }
        Ok(this)
    }

    fn column(&self, name: &str) -> Result<usize> {
        let column = self.heads.iter().position(|head| head == name);
        column.with_context(|| format!("no column {name} in {:?}", self.heads))
    }

    /// Mean of a column over time.
    pub fn mean(&self, name: &str) -> Result<f64> {
        let column = self.column(name)?;
        let end = self.end_s.context("no end")?;
        let ends = self.rows.iter().skip(1).map(|row| row[0]).chain([end]);
        let rows = self.rows.iter().zip(ends);
        let parts = rows.map(|(row, until)| row[column] * (until - row[0]));
        Ok(parts.sum::<f64>() / end)
    }
}

/// A load of another run on CPU 1, in a group of its own.
struct OtherCommand(Option<Child>);

impl OtherCommand {
    fn start(place: &MachinePlace, pct: u32) -> Result<Self> {
        let run = place.start(&format!("load {pct} --cpus 1 --no-out -q"))?;
        let this = Self(Some(run));
        place.burners(1)?;
        // Beyond its settling.
        std::thread::sleep(Duration::from_millis(800));
        Ok(this)
    }

    fn end(mut self) -> Result<PlaceExit> {
        end(self.0.take().context("ended twice")?, Signal::SIGTERM)
    }
}

impl Drop for OtherCommand {
    fn drop(&mut self) {
        if let Some(mut run) = self.0.take() {
            let _ = kill(pid_of(&run), Signal::SIGTERM);
            if wait_for("its end", || run.try_wait().ok().flatten()).is_err() {
                let _ = run.kill();
                let _ = run.wait();
            }
        }
    }
}

fn the_command_s_own_load_is_left_out(place: &MachinePlace) -> Result<()> {
    let other = OtherCommand::start(place, 40)?;
    let command = format!("record -i 500ms -o r.csv -- {SPINNER} 4 0");
    let ended = place.run(&command)?.expect(0)?;
    other.end()?;
    let spun: SpinnerResult = serde_json::from_str(ended.out.trim()).context(ended.out.clone())?;
    let recording = Recording::read(&place.path("r.csv"))?;
    for cpu in &spun.cpus[..2] {
        let name = format!("cpu{}", cpu.cpu);
        let got = recording.mean(&name)?;
        let delivered = cpu.busy_s + cpu.idle_s;
        let expected = 100.0 * (cpu.busy_s - cpu.spun_s) / delivered;
        case::note(&format!("{name}: {got:.1} %, expected {expected:.1} %"));
        figure!(
            (got - expected).abs() < POINTS,
            "{name}: recorded {got} %, but busy without the command was {expected} %"
        );
        let steal = recording.mean(&format!("steal{}", cpu.cpu))?;
        ensure!((0.0..100.0).contains(&steal), "steal of {steal} %");
    }
    figure!(
        spun.cpus[0].spun_pct > 2.0 * POINTS,
        "the command got too little to tell: {:?}",
        spun.cpus[0]
    );
    figure!(
        recording.mean("cpu1")? > 30.0,
        "the other process's 40 % are not there"
    );
    Ok(())
}

fn threads_children_and_short_lived_ones_are_the_command_s(place: &MachinePlace) -> Result<()> {
    // A program of several threads, and one child after the other that lives
    // for some milliseconds; all on CPU 0. What they used is bash's to say.
    fs::write(
        place.path("family.sh"),
        "TIMEFORMAT='%U %S'\n\
         time {\n\
         timeout 4 taskset -c 0 xz -T3 -1 --block-size=1MiB -c </dev/zero >/dev/null &\n\
         timeout 4 taskset -c 0 bash -c 'while :; do bash -c \"for i in {1..2000}; do :; done\"; done' &\n\
         wait\n\
         }\n\
         exit 3\n",
    )?;
    let before = stat::read_cpu(Some(0))?;
    let run = place.start("record -i 500ms -c 0 -o r.csv -- bash family.sh")?;
    let ended = finish(run)?.expect(3)?;
    let time = stat::read_cpu(Some(0))?.since(before);
    let used: f64 = ended
        .err
        .lines()
        .find_map(|line| {
            let (user, system) = line.trim().split_once(' ')?;
            Some(user.parse::<f64>().ok()? + system.parse::<f64>().ok()?)
        })
        .with_context(|| format!("bash did not say what was used: {}", ended.err))?;
    let delivered = time.delivered_s();
    let expected = 100.0 * (time.busy_s - used) / delivered;
    let got = Recording::read(&place.path("r.csv"))?.mean("cpu0")?;
    case::note(&format!(
        "cpu0: {got:.1} %, expected {expected:.1} %, the command {:.1} %",
        100.0 * used / delivered
    ));
    figure!(
        used > delivered * 0.2,
        "the command got too little to tell: {used} s"
    );
    figure!(
        (got - expected).abs() < POINTS,
        "recorded {got} %, but busy without the command was {expected} %"
    );
    Ok(())
}

fn a_recording_passes_the_command_s_exit_code_on(place: &MachinePlace) -> Result<()> {
    for (script, code) in [
        ("exit 0", 0),
        ("sleep 0.3; exit 7", 7),
        ("kill -TERM $$", 143),
    ] {
        place
            .script("record -i 100ms --force -o r.csv", script)?
            .expect(code)?;
        let recording = Recording::read(&place.path("r.csv"))?;
        ensure!(recording.end_s.is_some(), "no end after `{script}`");
    }
    place
        .run("record -o none.csv -- no-such-program")?
        .expect(127)?;
    ensure!(!place.path("none.csv").exists(), "a recording of nothing");
    // With -d for as long as both last.
    let short = place.script("record -d 60s -o short.csv", "sleep 0.5; exit 3")?;
    short
        .expect(3)?
        .says(&["CMD ended first", "of 60.0 s were recorded"])?;
    Ok(())
}

/// A recording beside a command that sleeps, a second old; and the command.
fn recording(place: &MachinePlace) -> Result<(Child, Pid)> {
    let script = "echo $$ > pid; exec sleep 1000 >/dev/null 2>&1";
    let (run, command) = place.start_ready("record -i 100ms -o r.csv", script)?;
    wait_for("ten rows", || {
        let rows = Recording::read(&place.path("r.csv")).ok()?.rows.len();
        (rows >= 10).then_some(())
    })?;
    Ok((run, command))
}

fn a_recorder_that_is_killed_leaves_what_it_had(place: &MachinePlace) -> Result<()> {
    let (mut run, command) = recording(place)?;
    kill(pid_of(&run), Signal::SIGKILL)?;
    run.wait()?;
    let recording = Recording::read(&place.path("r.csv"))?;
    let last = recording.rows.last().context("no rows")?;
    figure!(last[0] >= 0.85, "the last row is of {} s", last[0]);
    recording.column("steal0")?;
    // And sandbag itself can read it.
    place.run("show r.csv")?.expect(0)?;
    lives_at_home(command)
}

/// As a terminal's Ctrl-C: to both of them.
fn an_interrupt_ends_command_and_recording(place: &MachinePlace) -> Result<()> {
    let (run, command) = recording(place)?;
    end(run, Signal::SIGINT)?.expect(130)?;
    ensure!(!lives(command), "the command goes on");
    let recording = Recording::read(&place.path("r.csv"))?;
    ensure!(recording.end_s.is_some(), "the recording has no end");
    ensure!(place.ours(Role::Guardian).is_empty(), "a guardian is left");
    Ok(())
}
