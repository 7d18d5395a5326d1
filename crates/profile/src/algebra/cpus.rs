// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which CPUs a profile is for.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use crate::{BoxSteps, Error, Fault, ProfileCell, ProfileHeader, Result};

use super::clip::{clip_cell, clip_warning};
use crate::model::Mean;
use crate::number::NS_PER_S;
use crate::stream::change_steps;
use sandbag_ui::quantity::plain_seconds;

/// How a profile of p CPUs is laid on fewer, n, of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapRule {
    /// The first n CPUs of the profile; the others are left out.
    First,
    /// The p CPUs are cut into n neighbouring groups of nearly equal size;
    /// each CPU gets the mean of its group.
    Mean,
    /// The same groups; each CPU gets the greatest load of its group at each
    /// moment.
    Max,
    /// Dealt like cards: the i-th CPU of the profile, counted from 0, goes to
    /// the (i mod n)-th of the machine. Loads that meet are added and clipped at 100: the work of a
    /// large machine on a small one.
    Wrap,
}

impl MapRule {
    const ALL: [(Self, &'static str); 4] = [
        (Self::First, "first"),
        (Self::Mean, "mean"),
        (Self::Max, "max"),
        (Self::Wrap, "wrap"),
    ];
}

impl fmt::Display for MapRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(rule, _)| rule == self);
        f.write_str(name.map_or("", |(_, name)| name))
    }
}

impl FromStr for MapRule {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL
            .iter()
            .find(|(_, name)| *name == text)
            .map(|(rule, _)| *rule)
            .ok_or_else(|| Fault::NoSuchRule(text.to_owned()).into())
    }
}

/// Lays a profile on the CPUs `target`.
///
/// CPUs that exist on both sides keep their number if all of the profile's
/// do; otherwise the profile's first goes to the target's first, and so on.
/// Target CPUs for which the profile has none get a load of 0. A profile of
/// more CPUs than the target has needs a rule; with enough room the rule says
/// nothing.
///
/// An unknown load counts for nothing where it meets known ones and stays
/// unknown where it meets none.
///
/// # Errors
/// The profile has more CPUs than the target and there is no rule; the target
/// is empty or names a CPU twice.
pub fn map_cpus(steps: BoxSteps, rule: Option<MapRule>, target: &[u32]) -> Result<BoxSteps> {
    let from = &steps.header().cpus;
    no_duplicates(target)?;
    let (p, n) = (from.len(), target.len());
    let (sources, join) = if p <= n {
        let place: HashMap<u32, usize> = from.iter().enumerate().map(|(i, c)| (*c, i)).collect();
        let by_number = from.iter().all(|c| target.contains(c));
        let source = |(j, cpu)| {
            if by_number {
                place.get(cpu).copied()
            } else {
                (j < p).then_some(j)
            }
        };
        let sources = target.iter().enumerate().map(source);
        (
            sources.map(|s| s.into_iter().collect()).collect(),
            Join::Sum,
        )
    } else {
        let group = |j: usize| (j * p / n..(j + 1) * p / n).collect();
        let Some(rule) = rule else {
            return Err(Fault::MapNeeded {
                profile: p,
                target: n,
            }
            .into());
        };
        match rule {
            MapRule::First => ((0..n).map(|j| vec![j]).collect(), Join::Sum),
            MapRule::Mean => ((0..n).map(group).collect(), Join::Mean),
            MapRule::Max => ((0..n).map(group).collect(), Join::Max),
            MapRule::Wrap => (
                (0..n).map(|j| (j..p).step_by(n).collect()).collect(),
                Join::Sum,
            ),
        }
    };
    Ok(join_cpus(steps, target, sources, join))
}

/// Leaves the CPUs `cpus` of the profile, in this order.
///
/// # Errors
/// The profile lacks one, none is named, or one is named twice.
pub fn select_cpus(steps: BoxSteps, cpus: &[u32]) -> Result<BoxSteps> {
    let from = &steps.header().cpus;
    no_duplicates(cpus)?;
    let mut sources = Vec::new();
    for cpu in cpus {
        let at = from.iter().position(|c| c == cpu);
        sources.push(vec![at.ok_or(Fault::NoSuchCpu(*cpu))?]);
    }
    Ok(join_cpus(steps, cpus, sources, Join::Sum))
}

fn no_duplicates(cpus: &[u32]) -> Result<()> {
    let mut sorted = cpus.to_vec();
    sorted.sort_unstable();
    if let Some(twice) = sorted.windows(2).find(|w| w[0] == w[1]) {
        return Err(Fault::Duplicate(format!("cpu{}", twice[0])).into());
    }
    if cpus.is_empty() {
        return Err(Fault::argument("list of CPUs", "", "at least one CPU").into());
    }
    Ok(())
}

/// What becomes of several loads on one CPU.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Join {
    Sum,
    Mean,
    Max,
}

/// Says what became of unknown loads that met known ones.
fn joined_warning(join: Join, unknown_ns: u64) -> Option<String> {
    let what = match join {
        Join::Sum => "counts as 0 beside the loads that it was added to",
        Join::Mean => "was left out of means",
        Join::Max => "was left out where the greatest was taken",
    };
    (unknown_ns > 0).then(|| {
        let seconds = plain_seconds(unknown_ns);
        format!("{seconds} s (summed over the CPUs) of unknown load {what}")
    })
}

/// `sources` has for each target CPU the places in the profile's cells.
fn join_cpus(inner: BoxSteps, target: &[u32], sources: Vec<Vec<usize>>, join: Join) -> BoxSteps {
    let header = ProfileHeader {
        cpus: target.to_vec(),
        ..inner.header().clone()
    };
    let (places, from) = (sources.clone(), inner.header().clone());
    let covered = change_steps(
        inner,
        from,
        move |ns| joined_warning(join, ns),
        move |inner, covered| {
            let step = inner.next_step()?;
            if let Some(step) = &step {
                let missing = |sources: &Vec<usize>| {
                    let unknown = sources
                        .iter()
                        .filter(|at| step.cells[**at].is_none())
                        .count();
                    if unknown < sources.len() { unknown } else { 0 }
                };
                let missing: usize = places.iter().map(missing).sum();
                *covered = covered.saturating_add(step.length_ns().saturating_mul(missing as u64));
            }
            Ok(step)
        },
    );
    change_steps(covered, header, clip_warning, move |inner, clips| {
        let Some(mut step) = inner.next_step()? else {
            return Ok(None);
        };
        let mut cell =
            |sources: &Vec<usize>| Some(clip_cell(join_cells(&step.cells, sources, join)?, clips));
        step.cells = sources.iter().map(&mut cell).collect();
        Ok(Some(step))
    })
}

fn join_cells(cells: &[Option<ProfileCell>], sources: &[usize], join: Join) -> Option<ProfileCell> {
    if join == Join::Mean {
        // As of steps: of what was delivered.
        let mut mean = Mean::default();
        for at in sources {
            mean.add(cells[*at], NS_PER_S);
        }
        return mean.cell();
    }
    let mut known = 0u32;
    let mut all = ProfileCell::default();
    for cell in sources.iter().filter_map(|i| cells[*i]) {
        known += 1;
        if join == Join::Max {
            all.load_pct = all.load_pct.max(cell.load_pct);
        } else {
            all.load_pct += cell.load_pct;
        }
        // Steal is a property of the CPU that it was seen on; where CPUs are
        // joined the mean describes them, a sum would describe nothing.
        all.steal_pct += cell.steal_pct;
    }
    if known == 0 {
        return sources.is_empty().then_some(ProfileCell::default());
    }
    all.steal_pct /= f64::from(known);
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Profile;
    use crate::testing::{any_profile, assert_sound, profile};
    use proptest::prelude::*;
    use rstest::rstest;

    fn four() -> BoxSteps {
        let loads = [Some(10.0), Some(20.0), Some(90.0), None];
        profile(&[0, 1, 2, 3], &[(10, &loads)]).into_steps()
    }

    fn loads(steps: BoxSteps) -> Vec<Option<f64>> {
        let p = Profile::collect(steps).unwrap();
        p.steps[0]
            .cells
            .iter()
            .map(|c| c.map(|c| c.load_pct))
            .collect()
    }

    #[rstest]
    #[case("first", [Some(10.0), Some(20.0)])]
    #[case("mean", [Some(15.0), Some(90.0)])]
    #[case("max", [Some(20.0), Some(90.0)])]
    #[case("wrap", [Some(100.0), Some(20.0)])]
    fn four_on_two(#[case] rule: &str, #[case] expected: [Option<f64>; 2]) {
        let rule: MapRule = rule.parse().unwrap();
        assert_eq!(
            loads(map_cpus(four(), Some(rule), &[0, 1]).unwrap()),
            expected
        );
        assert_eq!(rule.to_string().parse::<MapRule>().unwrap(), rule);
    }

    #[test]
    fn none_is_dropped_silently() {
        let e = map_cpus(four(), None, &[0, 1]).err().unwrap();
        assert!(e.to_string().contains("for 4 CPUs and there are 2"), "{e}");
    }

    #[test]
    fn more_cpus_than_the_profile_has() {
        let six = [0, 1, 2, 3, 4, 5];
        assert_eq!(
            loads(map_cpus(four(), None, &six).unwrap())[3..],
            [None, Some(0.0), Some(0.0)]
        );
    }

    #[test]
    fn by_number_where_all_exist_else_in_order() {
        let two = || profile(&[1, 3], &[(10, &[Some(10.0), Some(30.0)])]).into_steps();
        assert_eq!(
            loads(map_cpus(two(), None, &[0, 1, 2, 3]).unwrap()),
            [Some(0.0), Some(10.0), Some(0.0), Some(30.0)]
        );
        assert_eq!(
            loads(map_cpus(two(), None, &[5, 6, 7]).unwrap()),
            [Some(10.0), Some(30.0), Some(0.0)]
        );
    }

    #[test]
    fn selection() {
        assert_eq!(
            loads(select_cpus(four(), &[2, 0]).unwrap()),
            [Some(90.0), Some(10.0)]
        );
        assert!(select_cpus(four(), &[7]).is_err());
        assert!(select_cpus(four(), &[]).is_err());
        assert!(select_cpus(four(), &[1, 1]).is_err());
    }

    proptest! {
        #[test]
        fn any_rule_gives_a_sound_profile(p in any_profile(), n in 1u32..8) {
            let target: Vec<u32> = (10..10 + n).collect();
            for (rule, _) in MapRule::ALL {
                let steps = p.clone().into_steps();
                let mapped = Profile::collect(map_cpus(steps, Some(rule), &target).unwrap()).unwrap();
                assert_sound(&mapped);
                prop_assert_eq!(mapped.end_ns(), p.end_ns());
                prop_assert_eq!(&mapped.header.cpus, &target);
            }
        }

        #[test]
        fn every_cpu_is_in_exactly_one_group(p in 1usize..40, n in 1usize..40) {
            prop_assume!(p > n);
            let cpus: Vec<u32> = (0..p as u32).collect();
            let target: Vec<u32> = (0..n as u32).collect();
            // With one CPU at 100 and the others at 0 the sum of means times
            // group size is 100 wherever it stands.
            for loaded in 0..p {
                let row: Vec<_> = (0..p).map(|i| Some(if i == loaded { 100.0 } else { 0.0 })).collect();
                for rule in [MapRule::Max, MapRule::Wrap] {
                    let steps = profile(&cpus, &[(1, &row)]).into_steps();
                    let total: f64 = loads(map_cpus(steps, Some(rule), &target).unwrap()).into_iter().flatten().sum();
                    prop_assert_eq!(total, 100.0);
                }
            }
        }
    }
}
