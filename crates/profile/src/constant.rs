// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A profile of one step.

use crate::stream::make_steps;
use crate::{BoxSteps, Fault, Format, ProfileCell, ProfileHeader, Step};

/// The same load on each CPU for `length_ns`.
///
/// A load outside 0 to 100 or a length of zero is an error of the first step.
pub fn constant(cpus: &[u32], load_pct: f64, length_ns: u64) -> BoxSteps {
    let loads: Vec<(u32, f64)> = cpus.iter().map(|cpu| (*cpu, load_pct)).collect();
    constants(&loads, length_ns)
}

/// As [`constant`] with a load for each CPU.
pub fn constants(loads: &[(u32, f64)], length_ns: u64) -> BoxSteps {
    let header = ProfileHeader::new(
        loads.iter().map(|(cpu, _)| *cpu).collect(),
        Format::Synthetic,
    );
    let loads: Vec<f64> = loads.iter().map(|(_, load)| *load).collect();
    let mut done = false;
    make_steps(header, Vec::new(), move || {
        if std::mem::replace(&mut done, true) {
            return Ok(None);
        }
        if let Some(load) = loads.iter().find(|load| !(0.0..=100.0).contains(*load)) {
            return Err(Fault::out_of_range("load", load).into());
        }
        if length_ns == 0 {
            return Err(Fault::argument("length", "0", "longer than 0").into());
        }
        let cells = loads.iter().map(|load| Some(ProfileCell::load(*load)));
        Ok(Some(Step {
            start_ns: 0,
            end_ns: length_ns,
            cells: cells.collect(),
        }))
    })
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
