// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use sandbag_run::journal::{Entry, RunInfo};
use sandbag_run::undo::{Leftovers, undo_in_temp as undo};
use std::fs;
use std::path::PathBuf;

type PolicyFiles<'a> = &'a [(&'a str, &'a str)];

/// A machine with these policies: its CPUs, its files.
pub(crate) struct FakePolicy {
    dir: tempfile::TempDir,
    pub root: Root,
}

impl FakePolicy {
    pub fn new(policies: &[(&[u32], PolicyFiles<'_>)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let cpu_dir = dir.path().join("sys/devices/system/cpu");
        fs::create_dir_all(&cpu_dir).unwrap();
        fs::write(cpu_dir.join("online"), "0-7\n").unwrap();
        for (cpus, files) in policies {
            let policy = format!("policy{}", cpus[0]);
            let at = cpu_dir.join("cpufreq").join(&policy);
            fs::create_dir_all(&at).unwrap();
            for (name, text) in *files {
                fs::write(at.join(name), format!("{text}\n")).unwrap();
            }
            for cpu in *cpus {
                let cpu_dir = cpu_dir.join(format!("cpu{cpu}"));
                fs::create_dir_all(&cpu_dir).unwrap();
                let target = format!("../cpufreq/{policy}");
                std::os::unix::fs::symlink(target, cpu_dir.join("cpufreq")).unwrap();
            }
        }
        let root = Root::at(dir.path());
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

pub(crate) const X5570: PolicyFiles<'_> = &[
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

const INTEL: PolicyFiles<'_> = &[
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

#[test]
fn the_governor_is_set_and_put_back() {
    let fake = FakePolicy::new(&[(&[0, 1, 2, 3], X5570)]);
    let (_dir, mut journal) = journal();
    prepare(&fake.root, &mut journal, &[0, 1, 2, 3], GOV).unwrap();
    assert_eq!(fake.text(0, "scaling_governor"), "userspace");
    // A speed that was not in force is not put back.
    assert_eq!(settings(&journal), 1);
    let ladder = ladder_for(&fake.root, &[0, 1, 2, 3], GOV).unwrap().unwrap();
    ladder.set(3).unwrap();
    assert_eq!(fake.text(0, "scaling_setspeed"), "2000000");
    assert!((ladder.speeds()[3] - 2.0 / 2.93).abs() < 1e-12);
    ladder.release().unwrap();
    assert_eq!(fake.text(0, "scaling_setspeed"), "2930000");
    assert_eq!(undo(journal, Leftovers::AsNoted), Vec::<String>::new());
    assert_eq!(fake.text(0, "scaling_governor"), "ondemand");
}

#[test]
fn a_speed_that_the_user_set_is_put_back() {
    let files: Vec<(&str, &str)> = X5570
        .iter()
        .map(|(name, text)| match *name {
            "scaling_governor" => (*name, "userspace"),
            "scaling_setspeed" => (*name, "1870000"),
            name => (name, *text),
        })
        .collect();
    let fake = FakePolicy::new(&[(&[0, 1, 2, 3], &files)]);
    let (_dir, mut journal) = journal();
    prepare(&fake.root, &mut journal, &[0, 1, 2, 3], FREQ).unwrap();
    let ladder = ladder_for(&fake.root, &[0, 1, 2, 3], FREQ)
        .unwrap()
        .unwrap();
    ladder.set(0).unwrap();
    assert_eq!(undo(journal, Leftovers::AsNoted), Vec::<String>::new());
    assert_eq!(fake.text(0, "scaling_setspeed"), "1870000");
    assert_eq!(fake.text(0, "scaling_governor"), "userspace");
}

#[test]
fn bounds_of_every_policy_are_noted_and_put_back() {
    let fake = FakePolicy::new(&[(&[0], INTEL), (&[1], INTEL)]);
    let (_dir, mut journal) = journal();
    prepare(&fake.root, &mut journal, &[0, 1], FREQ).unwrap();
    assert_eq!(settings(&journal), 4);
    let ladder = ladder_for(&fake.root, &[0, 1], FREQ).unwrap().unwrap();
    assert_eq!(ladder.steps_khz().len(), 23);
    ladder.set(2).unwrap();
    for policy in [0, 1] {
        assert_eq!(fake.text(policy, "scaling_max_freq"), "1000000");
        assert_eq!(fake.text(policy, "scaling_min_freq"), "1000000");
    }
    // As after a SIGKILL: not released.
    assert_eq!(undo(journal, Leftovers::AsNoted), Vec::<String>::new());
    for policy in [0, 1] {
        assert_eq!(fake.text(policy, "scaling_max_freq"), "3000000");
        assert_eq!(fake.text(policy, "scaling_min_freq"), "800000");
        assert_eq!(fake.text(policy, "scaling_governor"), "powersave");
    }
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
    let split = FrequencyNeed {
        wishes: FrequencyOptions {
            split_domains: true,
            ..WISHES
        },
        required: true,
    };
    prepare(&fake.root, &mut journal, &[0, 1], split).unwrap();
    // What is offline does not mind.
    fs::write(fake.root.path("/sys/devices/system/cpu/online"), "0-1\n").unwrap();
    assert!(ladder_for(&fake.root, &[0, 1], GOV).unwrap().is_some());
}

#[test]
fn cpus_of_two_kinds_are_two_nodes() {
    let slower: Vec<(&str, &str)> = INTEL
        .iter()
        .map(|(name, text)| match *name {
            "scaling_max_freq" => (*name, "2000000"),
            name => (name, *text),
        })
        .collect();
    let fake = FakePolicy::new(&[(&[0], INTEL), (&[1], &slower)]);
    let error = ladder_for(&fake.root, &[0, 1], GOV)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("3000 MHz") && error.contains("2000 MHz"),
        "{error}"
    );
    // One of them has no driver at all.
    let error = ladder_for(&fake.root, &[0, 5], GOV)
        .unwrap_err()
        .to_string();
    assert!(error.contains("CPU 5"), "{error}");
}

#[test]
fn without_a_driver_gov_does_without_and_freq_names_what_works() {
    let fake = FakePolicy::new(&[]);
    let (_dir, mut journal) = journal();
    prepare(&fake.root, &mut journal, &[0, 1], GOV).unwrap();
    let error = prepare(&fake.root, &mut journal, &[0, 1], FREQ).unwrap_err();
    assert!(matches!(error, Error::NotPossible { .. }), "{error}");
    assert!(error.to_string().contains("hogs"), "{error}");
    assert_eq!(settings(&journal), 0);
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
