// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The jobs of a model on CPUs.

use sandbag_profile::{BoxSteps, Format, Header, NS_PER_S};

/// A job that runs alone on its CPUs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Job {
    /// When it is submitted, s.
    pub arrival_s: f64,
    /// How long it runs, s.
    pub runtime_s: f64,
    /// On how many CPUs; more than there are means all.
    pub cpus: u32,
    /// Whether it is a batch job.
    pub batch: bool,
}

/// The load that jobs put on CPUs: `busy_pct` where one runs, 0 elsewhere, as
/// [`sandbag_profile::schedule`] has it. Jobs come by time of arrival.
#[must_use]
pub fn schedule(
    jobs: impl Iterator<Item = Job> + Send + 'static,
    cpus: &[u32],
    busy_pct: f64,
    length_ns: u64,
) -> BoxSteps {
    let jobs = jobs.map(move |job| {
        Ok(sandbag_profile::Job {
            arrival_ns: ns(job.arrival_s),
            runtime_ns: ns(job.runtime_s),
            cpus: job.cpus,
            load_pct: busy_pct,
        })
    });
    let header = Header::new(cpus.to_vec(), Format::Synthetic);
    sandbag_profile::schedule(jobs, header, Some(length_ns))
}

fn ns(seconds: f64) -> u64 {
    (seconds.max(0.0) * NS_PER_S as f64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandbag_profile::{Cell, Profile};

    #[test]
    fn seconds_become_steps_of_the_given_load() {
        let job = Job {
            arrival_s: 0.5,
            runtime_s: 1.0,
            cpus: 1,
            batch: false,
        };
        let steps = schedule([job].into_iter(), &[3, 4], 80.0, 2 * NS_PER_S);
        let profile = Profile::collect(steps).unwrap();
        assert_eq!(profile.header.cpus, [3, 4]);
        let ends: Vec<u64> = profile.steps.iter().map(|s| s.end_ns).collect();
        assert_eq!(ends, [NS_PER_S / 2, NS_PER_S * 3 / 2, 2 * NS_PER_S]);
        assert_eq!(
            profile.steps[1].cells,
            [Some(Cell::load(80.0)), Some(Cell::load(0.0))]
        );
    }
}
