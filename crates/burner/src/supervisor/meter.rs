// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes windows of what burners noted and the kernel counted. Pure apart
//! from the memory it keeps: two marks and the pieces between them.

use std::collections::VecDeque;

use sandbag_kernel::procstat::CpuTimes;
use sandbag_measure::Window;

use super::steal::StealEstimate;
use super::timeline::{Asked, Piece};
use crate::board::BOUNDARY_NS;

/// Length of a reporting window.
pub const WINDOW_NS: u64 = 1_000_000_000;

/// The kernel's counters at one moment of the run.
#[derive(Debug, Clone, Default)]
pub struct Mark {
    /// Run time the mark stands for, a multiple of [`BOUNDARY_NS`].
    pub run_ns: u64,
    /// `/proc/stat` of each loaded CPU; `None` while it is offline.
    pub times: Vec<Option<CpuTimes>>,
    /// CPU time of the command on each loaded CPU, where it is known.
    pub command_ns: Option<Vec<u64>>,
}

/// What the burners of one CPU took between two boundaries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// CPU time, ns.
    pub ns: u64,
    /// Steal that the burners saw while they ran, ns.
    pub stolen_ns: u64,
    /// A burner was missing.
    pub hole: bool,
}

/// Where finished windows go: first the ten (or fewer) short ones, then the
/// window that they make up.
pub trait Windows {
    /// A window of [`BOUNDARY_NS`]. Steal is known to a window of 1 s only
    /// and spread evenly.
    fn short(&mut self, window: &Window);
    /// A window of `WINDOW_NS`, or the rest at the end of a run.
    fn whole(&mut self, window: &Window);
}

/// Assembles windows.
#[derive(Debug)]
pub struct Meter {
    cpus: Vec<u32>,
    tick_ns: u64,
    asked: Asked,
    marks: VecDeque<Mark>,
    paused: Vec<u64>,
    steal: Vec<StealEstimate>,
    latest: Vec<Option<Window>>,
}

impl Meter {
    /// For these CPUs; `tick_ns` is the unit of [`CpuTimes`].
    #[must_use]
    pub fn new(cpus: Vec<u32>, tick_ns: u64) -> Self {
        Self {
            steal: vec![StealEstimate::default(); cpus.len()],
            latest: vec![None; cpus.len()],
            cpus,
            tick_ns,
            asked: Asked::default(),
            marks: VecDeque::new(),
            paused: Vec::new(),
        }
    }

    /// Announces what is asked next.
    pub fn ask(&mut self, piece: Piece) {
        self.asked.push(piece);
    }

    /// What was announced beyond this run time is not asked any more.
    pub fn cut(&mut self, run_ns: u64) {
        self.asked.cut(run_ns);
    }

    /// The last whole window of a CPU (by index), once there is one.
    #[must_use]
    pub fn latest(&self, cpu: usize) -> Option<&Window> {
        self.latest.get(cpu)?.as_ref()
    }

    /// The window that contains this run time was interrupted by a pause: it
    /// is no window.
    pub fn paused_at(&mut self, run_ns: u64) {
        self.paused.push(run_ns);
    }

    /// Adds the counters at the next window's end.
    pub fn mark(&mut self, mark: Mark) {
        self.marks.push_back(mark);
    }

    /// Makes all windows but the last `keep` that lie between marks; `taken`
    /// says what the burners of a CPU (by index) took between two run times.
    pub fn finish(
        &mut self,
        keep: usize,
        mut taken: impl FnMut(usize, u64, u64) -> Taken,
        out: &mut dyn Windows,
    ) {
        while self.marks.len() > keep + 1 {
            let Some(from) = self.marks.pop_front() else {
                return;
            };
            let to = self.marks[0].clone();
            let interrupted = self
                .paused
                .iter()
                .any(|at| (from.run_ns..to.run_ns).contains(at));
            if !interrupted && to.run_ns > from.run_ns {
                for cpu in 0..self.cpus.len() {
                    self.window(cpu, &from, &to, &mut taken, out);
                }
            }
            self.asked.forget_before(to.run_ns);
            self.paused.retain(|at| *at >= to.run_ns);
        }
    }

    fn window(
        &mut self,
        cpu: usize,
        from: &Mark,
        to: &Mark,
        taken: &mut impl FnMut(usize, u64, u64) -> Taken,
        out: &mut dyn Windows,
    ) {
        let length_ns = to.run_ns - from.run_ns;
        let times = |mark: &Mark| mark.times.get(cpu).copied().flatten();
        let delta = times(to)
            .zip(times(from))
            .map(|(now, before)| now.since(&before, self.tick_ns));
        let parts: Vec<(u64, u64, Taken)> = (from.run_ns..to.run_ns)
            .step_by(BOUNDARY_NS as usize)
            .map(|start| (start, (start + BOUNDARY_NS).min(to.run_ns)))
            .map(|(start, end)| (start, end, taken(cpu, start, end)))
            .collect();
        let burner_ns: u64 = parts.iter().map(|(_, _, part)| part.ns).sum();
        let seen_ns = parts.iter().map(|(_, _, part)| part.stolen_ns).sum();
        let hole = delta.is_none() || parts.iter().any(|(_, _, part)| part.hole);
        let steal_ns = self.steal[cpu]
            .add(
                delta.map_or(0, |d| d.steal_ns),
                seen_ns,
                burner_ns as f64 / length_ns as f64,
                self.tick_ns,
            )
            .min(length_ns);
        for (start_ns, end_ns, part) in parts {
            let length = u128::from(end_ns - start_ns);
            out.short(&Window {
                cpu: self.cpus[cpu],
                start_ns,
                length_ns: end_ns - start_ns,
                asked_pct: self.asked.mean_pct(cpu, start_ns, end_ns),
                burner_ns: part.ns,
                steal_ns: (u128::from(steal_ns) * length / u128::from(length_ns)) as u64,
                busy_ns: None,
                command_ns: None,
                hole,
            });
        }
        let command = |mark: &Mark| mark.command_ns.as_ref()?.get(cpu).copied();
        let whole = Window {
            cpu: self.cpus[cpu],
            start_ns: from.run_ns,
            length_ns,
            asked_pct: self.asked.mean_pct(cpu, from.run_ns, to.run_ns),
            burner_ns,
            steal_ns,
            busy_ns: delta.map(|d| d.busy_ns),
            command_ns: command(to)
                .zip(command(from))
                .map(|(now, before)| now.saturating_sub(before)),
            hole,
        };
        out.whole(&whole);
        self.latest[cpu] = Some(whole);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Kept(Vec<Window>, Vec<Window>);

    impl Windows for Kept {
        fn short(&mut self, window: &Window) {
            self.0.push(window.clone());
        }
        fn whole(&mut self, window: &Window) {
            self.1.push(window.clone());
        }
    }

    fn mark(run_ns: u64, busy: u64, steal: u64) -> Mark {
        Mark {
            run_ns,
            times: vec![Some(CpuTimes {
                user: busy,
                idle: run_ns / 10_000_000 - busy - steal,
                steal,
                ..CpuTimes::default()
            })],
            command_ns: Some(vec![run_ns / 4]),
        }
    }

    fn half(cpu: usize, from: u64, to: u64) -> Taken {
        assert_eq!(cpu, 0);
        Taken {
            ns: (to - from) / 2,
            stolen_ns: 5_000_000,
            hole: false,
        }
    }

    fn meter() -> Meter {
        let mut meter = Meter::new(vec![3], 10_000_000);
        meter.ask(Piece {
            start_ns: 0,
            end_ns: 10 * WINDOW_NS,
            asked_pct: vec![50.0],
        });
        meter
    }

    #[test]
    fn windows_come_when_their_end_is_marked() {
        let (mut meter, mut kept) = (meter(), Kept::default());
        meter.mark(mark(0, 0, 0));
        meter.finish(0, half, &mut kept);
        assert!(kept.1.is_empty());
        meter.mark(mark(WINDOW_NS, 60, 10));
        meter.finish(0, half, &mut kept);
        let window = &kept.1[0];
        assert_eq!(
            (kept.0.len(), window.cpu, window.steal_ns),
            (10, 3, 100_000_000)
        );
        assert_eq!(window.busy_ns, Some(600_000_000));
        assert_eq!(window.command_ns, Some(WINDOW_NS / 4));
        assert_eq!(window.burner_ns, WINDOW_NS / 2);
        assert!((window.asked_pct - 50.0).abs() < 1e-9);
        assert_eq!(kept.0.iter().map(|w| w.steal_ns).sum::<u64>(), 100_000_000);
        assert_eq!(meter.latest(0), Some(window));
    }

    #[test]
    fn the_newest_windows_can_wait_for_their_notes() {
        let (mut meter, mut kept) = (meter(), Kept::default());
        (0..3).for_each(|n| meter.mark(mark(n * WINDOW_NS, 0, 0)));
        meter.finish(1, half, &mut kept);
        assert_eq!(kept.1.len(), 1);
        meter.finish(0, half, &mut kept);
        assert_eq!(kept.1.len(), 2);
    }

    #[test]
    fn a_paused_window_is_left_out() {
        let (mut meter, mut kept) = (meter(), Kept::default());
        meter.paused_at(WINDOW_NS + 5);
        (0..4).for_each(|n| meter.mark(mark(n * WINDOW_NS, 0, 0)));
        meter.finish(0, half, &mut kept);
        let starts: Vec<u64> = kept.1.iter().map(|w| w.start_ns).collect();
        assert_eq!(starts, [0, 2 * WINDOW_NS]);
    }

    #[test]
    fn an_offline_cpu_is_a_hole() {
        let (mut meter, mut kept) = (meter(), Kept::default());
        meter.mark(mark(0, 0, 0));
        meter.mark(Mark {
            times: vec![None],
            ..mark(WINDOW_NS, 0, 0)
        });
        meter.finish(0, half, &mut kept);
        assert!(kept.1[0].hole);
    }
}
