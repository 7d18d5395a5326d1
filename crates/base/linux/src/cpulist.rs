// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lists of CPUs as the kernel and taskset write them: `0,2-3,8-14:2`.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// A set of CPU numbers; prints as ranges.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct CpuList(BTreeSet<u32>);

/// Largest CPU number that is believed; the kernel's own limit is 8192.
pub const MAX_CPU: u32 = 65_535;

impl CpuList {
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = u32> + ExactSizeIterator + '_ {
        self.0.iter().copied()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn contains(&self, cpu: u32) -> bool {
        self.0.contains(&cpu)
    }

    pub fn without(&self, other: &Self) -> Self {
        Self(self.0.difference(&other.0).copied().collect())
    }

    pub fn intersection(&self, other: &Self) -> Self {
        Self(self.0.intersection(&other.0).copied().collect())
    }
}

impl CpuList {
    /// As a mask: bit `n % 8` of byte `n / 8` is CPU `n`; a multiple of 8 bytes.
    pub fn mask(&self) -> Vec<u8> {
        let last = self.iter().next_back().unwrap_or(0) as usize;
        let mut mask = vec![0; (last / 64 + 1) * 8];
        for cpu in self.iter() {
            mask[cpu as usize / 8] |= 1 << (cpu % 8);
        }
        mask
    }
}

impl FromIterator<u32> for CpuList {
    fn from_iter<I: IntoIterator<Item = u32>>(iter: I) -> Self {
        Self(iter.into_iter().collect())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a CPU list (such as 0,2-3 or 0-14:2)")]
pub struct BadCpuList(String);

impl FromStr for CpuList {
    type Err = BadCpuList;

    fn from_str(text: &str) -> Result<Self, BadCpuList> {
        let bad = || BadCpuList(text.trim().to_owned());
        let mut cpus = BTreeSet::new();
        for part in text.trim().split(',').filter(|p| !p.trim().is_empty()) {
            let (range, step) = part.trim().split_once(':').unwrap_or((part.trim(), "1"));
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let first: u32 = first.trim().parse().map_err(|_| bad())?;
            let last: u32 = last.trim().parse().map_err(|_| bad())?;
            let step: usize = step.trim().parse().map_err(|_| bad())?;
            if last < first || step == 0 || last > MAX_CPU {
                return Err(bad());
            }
            cpus.extend((first..=last).step_by(step));
        }
        Ok(Self(cpus))
    }
}

/// Why something is no `CPUS=VALUE,...`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BadAssignment {
    /// This stands before a `=` and is no list of CPUs.
    Cpus(String),
    NoValue(String),
}

/// `0=1,2-3=0.4`: lists of CPUs with a value each. Commas separate both the
/// parts and the CPUs of a list: what comes before the next `=` belongs to its
/// list.
///
/// # Errors
/// Something before a `=` is no list, or something after the last has no value.
pub fn assignments(text: &str) -> Result<Vec<(CpuList, &str)>, BadAssignment> {
    let mut parts = Vec::new();
    let mut pending = String::new();
    for piece in text.split(',') {
        let Some((cpus, value)) = piece.split_once('=') else {
            pending.push_str(piece);
            pending.push(',');
            continue;
        };
        let list = format!("{pending}{cpus}");
        pending.clear();
        let cpus = list.parse();
        let cpus = cpus.map_err(|_| BadAssignment::Cpus(list.trim().to_owned()))?;
        parts.push((cpus, value));
    }
    match pending.trim().trim_end_matches(',') {
        "" => Ok(parts),
        rest => Err(BadAssignment::NoValue(rest.to_owned())),
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.iter().peekable();
        let mut separator = "";
        while let Some(first) = rest.next() {
            let mut last = first;
            while let Some(next) = rest.next_if_eq(&(last + 1)) {
                last = next;
            }
            match last - first {
                0 => write!(f, "{separator}{first}")?,
                1 => write!(f, "{separator}{first},{last}")?,
                _ => write!(f, "{separator}{first}-{last}")?,
            }
            separator = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_what_taskset_reads() {
        let list: CpuList = "0,2-3, 8-14:2\n".parse().unwrap();
        assert_eq!(list.iter().collect::<Vec<_>>(), [0, 2, 3, 8, 10, 12, 14]);
        assert_eq!(list.to_string(), "0,2,3,8,10,12,14");
        assert!("".parse::<CpuList>().unwrap().is_empty());
    }

    #[test]
    fn refuses_what_is_not_a_list() {
        for bad in ["x", "3-1", "1-", "-1", "0-4:0", "1;2", "0-99999999"] {
            assert!(bad.parse::<CpuList>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_back(cpus in prop::collection::btree_set(0u32..2000, 0..60)) {
            let list: CpuList = cpus.into_iter().collect();
            prop_assert_eq!(list.to_string().parse::<CpuList>().unwrap(), list);
        }
    }
}
