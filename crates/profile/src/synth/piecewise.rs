// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One load after another.

use crate::{BoxSteps, Format, Profile, ProfileCell, ProfileHeader, Step};

/// Loads, percent, each with its length, ns; the same on all CPUs. Pieces
/// without length are left out.
pub fn piecewise(pieces: &[(f64, u64)], cpus: &[u32]) -> BoxSteps {
    let mut at = 0u64;
    let mut steps = Vec::with_capacity(pieces.len());
    for (load_pct, length_ns) in pieces.iter().filter(|(_, length_ns)| *length_ns > 0) {
        let end_ns = at.saturating_add(*length_ns);
        steps.push(Step {
            start_ns: at,
            end_ns,
            cells: vec![Some(ProfileCell::load(*load_pct)); cpus.len()],
        });
        at = end_ns;
    }
    Profile {
        header: ProfileHeader::new(cpus.to_vec(), Format::Synthetic),
        steps,
        warnings: Vec::new(),
    }
    .into_steps()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_follow_each_other() {
        let profile =
            Profile::collect(piecewise(&[(20.0, 10), (5.0, 0), (80.0, 5)], &[0, 1])).unwrap();
        let found: Vec<(u64, u64)> = profile
            .steps
            .iter()
            .map(|s| (s.start_ns, s.end_ns))
            .collect();
        assert_eq!(found, [(0, 10), (10, 15)]);
        assert_eq!(profile.steps[1].cells, [Some(ProfileCell::load(80.0)); 2]);
    }
}
