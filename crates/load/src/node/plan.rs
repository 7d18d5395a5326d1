// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Speeds over time as the load that leaves them: a CPU of speed mu is one that
//! is loaded by `100 * (1 - mu)` percent. A profile of speeds is read, cut, scaled
//! and mapped like any load profile and turned into loads last. A speed that is
//! set while it is held goes to the supervisor over the node's socket.

use sandbag_profile::{
    BoxSteps, Fault, ProfileCell, ProfileHeader, Result, Step, Steps, constants,
};
use sandbag_ui::quantity::Seconds;

use crate::node::ratios::Ratios;

/// Length of what has no end, ns: ten years. Not the largest number, because
/// the supervisor adds the time of the start to it.
pub const OPEN_END_NS: u64 = 10 * 365 * 86_400 * 1_000_000_000;

/// The same speeds until the end; without a length there is none.
pub fn constant(speeds: &Ratios, length_ns: Option<u64>) -> BoxSteps {
    let cpus = speeds.iter().map(|(cpu, _)| cpu);
    let loads: Vec<(u32, f64)> = cpus.zip(speeds.loads_pct()).collect();
    constants(&loads, length_ns.unwrap_or(OPEN_END_NS))
}

/// What holds after the end of a profile of speeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AtEnd {
    /// The last speeds: a node does not become fast because its file ends.
    #[default]
    Hold,
    /// Nothing: the profile's end is the load's end.
    End,
}

/// The load that leaves the speeds of a profile: each value is a speed in
/// percent of the CPU's full speed and becomes 100 minus it. Steal is not
/// carried over; a speed is no measurement.
///
/// To repeat a profile, repeat it (`sandbag_profile::algebra::repeat`) before
/// it is handed in.
///
/// The stream ends with an error at a speed of 0, at which no program would
/// ever finish, and at one that is unknown. Reading it once to its end
/// (`summarise`, without [`AtEnd::Hold`]) before anything is changed finds
/// both.
pub fn slow_steps(speeds: BoxSteps, at_end: AtEnd) -> BoxSteps {
    Box::new(SlowSteps {
        inner: speeds,
        at_end,
        last: None,
        over: false,
    })
}

struct SlowSteps {
    inner: BoxSteps,
    at_end: AtEnd,
    last: Option<Step>,
    over: bool,
}

impl SlowSteps {
    fn load(
        &self,
        n: usize,
        cell: Option<ProfileCell>,
        step: &Step,
    ) -> Result<Option<ProfileCell>> {
        let cpu = self.inner.header().cpus[n];
        match cell {
            None => Err(Fault::Hole {
                cpu,
                from: Seconds(step.start_ns),
                to: Seconds(step.end_ns),
            }
            .into()),
            // Between 0 and 100 by the readers; a speed has to be above 0.
            Some(cell) if cell.load_pct > 0.0 => Ok(Some(ProfileCell::load(
                (100.0 - cell.load_pct).clamp(0.0, 100.0),
            ))),
            Some(cell) => Err(Fault::Argument {
                what: "speed",
                value: format!(
                    "{} % (cpu{cpu} at {})",
                    cell.load_pct,
                    Seconds(step.start_ns)
                ),
                must: "above 0 and at most 100 percent of the CPU's full speed",
            }
            .into()),
        }
    }

    fn read(&mut self) -> Result<Option<Step>> {
        if let Some(mut step) = self.inner.next_step()? {
            let cells = std::mem::take(&mut step.cells);
            step.cells = cells
                .into_iter()
                .enumerate()
                .map(|(n, cell)| self.load(n, cell, &step))
                .collect::<Result<_>>()?;
            self.last = Some(step.clone());
            return Ok(Some(step));
        }
        self.over = true;
        let held = self.last.take().filter(|_| self.at_end == AtEnd::Hold);
        Ok(held.map(|last| Step {
            start_ns: last.end_ns,
            end_ns: last.end_ns.saturating_add(OPEN_END_NS),
            cells: last.cells,
        }))
    }
}

impl Steps for SlowSteps {
    fn header(&self) -> &ProfileHeader {
        self.inner.header()
    }

    fn next_step(&mut self) -> Result<Option<Step>> {
        if self.over {
            return Ok(None);
        }
        let read = self.read();
        self.over |= read.is_err();
        read
    }

    fn warnings(&self) -> Vec<String> {
        self.inner.warnings()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandbag_profile::{InputSource, Profile, ReadOptions, algebra};

    fn speeds(text: &str) -> BoxSteps {
        let source = InputSource::spool(&mut text.as_bytes(), "speeds.csv".into()).unwrap();
        source.open(None, &ReadOptions::default()).unwrap()
    }

    fn loads(steps: BoxSteps) -> Vec<(u64, Vec<f64>)> {
        let profile = Profile::collect(steps).unwrap();
        let loads = |step: &Step| step.cells.iter().map(|c| c.unwrap().load_pct).collect();
        profile
            .steps
            .iter()
            .map(|s| (s.start_ns, loads(s)))
            .collect()
    }

    const SECOND: u64 = 1_000_000_000;
    const TWO: &str = "time,cpu0,cpu3\n0,100,25\n10,60,25\n20,end\n";

    #[test]
    fn speeds_become_loads_and_the_last_ones_stay() {
        let asked = loads(slow_steps(speeds(TWO), AtEnd::Hold));
        assert_eq!(
            asked,
            [
                (0, vec![0.0, 75.0]),
                (10 * SECOND, vec![40.0, 75.0]),
                (20 * SECOND, vec![40.0, 75.0]),
            ]
        );
        assert_eq!(loads(slow_steps(speeds(TWO), AtEnd::End)).len(), 2);
    }

    #[test]
    fn it_is_cut_scaled_and_mapped_as_speeds() {
        let cut = algebra::cut(speeds(TWO), 10 * SECOND, 15 * SECOND).unwrap();
        let half = algebra::scale_load(cut, 0.5).unwrap();
        let mapped = algebra::map_cpus(half, None, &[4, 6]).unwrap();
        assert_eq!(
            loads(slow_steps(mapped, AtEnd::End)),
            [(0, vec![70.0, 87.5])]
        );
    }

    #[test]
    fn a_speed_of_0_and_an_unknown_one_are_refused_at_their_place() {
        for (text, part) in [
            ("time,cpu0\n0,50\n5,0\n9,end\n", "speed 0 % (cpu0 at 5"),
            ("time,cpu0\n0,50\n5,\n9,end\n", "cpu0 is unknown from 5"),
        ] {
            let mut steps = slow_steps(speeds(text), AtEnd::Hold);
            assert!(steps.next_step().unwrap().is_some());
            let error = steps.next_step().unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
            assert!(steps.next_step().unwrap().is_none());
        }
    }

    #[test]
    fn a_constant_speed_is_a_load_without_end() {
        let speeds = Ratios::new(vec![(2, 0.25), (5, 1.0)]);
        let profile = Profile::collect(constant(&speeds, None)).unwrap();
        assert_eq!(profile.header.cpus, [2, 5]);
        assert_eq!(profile.end_ns(), OPEN_END_NS);
        let loads: Vec<f64> = profile.steps[0]
            .cells
            .iter()
            .map(|cell| cell.unwrap().load_pct)
            .collect();
        assert_eq!(loads, [75.0, 0.0]);
        // The engine adds the clock at its start.
        assert!(OPEN_END_NS.checked_mul(10).is_some());
    }
}
