// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can be done with the CPUs' frequencies. Nothing is set: it would slow
//! whatever runs there.

use nix::unistd::{AccessFlags, access};
use sandbag_linux::cpufreq::{self, Frequency, Policy};
use sandbag_linux::topology::Topology;
use sandbag_linux::{CpuList, Root};

use super::check::Check;
use super::judge::Refusal;

/// Whether frequencies can be set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FrequencySetting {
    NoDriver,
    /// By the files they can; a description of the steps.
    Can(String),
    Cannot(Refusal),
}

pub fn look(root: &Root, topology: &Topology) -> (Check, FrequencySetting) {
    let name = "frequency";
    let first = topology.online.iter().next().unwrap_or(0);
    let found = match cpufreq::frequency(root, first) {
        Ok(Some(found)) => found,
        Ok(None) => {
            let why = "no driver here: nothing we can see changes it";
            return (Check::ok(name, why), FrequencySetting::NoDriver);
        }
        Err(error) => {
            let remedy = "see the line on frequency".to_owned();
            let check = Check::warn(name, error.to_string());
            return (check, FrequencySetting::Cannot((error.to_string(), remedy)));
        }
    };
    let setting = match Policy::of(root, &topology.online) {
        Ok(policies) => can_set(&policies, &topology.online),
        Err(error) => FrequencySetting::Cannot((error.to_string(), "use hogs".to_owned())),
    };
    (line(name, &found, &setting), setting)
}

fn line(name: &'static str, found: &Frequency, setting: &FrequencySetting) -> Check {
    let driver = found.driver.as_deref().unwrap_or("unknown");
    let governor = found.governor.as_deref().unwrap_or("unknown");
    let mut why = format!("driver {driver}, governor {governor}");
    if !found.governors.is_empty() {
        why.push_str(&format!(" of {}", found.governors.join(" ")));
    }
    if let FrequencySetting::Can(what) = setting {
        why.push_str(&format!("; {what}"));
    }
    match governor {
        "performance" | "unknown" => Check::ok(name, why),
        _ => Check::warn(name, why)
            .remedy("for repeatable runs: cpupower frequency-set -g performance"),
    }
}

fn can_set(policies: &[Policy], online: &CpuList) -> FrequencySetting {
    let Some(first) = policies.first() else {
        return FrequencySetting::NoDriver;
    };
    let may = |policy: &Policy| {
        let mut files = policy.files();
        files.push(policy.governor_file());
        files
            .iter()
            .all(|file| access(file, AccessFlags::W_OK).is_ok())
    };
    if !policies.iter().all(may) {
        return FrequencySetting::Cannot((
            "the frequencies cannot be written".to_owned(),
            "run as root outside of containers; hogs needs none".to_owned(),
        ));
    }
    let mhz = |khz: Option<&u64>| khz.map_or(0, |khz| khz / 1000);
    let (lowest, highest) = (first.steps_khz.first(), first.steps_khz.last());
    let steps = if first.steps_are_named {
        format!("{} steps", first.steps_khz.len())
    } else {
        "any".to_owned()
    };
    let mut what = format!("{steps} of {} to {} MHz", mhz(lowest), mhz(highest));
    if policies
        .iter()
        .any(|policy| policy.steps_khz != first.steps_khz)
    {
        what.push_str(" (other CPUs have others)");
    }
    let mut domains: Vec<CpuList> = Vec::new();
    for policy in policies {
        let domain = policy.domain.intersection(online);
        if domain.len() > 1 && !domains.contains(&domain) {
            domains.push(domain);
        }
    }
    match domains.as_slice() {
        [] => what.push_str(", each CPU its own"),
        domains => {
            let each: Vec<String> = domains.iter().map(CpuList::to_string).collect();
            what.push_str(&format!(
                "; CPUs {} change together, so a node has all of them",
                each.join(" and ")
            ));
        }
    }
    FrequencySetting::Can(what)
}

#[cfg(test)]
mod tests {
    use super::super::check::CheckState;
    use super::*;
    use crate::fake_machine::{fake, put};

    fn seen(files: &[(&str, &str)]) -> (Check, FrequencySetting) {
        let (_dir, root) = fake(&[("sys/devices/system/cpu/online", "0-1\n")]);
        for cpu in 0..2 {
            put(
                &root.path(format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq")),
                files,
            );
        }
        look(&root, &Topology::read(&root).unwrap())
    }

    const BOUNDS: &[(&str, &str)] = &[
        ("scaling_driver", "intel_pstate\n"),
        ("scaling_governor", "powersave\n"),
        ("scaling_available_governors", "performance powersave\n"),
        ("scaling_min_freq", "800000\n"),
        ("scaling_max_freq", "3400000\n"),
    ];

    #[test]
    fn what_can_be_set_is_said() {
        let (check, setting) = seen(&[]);
        assert_eq!(check.state, CheckState::Ok);
        assert_eq!(setting, FrequencySetting::NoDriver);
        let (check, setting) = seen(BOUNDS);
        assert_eq!(check.state, CheckState::Warn);
        assert_eq!(
            check.why,
            "driver intel_pstate, governor powersave of performance powersave; any of 800 to \
             3400 MHz, each CPU its own"
        );
        assert!(matches!(setting, FrequencySetting::Can(_)));
        let steps = [
            ("scaling_available_frequencies", "3400000 2000000 800000\n"),
            ("related_cpus", "0 1\n"),
        ];
        let why = seen(&[BOUNDS, &steps].concat()).0.why;
        let end = "3 steps of 800 to 3400 MHz; CPUs 0,1 change together, so a node has all of them";
        assert!(why.ends_with(end), "{why}");
        // The driver says no bounds.
        let (_, setting) = seen(&BOUNDS[..2]);
        assert!(
            matches!(setting, FrequencySetting::Cannot(_)),
            "{setting:?}"
        );
    }
}
