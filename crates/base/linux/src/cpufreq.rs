// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Frequency of each CPU and who decides on it. Absent is `None`: a virtual
//! machine usually has nothing of this.
//!
//! Source: Documentation/admin-guide/pm/cpufreq.rst, intel_pstate.rst.

mod policy;

use std::path::Path;
use std::str::FromStr;

use crate::root::read;
use crate::topology::optional;
use crate::{CpuList, Error, Result, Root};

pub use policy::{Knob, Policy, USERSPACE};

/// What cpufreq says of one CPU. Frequencies in kHz, as the kernel has them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Frequency {
    /// Driver, such as `intel_pstate` or `acpi-cpufreq`.
    pub driver: Option<String>,
    pub governor: Option<String>,
    pub governors: Vec<String>,
    pub min_khz: Option<u64>,
    pub max_khz: Option<u64>,
    /// Present frequency, as good as the driver knows it.
    pub current_khz: Option<u64>,
    pub hardware_min_khz: Option<u64>,
    /// Highest frequency of the hardware, turbo included where the driver
    /// counts it.
    pub hardware_max_khz: Option<u64>,
    /// The steps, ascending; empty where the driver has none.
    pub steps_khz: Vec<u64>,
    /// The CPUs that change together, this one included; empty where the
    /// kernel does not say.
    pub related: CpuList,
}

/// Frequency of `cpu`; `None` where it has no cpufreq policy (no driver, or
/// the CPU is offline).
pub fn frequency(root: &Root, cpu: u32) -> Result<Option<Frequency>> {
    let dir = root.path(format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq"));
    if !dir.is_dir() {
        return Ok(None);
    }
    let word = |name| text(&dir.join(name));
    let khz = |name| number(&dir.join(name));
    let mut steps_khz: Vec<u64> = numbers(&dir.join("scaling_available_frequencies"))?;
    steps_khz.sort_unstable();
    // `freqdomain_cpus` is the hardware's domain where the policy's is smaller.
    let mut related: Vec<u32> = numbers(&dir.join("freqdomain_cpus"))?;
    related.extend(numbers::<u32>(&dir.join("related_cpus"))?);
    let governors = word("scaling_available_governors")?.unwrap_or_default();
    Ok(Some(Frequency {
        driver: word("scaling_driver")?,
        governor: word("scaling_governor")?,
        governors: governors
            .split_ascii_whitespace()
            .map(str::to_owned)
            .collect(),
        min_khz: khz("scaling_min_freq")?,
        max_khz: khz("scaling_max_freq")?,
        current_khz: khz("scaling_cur_freq")?,
        hardware_min_khz: khz("cpuinfo_min_freq")?,
        hardware_max_khz: khz("cpuinfo_max_freq")?,
        steps_khz,
        related: related.into_iter().collect(),
    }))
}

/// Whether the CPUs may run above their nominal frequency: then the speed of
/// one depends on how many others work. `None` where the kernel does not say.
pub fn turbo(root: &Root) -> Result<Option<bool>> {
    let dir = root.path("/sys/devices/system/cpu");
    if let Some(off) = number(&dir.join("intel_pstate/no_turbo"))? {
        return Ok(Some(off == 0));
    }
    let boost = number(&dir.join("cpufreq/boost"))?;
    Ok(boost.map(|on| on != 0))
}

/// A file's words; `None` where there is no such file or the driver refuses
/// to say.
fn text(path: &Path) -> Result<Option<String>> {
    let text = match read(path) {
        // A policy without an answer: the CPU is going offline (EBUSY), the
        // driver has nothing to read (EIO, EAGAIN), a setting does not apply
        // (EINVAL, EPERM).
        Err(e)
            if matches!(
                e.errno(),
                Some(libc::EBUSY | libc::EIO | libc::EAGAIN | libc::EINVAL | libc::EPERM)
            ) =>
        {
            return Ok(None);
        }
        outcome => optional(outcome)?,
    };
    Ok(text
        .map(|text| text.trim().to_owned())
        .filter(|text| !text.is_empty() && text != "<unknown>" && text != "<unsupported>"))
}

fn number(path: &Path) -> Result<Option<u64>> {
    let Some(text) = text(path)? else {
        return Ok(None);
    };
    match text.parse() {
        Ok(number) => Ok(Some(number)),
        Err(_) => Err(Error::parse(path, "a number", &text)),
    }
}

fn numbers<T: FromStr>(path: &Path) -> Result<Vec<T>> {
    let text = text(path)?.unwrap_or_default();
    text.split_ascii_whitespace()
        .map(|word| word.parse())
        .collect::<std::result::Result<_, _>>()
        .map_err(|_| Error::parse(path, "numbers", &text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::tests::fake;

    /// The steps of the Xeon X5570 of the CPU emulation papers.
    const STEPS: &str = "2930000 2800000 2670000 2530000 2400000 2270000 2130000 2000000 1870000 1730000 1600000 \n";

    #[test]
    fn steps_and_domain_of_a_driver_with_steps() {
        const DIR: &str = "sys/devices/system/cpu/cpu3/cpufreq";
        let file = |name| format!("{DIR}/{name}");
        let files = [
            (file("scaling_driver"), "acpi-cpufreq\n"),
            (file("scaling_governor"), "userspace\n"),
            (
                file("scaling_available_governors"),
                "conservative userspace performance \n",
            ),
            (file("scaling_min_freq"), "1600000\n"),
            (file("scaling_max_freq"), "2930000\n"),
            (file("scaling_cur_freq"), "2400000\n"),
            (file("cpuinfo_min_freq"), "1600000\n"),
            (file("cpuinfo_max_freq"), "2930000\n"),
            (file("scaling_available_frequencies"), STEPS),
            (file("related_cpus"), "3\n"),
            (file("freqdomain_cpus"), "0 1 2 3\n"),
        ];
        let files: Vec<_> = files.iter().map(|(p, t)| (p.as_str(), *t)).collect();
        let (_dir, root) = fake(&files);
        let f = frequency(&root, 3).unwrap().unwrap();
        assert_eq!(f.driver.as_deref(), Some("acpi-cpufreq"));
        assert_eq!(f.governor.as_deref(), Some("userspace"));
        assert_eq!(f.governors, ["conservative", "userspace", "performance"]);
        assert_eq!((f.min_khz, f.max_khz), (Some(1_600_000), Some(2_930_000)));
        assert_eq!(f.current_khz, Some(2_400_000));
        assert_eq!(f.hardware_max_khz, Some(2_930_000));
        assert_eq!(f.steps_khz.len(), 11);
        assert_eq!(f.steps_khz[0], 1_600_000);
        assert_eq!(f.related.to_string(), "0-3");
        assert_eq!(frequency(&root, 2).unwrap(), None);
    }

    #[test]
    fn a_driver_without_steps() {
        const DIR: &str = "sys/devices/system/cpu/cpu0/cpufreq";
        let (_dir, root) = fake(&[
            (&format!("{DIR}/scaling_driver"), "intel_pstate\n"),
            (&format!("{DIR}/scaling_setspeed"), "<unsupported>\n"),
            (&format!("{DIR}/scaling_cur_freq"), "<unknown>\n"),
        ]);
        let f = frequency(&root, 0).unwrap().unwrap();
        assert_eq!(f.current_khz, None);
        assert!(f.steps_khz.is_empty() && f.related.is_empty() && f.governors.is_empty());
    }

    #[test]
    fn what_is_no_frequency_is_an_error() {
        const DIR: &str = "sys/devices/system/cpu/cpu0/cpufreq";
        for (name, text) in [
            ("scaling_min_freq", "fast\n"),
            ("scaling_available_frequencies", "1 two\n"),
            ("related_cpus", "0-3\n"),
        ] {
            let (_dir, root) = fake(&[(&format!("{DIR}/{name}"), text)]);
            assert!(frequency(&root, 0).is_err(), "{name}");
        }
    }

    #[test]
    fn turbo_of_two_drivers() {
        const DIR: &str = "sys/devices/system/cpu";
        for (file, text, on) in [
            ("intel_pstate/no_turbo", "0\n", Some(true)),
            ("intel_pstate/no_turbo", "1\n", Some(false)),
            ("cpufreq/boost", "1\n", Some(true)),
            ("cpufreq/boost", "0\n", Some(false)),
            ("online", "0\n", None),
        ] {
            let (_dir, root) = fake(&[(&format!("{DIR}/{file}"), text)]);
            assert_eq!(turbo(&root).unwrap(), on);
        }
    }
}
