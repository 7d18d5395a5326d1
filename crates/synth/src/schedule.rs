// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Jobs on CPUs: first come, first served, each on as many CPUs as it wants
//! for as long as it wants them, none overtaking another.

use std::iter::Peekable;

use sandbag_profile::{BoxSteps, Cell, Format, Header, NS_PER_S, Result, Step, Steps};

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

/// The load that jobs put on CPUs: `busy_pct` where one runs, 0 elsewhere.
/// Jobs come by time of arrival; those that have to wait for CPUs wait, and
/// all that come after them do, too.
#[must_use]
pub fn schedule(
    jobs: impl Iterator<Item = Job> + Send + 'static,
    cpus: &[u32],
    busy_pct: f64,
    length_ns: u64,
) -> BoxSteps {
    Box::new(Scheduled {
        header: Header::new(cpus.to_vec(), Format::Synthetic),
        jobs: jobs.peekable(),
        busy: Cell::load(busy_pct),
        length_ns,
        now_ns: 0,
        begun_ns: 0,
        free_at_ns: vec![0; cpus.len()],
        started: 0,
        waited: 0,
        next_arrival_ns: None,
    })
}

struct Scheduled<I: Iterator<Item = Job>> {
    header: Header,
    jobs: Peekable<I>,
    busy: Cell,
    length_ns: u64,
    now_ns: u64,
    /// When the last job began: nobody overtakes.
    begun_ns: u64,
    /// When each CPU is free again.
    free_at_ns: Vec<u64>,
    started: u64,
    waited: u64,
    /// When the job arrives that is to begin next.
    next_arrival_ns: Option<u64>,
}

fn ns(seconds: f64) -> u64 {
    (seconds.max(0.0) * NS_PER_S as f64) as u64
}

impl<I: Iterator<Item = Job>> Scheduled<I> {
    /// CPUs by the time they are free.
    fn by_freedom(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.free_at_ns.len()).collect();
        order.sort_by_key(|cpu| (self.free_at_ns[*cpu], *cpu));
        order
    }

    /// When the next job begins, and on which CPUs.
    fn next_start(&mut self) -> Option<(u64, Vec<usize>)> {
        let job = *self.jobs.peek()?;
        let mut cpus = self.by_freedom();
        cpus.truncate((job.cpus.max(1) as usize).min(cpus.len()));
        let free = cpus.iter().map(|cpu| self.free_at_ns[*cpu]).max()?;
        Some((free.max(ns(job.arrival_s)).max(self.begun_ns), cpus))
    }

    /// Whether a job that has arrived has not begun.
    fn begun_behind(&self) -> bool {
        self.next_arrival_ns.is_some_and(|at| at < self.now_ns)
    }

    /// Begins every job whose time is now.
    fn begin(&mut self) {
        while let Some((start_ns, cpus)) = self.next_start()
            && start_ns <= self.now_ns
        {
            let Some(job) = self.jobs.next() else { return };
            for cpu in cpus {
                self.free_at_ns[cpu] = start_ns.saturating_add(ns(job.runtime_s));
            }
            self.begun_ns = start_ns;
            self.started += 1;
            self.waited += u64::from(start_ns > ns(job.arrival_s));
        }
    }
}

impl<I: Iterator<Item = Job> + Send> Steps for Scheduled<I> {
    fn header(&self) -> &Header {
        &self.header
    }

    fn next_step(&mut self) -> Result<Option<Step>> {
        if self.now_ns >= self.length_ns || self.free_at_ns.is_empty() {
            return Ok(None);
        }
        self.begin();
        let ends = self
            .free_at_ns
            .iter()
            .copied()
            .filter(|at| *at > self.now_ns);
        let mut end_ns = ends.min().unwrap_or(u64::MAX).min(self.length_ns);
        if let Some((start_ns, _)) = self.next_start() {
            end_ns = end_ns.min(start_ns);
        }
        self.next_arrival_ns = self.jobs.peek().map(|job| ns(job.arrival_s));
        let start_ns = std::mem::replace(&mut self.now_ns, end_ns);
        let cell = |at: &u64| match *at > start_ns {
            true => self.busy,
            false => Cell::load(0.0),
        };
        Ok(Some(Step {
            start_ns,
            end_ns,
            cells: self.free_at_ns.iter().map(|at| Some(cell(at))).collect(),
        }))
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.waited > 0 {
            warnings.push(format!(
                "{} of {} jobs had to wait for CPUs",
                self.waited, self.started
            ));
        }
        if self.begun_behind() {
            warnings.push("at the end jobs were still waiting for CPUs".to_owned());
        }
        warnings
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use sandbag_profile::Profile;

    fn job(arrival_s: f64, runtime_s: f64, cpus: u32) -> Job {
        Job {
            arrival_s,
            runtime_s,
            cpus,
            batch: false,
        }
    }

    fn loads(jobs: Vec<Job>, cpus: &[u32], length_s: u64) -> Vec<(u64, u64, Vec<f64>)> {
        let steps = schedule(jobs.into_iter(), cpus, 100.0, length_s * NS_PER_S);
        let profile = Profile::collect(steps).unwrap();
        let seconds = |ns: u64| ns / NS_PER_S;
        let of = |step: &Step| step.cells.iter().map(|c| c.unwrap().load_pct).collect();
        let steps = profile.steps.iter();
        steps
            .map(|step| (seconds(step.start_ns), seconds(step.end_ns), of(step)))
            .collect()
    }

    #[test]
    fn who_wants_two_waits_for_two_and_nobody_overtakes() {
        let jobs = vec![job(1.0, 4.0, 1), job(2.0, 2.0, 2), job(3.0, 1.0, 1)];
        assert_eq!(
            loads(jobs, &[0, 1], 10),
            [
                (0, 1, vec![0.0, 0.0]),
                (1, 5, vec![100.0, 0.0]),
                (5, 7, vec![100.0, 100.0]),
                (7, 8, vec![100.0, 0.0]),
                (8, 10, vec![0.0, 0.0]),
            ]
        );
    }

    #[test]
    fn one_that_is_too_large_takes_all() {
        assert_eq!(
            loads(vec![job(0.0, 5.0, 128)], &[4], 3),
            [(0, 3, vec![100.0])]
        );
    }

    proptest! {
        #[test]
        fn steps_adjoin_and_no_work_is_lost(
            jobs in prop::collection::vec((0.0f64..50.0, 0u32..20, 1u32..4), 0..20),
        ) {
            let mut jobs: Vec<Job> = jobs
                .into_iter()
                .map(|(at, runtime, cpus)| job(at, f64::from(runtime), cpus))
                .collect();
            jobs.sort_by(|a, b| a.arrival_s.total_cmp(&b.arrival_s));
            let work: f64 = jobs.iter().map(|j| j.runtime_s * f64::from(j.cpus.min(3))).sum();
            // Long enough for all of them, one after the other.
            let length = 1_000 * NS_PER_S;
            let profile = Profile::collect(schedule(jobs.into_iter(), &[0, 1, 2], 100.0, length)).unwrap();
            let mut at = 0;
            let mut done = 0.0;
            for step in &profile.steps {
                prop_assert_eq!(step.start_ns, at);
                prop_assert!(step.end_ns > step.start_ns);
                at = step.end_ns;
                let busy: f64 = step.cells.iter().map(|c| c.unwrap().load_pct / 100.0).sum();
                done += busy * step.length_ns() as f64 / NS_PER_S as f64;
            }
            prop_assert_eq!(at, length);
            prop_assert!((done - work).abs() < 1e-6, "{} {}", done, work);
        }
    }
}
