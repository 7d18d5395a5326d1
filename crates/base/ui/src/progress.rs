// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How far a long command is: one line on a terminal, drawn again in place.

use std::io::{Write as _, stderr};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::messages::Messages;
use crate::text::visible;

/// A shorter interval cannot be read.
const LEAST_BETWEEN: Duration = Duration::from_millis(100);
/// A shorter bar is left out, so that the message is not cut.
const LEAST_BAR: usize = 8;
/// Of a terminal that does not say how wide it is.
const COLUMNS: usize = 80;

/// The time passed, a bar if the length is known, and a message. Cleared when dropped.
#[derive(Debug)]
pub struct Progress {
    began: Instant,
    drawn: Option<Instant>,
    /// Done of the whole, 0 to 1.
    share: Option<f64>,
    message: String,
}

impl Progress {
    /// `None` where standard error is no terminal that redraws lines, or is to be quiet.
    pub fn start(messages: &Messages, is_length_known: bool) -> Option<Self> {
        let redraws = std::env::var_os("TERM").is_none_or(|terminal| terminal != "dumb");
        if !messages.interactive() || !redraws {
            return None;
        }
        let mut progress = Self {
            began: Instant::now(),
            drawn: None,
            share: is_length_known.then_some(0.0),
            message: String::new(),
        };
        progress.draw();
        Some(progress)
    }

    /// The share is ignored where no length is known.
    pub fn update(&mut self, share: f64, message: &str) {
        self.share = self.share.map(|_| share.clamp(0.0, 1.0));
        self.set_message(message);
    }

    pub fn set_message(&mut self, message: &str) {
        self.message = visible(message);
        if self.drawn.is_none_or(|at| at.elapsed() >= LEAST_BETWEEN) {
            self.draw();
        }
    }

    /// Prints messages above the line.
    pub fn print_above(&mut self, print: impl FnOnce()) {
        clear();
        print();
        self.draw();
    }

    fn draw(&mut self) {
        self.drawn = Some(Instant::now());
        let columns = Messages::width().unwrap_or(COLUMNS);
        let line = line(self.began.elapsed(), self.share, &self.message, columns);
        show(&format!("\r{line}\x1b[K"));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        clear();
    }
}

fn clear() {
    show("\r\x1b[K");
}

/// Left out while the terminal is stopped (Ctrl-S), which would stop us as well.
fn show(text: &str) {
    if takes_output(stderr()) {
        let _ = write!(stderr(), "{text}");
    }
}

fn takes_output(to: impl AsFd) -> bool {
    let mut fds = [PollFd::new(to.as_fd(), PollFlags::POLLOUT)];
    poll(&mut fds, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
}

/// Ends a column before the last, in which some terminals begin the next line.
fn line(passed: Duration, share: Option<f64>, message: &str, columns: usize) -> String {
    let seconds = passed.as_secs();
    let clock = format!(
        "{:02}:{:02}:{:02}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    );
    let room = columns.saturating_sub(1);
    // The clock, the brackets, and blanks between the three parts.
    let bar = room.saturating_sub(clock.len() + message.chars().count() + 4);
    let text = match share {
        Some(share) if bar >= LEAST_BAR => {
            let done = (share * bar as f64) as usize;
            let (full, rest) = ("█".repeat(done), "░".repeat(bar - done));
            format!("{clock} [{full}{rest}] {message}")
        }
        _ => format!("{clock} {message}"),
    };
    text.trim_end().chars().take(room).collect()
}

#[cfg(test)]
mod tests {
    use nix::pty::openpty;
    use nix::sys::termios::{FlowArg, tcflow};

    use super::*;

    #[test]
    fn a_terminal_that_was_stopped_takes_no_output() {
        let ends = openpty(None, None).unwrap();
        assert!(takes_output(&ends.slave));
        tcflow(&ends.slave, FlowArg::TCOOFF).unwrap();
        assert!(!takes_output(&ends.slave));
        tcflow(&ends.slave, FlowArg::TCOON).unwrap();
        assert!(takes_output(&ends.slave));
    }

    #[test]
    fn a_line_fits_the_terminal_and_cuts_the_message_last() {
        let of =
            |share, message, columns| line(Duration::from_secs(3_725), share, message, columns);
        assert_eq!(of(None, "3 samples", 80), "01:02:05 3 samples");
        assert_eq!(of(Some(0.25), "half", 25), "01:02:05 [██░░░░░░] half");
        assert_eq!(of(Some(0.25), "half", 24), "01:02:05 half");
        assert_eq!(of(Some(1.0), "", 25), "01:02:05 [████████████]");
        assert_eq!(of(Some(0.5), "a long message", 15), "01:02:05 a lon");
        assert_eq!(of(None, "x", 0), "");
    }
}
