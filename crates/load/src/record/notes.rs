// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Comments in the head of a recording: what its numbers mean.

use std::io::{self, Write};

/// Puts comment lines after the first line of what is written through it.
#[derive(Debug)]
pub(crate) struct NoteWriter<W> {
    out: W,
    notes: Option<String>,
}

impl<W: Write> NoteWriter<W> {
    pub(crate) fn new(out: W, notes: &[&str]) -> Self {
        let lines = notes.iter().map(|note| format!("# note: {note}\n"));
        Self {
            out,
            notes: Some(lines.collect()),
        }
    }
}

impl<W: Write> Write for NoteWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        if let (Some(end), true) = (end, self.notes.is_some()) {
            self.out.write_all(&bytes[..=end])?;
            let notes = self.notes.take().unwrap_or_default();
            self.out.write_all(notes.as_bytes())?;
            return Ok(end + 1);
        }
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

pub(crate) fn meaning(
    steal_as_load: bool,
    command_counts_steal: Option<bool>,
) -> Vec<&'static str> {
    let mut notes = vec![if !steal_as_load {
        "load is the busy share of the delivered time (all time minus steal), of /proc/stat"
    } else {
        "load is the share of all time that was busy or stolen, of /proc/stat"
    }];
    let Some(counts_steal) = command_counts_steal else {
        return notes;
    };
    notes.push("this is the opposing load: busy minus the command's own time on that CPU");
    if counts_steal {
        notes.push(
            "the command's clock counts wall time; steal was taken out of it in proportion to \
             its part of the busy time, never more than the steal seen",
        );
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_stand_after_the_first_line() {
        let mut text = Vec::new();
        let mut out = NoteWriter::new(&mut text, &["a", "b"]);
        for piece in ["# ma", "gic 1\n# host: x\n", "time,cpu0\n", "0,1\n"] {
            out.write_all(piece.as_bytes()).unwrap();
        }
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "# magic 1\n# note: a\n# note: b\n# host: x\ntime,cpu0\n0,1\n"
        );
    }

    #[test]
    fn the_command_s_clock_is_explained() {
        assert_eq!(meaning(false, None).len(), 1);
        assert_eq!(meaning(true, Some(false)).len(), 2);
        assert_eq!(meaning(false, Some(true)).len(), 3);
    }
}
