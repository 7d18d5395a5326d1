// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Jobs on CPUs: first come, first served, each on the first CPUs that are
//! free, as many as it wants, for as long as it wants them; none overtakes
//! another.

use std::iter::Peekable;

use crate::{BoxSteps, ProfileCell, ProfileHeader, Result, Step, Steps};

/// A job that runs alone on its CPUs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Job {
    /// When it may begin, ns since the beginning of the profile.
    pub arrival_ns: u64,
    /// How long it runs, ns.
    pub runtime_ns: u64,
    /// On how many CPUs; 0 means one, more than there are means all.
    pub cpus: u32,
    /// The load of each of its CPUs while it runs, percent.
    pub load_pct: f64,
}

/// The load that jobs put on the CPUs of `header`; 0 where none runs.
///
/// Jobs come by time of arrival. One that finds too few CPUs free waits, and
/// all that come after it do, too. The profile ends at `end_ns`, or without it
/// with the last job.
///
/// # Errors
/// The first step after a job that could not be had is that error.
pub fn schedule(
    jobs: impl Iterator<Item = Result<Job>> + Send + 'static,
    header: ProfileHeader,
    end_ns: Option<u64>,
) -> BoxSteps {
    let cpus = header.cpus.len();
    Box::new(ScheduleSteps {
        header,
        jobs: jobs.peekable(),
        end_ns,
        now_ns: 0,
        begun_ns: 0,
        cpus: vec![ScheduleCpu::default(); cpus],
        free_at_ns: Vec::with_capacity(cpus),
        counts: JobCounts::default(),
        next_arrival_ns: None,
        done: false,
    })
}

#[derive(Debug, Clone, Copy, Default)]
struct ScheduleCpu {
    free_at_ns: u64,
    /// Of the job that it has until then.
    load_pct: f64,
}

#[derive(Debug, Default)]
struct JobCounts {
    started: u64,
    cut: u64,
    waited: u64,
    longest_wait_ns: u64,
}

struct ScheduleSteps<I: Iterator<Item = Result<Job>>> {
    header: ProfileHeader,
    jobs: Peekable<I>,
    end_ns: Option<u64>,
    now_ns: u64,
    /// When the last job began; later jobs begin no earlier.
    begun_ns: u64,
    cpus: Vec<ScheduleCpu>,
    /// Scratch of [`ScheduleSteps::next_start`].
    free_at_ns: Vec<u64>,
    counts: JobCounts,
    /// When the job arrives that begins next.
    next_arrival_ns: Option<u64>,
    done: bool,
}

impl<I: Iterator<Item = Result<Job>>> ScheduleSteps<I> {
    /// The job that begins next, and when.
    fn next_start(&mut self) -> Result<Option<(u64, Job)>> {
        let job = match self.jobs.peek() {
            None => return Ok(None),
            Some(Ok(job)) => *job,
            Some(Err(_)) => return self.jobs.next().transpose().map(|_| None),
        };
        self.free_at_ns.clear();
        let free_at = self.cpus.iter().map(|cpu| cpu.free_at_ns);
        self.free_at_ns.extend(free_at);
        let last = (job.cpus.max(1) as usize).min(self.cpus.len()) - 1;
        let (_, free_ns, _) = self.free_at_ns.select_nth_unstable(last);
        let start_ns = (*free_ns).max(job.arrival_ns).max(self.begun_ns);
        Ok(Some((start_ns, job)))
    }

    /// Begins every job whose time is now; when the next one begins.
    fn begin(&mut self) -> Result<Option<u64>> {
        while let Some((start_ns, job)) = self.next_start()? {
            if start_ns > self.now_ns {
                self.next_arrival_ns = Some(job.arrival_ns);
                return Ok(Some(start_ns));
            }
            self.jobs.next();
            let free = self.cpus.iter_mut().filter(|c| c.free_at_ns <= start_ns);
            for cpu in free.take(job.cpus.max(1) as usize) {
                cpu.free_at_ns = start_ns.saturating_add(job.runtime_ns);
                cpu.load_pct = job.load_pct;
            }
            self.begun_ns = start_ns;
            let wait_ns = start_ns - job.arrival_ns;
            self.counts.started += 1;
            self.counts.cut += u64::from(job.cpus as usize > self.cpus.len());
            self.counts.waited += u64::from(wait_ns > 0);
            self.counts.longest_wait_ns = self.counts.longest_wait_ns.max(wait_ns);
        }
        self.next_arrival_ns = None;
        Ok(None)
    }

    fn step(&mut self) -> Result<Option<Step>> {
        if self.end_ns.is_some_and(|end_ns| self.now_ns >= end_ns) || self.cpus.is_empty() {
            return Ok(None);
        }
        let next_start_ns = self.begin()?;
        let ends = self.cpus.iter().map(|cpu| cpu.free_at_ns);
        let next_end_ns = ends.filter(|at| *at > self.now_ns).min();
        let changes = [next_start_ns, next_end_ns, self.end_ns];
        let Some(end_ns) = changes.into_iter().flatten().min() else {
            return Ok(None);
        };
        let start_ns = std::mem::replace(&mut self.now_ns, end_ns);
        let cell = |cpu: &ScheduleCpu| {
            let busy = cpu.free_at_ns > start_ns;
            Some(ProfileCell::load(if busy { cpu.load_pct } else { 0.0 }))
        };
        Ok(Some(Step {
            start_ns,
            end_ns,
            cells: self.cpus.iter().map(cell).collect(),
        }))
    }
}

impl<I: Iterator<Item = Result<Job>> + Send> Steps for ScheduleSteps<I> {
    fn header(&self) -> &ProfileHeader {
        &self.header
    }

    fn next_step(&mut self) -> Result<Option<Step>> {
        if self.done {
            return Ok(None);
        }
        let step = self.step();
        self.done = !matches!(step, Ok(Some(_)));
        step
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.counts.cut > 0 {
            warnings.push(format!(
                "{} of {} jobs want more CPUs than there are and were given all {}",
                self.counts.cut,
                self.counts.started,
                self.cpus.len()
            ));
        }
        if self.counts.waited > 0 {
            warnings.push(format!(
                "{} of {} jobs had to wait for CPUs, up to {:.0} s",
                self.counts.waited,
                self.counts.started,
                self.counts.longest_wait_ns as f64 / 1e9
            ));
        }
        if self.next_arrival_ns.is_some_and(|at| at < self.now_ns) {
            warnings.push("at the end jobs were still waiting for CPUs".to_owned());
        }
        warnings
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::assert_sound;
    use crate::{Fault, Format, NS_PER_S, Profile};
    use proptest::prelude::*;

    fn job(arrival_s: u64, runtime_s: u64, cpus: u32) -> Job {
        Job {
            arrival_ns: arrival_s * NS_PER_S,
            runtime_ns: runtime_s * NS_PER_S,
            cpus,
            load_pct: 100.0,
        }
    }

    fn on(jobs: Vec<Job>, cpus: u32, end_s: Option<u64>) -> Profile {
        let header = ProfileHeader::new((0..cpus).collect(), Format::Synthetic);
        let jobs = jobs.into_iter().map(Ok);
        let profile = Profile::collect(schedule(jobs, header, end_s.map(|s| s * NS_PER_S)));
        let profile = profile.unwrap();
        assert_sound(&profile);
        profile
    }

    fn loads(profile: &Profile) -> Vec<(u64, u64, Vec<f64>)> {
        let seconds = |ns: u64| ns / NS_PER_S;
        let of = |step: &Step| step.cells.iter().map(|c| c.unwrap().load_pct).collect();
        let steps = profile.steps.iter();
        steps
            .map(|step| (seconds(step.start_ns), seconds(step.end_ns), of(step)))
            .collect()
    }

    #[test]
    fn who_wants_two_waits_for_two_and_nobody_overtakes() {
        let jobs = vec![job(1, 4, 1), job(2, 2, 2), job(3, 1, 1)];
        let profile = on(jobs.clone(), 2, Some(10));
        assert_eq!(
            loads(&profile),
            [
                (0, 1, vec![0.0, 0.0]),
                (1, 5, vec![100.0, 0.0]),
                (5, 7, vec![100.0, 100.0]),
                (7, 8, vec![100.0, 0.0]),
                (8, 10, vec![0.0, 0.0]),
            ]
        );
        let waited = "2 of 3 jobs had to wait for CPUs, up to 4 s";
        assert_eq!(profile.warnings, [waited]);
        let cut = on(jobs.clone(), 2, Some(4));
        assert_eq!(
            cut.warnings,
            ["at the end jobs were still waiting for CPUs"]
        );
        // Without an end the last job is the end.
        let whole = on(jobs, 2, None);
        assert_eq!(loads(&whole), loads(&profile)[..4]);
    }

    #[test]
    fn the_first_free_cpus_are_taken() {
        let jobs = vec![job(0, 3, 1), job(0, 1, 1), job(2, 2, 2)];
        assert_eq!(
            loads(&on(jobs, 3, None)),
            [
                (0, 1, vec![100.0, 100.0, 0.0]),
                (1, 2, vec![100.0, 0.0, 0.0]),
                (2, 3, vec![100.0, 100.0, 100.0]),
                (3, 4, vec![0.0, 100.0, 100.0]),
            ]
        );
    }

    #[test]
    fn one_that_is_too_large_takes_all() {
        let profile = on(vec![job(0, 5, 128)], 1, Some(3));
        assert_eq!(loads(&profile), [(0, 3, vec![100.0])]);
        let told = "1 of 1 jobs want more CPUs than there are and were given all 1";
        assert_eq!(profile.warnings, [told]);
    }

    #[test]
    fn a_fault_of_the_jobs_is_the_streams() {
        let jobs = [Ok(job(0, 5, 1)), Err(Fault::Empty.into())];
        let header = ProfileHeader::new(vec![0], Format::Synthetic);
        let mut steps = schedule(jobs.into_iter(), header, None);
        assert!(steps.next_step().is_err());
        assert_eq!(steps.next_step().unwrap(), None);
    }

    proptest! {
        #[test]
        fn steps_adjoin_and_no_work_is_lost(
            jobs in prop::collection::vec((0u64..50, 0u64..20, 1u32..5), 0..20),
        ) {
            let mut jobs: Vec<Job> = jobs
                .into_iter()
                .map(|(at, runtime, cpus)| job(at, runtime, cpus))
                .collect();
            jobs.sort_by_key(|j| j.arrival_ns);
            let work: u64 = jobs.iter().map(|j| j.runtime_ns * u64::from(j.cpus.min(3))).sum();
            // Long enough for all of them, one after the other.
            let profile = on(jobs, 3, Some(1_000));
            prop_assert_eq!(profile.end_ns(), 1_000 * NS_PER_S);
            let done: f64 = profile.steps.iter().map(|step| {
                let busy: f64 = step.cells.iter().map(|c| c.unwrap().load_pct / 100.0).sum();
                busy * step.length_ns() as f64
            }).sum();
            prop_assert_eq!(done, work as f64);
        }
    }
}
