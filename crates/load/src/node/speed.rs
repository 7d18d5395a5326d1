// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How fast a CPU is to be: what a user writes, and the ratio that it means.
//!
//! A speed is the share mu of a CPU's full speed, above 0 and at most 1
//! (Buchert, Nussbaum & Gustedt, HPCC 2011, section II). It is written as a
//! ratio (`0.5`), in percent (`50%`) or as a frequency (`1200MHz`, `1.2GHz`),
//! which is divided by the highest frequency of the CPU's hardware, or the
//! highest that the method may set. One speed holds for all CPUs of a node, or
//! each list of CPUs has its own: `0=1,1=0.8,2-3=0.4`.

use std::fmt;
use std::str::FromStr;

use sandbag_linux::CpuList;
use sandbag_linux::cpulist::{BadAssignment, assignments};

use crate::node::ratios::Ratios;

/// One speed, as written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Speed {
    /// Share of the full speed, above 0 and at most 1.
    Ratio(f64),
    Mhz(f64),
}

/// Why a value is no speed here, and what to write.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("speed `{value}`: {reason}; {remedy}")]
pub struct BadSpeed {
    pub value: String,
    pub reason: String,
    pub remedy: String,
}

impl BadSpeed {
    fn new(value: impl fmt::Display, reason: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            // A value may be long or unprintable.
            value: value.to_string().escape_debug().take(60).collect(),
            reason: reason.into(),
            remedy: remedy.into(),
        }
    }
}

const RANGE: &str = "write a ratio above 0 and at most 1, such as 0.5 or 50%";

impl Speed {
    pub fn ratio(mu: f64) -> Result<Self, BadSpeed> {
        Self::checked(mu, mu, true)
    }

    /// `bare`: written without a unit, so that percent may have been meant.
    fn checked(mu: f64, written: impl fmt::Display, bare: bool) -> Result<Self, BadSpeed> {
        let reason = if mu.is_nan() {
            "it is not a number"
        } else if mu == 0.0 {
            "a CPU of speed 0 would never finish anything"
        } else if mu < 0.0 {
            "it is negative"
        } else if mu > 1.0 {
            "a CPU cannot be made faster than it is"
        } else {
            return Ok(Self::Ratio(mu));
        };
        let remedy = if bare && mu > 1.0 && mu <= 100.0 {
            format!("write {mu}% for percent, or a ratio of at most 1")
        } else {
            RANGE.to_owned()
        };
        Err(BadSpeed::new(written, reason, remedy))
    }

    /// The ratio mu on `cpu`, whose full speed is `max_khz` if that is known.
    pub fn resolve(self, cpu: u32, max_khz: Option<u64>) -> Result<f64, BadSpeed> {
        let mhz = match self {
            Self::Ratio(mu) => return Ok(mu),
            Self::Mhz(mhz) => mhz,
        };
        let Some(max_mhz) = max_khz.filter(|khz| *khz > 0).map(|khz| khz as f64 / 1e3) else {
            return Err(BadSpeed::new(
                self,
                format!(
                    "the highest frequency of CPU {cpu} is not known: it has no cpufreq \
                     (/sys/devices/system/cpu/cpu{cpu}/cpufreq/cpuinfo_max_freq)"
                ),
                "write a ratio such as 0.5",
            ));
        };
        if mhz <= max_mhz {
            // The least numbers come out as 0, which is no speed.
            Self::checked(mhz / max_mhz, self, false).map(|_| mhz / max_mhz)
        } else {
            Err(BadSpeed::new(
                self,
                format!("CPU {cpu} reaches {max_mhz} MHz"),
                "write at most that, or a ratio such as 0.5",
            ))
        }
    }
}

impl FromStr for Speed {
    type Err = BadSpeed;

    fn from_str(text: &str) -> Result<Self, BadSpeed> {
        let text = text.trim();
        let lower = text.to_ascii_lowercase();
        let units = [("%", 1.0), ("mhz", 1.0), ("ghz", 1e3)];
        let unit = units
            .iter()
            .find_map(|(unit, factor)| Some((*unit, *factor, lower.strip_suffix(unit)?)));
        let number = unit.map_or(&*lower, |(_, _, number)| number).trim_end();
        let Ok(value) = number.parse::<f64>() else {
            let (reason, remedy) = if number.contains(',') {
                (
                    "it is written with a decimal comma",
                    "write fractions with a point, as in 0.5",
                )
            } else {
                (
                    "it is not a speed",
                    "write a ratio (0.5), percent (50%) or a frequency (1200MHz, 1.2GHz)",
                )
            };
            return Err(BadSpeed::new(text, reason, remedy));
        };
        match unit {
            None => Self::checked(value, text, true),
            // Dividing keeps 30% at 0.3, which multiplying by 0.01 does not.
            Some(("%", ..)) => Self::checked(value / 100.0, text, false),
            Some((_, factor, _)) => {
                if value > 0.0 && value.is_finite() {
                    Ok(Self::Mhz(value * factor))
                } else {
                    Err(BadSpeed::new(
                        text,
                        "a frequency is above 0",
                        "write it in MHz or GHz, such as 1200MHz",
                    ))
                }
            }
        }
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ratio(mu) => write!(f, "{mu}"),
            Self::Mhz(mhz) => write!(f, "{mhz}MHz"),
        }
    }
}

/// The speeds of a node, as written.
#[derive(Debug, Clone, PartialEq)]
pub enum Speeds {
    /// The same on every CPU of the node.
    All(Speed),
    /// Each list of CPUs has its own; no CPU is named twice.
    PerCpu(Vec<(CpuList, Speed)>),
}

impl Speeds {
    pub fn per_cpu(parts: Vec<(CpuList, Speed)>) -> Result<Self, BadSpeed> {
        let mut seen = CpuList::default();
        for (cpus, speed) in &parts {
            let value = || format!("{cpus}={speed}");
            if cpus.is_empty() {
                return Err(BadSpeed::new(
                    value(),
                    "it names no CPU",
                    "write CPUs before the =, as in 2-3=0.4",
                ));
            }
            if let Some(cpu) = cpus.intersection(&seen).iter().next() {
                return Err(BadSpeed::new(
                    value(),
                    format!("CPU {cpu} is named twice"),
                    "give each CPU one speed",
                ));
            }
            seen = seen.iter().chain(cpus.iter()).collect();
        }
        if parts.is_empty() {
            Err(BadSpeed::new("", "there is none", RANGE))
        } else {
            Ok(Self::PerCpu(parts))
        }
    }

    /// The ratio of each CPU of a node; `max_khz` is a CPU's full speed.
    pub fn resolve(
        &self,
        cpus: &CpuList,
        max_khz: impl Fn(u32) -> Option<u64>,
    ) -> Result<Ratios, BadSpeed> {
        let all;
        let parts = match self {
            Self::All(speed) => {
                all = [(cpus.clone(), *speed)];
                &all[..]
            }
            Self::PerCpu(parts) => {
                let named: CpuList = parts.iter().flat_map(|(list, _)| list.iter()).collect();
                if let Some(cpu) = named.without(cpus).iter().next() {
                    return Err(BadSpeed::new(
                        self,
                        format!("CPU {cpu} is not one of the node's ({cpus})"),
                        "leave it out, or give it to the node",
                    ));
                }
                let missing = cpus.without(&named);
                if !missing.is_empty() {
                    return Err(BadSpeed::new(
                        self,
                        format!("no speed for CPU {missing} of the node"),
                        format!("add {missing}=1 for full speed"),
                    ));
                }
                parts
            }
        };
        let mut ratios = Vec::with_capacity(cpus.len());
        for (list, speed) in parts {
            for cpu in list.iter() {
                ratios.push((cpu, speed.resolve(cpu, max_khz(cpu))?));
            }
        }
        Ok(Ratios::new(ratios))
    }
}

impl FromStr for Speeds {
    type Err = BadSpeed;

    fn from_str(text: &str) -> Result<Self, BadSpeed> {
        if !text.contains('=') {
            return text.parse().map(Self::All);
        }
        let parts = assignments(text).map_err(|bad| match bad {
            BadAssignment::Cpus(list) => BadSpeed::new(
                text,
                format!("`{}` is not a list of CPUs", list.escape_debug()),
                "write CPUs before the =, as in 0=1,2-3=0.4",
            ),
            BadAssignment::NoValue(rest) => BadSpeed::new(
                text,
                format!("`{}` has no speed", rest.escape_debug()),
                "write each as CPUS=SPEED, fractions with a point: 0=1,2-3=0.4",
            ),
        })?;
        let read = |(cpus, speed): (CpuList, &str)| Ok((cpus, speed.parse()?));
        Self::per_cpu(parts.into_iter().map(read).collect::<Result<_, _>>()?)
    }
}

impl fmt::Display for Speeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All(speed) => speed.fmt(f),
            Self::PerCpu(parts) => {
                for (n, (cpus, speed)) in parts.iter().enumerate() {
                    let separator = if n == 0 { "" } else { "," };
                    write!(f, "{separator}{cpus}={speed}")?;
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cpus(text: &str) -> CpuList {
        text.parse().unwrap()
    }

    fn refusal(text: &str) -> String {
        text.parse::<Speeds>().unwrap_err().to_string()
    }

    #[test]
    fn a_speed_is_a_ratio_percent_or_a_frequency() {
        for (text, speed) in [
            ("0.5", Speed::Ratio(0.5)),
            (" 1 ", Speed::Ratio(1.0)),
            ("50%", Speed::Ratio(0.5)),
            ("30 %", Speed::Ratio(0.3)),
            ("100%", Speed::Ratio(1.0)),
            ("1200MHz", Speed::Mhz(1200.0)),
            ("1.2 GHz", Speed::Mhz(1200.0)),
            ("800mhz", Speed::Mhz(800.0)),
        ] {
            assert_eq!(text.parse(), Ok(speed), "{text}");
        }
    }

    #[test]
    fn what_is_no_speed_is_refused_with_the_reason() {
        for (text, part) in [
            ("0", "never finish"),
            ("0%", "never finish"),
            ("-0.5", "negative"),
            ("-50%", "negative"),
            ("1.5", "write 1.5% for percent"),
            ("50", "write 50% for percent"),
            ("101%", "faster than it is"),
            ("inf", "faster than it is"),
            ("NaN", "not a number"),
            ("NaN%", "not a number"),
            ("0,5", "point"),
            ("", "not a speed"),
            ("fast", "not a speed"),
            ("0MHz", "above 0"),
            ("-1GHz", "above 0"),
            ("infGHz", "above 0"),
            ("1e999MHz", "above 0"),
        ] {
            let error = refusal(text);
            assert!(error.contains(part), "{text}: {error}");
            assert!(error.contains(&format!("`{text}`")), "{text}: {error}");
        }
    }

    #[test]
    fn a_frequency_is_a_share_of_the_hardware() {
        let speed = Speed::Mhz(1200.0);
        assert_eq!(speed.resolve(0, Some(2_400_000)), Ok(0.5));
        assert_eq!(speed.resolve(0, Some(1_200_000)), Ok(1.0));
        let above = speed.resolve(3, Some(1_000_000)).unwrap_err().to_string();
        assert!(above.contains("CPU 3 reaches 1000 MHz"), "{above}");
        let unknown = speed.resolve(3, None).unwrap_err().to_string();
        assert!(unknown.contains("cpu3/cpufreq"), "{unknown}");
        assert!(unknown.contains("write a ratio"), "{unknown}");
        assert_eq!(Speed::Ratio(0.3).resolve(3, None), Ok(0.3));
        let least = Speed::Mhz(f64::from_bits(1)).resolve(3, Some(2_400_000));
        assert!(least.unwrap_err().to_string().contains("never finish"));
    }

    #[test]
    fn each_cpu_its_speed() {
        let speeds: Speeds = "0=1,1=0.8,2-3=0.4".parse().unwrap();
        let ratios = speeds.resolve(&cpus("0-3"), |_| None).unwrap();
        assert_eq!(ratios.values(), [1.0, 0.8, 0.4, 0.4]);
        // A comma within a list of CPUs is none between parts.
        let speeds: Speeds = "0,2-3=40%, 1=1".parse().unwrap();
        let ratios = speeds.resolve(&cpus("0-3"), |_| None).unwrap();
        assert_eq!(ratios.values(), [0.4, 1.0, 0.4, 0.4]);
        let one: Speeds = "1.2GHz".parse().unwrap();
        let khz = |cpu| Some(if cpu == 0 { 1_200_000 } else { 2_400_000 });
        assert_eq!(one.resolve(&cpus("0,1"), khz).unwrap().values(), [1.0, 0.5]);
    }

    #[test]
    fn every_cpu_of_the_node_exactly_once() {
        for (text, part) in [
            ("0=1,0-1=0.5", "CPU 0 is named twice"),
            ("0=1,1", "`1` has no speed"),
            ("0=0,8", "with a point"),
            ("=0.5", "names no CPU"),
            ("x=0.5", "`x` is not a list of CPUs"),
            ("0=0", "never finish"),
        ] {
            let error = refusal(text);
            assert!(error.contains(part), "{text}: {error}");
        }
        let resolve = |text: &str| {
            let speeds: Speeds = text.parse().unwrap();
            speeds
                .resolve(&cpus("0-1"), |_| None)
                .unwrap_err()
                .to_string()
        };
        assert!(resolve("0=1").contains("no speed for CPU 1"));
        assert!(resolve("0-2=1").contains("CPU 2 is not one of the node's (0,1)"));
    }

    fn any_speed() -> impl Strategy<Value = Speed> {
        prop_oneof![
            (1u32..=1000).prop_map(|n| Speed::Ratio(f64::from(n) / 1000.0)),
            (1u32..100_000).prop_map(|n| Speed::Mhz(f64::from(n) / 10.0)),
        ]
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_back(
            all in any_speed(),
            each in prop::collection::vec((1u32..4, 1u32..3, any_speed()), 1..8),
        ) {
            let mut next = 0;
            let parts = each.into_iter().map(|(gap, length, speed)| {
                let first = next + gap;
                next = first + length;
                ((first..next).collect::<CpuList>(), speed)
            });
            for speeds in [Speeds::All(all), Speeds::per_cpu(parts.collect()).unwrap()] {
                prop_assert_eq!(speeds.to_string().parse::<Speeds>(), Ok(speeds));
            }
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[0-9a-zGMHz%=,. +-]{0,24}|\\PC{0,12}") {
            if let Ok(speeds) = text.parse::<Speeds>() {
                let list: CpuList = (0..4).collect();
                if let Ok(ratios) = speeds.resolve(&list, |_| Some(3_000_000)) {
                    prop_assert!(ratios.values().iter().all(|mu| *mu > 0.0 && *mu <= 1.0));
                }
            }
        }
    }
}
