// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag top`: the runs of this machine while they run.

mod screen;
mod terminal;

use std::time::{Duration, Instant};

use clap::Args;
use sandbag_linux::Root;
use sandbag_run::journal::RunInfo;
use sandbag_run::other_users;
use sandbag_run::registry::Registry;
use sandbag_ui::failure::{Context as _, Result};
use sandbag_ui::messages::Messages;
use sandbag_ui::{BadInput, exit, output, units};

use crate::live::{SPAN, Watch};
use screen::{Look, Screen};
use terminal::{Key, Screened};

/// Watch the runs of this machine: asked and got of each CPU, as it happens
#[derive(Debug, Args)]
pub struct TopArgs {
    /// Time between two looks
    #[arg(short, long, value_name = "TIME", default_value = "1s",
          value_parser = units::positive_duration)]
    interval: Duration,

    /// Look for one interval, print plain text, and end
    #[arg(long)]
    once: bool,
}

pub fn main(args: &TopArgs, messages: &Messages) -> Result<u8> {
    for run in other_users::runs(&Root::default()) {
        messages.say(&run.to_string());
    }
    if !Registry::has_place() {
        messages.say("no run of this user");
        return Ok(exit::KEPT);
    }
    let mut watch = Watch::open()?;
    watch
        .problems
        .iter()
        .for_each(|problem| Messages::error(problem));
    if args.once {
        if let Some(before) = args.interval.checked_sub(SPAN) {
            std::thread::sleep(before);
            watch.note()?;
        }
        std::thread::sleep(args.interval.min(SPAN));
        watch.look()?;
        if watch.runs.is_empty() {
            messages.say("no run of this user");
        }
        output::print(Screen::text(&watch.runs))?;
        return Ok(exit::KEPT);
    }
    if !terminal::is_there() {
        let why = "top needs a terminal that is not dumb; --once prints text";
        return Err(BadInput(why.to_owned()).into());
    }
    let mut screen = Screen::default();
    screen.note(&watch.runs);
    let stopped = on_terminal(&mut watch, &mut screen, args.interval)?;
    for run in stopped {
        messages.say(&run);
    }
    Ok(exit::KEPT)
}

/// Returns what was stopped, in words.
fn on_terminal(watch: &mut Watch, screen: &mut Screen, interval: Duration) -> Result<Vec<String>> {
    let mut terminal = Screened::begin().context("the terminal")?;
    let colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let mut stopped = Vec::new();
    let mut next = Instant::now() + interval;
    let before = |next: Instant| (interval > SPAN).then(|| next - SPAN);
    // What the kernel counts is noted a second before the look, as loads are of a second.
    let mut note = before(next);
    loop {
        let (columns, lines) = terminal::size();
        let look = Look {
            columns,
            lines,
            colours,
        };
        if terminal.draw(&screen.frame(&watch.runs, look)).is_err() {
            return Ok(stopped);
        }
        match terminal.key(note.unwrap_or(next)) {
            None if note.take().is_some() => watch.note()?,
            None => {
                watch.look()?;
                screen.note(&watch.runs);
                next = (next + interval).max(Instant::now());
                note = before(next);
            }
            Some(key) => {
                let asked = screen.asks.take();
                match key {
                    Key::End | Key::Char(b'q') => return Ok(stopped),
                    Key::Char(b'y') => {
                        let all = || watch.runs.iter().map(|run| &run.run);
                        let named = all().find(|run| Some(run.id()) == asked);
                        stopped.extend(named.map(|run| stop(run.whole_among(all()))));
                    }
                    Key::Char(b'\t') => screen.next(&watch.runs),
                    Key::Char(b's') => {
                        screen.asks = screen.selected(&watch.runs).map(|run| run.run.id());
                    }
                    Key::Up | Key::Char(b'k') => screen.scroll(false),
                    Key::Down | Key::Char(b'j') => screen.scroll(true),
                    Key::Char(_) => {}
                }
            }
        }
    }
}

/// Asks a run to end, as `sandbag stop` does.
fn stop(run: &RunInfo) -> String {
    let number = crate::live::words::number(run);
    match run.supervisor() {
        None => format!("{number} cannot be ended from here: see sandbag stop"),
        Some(process) => match process.ask_to_end() {
            Ok(()) => format!("asked {number} to end"),
            Err(error) => error.to_string(),
        },
    }
}
