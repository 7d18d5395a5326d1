// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Hears the windows of a run: statistics, achieved.csv, progress.

use crate::board::BOUNDARY_NS;
use crate::metrics::Exporter;
use crate::node::Target;
use crate::report::AchievedWriter;
use crate::report::run::WatchedUse;
use crate::supervisor::{Observer, Windows};
use sandbag_linux::Root;
use sandbag_run::directory::{ACHIEVED_CSV, RunDir, SHORT_CSV};
use sandbag_stats::{Accuracy, VerdictCounter, Window};

use sandbag_ui::messages::Messages;
use sandbag_ui::progress::Progress;

use super::record::ForeignSums;

/// Sums of one CPU.
#[derive(Debug, Default, Clone)]
pub struct CpuSums {
    pub whole: Accuracy,
    pub short: Accuracy,
    /// Sum of the asked load, percent times ns of delivered time: what was got is a share of that.
    pub asked: f64,
    /// Its weights, ns.
    pub asked_over: f64,
    pub wall_ns: u64,
    pub burner_ns: u64,
    pub steal_ns: u64,
    /// Busy time, ns, if it was known throughout.
    pub busy_ns: Option<u64>,
    /// CPU time of the command, ns, if it was known throughout.
    pub command_ns: Option<u64>,
    pub holes: u64,
}

/// A last window shorter than this says little and is left out of a CPU's
/// statistics (not of the verdict and achieved.csv) if there are others.
const LEAST_WINDOW_NS: u64 = 500_000_000;

/// Collects a run.
pub struct Collector<'a> {
    cpus: Vec<u32>,
    sums: Vec<CpuSums>,
    verdict: VerdictCounter,
    /// Windows of which it is not known when time was stolen.
    hidden_steals: u64,
    foreign: ForeignSums,
    /// CPU time of the node's programs in the row, where it is not known of each CPU.
    program_ns: Option<u64>,
    short: Accuracy,
    has_programs: bool,
    /// See [`Collector::takes_without_burning`].
    burns: bool,
    dir: Option<&'a RunDir>,
    short_file: bool,
    achieved: Option<AchievedWriter>,
    achieved_short: Option<AchievedWriter>,
    row: Vec<Window>,
    short_row: Vec<Vec<Window>>,
    warnings: Vec<String>,
    progress: Option<Progress>,
    length_ns: Option<u64>,
    show_progress: bool,
    /// A program that runs already, whose CPU time is reported.
    watched: Option<WatchedProgram>,
    exporter: Option<Exporter>,
    messages: &'a Messages,
}

struct WatchedProgram {
    target: Target,
    root: Root,
    /// Its CPU time when the load began, and what it used in pauses since then.
    began_ns: Option<u64>,
    /// The same when a pause began.
    paused_ns: Option<u64>,
    /// The same when the load ended; the program goes on, with what the load took as well.
    ended_ns: Option<Option<u64>>,
}

impl<'a> Collector<'a> {
    /// For these CPUs; files are written into `dir` if given, from the run's registration on.
    /// `has_programs`: foreign load is not the purpose of the run but a disturbance, since there
    /// is a command or a node.
    pub fn new(
        cpus: &[u32],
        has_programs: bool,
        length_ns: Option<u64>,
        dir: Option<&'a RunDir>,
        short_file: bool,
        messages: &'a Messages,
    ) -> Self {
        Self {
            dir,
            short_file,
            achieved: None,
            achieved_short: None,
            cpus: cpus.to_vec(),
            sums: vec![
                CpuSums {
                    busy_ns: Some(0),
                    command_ns: has_programs.then_some(0),
                    ..CpuSums::default()
                };
                cpus.len()
            ],
            verdict: VerdictCounter::default(),
            hidden_steals: 0,
            foreign: ForeignSums::default(),
            program_ns: None,
            short: Accuracy::default(),
            has_programs,
            burns: true,
            row: Vec::new(),
            short_row: Vec::new(),
            warnings: Vec::new(),
            progress: None,
            length_ns,
            show_progress: false,
            watched: None,
            exporter: None,
            messages,
        }
    }

    /// What slows the programs takes their time without using it: all busy time that is not
    /// theirs is foreign.
    pub fn takes_without_burning(&mut self) {
        self.burns = false;
    }

    /// Notes the CPU time of this program.
    pub fn watch(&mut self, target: Option<Target>, root: &Root) {
        self.watched = target.map(|target| WatchedProgram {
            target,
            root: root.clone(),
            began_ns: None,
            paused_ns: None,
            ended_ns: None,
        });
    }

    /// Looks after the exporter of the run's metrics, which lives as long as this.
    pub fn look_after(&mut self, exporter: Option<Exporter>) {
        self.exporter = exporter;
    }

    fn look_at_exporter(&mut self) {
        let fault = self.exporter.as_mut().and_then(Exporter::fault);
        fault.into_iter().for_each(|text| self.warning(text));
    }

    /// What the program used while the load was held.
    pub fn watched(&self) -> Option<WatchedUse> {
        let watched = self.watched.as_ref()?;
        let used = watched.ended_ns.flatten().zip(watched.began_ns);
        Some(WatchedUse {
            who: watched.target.to_string(),
            used_s: used.map(|(end, began)| end.saturating_sub(began) as f64 / 1e9),
            available_s: None,
        })
    }

    pub fn show_progress(&mut self) {
        self.show_progress = true;
    }

    pub fn sums(&self) -> &[CpuSums] {
        &self.sums
    }

    pub fn verdict(&self) -> &VerdictCounter {
        &self.verdict
    }

    /// Windows of which it is not known when time was stolen.
    pub fn hidden_steals(&self) -> u64 {
        self.hidden_steals
    }

    /// Foreign load; `None` where there is no program that it could disturb.
    pub fn foreign(&self) -> Option<&ForeignSums> {
        self.has_programs.then_some(&self.foreign)
    }

    pub fn short(&self) -> &Accuracy {
        &self.short
    }

    pub fn close(&mut self) -> Vec<String> {
        self.progress = None;
        self.look_at_exporter();
        for (writer, name) in [
            (&self.achieved, ACHIEVED_CSV),
            (&self.achieved_short, SHORT_CSV),
        ] {
            if let Some(lost) = writer.as_ref().map(AchievedWriter::lost).filter(|n| *n > 0) {
                self.warnings
                    .push(format!("{lost} windows could not be written to {name}"));
            }
        }
        std::mem::take(&mut self.warnings)
    }

    fn open(&mut self, dir: &RunDir, name: &str) -> Option<AchievedWriter> {
        let writer = AchievedWriter::create(&dir.path().join(name));
        writer
            .map_err(|error| {
                self.warnings.push(format!("{error}; the load goes on"));
            })
            .ok()
    }

    fn index(&self, cpu: u32) -> usize {
        self.cpus.iter().position(|c| *c == cpu).unwrap_or(0)
    }

    /// Adds a window; the verdict is on `judged`.
    fn judge(&mut self, window: &Window, judged: &Window) {
        let cpu = self.index(window.cpu);
        let foreign_pct = judged.foreign_pct(self.burns);
        let foreign_pct = foreign_pct.filter(|_| self.has_programs);
        let error = self.verdict.add(judged, foreign_pct);
        let sums = &mut self.sums[cpu];
        // A window that was stolen as a whole has a load that was asked, too.
        let weight = window.delivered_ns().max(1) as f64;
        sums.asked += window.asked_pct * weight;
        sums.asked_over += weight;
        sums.wall_ns += window.length_ns;
        sums.burner_ns += window.burner_ns;
        sums.steal_ns += window.steal_ns;
        sums.busy_ns = sums.busy_ns.zip(window.busy_ns).map(|(a, b)| a + b);
        sums.command_ns = sums.command_ns.zip(window.command_ns).map(|(a, b)| a + b);
        sums.holes += u64::from(judged.hole);
        if window.length_ns >= LEAST_WINDOW_NS || sums.whole.count() == 0 {
            error.into_iter().for_each(|error| sums.whole.add(error));
        }
        self.row.push(window.clone());
        if cpu + 1 == self.cpus.len() {
            self.foreign.add(&self.row, self.program_ns);
            self.write_row();
        }
    }

    fn write_row(&mut self) {
        let row = std::mem::take(&mut self.row);
        let short = std::mem::take(&mut self.short_row);
        let mut failed = Vec::new();
        if let Some(writer) = &mut self.achieved {
            failed.extend(writer.append(&row).err());
        }
        if let Some(writer) = &mut self.achieved_short {
            for row in &short {
                failed.extend(writer.append(row).err());
            }
        }
        for error in failed {
            self.warning(format!("{error}; the load goes on"));
        }
    }
}

impl Windows for Collector<'_> {
    fn short(&mut self, window: &Window) {
        let cpu = self.index(window.cpu);
        let own = &mut self.sums[cpu].short;
        // A last one of a few milliseconds is a part of a period of the method.
        if !window.hole && (window.length_ns >= BOUNDARY_NS / 2 || own.count() == 0) {
            own.add(window.error_points());
            self.short.add(window.error_points());
        }
        if self.achieved_short.is_some() {
            match self
                .short_row
                .iter_mut()
                .find(|row| row[0].start_ns == window.start_ns)
            {
                Some(row) => row.push(window.clone()),
                None => self.short_row.push(vec![window.clone()]),
            }
        }
    }

    fn whole(&mut self, window: &Window) {
        self.judge(window, window);
    }

    fn hiding_steal(&mut self, window: &Window) {
        self.hidden_steals += 1;
        // Disturbed, and without an error.
        let judged = Window {
            steal_ns: window.length_ns,
            hole: false,
            ..window.clone()
        };
        self.judge(window, &judged);
    }

    fn programs(&mut self, used_ns: Option<u64>) {
        self.program_ns = used_ns;
    }
}

impl Observer for Collector<'_> {
    fn registered(&mut self) {
        if let Some(dir) = self.dir {
            dir.remove_results();
            self.achieved = self.open(dir, ACHIEVED_CSV);
            if self.short_file {
                self.achieved_short = self.open(dir, SHORT_CSV);
            }
        }
    }

    fn started(&mut self) {
        if let Some(watched) = &mut self.watched {
            watched.began_ns = watched.target.used_ns(&watched.root);
        }
        if self.show_progress {
            self.progress = Progress::start(self.messages, self.length_ns.is_some());
        }
    }

    fn paused(&mut self) {
        if let Some(watched) = &mut self.watched {
            watched.paused_ns = watched.target.used_ns(&watched.root);
        }
    }

    fn resumed(&mut self) {
        if let Some(watched) = &mut self.watched
            && let Some(began_ns) = &mut watched.began_ns
            && let Some(paused_ns) = watched.paused_ns.take()
            && let Some(now_ns) = watched.target.used_ns(&watched.root)
        {
            *began_ns += now_ns.saturating_sub(paused_ns);
        }
    }

    fn load_over(&mut self) {
        if let Some(watched) = &mut self.watched
            && watched.ended_ns.is_none()
        {
            watched.ended_ns = Some(watched.target.used_ns(&watched.root));
        }
    }

    fn progress(&mut self, run_ns: u64) {
        self.look_at_exporter();
        let Some(progress) = &mut self.progress else {
            return;
        };
        let message = match self.verdict.accuracy().stats() {
            Some(stats) => format!(
                "mean error {:.2} points, worst {:+.2}",
                stats.mean_abs_points, stats.worst_points
            ),
            None => String::new(),
        };
        let share = run_ns as f64 / self.length_ns.unwrap_or(u64::MAX) as f64;
        progress.update(share, &message);
    }

    fn warning(&mut self, text: String) {
        match &mut self.progress {
            Some(progress) => progress.print_above(|| self.messages.warning(&text)),
            None => self.messages.warning(&text),
        }
        self.warnings.push(text);
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::node::target::TargetName;

    #[test]
    fn a_watched_program_is_looked_at_no_more_once_the_load_is_over() {
        let mut spins = Command::new("sh")
            .args(["-c", "while :; do :; done"])
            .spawn()
            .unwrap();
        let (root, messages) = (Root::default(), Messages::new(true, 0));
        let target = Target::of(&root, &TargetName::Process(spins.id(), false)).unwrap();
        let mut collector = Collector::new(&[0], false, None, None, false, &messages);
        collector.watch(Some(target.clone()), &root);
        collector.started();
        // Until the kernel has counted some ticks more.
        let some_more = || {
            let (before, since) = (target.used_ns(&root), Instant::now());
            while target.used_ns(&root) <= before && since.elapsed() < Duration::from_secs(30) {
                std::thread::sleep(Duration::from_millis(20));
            }
        };
        some_more();
        collector.load_over();
        let used = collector.watched().unwrap().used_s;
        some_more();
        // The end of a run is another call.
        collector.load_over();
        let later = collector.watched().unwrap().used_s;
        spins.kill().unwrap();
        spins.wait().unwrap();
        assert!(used.is_some_and(|s| s > 0.0), "{used:?}");
        assert_eq!(later, used);
    }
}
