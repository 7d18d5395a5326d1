// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The load of a profile over time, in characters.

use sandbag_ui::bars::{self, WIDTH};

use crate::{BoxSteps, Result, algebra};

/// Lines per CPU where there are so few CPUs that all fit on a screen.
const TALL: usize = 4;
/// Up to this many CPUs are drawn tall.
const MOST_TALL: usize = 4;

/// The load of each CPU over time; `end_ns` is the length of the profile
/// (from [`crate::summarise`]). Each column is a mean; a dot says
/// that the load is unknown there.
pub(super) fn text(steps: BoxSteps, end_ns: u64) -> Result<String> {
    let cpus = steps.header().cpus.clone();
    let mut columns = vec![Vec::with_capacity(WIDTH); cpus.len()];
    let mut steps = algebra::resample(steps, end_ns.div_ceil(WIDTH as u64).max(1))?;
    while let Some(step) = steps.next_step()? {
        for (column, cell) in columns.iter_mut().zip(step.cells) {
            column.push(cell.map(|c| c.load_pct));
        }
    }
    let height = if cpus.len() <= MOST_TALL { TALL } else { 1 };
    let mut out = String::new();
    for (cpu, column) in cpus.iter().zip(&columns) {
        bars::push(&mut out, &format!("cpu {cpu}"), column, height);
    }
    bars::push_axis(&mut out, end_ns as f64 / 1e9);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Format, NS_PER_S, Profile, ProfileCell, ProfileHeader, Step, constant};

    #[test]
    fn a_constant_load_is_a_level_bar() {
        let text = super::text(constant(&[3], 50.0, 60 * NS_PER_S), 60 * NS_PER_S).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "      cpu 3 100│");
        assert_eq!(lines[3], format!("              0│{}", "█".repeat(WIDTH)));
        assert!(lines[4].ends_with("60 s"));
        let widest = lines.iter().map(|line| line.chars().count()).max();
        assert_eq!(widest, Some(80));
    }

    #[test]
    fn many_cpus_take_a_line_each() {
        let cpus: Vec<u32> = (0..64).collect();
        let text = super::text(constant(&cpus, 50.0, NS_PER_S), NS_PER_S).unwrap();
        assert_eq!(text.lines().count(), 65);
        assert!(
            text.lines()
                .nth(63)
                .unwrap()
                .starts_with("         cpu 63│▄▄")
        );
    }

    #[test]
    fn the_bars_follow_the_time_axis() {
        let step = |start: u64, end: u64, load: Option<f64>| Step {
            start_ns: start * NS_PER_S,
            end_ns: end * NS_PER_S,
            cells: vec![load.map(ProfileCell::load)],
        };
        let profile = Profile {
            header: ProfileHeader::new(vec![0], Format::Native),
            steps: vec![step(0, 48, Some(100.0)), step(48, 64, None)],
            warnings: Vec::new(),
        };
        let text = super::text(profile.into_steps(), 64 * NS_PER_S).unwrap();
        let last = text.lines().nth(3).unwrap();
        assert!(
            last.ends_with(&("█".repeat(48) + &"·".repeat(16))),
            "{text}"
        );
    }
}
