// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What users write on the command line: loads, durations, CPU lists.

use std::time::Duration;

pub use crate::quantity::{duration, nanos, positive_duration};
use sandbag_linux::CpuList;
use sandbag_linux::cpulist::{BadAssignment, assignments};
use sandbag_linux::topology::Topology;

use crate::BadInput;

/// How long another sandbag process is waited for.
pub const ASK_LIMIT: Duration = Duration::from_secs(5);

/// A load in percent of one CPU: `50`, `50%`, `12.5`.
pub fn load(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim_end();
    match number.parse::<f64>() {
        // -0 is 0, and is to be printed so.
        Ok(pct) if (0.0..=100.0).contains(&pct) => Ok(pct.abs()),
        Ok(pct) => Err(format!(
            "{pct} is not between 0 and 100 (percent of one CPU)"
        )),
        Err(_) if number.contains(',') => Err(format!(
            "fractions are written with a point, as in {}; loads of several CPUs with their \
             numbers, as in 0=30,1=60",
            number.replacen(',', ".", 1)
        )),
        Err(_) => Err("expected a percentage of one CPU, such as 50, 50% or 12.5".to_owned()),
    }
}

/// What `load` holds: the same everywhere, or a load for each list of CPUs.
#[derive(Debug, Clone, PartialEq)]
pub enum Loads {
    /// `50`: on every CPU.
    All(f64),
    /// `0=30,2-3=60`: each CPU once.
    PerCpu(Vec<(CpuList, f64)>),
}

/// `50`, `50%`, `12.5`; `0=30,2-3=60`.
pub fn loads(text: &str) -> Result<Loads, String> {
    if !text.contains('=') {
        return load(text).map(Loads::All);
    }
    let parts = assignments(text).map_err(|bad| match bad {
        BadAssignment::Cpus(list) => format!("`{list}` is not a list of CPUs, as in 0=30,2-3=60"),
        BadAssignment::NoValue(cpus) => format!(
            "`{cpus}` has no load; write each as CPUS=LOAD, fractions with a point: 0=30,2-3=60.5"
        ),
    })?;
    let (mut each, mut named) = (Vec::new(), CpuList::default());
    for (cpus, text) in parts {
        if cpus.is_empty() {
            return Err("a load names no CPU; write it before the =, as in 0=30,2-3=60".to_owned());
        }
        if let Some(cpu) = cpus.intersection(&named).iter().next() {
            return Err(format!("CPU {cpu} is named twice; give it one load"));
        }
        named = named.iter().chain(cpus.iter()).collect();
        each.push((cpus, load(text)?));
    }
    Ok(Loads::PerCpu(each))
}

/// `50 %`, `0=30,2-3=60 %`.
impl std::fmt::Display for Loads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::All(pct) => write!(f, "{pct} %"),
            Self::PerCpu(loads) => {
                let parts = loads.iter().map(|(cpus, pct)| format!("{cpus}={pct}"));
                let parts: Vec<String> = parts.collect();
                write!(f, "{} %", parts.join(","))
            }
        }
    }
}

/// Without what calculating leaves in the last digits: .0003 for
/// .00030000000000000003.
pub fn plain(value: f64) -> f64 {
    format!("{value:.9e}").parse().unwrap_or(value)
}

/// The length of a step: a profile of an hour in steps of a nanosecond would be
/// made for days.
pub fn step(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        time if time < Duration::from_millis(1) => Err("must be 1ms or longer".to_owned()),
        time => Ok(time),
    }
}

/// `0,2-3`: a list of CPUs that is not empty.
pub fn cpu_list(text: &str) -> Result<CpuList, String> {
    match text.parse::<CpuList>() {
        Ok(list) if list.is_empty() => Err("names no CPU".to_owned()),
        Ok(list) => Ok(list),
        Err(_) => Err("expected CPUs such as 0,2-3".to_owned()),
    }
}

/// CPUs by number or by name; what a name means depends on the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cpus {
    /// `0,2-3,8-14:2`.
    List(CpuList),
    All,
    Even,
    Odd,
    Core,
}

/// `0,2-3`, `all`, `even`, `odd`, `core`.
pub fn cpus(text: &str) -> Result<Cpus, String> {
    Ok(match text.trim() {
        "all" => Cpus::All,
        "even" => Cpus::Even,
        "odd" => Cpus::Odd,
        "core" => Cpus::Core,
        list => {
            let list: CpuList = list.parse().map_err(|_| {
                "expected CPUs such as 0,2-3, or one of all, even, odd, core".to_owned()
            })?;
            if list.is_empty() {
                return Err("names no CPU".to_owned());
            } else {
                Cpus::List(list)
            }
        }
    })
}

impl Cpus {
    /// The numbers on this machine.
    pub fn on(&self, topology: &Topology) -> CpuList {
        let usable = || topology.usable.iter();
        match self {
            Self::List(list) => list.clone(),
            Self::All => topology.usable.clone(),
            Self::Even => usable().filter(|cpu| cpu % 2 == 0).collect(),
            Self::Odd => usable().filter(|cpu| cpu % 2 == 1).collect(),
            Self::Core => topology.one_per_core(),
        }
    }

    /// The same, at least one: a rule may leave none.
    pub fn some(&self, topology: &Topology, option: &str) -> Result<CpuList, BadInput> {
        let cpus = self.on(topology);
        if cpus.is_empty() {
            return Err(BadInput(format!("{option} names no CPU of this machine")));
        }
        Ok(cpus)
    }

    /// The same of `--cpus`, all of which must be online.
    pub fn online(&self, topology: &Topology) -> Result<CpuList, BadInput> {
        let cpus = self.some(topology, "--cpus")?;
        if let Some(cpu) = cpus.iter().find(|cpu| !topology.online.contains(*cpu)) {
            return Err(BadInput(format!(
                "CPU {cpu} is not online; online are {}",
                topology.online
            )));
        }
        Ok(cpus)
    }
}

/// `1` or `0.5,2`: largest mean error, and what 99 % of the windows must be
/// within, in points.
pub fn tolerance(text: &str) -> Result<sandbag_stats::Tolerance, String> {
    let bad = || "expected MEAN or MEAN,WINDOW in points, such as 1,3".to_owned();
    let (mean, window) = match text.split_once(',') {
        Some((mean, window)) => (mean, Some(window)),
        None => (text, None),
    };
    let number = |text: &str| {
        let value = text.trim().parse::<f64>().map_err(|_| bad())?;
        if value > 0.0 && value <= 100.0 {
            Ok(value)
        } else {
            Err(bad())
        }
    };
    let mean_points = number(mean)?;
    Ok(sandbag_stats::Tolerance {
        mean_points,
        window_points: window.map_or(Ok(plain(3.0 * mean_points).min(100.0)), number)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tolerance_can_be_written_as_it_was_read() {
        for text in ["1", "1,3", "0.5,100", "99"] {
            let read = tolerance(text).unwrap();
            let written = format!("{},{}", read.mean_points, read.window_points);
            assert_eq!(tolerance(&written), Ok(read));
        }
        for text in ["0", "101", "1,", "NaN", "1,2,3"] {
            assert!(tolerance(text).is_err(), "{text}");
        }
    }

    #[test]
    fn loads_are_percent_of_one_cpu() {
        assert!(load("-0.0").is_ok_and(f64::is_sign_positive));
        assert_eq!(load("50"), Ok(50.0));
        assert_eq!(load(" 12.5% "), Ok(12.5));
        assert!(load("101").unwrap_err().contains("between 0 and 100"));
        assert!(load("NaN").is_err() && load("-1").is_err() && load("").is_err());
        let comma = load("30,60").unwrap_err();
        assert!(comma.contains("as in 30.60"), "{comma}");
        assert!(comma.contains("0=30,1=60"), "{comma}");
    }

    #[test]
    fn loads_of_several_cpus_are_written_as_speeds_are() {
        assert_eq!(loads("50%"), Ok(Loads::All(50.0)));
        let each = loads("2-3=60,0=12.5%").unwrap();
        assert_eq!(each.to_string(), "2,3=60,0=12.5 %");
        for (text, why) in [
            ("0=30,60", "`60` has no load"),
            ("x=30", "`x` is not a list"),
            ("=30", "names no CPU"),
            ("0=30,0-1=60", "CPU 0 is named twice"),
            ("0=130", "between 0 and 100"),
        ] {
            assert!(loads(text).unwrap_err().contains(why), "{:?}", loads(text));
        }
    }

    #[test]
    fn no_digits_are_left_by_calculating() {
        let window = |text| tolerance(text).unwrap().window_points.to_string();
        assert_eq!(window("0.0001"), "0.0003");
        assert_eq!(window("0.7"), "2.1");
        assert_eq!(plain(100.0 * (1.0 - 0.7)), 30.0);
    }

    #[test]
    fn cpus_by_list_or_name() {
        assert_eq!(cpus("even"), Ok(Cpus::Even));
        assert!(matches!(cpus("0,2-3"), Ok(Cpus::List(list)) if list.len() == 3));
        for (bad, why) in [
            ("", "names no CPU"),
            ("some", "expected CPUs such as 0,2-3"),
        ] {
            assert_eq!(cpu_list(bad).unwrap_err(), why);
            assert!(cpus(bad).unwrap_err().starts_with(why));
        }
    }

    #[test]
    fn tolerances() {
        let both = tolerance("0.5,2").unwrap();
        assert_eq!((both.mean_points, both.window_points), (0.5, 2.0));
        assert_eq!(tolerance("1").unwrap(), sandbag_stats::Tolerance::default());
        assert!(tolerance("0").is_err() && tolerance("a,b").is_err());
    }
}
