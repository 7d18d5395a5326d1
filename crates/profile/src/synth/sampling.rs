// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Profiles that are made step by step.

use crate::{BoxSteps, Fault, Format, ProfileCell, ProfileHeader, Result, Step, Steps};

/// What makes the load of the CPUs in one step, percent.
pub trait LoadSource: Send {
    /// The mean loads of the step of `length_s` around `middle_s`, into `loads`, which
    /// has one place per CPU. Values beyond 0 to 100 are cut off and counted.
    fn loads(&mut self, middle_s: f64, length_s: f64, loads: &mut [f64]);
}

/// A profile of steps of the same length, the last shorter if need be.
///
/// # Errors
/// A step or length of 0.
pub fn sample_steps(
    source: impl LoadSource + 'static,
    cpus: &[u32],
    step_ns: u64,
    length_ns: u64,
) -> Result<BoxSteps> {
    for (what, value) in [("step", step_ns), ("length", length_ns)] {
        if value == 0 {
            return Err(Fault::argument(what, "0", "longer than 0").into());
        }
    }
    Ok(Box::new(SampledSteps {
        header: ProfileHeader::new(cpus.to_vec(), Format::Synthetic),
        source,
        loads: vec![0.0; cpus.len()],
        step_ns,
        length_ns,
        now_ns: 0,
        cut_off: 0,
        made: 0,
    }))
}

struct SampledSteps<S> {
    header: ProfileHeader,
    source: S,
    loads: Vec<f64>,
    step_ns: u64,
    length_ns: u64,
    now_ns: u64,
    cut_off: u64,
    made: u64,
}

impl<S: LoadSource> Steps for SampledSteps<S> {
    fn header(&self) -> &ProfileHeader {
        &self.header
    }

    fn next_step(&mut self) -> Result<Option<Step>> {
        if self.now_ns >= self.length_ns {
            return Ok(None);
        }
        let start_ns = self.now_ns;
        let end_ns = start_ns.saturating_add(self.step_ns).min(self.length_ns);
        self.now_ns = end_ns;
        let middle_s = f64::midpoint(start_ns as f64, end_ns as f64) / 1e9;
        let length_s = (end_ns - start_ns) as f64 / 1e9;
        self.source.loads(middle_s, length_s, &mut self.loads);
        let mut cells = Vec::with_capacity(self.loads.len());
        for load in &self.loads {
            if !load.is_finite() {
                return Err(Fault::out_of_range("load", load).into());
            }
            let within = load.clamp(0.0, 100.0);
            self.made += 1;
            self.cut_off += u64::from(within != *load);
            cells.push(Some(ProfileCell::load(within)));
        }
        Ok(Some(Step {
            start_ns,
            end_ns,
            cells,
        }))
    }

    fn warnings(&self) -> Vec<String> {
        match self.cut_off {
            0 => Vec::new(),
            count => vec![format!(
                "{count} of {} values were below 0 or above 100 % and were cut off there",
                self.made
            )],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Profile;

    struct Middles;

    impl LoadSource for Middles {
        fn loads(&mut self, middle_s: f64, _: f64, loads: &mut [f64]) {
            loads[0] = middle_s * 10.0;
            loads[1] = 200.0;
        }
    }

    #[test]
    fn the_last_step_may_be_shorter_and_what_cannot_be_is_cut_off() {
        let steps = sample_steps(Middles, &[3, 5], 2_000_000_000, 5_000_000_000).unwrap();
        let profile = Profile::collect(steps).unwrap();
        assert_eq!(profile.header.cpus, [3, 5]);
        let first: Vec<f64> = profile
            .steps
            .iter()
            .map(|s| s.cells[0].unwrap().load_pct)
            .collect();
        assert_eq!(first, [10.0, 30.0, 45.0]);
        assert_eq!(profile.end_ns(), 5_000_000_000);
        assert_eq!(profile.warnings.len(), 1);
        assert!(profile.warnings[0].starts_with("3 of 6 values"));
        assert!(sample_steps(Middles, &[0, 1], 0, 1).is_err());
        assert!(sample_steps(Middles, &[0, 1], 1, 0).is_err());
    }
}
