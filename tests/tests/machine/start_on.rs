// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A command that says when the load begins.

use crate::prelude::*;

cases! { CASES: root;
    a_load_begins_when_the_command_says_so,
    a_command_that_never_says_so_had_no_load,
    a_command_that_never_says_so_is_bounded,
    what_the_command_says_later_does_it_no_harm,
}

/// What `--start-on` names, and how a script says it.
const WAYS: [(&str, &str); 7] = [
    ("SIGUSR2", "kill -USR2 $SANDBAG_PID"),
    ("3", "echo >&3"),
    // The descriptors that we use ourselves, and one far from them.
    ("4", "echo >&4"),
    ("5", "exec 5>&-"),
    ("6", "exec 6>&-"),
    ("200", "exec bash -c 'printf . >&200; sleep 2'"),
    ("USR1", "kill -USR1 $SANDBAG_PID"),
];

fn a_load_begins_when_the_command_says_so(place: &MachinePlace) -> Result<()> {
    for (by, word) in &WAYS[..case::rounds(WAYS.len())] {
        let options = format!("load 40 --cpus 0 --out r --force -q --start-on {by}");
        let script = format!("sleep 0.6; {word}; sleep 2");
        let ended = place.script(&options, &script)?;
        ended.expect(0).context(by)?;
        let record = place.record("r")?;
        let began = record.load_began_s.context("not told when it began")?;
        figure!((0.5..1.6).contains(&began), "{by}: began after {began} s");
        let length = record.length_s;
        figure!((1.1..2.8).contains(&length), "{by}: {length} s of load");
        let wall = record.command()?.wall_s;
        figure!(wall > began + length - 0.2, "{by}: {wall} s in all");
        record.cpus[0].expect_near(40.0, 8.0)?;
        place.as_before()?;
    }
    Ok(())
}

fn a_command_that_never_says_so_had_no_load(place: &MachinePlace) -> Result<()> {
    // Its end closes the descriptor, too: that is no word.
    for (options, code) in [("", 0), ("--strict", 4)] {
        for by in ["3", "USR1"] {
            let options = format!("load 90 --cpus 0 --out r --force --start-on {by} {options}");
            let ended = place.script(&options, "sleep 0.5")?;
            ended
                .expect(code)?
                .says(&["before the command began the load", "nothing was asked"])?;
            let record = place.record("r")?;
            ensure!(record.verdict == "undecided", "{}", record.verdict);
            ensure!(record.load_began_s.is_none() && record.length_s == 0.0);
            ensure!(record.cpus[0].got_pct == 0.0);
            let wall = record.command()?.wall_s;
            figure!(wall > 0.4, "{wall} s");
        }
    }
    place
        .script("load 90 --no-out -q --start-on 3", "exit 9")?
        .expect(9)?;
    Ok(())
}

fn a_command_that_never_says_so_is_bounded(place: &MachinePlace) -> Result<()> {
    let begin = Instant::now();
    let options = "load 90 --cpus 0 --no-out -q --start-on 3 --timeout 1s";
    place.script(options, "exec sleep 1000")?.expect(124)?;
    ensure!(begin.elapsed() >= Duration::from_secs(1), "too early");
    Ok(())
}

fn what_the_command_says_later_does_it_no_harm(place: &MachinePlace) -> Result<()> {
    // The signal is ours also the second time: it would end the command.
    let usr1 = "kill -USR1 $SANDBAG_PID; sleep 0.5; kill -USR1 $SANDBAG_PID; sleep 0.3; exit 5";
    for (by, script) in [
        ("3", "echo >&3; sleep 0.5; echo >&3; echo >&3; exit 5"),
        ("USR1", usr1),
    ] {
        let options = format!("load 20 --cpus 0 --no-out -q --start-on {by}");
        place.script(&options, script)?.expect(5)?;
    }
    Ok(())
}
