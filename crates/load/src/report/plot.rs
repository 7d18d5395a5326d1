// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plots of characters for `sandbag show`: time from left to right, load (of a
//! virtual node: speed) as the height of a bar, 0 to 100 % whatever the data.

use std::path::Path;

use sandbag_profile::{BoxSteps, algebra};

use crate::report::Error;
use crate::report::run::{Run, worst_first};
use crate::report::terminal::{MOST_ROWS, WORST_ROWS};
use crate::report::view::View;
use sandbag_ui::text::clock;

/// Characters for the bars; with the labels a line is at most 80 wide.
const WIDTH: usize = 64;
/// Eighths of a character, from nothing to all of it.
const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Lines per CPU where there are so few CPUs that all fit on a screen.
const TALL: usize = 4;
/// Up to this many CPUs are drawn tall.
const MOST_TALL: usize = 4;

/// The load of each CPU over time; `end_ns` is the length of the profile
/// (from [`sandbag_profile::summarise`]). Each column is a mean; a dot says
/// that the load is unknown there.
pub fn plot_profile(steps: BoxSteps, end_ns: u64) -> sandbag_profile::Result<String> {
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
        push_bars(&mut out, &format!("cpu {cpu}"), &stretch(column), height);
    }
    push_axis(&mut out, end_ns as f64 / 1e9);
    Ok(out)
}

/// Asked and got of each CPU over time, one line each; of many CPUs only
/// those that [`crate::report::terminal::summary_table`] names. Of a virtual node,
/// speeds.
pub fn plot_run(run: &Run, achieved: &Path) -> Result<String, Error> {
    let view = View::of(run);
    let series = view.series(achieved)?;
    let shown: Vec<u32> = if run.cpus.len() <= MOST_ROWS {
        run.cpus.iter().map(|c| c.cpu).collect()
    } else {
        let worst = worst_first(&run.cpus);
        worst.iter().take(WORST_ROWS).map(|c| c.cpu).collect()
    };
    let mut out = view.words.plot.to_owned();
    for (cpu, track) in series.cpus.iter().filter(|(cpu, _)| shown.contains(cpu)) {
        push_bars(
            &mut out,
            &format!("cpu {cpu} asked"),
            &stretch(&track.asked),
            1,
        );
        push_bars(&mut out, "got", &stretch(&track.got), 1);
    }
    push_axis(&mut out, run.length_s);
    Ok(out)
}

/// `values` over [`WIDTH`] columns: repeated, or as means.
fn stretch(values: &[Option<f64>]) -> Vec<Option<f64>> {
    let mean = |values: &[Option<f64>]| {
        let known: Vec<f64> = values.iter().flatten().copied().collect();
        (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
    };
    let n = values.len();
    (0..if n == 0 { 0 } else { WIDTH })
        .map(|i| {
            let from = i * n / WIDTH;
            let to = ((i + 1) * n / WIDTH).max(from + 1);
            mean(&values[from..to])
        })
        .collect()
}

fn push_bars(out: &mut String, label: &str, values: &[Option<f64>], height: usize) {
    for line in (0..height).rev() {
        let top = line + 1 == height;
        let label = if top { label } else { "" };
        let scale = match height {
            1 => "",
            _ if top => " 100",
            _ if line == 0 => " 0",
            _ => "",
        };
        let bars: String = values.iter().map(|v| block(*v, line, height)).collect();
        let text = format!("{:>15}│{bars}", format!("{label}{scale}"));
        out.push_str(text.trim_end());
        out.push('\n');
    }
}

/// What a bar shows on one line, counted from the bottom. A load that is not
/// zero is never nothing.
fn block(value: Option<f64>, line: usize, height: usize) -> char {
    let Some(pct) = value else {
        return if line == 0 { '·' } else { ' ' };
    };
    let mut eighths = (pct / 100.0 * (8 * height) as f64).round() as usize;
    if pct > 0.0 {
        eighths = eighths.max(1);
    }
    BLOCKS[eighths.saturating_sub(8 * line).min(8)]
}

fn push_axis(out: &mut String, end_s: f64) {
    let end = clock(end_s);
    out.push_str(&format!("{:>16}{end:>1$}\n", "0", WIDTH - 1));
}

#[cfg(test)]
mod tests {
    use sandbag_profile::{Format, Profile, ProfileCell, ProfileHeader, Step, constant};

    use super::*;
    use crate::report::fixture::{self, Fixture};

    const SECOND: u64 = 1_000_000_000;

    fn plot(f: &Fixture) -> String {
        let (_dir, path) = f.achieved();
        plot_run(&f.run, &path).unwrap()
    }

    fn widest(text: &str) -> usize {
        text.lines().map(|l| l.chars().count()).max().unwrap_or(0)
    }

    #[test]
    fn a_constant_load_is_a_level_bar() {
        let text = plot_profile(constant(&[3], 50.0, 60 * SECOND), 60 * SECOND).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "      cpu 3 100│");
        assert_eq!(lines[3], format!("              0│{}", "█".repeat(WIDTH)));
        assert!(lines[4].ends_with("60 s"));
        assert_eq!(widest(&text), 80);
    }

    #[test]
    fn many_cpus_take_a_line_each() {
        let cpus: Vec<u32> = (0..64).collect();
        let text = plot_profile(constant(&cpus, 50.0, SECOND), SECOND).unwrap();
        assert_eq!(text.lines().count(), 65);
        assert!(
            text.lines()
                .nth(63)
                .unwrap()
                .starts_with("         cpu 63│▄▄")
        );
    }

    #[test]
    fn the_smallest_load_is_seen_and_an_unknown_one_is_a_dot() {
        assert_eq!(block(Some(0.5), 0, 4), '▁');
        assert_eq!(block(Some(0.0), 0, 1), ' ');
        assert_eq!(block(Some(100.0), 3, 4), '█');
        assert_eq!(block(None, 0, 4), '·');
        assert_eq!(block(None, 1, 4), ' ');
    }

    #[test]
    fn the_bars_follow_the_time_axis() {
        let step = |start: u64, end: u64, load: Option<f64>| Step {
            start_ns: start * SECOND,
            end_ns: end * SECOND,
            cells: vec![load.map(ProfileCell::load)],
        };
        let profile = Profile {
            header: ProfileHeader::new(vec![0], Format::Native),
            steps: vec![step(0, 48, Some(100.0)), step(48, 64, None)],
            warnings: Vec::new(),
        };
        let text = plot_profile(profile.into_steps(), 64 * SECOND).unwrap();
        let last = text.lines().nth(3).unwrap();
        assert!(
            last.ends_with(&("█".repeat(48) + &"·".repeat(16))),
            "{text}"
        );
    }

    #[test]
    fn a_run_shows_asked_over_got() {
        let text = plot(&fixture::quiet());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 5);
        assert!(lines[0].starts_with("    cpu 0 asked│") && lines[1].contains(" got│"));
        assert!(widest(&text) <= 80, "{text}");
    }

    #[test]
    fn a_node_shows_its_speeds() {
        let text = plot(&fixture::node());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "speed over time, % of full speed");
        assert!(lines[1].ends_with(&"▆".repeat(WIDTH)), "{text}");
        assert!(lines[3].contains("▃▂"), "{text}");
    }

    #[test]
    fn of_a_large_run_the_worst_cpus_are_drawn() {
        let text = plot(&fixture::large());
        assert_eq!(text.lines().count(), 2 * WORST_ROWS + 1);
        assert!(
            text.contains("cpu 37 asked") && text.ends_with("10:00 min\n"),
            "{text}"
        );
        let run = fixture::empty().run;
        assert!(plot_run(&run, Path::new("/nonexistent")).is_err());
    }
}
