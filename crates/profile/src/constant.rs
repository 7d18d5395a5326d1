// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A profile of one step.

use crate::{BoxSteps, Fault, Format, ProfileCell, ProfileHeader, Result, Step, Steps};

struct Constant {
    header: ProfileHeader,
    loads_pct: Vec<f64>,
    length_ns: u64,
    done: bool,
}

/// The same load on each CPU for `length_ns`.
///
/// A load outside 0 to 100 or a length of zero is an error of the first step.
#[must_use]
pub fn constant(cpus: &[u32], load_pct: f64, length_ns: u64) -> BoxSteps {
    let loads: Vec<(u32, f64)> = cpus.iter().map(|cpu| (*cpu, load_pct)).collect();
    constants(&loads, length_ns)
}

/// As [`constant`] with a load for each CPU.
#[must_use]
pub fn constants(loads: &[(u32, f64)], length_ns: u64) -> BoxSteps {
    let (cpus, loads_pct) = loads.iter().copied().unzip();
    Box::new(Constant {
        header: ProfileHeader::new(cpus, Format::Synthetic),
        loads_pct,
        length_ns,
        done: false,
    })
}

impl Steps for Constant {
    fn header(&self) -> &ProfileHeader {
        &self.header
    }

    fn next_step(&mut self) -> Result<Option<Step>> {
        if std::mem::replace(&mut self.done, true) {
            return Ok(None);
        }
        let is_load = |load: &&f64| (0.0..=100.0).contains(*load);
        if let Some(load) = self.loads_pct.iter().find(|load| !is_load(load)) {
            return Err(Fault::out_of_range("load", load).into());
        }
        if self.length_ns == 0 {
            return Err(Fault::argument("length", "0", "longer than 0").into());
        }
        Ok(Some(Step {
            start_ns: 0,
            end_ns: self.length_ns,
            cells: self
                .loads_pct
                .iter()
                .map(|load| Some(ProfileCell::load(*load)))
                .collect(),
        }))
    }

    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Profile;

    #[test]
    fn one_step_for_all() {
        let p = Profile::collect(constant(&[1, 4], 12.5, 7)).unwrap();
        assert_eq!(p.header.cpus, [1, 4]);
        assert_eq!(p.steps.len(), 1);
        assert_eq!(p.steps[0].cells, [Some(ProfileCell::load(12.5)); 2]);
        assert_eq!(p.end_ns(), 7);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (load, length) in [(-1.0, 1), (100.5, 1), (f64::NAN, 1), (50.0, 0)] {
            assert!(Profile::collect(constant(&[0], load, length)).is_err());
        }
    }
}
