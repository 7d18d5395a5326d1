// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The model against the published program and against its own expectations.

use sandbag_profile::synth::lublin::{ArrivalClock, Lublin, Options, Types};
use sandbag_profile::{Format, Job, NS_PER_S, Profile, ProfileCell, ProfileHeader, schedule};

fn options(seed: u32, types: Types, clock: ArrivalClock) -> Options {
    Options {
        seed,
        types,
        clock,
        start_hour: 0,
        machine: None,
        rate: 1.0,
        busy_pct: 80.0,
    }
}

fn is_the_programs(text: &str, seed: u32, types: Types) {
    let jobs = Lublin::new(&options(seed, types, ArrivalClock::WholeSeconds));
    let mut count = 0;
    for (line, submitted) in text.lines().zip(jobs) {
        let job = submitted.job;
        // Whole seconds in the program.
        assert_eq!(
            (job.arrival_ns % NS_PER_S, job.runtime_ns % NS_PER_S),
            (0, 0)
        );
        let ours = format!(
            "{} {} {} {}",
            job.arrival_ns / NS_PER_S,
            job.runtime_ns / NS_PER_S,
            job.cpus,
            u8::from(submitted.batch)
        );
        assert_eq!(ours, line, "job {}", count + 1);
        count += 1;
    }
    assert_eq!(count, 1000);
}

#[test]
fn one_kind_is_the_programs_job_for_job() {
    is_the_programs(include_str!("data/types1_seed1.txt"), 1, Types::One);
    is_the_programs(include_str!("data/types1_seed42.txt"), 42, Types::One);
}

#[test]
fn two_kinds_are_the_programs_job_for_job() {
    is_the_programs(include_str!("data/types2_seed1.txt"), 1, Types::Two);
    is_the_programs(include_str!("data/types2_seed42.txt"), 42, Types::Two);
}

fn arrival_s(job: &Job) -> f64 {
    job.arrival_ns as f64 / 1e9
}

/// Means over this many jobs; the program's own varied by 2 % between seeds.
const JOBS: usize = 200_000;

#[test]
fn means_are_those_of_the_parameters() {
    let mut jobs = Lublin::new(&options(3, Types::One, ArrivalClock::Exact));
    let (mut last, mut nodes, mut runtime) = (0.0, 0.0, 0.0);
    for _ in 0..JOBS {
        let job = jobs.next().unwrap().job;
        last = arrival_s(&job);
        nodes += f64::from(job.cpus);
        runtime += job.runtime_ns as f64 / 1e9;
    }
    let n = JOBS as f64;
    for (what, value, expected, within) in [
        ("interval", last / n, 911.3, 0.05),
        ("nodes", nodes / n, 12.134, 0.03),
        ("run time", runtime / n, 4358.0, 0.03),
    ] {
        assert!((value / expected - 1.0).abs() < within, "{what}: {value}");
    }
}

/// Circular mean of the hour of arrival.
fn mean_hour(arrivals: impl Iterator<Item = f64>) -> f64 {
    let (mut x, mut y) = (0.0, 0.0);
    for at in arrivals {
        let angle = at / 86_400.0 * std::f64::consts::TAU;
        x += angle.cos();
        y += angle.sin();
    }
    (y.atan2(x) / std::f64::consts::TAU * 24.0).rem_euclid(24.0)
}

#[test]
fn the_daily_cycle_drifts_in_the_program_only() {
    for (clock, drifts) in [
        (ArrivalClock::WholeSeconds, true),
        (ArrivalClock::Exact, false),
    ] {
        let jobs = Lublin::new(&options(5, Types::One, clock));
        let arrivals: Vec<f64> = jobs.take(50_000).map(|s| arrival_s(&s.job)).collect();
        let first = mean_hour(arrivals[..5_000].iter().copied());
        let last = mean_hour(arrivals[45_000..].iter().copied());
        assert_eq!(
            first - last > 4.0,
            drifts,
            "{clock:?}: {first:.1} h, then {last:.1} h"
        );
    }
}

#[test]
fn jobs_fit_a_machine_of_another_size() {
    for cpus in [1, 2, 3, 8] {
        let jobs = Lublin::new(&Options {
            machine: Some(cpus),
            ..options(9, Types::Two, ArrivalClock::Exact)
        });
        let sizes: Vec<u32> = jobs
            .take(2_000)
            .map(|submitted| submitted.job.cpus)
            .collect();
        let most = sizes.iter().copied().max().unwrap();
        assert!(
            sizes.iter().all(|size| *size >= 1) && most == cpus,
            "{cpus}: {most}"
        );
    }
}

#[test]
fn jobs_are_put_on_cpus_as_any() {
    let jobs = Lublin::new(&options(1, Types::Two, ArrivalClock::Exact));
    let header = ProfileHeader::new(vec![3, 4], Format::Synthetic);
    let end_ns = 100_000 * NS_PER_S;
    let steps = schedule(jobs.map(|s| Ok(s.job)), header, Some(end_ns));
    let profile = Profile::collect(steps).unwrap();
    assert_eq!(
        (profile.end_ns(), &profile.header.cpus[..]),
        (end_ns, &[3, 4][..])
    );
    let mut cells = profile.steps.iter().flat_map(|step| &step.cells);
    assert!(cells.all(|cell| {
        [0.0, 80.0]
            .map(|load| Some(ProfileCell::load(load)))
            .contains(cell)
    }));
}
