// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The speeds of a node as numbers: mu of each of its CPUs.

use std::fmt;

use sandbag_linux::CpuList;

/// The share of its full speed that each CPU of a node has, above 0 and at
/// most 1; CPUs ascending.
#[derive(Debug, Clone, PartialEq)]
pub struct Ratios(Vec<(u32, f64)>);

impl Ratios {
    pub fn new(mut ratios: Vec<(u32, f64)>) -> Self {
        ratios.sort_unstable_by_key(|(cpu, _)| *cpu);
        debug_assert!(ratios.windows(2).all(|pair| pair[0].0 < pair[1].0));
        Self(ratios)
    }

    pub fn same(cpus: &CpuList, mu: f64) -> Self {
        Self(cpus.iter().map(|cpu| (cpu, mu)).collect())
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = (u32, f64)> + '_ {
        self.0.iter().copied()
    }

    pub fn values(&self) -> Vec<f64> {
        self.0.iter().map(|(_, mu)| *mu).collect()
    }

    pub fn cpus(&self) -> CpuList {
        self.0.iter().map(|(cpu, _)| *cpu).collect()
    }

    pub fn are_equal(&self) -> bool {
        self.0
            .windows(2)
            .all(|two| (two[0].1 - two[1].1).abs() < 1e-9)
    }

    /// Mean speed over the CPUs.
    pub fn mean(&self) -> f64 {
        self.values().iter().sum::<f64>() / self.0.len().max(1) as f64
    }

    /// The load that leaves these speeds, percent of each CPU: `100 * (1 - mu)`.
    pub fn loads_pct(&self) -> Vec<f64> {
        self.0
            .iter()
            .map(|(_, mu)| (100.0 * (1.0 - mu)).clamp(0.0, 100.0))
            .collect()
    }
}

/// `0-1=0.5,2=1`: as [`Speeds`](crate::node::speed::Speeds) are written, to four
/// digits (a hundredth of a point).
impl fmt::Display for Ratios {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut groups: Vec<(f64, Vec<u32>)> = Vec::new();
        for (cpu, mu) in self.iter() {
            let mu = round_ratio(mu);
            match groups.iter_mut().find(|(known, _)| *known == mu) {
                Some((_, cpus)) => cpus.push(cpu),
                None => groups.push((mu, vec![cpu])),
            }
        }
        for (n, (mu, cpus)) in groups.into_iter().enumerate() {
            let cpus: CpuList = cpus.into_iter().collect();
            let separator = if n == 0 { "" } else { "," };
            write!(f, "{separator}{cpus}={mu}")?;
        }
        Ok(())
    }
}

/// To four digits, but never down to 0, which is no speed.
pub(crate) fn round_ratio(mu: f64) -> f64 {
    ((mu * 1e4).round() / 1e4).max(1e-4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::speed::Speeds;

    #[test]
    fn loads_leave_the_speeds() {
        let ratios = Ratios::new(vec![(3, 0.25), (1, 1.0)]);
        assert_eq!(ratios.loads_pct(), [0.0, 75.0]);
        assert_eq!(ratios.cpus().to_string(), "1,3");
        assert!((ratios.mean() - 0.625).abs() < 1e-12);
    }

    #[test]
    fn printed_as_speeds_are_written() {
        let ratios = Ratios::new(vec![(0, 0.5), (1, 1.0), (2, 0.5), (3, 0.5), (4, 1e-9)]);
        assert_eq!(ratios.to_string(), "0,2,3=0.5,1=1,4=0.0001");
        let read: Speeds = ratios.to_string().parse().unwrap();
        let again = read.resolve(&ratios.cpus(), |_| None).unwrap();
        assert_eq!(again.to_string(), ratios.to_string());
    }
}
