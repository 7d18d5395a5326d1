// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a run got over time, in characters; of a virtual node, its speeds.

use std::path::Path;

use sandbag_ui::bars::{self, WIDTH};

use crate::report::Error;
use crate::report::run::{Run, worst_first};
use crate::report::terminal::{MOST_ROWS, WORST_ROWS};
use crate::report::view::View;

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
    let windows = run.length_s / series.width_s;
    let laid = |values: &[Option<f64>]| lay(values, windows);
    for (cpu, track) in series.cpus.iter().filter(|(cpu, _)| shown.contains(cpu)) {
        bars::push(
            &mut out,
            &format!("cpu {cpu} asked"),
            &laid(&track.asked),
            1,
        );
        bars::push(&mut out, "got", &laid(&track.got), 1);
    }
    bars::push_axis(&mut out, run.length_s);
    Ok(out)
}

/// Values over the length of a run, in windows, of which the last may be shorter than the
/// others. After the end of the load, or of what was written, nothing is known.
fn lay(values: &[Option<f64>], windows: f64) -> Vec<Option<f64>> {
    // The length of a window is rounded: the last one may end later by a part of one.
    let count = values.len().max(windows.round() as usize);
    if count >= WIDTH {
        return bars::stretch(values, count);
    }
    let place = |i: usize| ((i as f64 + 0.5) / WIDTH as f64 * windows) as usize;
    let value = |i| values.get(place(i).min(count.saturating_sub(1)));
    (0..WIDTH).map(|i| value(i).copied().flatten()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture::{self, Fixture};

    #[test]
    fn a_load_that_ended_before_its_run_ends_in_the_plot() {
        let known = |windows: usize, run: f64| {
            let laid = lay(&vec![Some(50.0); windows], run);
            assert_eq!(laid.len(), WIDTH);
            let known = laid.iter().take_while(|value| value.is_some()).count();
            assert!(laid.iter().skip(known).all(Option::is_none));
            known as f64 / laid.len() as f64
        };
        for (windows, run) in [(10, 60.0), (10, 11.0), (100, 1000.0), (63, 70.0)] {
            let off = known(windows, run) - windows as f64 / run;
            assert!(off.abs() < 1.0 / WIDTH as f64, "{windows} of {run}: {off}");
        }
        // To the end, also where the last window is shorter, or longer, than the others.
        for (windows, run) in [(10, 10.0), (11, 10.3), (10, 10.3), (100, 100.2), (1, 0.3)] {
            assert_eq!(known(windows, run), 1.0, "{windows} of {run}");
        }
    }

    #[test]
    fn a_hole_at_the_end_of_the_rows_is_not_filled() {
        let laid = lay(&[Some(50.0), None], 2.0);
        assert_eq!(laid.iter().flatten().count(), WIDTH / 2);
    }

    fn plot(f: &Fixture) -> String {
        let (_dir, path) = f.achieved();
        plot_run(&f.run, &path).unwrap()
    }

    fn widest(text: &str) -> usize {
        text.lines().map(|l| l.chars().count()).max().unwrap_or(0)
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
