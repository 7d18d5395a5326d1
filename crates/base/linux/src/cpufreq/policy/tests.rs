// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::fake_machine::{Files, fake_policies as machine};
use std::fs;

const ACPI: Files<'_> = &[
    ("scaling_driver", "acpi-cpufreq"),
    ("scaling_governor", "ondemand"),
    (
        "scaling_available_governors",
        "ondemand userspace performance",
    ),
    (
        "scaling_available_frequencies",
        "2930000 2800000 2670000 1600000",
    ),
    ("scaling_min_freq", "1600000"),
    ("scaling_max_freq", "2800000"),
    ("scaling_setspeed", "<unsupported>"),
    ("related_cpus", "0 1"),
    ("freqdomain_cpus", "0 1 2 3"),
];

const INTEL: Files<'_> = &[
    ("scaling_driver", "intel_pstate"),
    ("scaling_governor", "powersave"),
    ("scaling_available_governors", "performance powersave"),
    ("cpuinfo_min_freq", "800000"),
    ("cpuinfo_max_freq", "4500000"),
    ("scaling_min_freq", "800000"),
    ("scaling_max_freq", "1150000"),
    ("related_cpus", "0"),
];

fn list(cpus: &[u32]) -> CpuList {
    cpus.iter().copied().collect()
}

fn text(policy: &Policy, name: &str) -> String {
    let text = fs::read_to_string(policy.dir().join(name)).unwrap();
    text.trim().to_owned()
}

#[test]
fn steps_within_the_users_bounds_are_set_by_setspeed() {
    let (_dir, root) = machine(&[(&[0, 1], ACPI)]);
    let policies = Policy::of(&root, &list(&[0, 1])).unwrap();
    let [policy] = policies.as_slice() else {
        panic!("{policies:?}");
    };
    assert_eq!(policy.cpus.to_string(), "0,1");
    // In hardware more change together than the policy says.
    assert_eq!(policy.domain.to_string(), "0-3");
    assert_eq!(policy.knob, Knob::Setspeed);
    assert_eq!(policy.steps_khz, [1_600_000, 2_670_000, 2_800_000]);
    assert!(policy.steps_are_named);
    policy.set(1_600_000).unwrap();
    assert_eq!(text(policy, SETSPEED), "1600000");
    policy.release().unwrap();
    assert_eq!(text(policy, SETSPEED), "2800000");
    assert_eq!(text(policy, MIN), "1600000");
}

#[test]
fn a_driver_without_steps_is_set_by_its_bounds() {
    let (_dir, root) = machine(&[(&[0], INTEL)]);
    let policies = Policy::of(&root, &list(&[0])).unwrap();
    let policy = &policies[0];
    assert_eq!(policy.knob, Knob::Bounds);
    assert!(!policy.steps_are_named);
    let steps = [800_000, 900_000, 1_000_000, 1_100_000, 1_150_000];
    assert_eq!(policy.steps_khz, steps);
    assert_eq!(policy.files().len(), 2);
    for khz in [900_000, 1_100_000, 800_000] {
        policy.set(khz).unwrap();
        assert_eq!(text(policy, MIN), khz.to_string());
        assert_eq!(text(policy, MAX), khz.to_string());
    }
    policy.release().unwrap();
    assert_eq!(text(policy, MIN), "800000");
    assert_eq!(text(policy, MAX), "1150000");
    assert_eq!(text(policy, GOVERNOR), "powersave");
}

#[test]
fn amd_pstate_that_lets_governors_choose_has_setspeed_and_no_steps() {
    let files: Files<'_> = &[
        ("scaling_driver", "amd-pstate"),
        ("scaling_governor", "schedutil"),
        ("scaling_available_governors", "schedutil userspace"),
        ("cpuinfo_min_freq", "400000"),
        ("cpuinfo_max_freq", "600000"),
    ];
    let (_dir, root) = machine(&[(&[0], files), (&[1], files)]);
    let policies = Policy::of(&root, &list(&[0, 1])).unwrap();
    assert_eq!(policies.len(), 2);
    assert_eq!(policies[1].cpus.to_string(), "1");
    assert_eq!(policies[1].knob, Knob::Setspeed);
    assert_eq!(policies[1].steps_khz, [400_000, 500_000, 600_000]);
    assert_eq!(policies[1].highest_khz(), 600_000);
}

#[test]
fn a_cpu_without_a_driver_is_named_with_what_works() {
    let (_dir, root) = machine(&[(&[0], INTEL)]);
    let error = Policy::of(&root, &list(&[0, 7])).unwrap_err().to_string();
    assert!(error.contains("CPU 7") && error.contains("hogs"), "{error}");
    // A policy that says nothing is none.
    let (_dir, root) = machine(&[(&[0], &[("scaling_driver", "odd")])]);
    assert!(Policy::of(&root, &list(&[0])).is_err());
}

#[test]
fn one_frequency_is_a_step() {
    assert_eq!(multiples(800_000, 800_000), [800_000]);
    assert_eq!(multiples(810_000, 890_000), [810_000, 890_000]);
    assert_eq!(multiples(800_000, 900_000), [800_000, 900_000]);
}
