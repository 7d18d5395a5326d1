// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The terminal of `top`: its other screen, keys one by one, and all as before at the end.

use std::ffi::OsString;
use std::io::{self, IsTerminal as _, Write as _, stdin, stdout};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::termios::{
    LocalFlags, SetArg, SpecialCharacterIndices, Termios, tcgetattr, tcsetattr,
};
use sandbag_linux::interrupt;
use sandbag_ui::output;

const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
/// Of a terminal that does not say how large it is.
const SIZE: (usize, usize) = (80, 24);
/// Longest time without a look whether a signal has come.
const LOOK: Duration = Duration::from_millis(100);

/// What the user pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    Char(u8),
    Up,
    Down,
    /// The terminal is gone, or a signal asks us to end.
    End,
}

#[derive(Debug)]
pub struct Screened {
    before: Termios,
    typed: Vec<u8>,
}

/// Columns and lines.
pub fn size() -> (usize, usize) {
    output::size_of(&stdout()).unwrap_or(SIZE)
}

/// Whether there is one to be drawn on.
pub fn is_there() -> bool {
    stdin().is_terminal() && stdout().is_terminal() && can_draw(std::env::var_os("TERM"))
}

/// Whether a terminal of this type takes the sequences that draw on it.
fn can_draw(term: Option<OsString>) -> bool {
    term.is_none_or(|term| term != "dumb")
}

impl Screened {
    /// # Errors
    /// It is no terminal.
    pub fn begin() -> io::Result<Self> {
        interrupt::watch()?;
        let before = tcgetattr(stdin())?;
        let mut now = before.clone();
        now.local_flags
            .remove(LocalFlags::ICANON | LocalFlags::ECHO);
        // Stopped on the other screen it would leave the terminal unusable.
        now.control_chars[SpecialCharacterIndices::VSUSP as usize] = 0;
        tcsetattr(stdin(), SetArg::TCSANOW, &now)?;
        let this = Self {
            before,
            typed: Vec::new(),
        };
        write(ENTER)?;
        Ok(this)
    }

    /// Draws a screen over the last one.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn draw(&self, lines: &[String]) -> io::Result<()> {
        write(&format!("\x1b[H{}\x1b[K", lines.join("\x1b[K\r\n")))
    }

    /// Waits for a key; `None` once `until` has come.
    pub fn key(&mut self, until: Instant) -> Option<Key> {
        loop {
            if let Some(key) = first(&mut self.typed) {
                return Some(key);
            }
            let left = until.saturating_duration_since(Instant::now());
            let stdin = stdin();
            let mut fds = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
            let wait = PollTimeout::try_from(left.min(LOOK)).unwrap_or(PollTimeout::ZERO);
            let outcome = poll(&mut fds, wait);
            if interrupt::came() {
                return Some(Key::End);
            }
            match outcome {
                Ok(0) if left.is_zero() => return None,
                Ok(0) | Err(Errno::EINTR) => {}
                Ok(_) => {
                    // Not by the stream, which would keep what was typed from poll.
                    let mut bytes = [0; 64];
                    match nix::unistd::read(&stdin, &mut bytes) {
                        Ok(0) | Err(_) => return Some(Key::End),
                        Ok(count) => self.typed.extend_from_slice(&bytes[..count]),
                    }
                }
                Err(_) => return Some(Key::End),
            }
        }
    }
}

impl Drop for Screened {
    fn drop(&mut self) {
        let _ = write(LEAVE);
        let _ = tcsetattr(stdin(), SetArg::TCSANOW, &self.before);
    }
}

/// The first key of what was typed, which is taken out of it.
fn first(typed: &mut Vec<u8>) -> Option<Key> {
    let (key, length) = match typed[..] {
        [] => return None,
        [0x1b, b'[' | b'O', b'A', ..] => (Key::Up, 3),
        [0x1b, b'[' | b'O', b'B', ..] => (Key::Down, 3),
        [first, ..] => (Key::Char(first), 1),
    };
    typed.drain(..length);
    Some(key)
}

fn write(text: &str) -> io::Result<()> {
    let mut out = stdout();
    out.write_all(text.as_bytes())?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dumb_terminal_is_not_drawn_on() {
        assert!(can_draw(Some("xterm-256color".into())) && can_draw(None));
        assert!(!can_draw(Some("dumb".into())));
    }

    #[test]
    fn keys_have_their_meaning() {
        let mut typed = b"q\x1b[A\x1bOB\x1b".to_vec();
        let keys: Vec<Key> = std::iter::from_fn(|| first(&mut typed)).collect();
        let expected = [Key::Char(b'q'), Key::Up, Key::Down, Key::Char(0x1b)];
        assert_eq!(keys, expected);
    }
}
