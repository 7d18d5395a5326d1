// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A load as a part of what a node's speed leaves of its CPUs.

use sandbag_linux::CpuList;
use sandbag_ui::units::{Loads, plain};

use super::Ratios;
use crate::method::by_name;

/// 30 % of a CPU at half speed is 15 % of the CPU.
#[derive(Debug, Clone, PartialEq)]
pub struct SpeedShare(pub Loads);

impl SpeedShare {
    /// The first CPU that is named and not one of the node's.
    pub fn outside(&self, speeds: &Ratios) -> Option<u32> {
        let Loads::PerCpu(each) = &self.0 else {
            return None;
        };
        let own = speeds.cpus();
        let named = each.iter().flat_map(|(cpus, _)| cpus.iter());
        named.into_iter().find(|cpu| !own.contains(*cpu))
    }

    fn share_pct(&self, cpu: u32) -> f64 {
        match &self.0 {
            Loads::All(pct) => *pct,
            Loads::PerCpu(each) => {
                let mut of_it = each.iter().filter(|(cpus, _)| cpus.contains(cpu));
                of_it.next().map_or(0.0, |(_, pct)| *pct)
            }
        }
    }

    /// The loads of the CPUs at these speeds, as `sandbag load` takes them; no more than
    /// `pace` reaches.
    pub fn loads(&self, speeds: &Ratios) -> String {
        let most_pct = by_name("pace").map_or(100.0, |pace| pace.serves(1.0) * 100.0);
        // Of equal ones together: a request has a length.
        let mut groups: Vec<(String, Vec<u32>)> = Vec::new();
        for (cpu, mu) in speeds.iter() {
            let pct = plain(f64::min(mu * self.share_pct(cpu), most_pct)).to_string();
            match groups.iter_mut().find(|(known, _)| *known == pct) {
                Some((_, cpus)) => cpus.push(cpu),
                None => groups.push((pct, vec![cpu])),
            }
        }
        let text = |(pct, cpus): (String, Vec<u32>)| format!("{}={pct}", CpuList::from_iter(cpus));
        groups.into_iter().map(text).collect::<Vec<_>>().join(",")
    }
}

#[cfg(test)]
mod tests {
    use sandbag_ui::units;

    use super::*;

    #[test]
    fn a_share_is_of_the_speed() {
        let speeds = Ratios::new(vec![(0, 0.5), (2, 0.25), (3, 1.0)]);
        let share = |text| SpeedShare(units::loads(text).unwrap());
        assert_eq!(share("30").loads(&speeds), "0=15,2=7.5,3=30");
        assert_eq!(share("0=10,2-3=60").loads(&speeds), "0=5,2=15,3=60");
        assert_eq!(share("3=1.1").loads(&speeds), "0,2=0,3=1.1");
        let many = Ratios::new((0..1024).map(|cpu| (cpu, 0.5)).collect());
        assert_eq!(share("30").loads(&many), "0-1023=15");
        assert_eq!(share("30").outside(&speeds), None);
        assert_eq!(share("0-2=10").outside(&speeds), Some(1));
        // What calculating leaves in the last digits is no part of a command line.
        let third = Ratios::new(vec![(0, 0.7)]);
        assert_eq!(share("30").loads(&third), "0=21");
        assert_eq!(share("100").loads(&speeds), "0=50,2=25,3=99.5");
    }
}
