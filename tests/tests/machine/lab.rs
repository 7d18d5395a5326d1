// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The lab on this machine: that it measures, goes on, and leaves nothing.

use crate::prelude::*;

cases! { REPEATED: || lab().and_then(|()| repeated());
    the_lab_shows_what_ep_perceives,
    a_lab_that_is_interrupted_leaves_nothing_and_goes_on,
}

/// Seconds for each round.
const SHORT: &str = "run krash-table-2 --quick --methods pace --out lab";

/// On one CPU, so that EP does not slow itself where two CPUs are threads of one core. Of
/// three pairs the middle: the time of EP alone varies by a third on a shared machine.
fn the_lab_shows_what_ep_perceives(place: &MachinePlace) -> Result<()> {
    let ended = finish(
        place
            .lab(&format!("{SHORT} --rounds 3 --cpus 1"))?
            .spawn()?,
    )?
    .expect(0)?;
    ended.shows(&["load perceived by EP, 50 % by pace"])?;
    let text = fs::read_to_string(place.path("lab/krash-table-2/rows.jsonl"))?;
    // After the terms; EP checks its own sums.
    let rows = text.lines().skip(1).map(serde_json::from_str::<Value>);
    let rows = rows.collect::<Result<Vec<_>, _>>()?;
    for cell in ["pace", "spinners"] {
        let pairs: Vec<&Value> = rows.iter().filter(|row| row["cell"] == cell).collect();
        ensure!(pairs.len() == 3, "{text}");
        let mut slowdowns = Vec::new();
        for row in pairs {
            ensure!(row["end"] == "done", "{row}");
            let seconds = |of: &str| row[of].as_f64().context("no time");
            slowdowns.push(seconds("loaded_s")? / seconds("unloaded_s")?);
        }
        slowdowns.sort_by(f64::total_cmp);
        // Proportional is 2.
        figure!(
            (1.5..3.5).contains(&slowdowns[1]),
            "{cell}: slowdowns {slowdowns:?}: {text}"
        );
    }
    for file in [
        "krash-table-2/index.html",
        "krash-table-2/rows.csv",
        "index.html",
        "summary.md",
    ] {
        ensure!(place.path("lab").join(file).is_file(), "no {file}");
    }
    Ok(())
}

fn a_lab_that_is_interrupted_leaves_nothing_and_goes_on(place: &MachinePlace) -> Result<()> {
    let short = format!("{SHORT} --rounds 1");
    let mut command = place.lab(&short)?;
    command.stdout(Stdio::null());
    let child = command.spawn()?;
    let pid = pid_of(&child);
    let journal = place.path("lab/krash-table-2/rows.jsonl");
    wait_until("the first trial", || {
        let text = fs::read_to_string(&journal).unwrap_or_default();
        text.lines().count() >= 2
    })?;
    kill(pid, Signal::SIGINT)?;
    finish(child)?.expect(130)?.says(&["resumes from here"])?;
    place.as_before()?;
    place.has_files("lab", 1)?;
    let ended = finish(place.lab(&short)?.spawn()?)?.expect(0)?;
    ensure!(!ended.err.contains("[1/2]"), "measured twice: {ended:?}");
    let rows = fs::read_to_string(&journal)?;
    ensure!(rows.lines().count() == 3, "{rows}");
    Ok(())
}
