// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::fake_machine::{Files, fake_policies};
use sandbag_run::journal::{Entry, RunInfo};
use sandbag_run::undo::{Leftovers, undo_in_temp as undo};
use std::fs;
use std::path::PathBuf;

/// A machine with these policies: its CPUs, its files.
pub(crate) struct FakePolicy {
    dir: tempfile::TempDir,
    pub root: Root,
}

impl FakePolicy {
    pub fn new(policies: &[(&[u32], Files<'_>)]) -> Self {
        let (dir, root) = fake_policies(policies);
        Self { dir, root }
    }

    fn file(&self, policy: u32, name: &str) -> PathBuf {
        let cpu_dir = self.dir.path().join("sys/devices/system/cpu");
        cpu_dir.join(format!("cpufreq/policy{policy}/{name}"))
    }

    pub fn text(&self, policy: u32, name: &str) -> String {
        let text = fs::read_to_string(self.file(policy, name)).unwrap();
        text.trim().to_owned()
    }
}

pub(crate) const X5570: Files<'_> = &[
    ("scaling_driver", "acpi-cpufreq"),
    ("scaling_governor", "ondemand"),
    ("scaling_available_governors", "ondemand userspace"),
    (
        "scaling_available_frequencies",
        "2930000 2800000 2670000 2530000 2400000 2270000 2130000 2000000 1870000 1730000 1600000",
    ),
    ("scaling_min_freq", "1600000"),
    ("scaling_max_freq", "2930000"),
    ("scaling_setspeed", "<unsupported>"),
    ("related_cpus", "0 1 2 3"),
];

const INTEL: Files<'_> = &[
    ("scaling_driver", "intel_pstate"),
    ("scaling_governor", "powersave"),
    ("scaling_available_governors", "performance powersave"),
    ("scaling_min_freq", "800000"),
    ("scaling_max_freq", "3000000"),
];

const WISHES: FrequencyOptions = FrequencyOptions {
    split_domains: false,
    calibrate: false,
};
const FREQ: FrequencyNeed = FrequencyNeed {
    wishes: WISHES,
    required: true,
};
const GOV: FrequencyNeed = FrequencyNeed {
    wishes: WISHES,
    required: false,
};

fn journal() -> (tempfile::TempDir, Journal) {
    let dir = tempfile::tempdir().unwrap();
    let info = RunInfo {
        pid: 7,
        ..RunInfo::of_this_process("test")
    };
    let journal = Journal::create(dir.path(), info).unwrap();
    (dir, journal)
}

fn settings(journal: &Journal) -> usize {
    let entries = journal.entries().unwrap();
    let settings = entries.iter().filter(|e| matches!(e, Entry::Setting(_)));
    settings.count()
}

/// The files of a policy with other values in some.
fn changed<'a>(files: Files<'a>, values: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let other = |name| values.iter().find(|(changed, _)| *changed == name);
    let file = |(name, text): &(&'a str, &'a str)| *other(*name).unwrap_or(&(*name, *text));
    files.iter().map(file).collect()
}

/// A governor that was in force is put back, and a speed only if it was in
/// force.
#[test]
fn governor_and_speed_are_set_and_put_back() {
    let user = changed(
        X5570,
        &[
            ("scaling_governor", "userspace"),
            ("scaling_setspeed", "1870000"),
        ],
    );
    for (files, governor, speed) in [
        (X5570, "ondemand", "2930000"),
        (&user, "userspace", "1870000"),
    ] {
        let fake = FakePolicy::new(&[(&[0, 1, 2, 3], files)]);
        let (_dir, mut journal) = journal();
        prepare(&fake.root, &mut journal, &[0, 1, 2, 3], GOV).unwrap();
        assert_eq!(fake.text(0, "scaling_governor"), "userspace");
        // Whatever the CPUs idled at, and the user's own speed.
        assert_eq!(fake.text(0, "scaling_setspeed"), "2930000");
        assert_eq!(settings(&journal), 1);
        let ladder = ladder_for(&fake.root, &[0, 1, 2, 3], GOV).unwrap().unwrap();
        ladder.set(3).unwrap();
        assert_eq!(fake.text(0, "scaling_setspeed"), "2000000");
        assert!((ladder.speeds()[3] - 2.0 / 2.93).abs() < 1e-12);
        ladder.release().unwrap();
        assert_eq!(fake.text(0, "scaling_setspeed"), "2930000");
        assert_eq!(undo(journal, Leftovers::AsNoted), Vec::<String>::new());
        assert_eq!(fake.text(0, "scaling_governor"), governor);
        assert_eq!(fake.text(0, "scaling_setspeed"), speed);
    }
}

#[test]
fn bounds_of_every_policy_are_noted_and_put_back() {
    let fake = FakePolicy::new(&[(&[0], INTEL), (&[1], INTEL)]);
    let (_dir, mut journal) = journal();
    prepare(&fake.root, &mut journal, &[0, 1], FREQ).unwrap();
    assert_eq!(settings(&journal), 4);
    let ladder = ladder_for(&fake.root, &[0, 1], FREQ).unwrap().unwrap();
    assert_eq!(ladder.steps_khz().len(), 23);
    let bounds = |policy| {
        let files = ["scaling_min_freq", "scaling_max_freq"];
        files.map(|name| fake.text(policy, name))
    };
    ladder.set(2).unwrap();
    assert_eq!([bounds(0), bounds(1)], [["1000000"; 2]; 2]);
    // As after a SIGKILL: not released.
    assert_eq!(undo(journal, Leftovers::AsNoted), Vec::<String>::new());
    assert_eq!([bounds(0), bounds(1)], [["800000", "3000000"]; 2]);
    assert_eq!(fake.text(1, "scaling_governor"), "powersave");
}

#[test]
fn a_ladder_of_before_is_released_to_what_it_was() {
    let fake = FakePolicy::new(&[(&[0], INTEL)]);
    let read = || ladder_for(&fake.root, &[0], FREQ).unwrap().unwrap();
    let before = read();
    before.set(2).unwrap();
    // Its bounds are all that another one sees.
    assert_eq!(read().steps_khz(), [1_000_000]);
    before.release().unwrap();
    assert_eq!(read(), before);
}

#[test]
fn a_part_of_a_domain_is_refused_unless_the_user_says_so() {
    let fake = FakePolicy::new(&[(&[0, 1, 2, 3], X5570)]);
    let (_dir, mut journal) = journal();
    let error = prepare(&fake.root, &mut journal, &[0, 1], GOV).unwrap_err();
    assert!(matches!(error, Error::NotPossible { .. }), "{error}");
    let error = error.to_string();
    assert!(
        error.contains("CPUs 2,3") && error.contains("hogs"),
        "{error}"
    );
    assert_eq!(fake.text(0, "scaling_governor"), "ondemand");
    assert_eq!(settings(&journal), 0);
    let mut split = FREQ;
    split.wishes.split_domains = true;
    prepare(&fake.root, &mut journal, &[0, 1], split).unwrap();
    // CPUs that are offline do not count.
    fs::write(fake.root.path("/sys/devices/system/cpu/online"), "0-1\n").unwrap();
    assert!(ladder_for(&fake.root, &[0, 1], GOV).unwrap().is_some());
}

#[test]
fn cpus_of_two_kinds_are_two_nodes_and_without_a_driver_only_gov_works() {
    let slower = changed(INTEL, &[("scaling_max_freq", "2000000")]);
    let fake = FakePolicy::new(&[(&[0], INTEL), (&[1], &slower)]);
    let none = FakePolicy::new(&[]);
    for (fake, cpus, need, parts) in [
        (&fake, [0, 1], GOV, ["3000 MHz", "2000 MHz"]),
        // One of them has no driver at all.
        (&fake, [0, 5], GOV, ["CPU 5", ""]),
        (&none, [0, 1], FREQ, ["no cpufreq driver", "hogs"]),
    ] {
        let (_dir, mut journal) = journal();
        let error = prepare(&fake.root, &mut journal, &cpus, need).unwrap_err();
        let error = error.to_string();
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        assert_eq!(settings(&journal), 0);
    }
    let (_dir, mut journal) = journal();
    prepare(&none.root, &mut journal, &[0, 1], GOV).unwrap();
}

#[test]
fn a_step_that_is_not_faster_is_left_out() {
    let fake = FakePolicy::new(&[(&[0, 1, 2, 3], X5570)]);
    let ladder = ladder_for(&fake.root, &[0, 1, 2, 3], GOV).unwrap().unwrap();
    let measured = [0.5, 0.55, 0.6, 0.65, 0.65, 0.7, 0.75, 0.78, 0.8, 0.9, 0.9];
    let ladder = ladder.with_speeds(&measured);
    assert_eq!(ladder.speeds().len(), 9);
    assert!((ladder.speeds()[8] - 1.0).abs() < 1e-12);
    assert!((ladder.speeds()[0] - 0.5 / 0.9).abs() < 1e-12);
    assert_eq!(ladder.steps_khz()[8], 2_800_000);
    assert_eq!(ladder.steps_khz()[3], 2_000_000);
}

/// As power daemons do: another governor, other bounds.
#[test]
fn what_another_program_changed_is_set_again() {
    let fake = FakePolicy::new(&[(&[0, 1, 2, 3], X5570)]);
    let (_dir, mut journal) = journal();
    prepare(&fake.root, &mut journal, &[0, 1, 2, 3], FREQ).unwrap();
    let ladder = ladder_for(&fake.root, &[0, 1, 2, 3], FREQ)
        .unwrap()
        .unwrap();
    ladder.set(3).unwrap();
    assert!(ladder.holds(3) && !ladder.holds(2));
    for (name, text) in [
        ("scaling_governor", "ondemand"),
        ("scaling_setspeed", "<unsupported>"),
    ] {
        fs::write(fake.file(0, name), text).unwrap();
        assert!(!ladder.holds(3));
    }
    ladder.set_again(3).unwrap();
    assert!(ladder.holds(3));
    assert_eq!(fake.text(0, "scaling_governor"), "userspace");
    assert_eq!(fake.text(0, "scaling_setspeed"), "2000000");
    assert_eq!(undo(journal, Leftovers::AsNoted), Vec::<String>::new());
    assert_eq!(fake.text(0, "scaling_governor"), "ondemand");

    let fake = FakePolicy::new(&[(&[0], INTEL)]);
    let ladder = ladder_for(&fake.root, &[0], FREQ).unwrap().unwrap();
    ladder.set(2).unwrap();
    // It has no steps, and rounds.
    fs::write(fake.file(0, "scaling_max_freq"), "1003000\n").unwrap();
    assert!(ladder.holds(2));
    fs::write(fake.file(0, "scaling_max_freq"), "3000000\n").unwrap();
    assert!(!ladder.holds(2));
    // The CPU is offline.
    fs::remove_file(fake.file(0, "scaling_max_freq")).unwrap();
    assert!(ladder.holds(2));
}
