// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a guest that says nothing any more is doing: asked of the emulator's
//! monitor, and of the guest's kernel by an interrupt that it cannot mask.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// The prompt behind each answer.
const PROMPT: &[u8] = b"(qemu) ";
/// An emulator that does not answer for so long is what stands still.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where each CPU is, one line each; with that the kernel is told to panic by an
/// NMI (`unknown_nmi_panic`), so that its console says how it got there. In words,
/// whatever happens: this is for a message about a failure.
pub fn question(socket: &Path) -> String {
    let asked = UnixStream::connect(socket).and_then(|mut monitor| {
        monitor.set_read_timeout(Some(PATIENCE))?;
        answer(&mut monitor)?;
        monitor.write_all(b"info registers -a\n")?;
        let registers = answer(&mut monitor)?;
        monitor.write_all(b"nmi\n")?;
        answer(&mut monitor)?;
        Ok(registers)
    });
    match asked {
        Ok(registers) => places(&registers),
        Err(error) => format!("the emulator's monitor does not answer: {error}"),
    }
}

/// Up to the next prompt.
fn answer(monitor: &mut UnixStream) -> std::io::Result<String> {
    let (mut text, mut part) = (Vec::new(), [0; 4096]);
    let begun = Instant::now();
    while !text.ends_with(PROMPT) {
        let count = monitor.read(&mut part)?;
        if count == 0 || begun.elapsed() > PATIENCE {
            return Err(std::io::ErrorKind::TimedOut.into());
        }
        text.extend_from_slice(&part[..count]);
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Of all registers those that say where a CPU is, and whether it waits (HLT=1).
fn places(registers: &str) -> String {
    let wanted = ["CPU#", "RIP=", "EIP="];
    let lines = registers.lines().map(str::trim);
    lines
        .filter(|line| wanted.iter().any(|start| line.starts_with(start)))
        .collect::<Vec<_>>()
        .join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn says_where_the_cpus_are() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("monitor");
        let listener = UnixListener::bind(&path).unwrap();
        let emulator = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(b"QEMU 7.2 monitor\r\n(qemu) ").unwrap();
            let mut asked = [0; 18];
            stream.read_exact(&mut asked).unwrap();
            assert_eq!(&asked, b"info registers -a\n");
            let registers = b"\r\nCPU#0\r\nRAX=0 RBX=0\r\n\
                RIP=ffffffff81a0 RFL=00000246 [---Z-P-] CPL=0 II=0 A20=1 SMM=0 HLT=1\r\n(qemu) ";
            stream.write_all(registers).unwrap();
            let mut asked = [0; 4];
            stream.read_exact(&mut asked).unwrap();
            assert_eq!(&asked, b"nmi\n");
            stream.write_all(b"\r\n(qemu) ").unwrap();
        });
        let said = question(&path);
        emulator.join().unwrap();
        assert_eq!(
            said,
            "CPU#0\nRIP=ffffffff81a0 RFL=00000246 [---Z-P-] CPL=0 II=0 A20=1 SMM=0 HLT=1"
        );
    }

    #[test]
    fn an_emulator_that_is_not_there_is_said() {
        assert!(question(Path::new("/nonexistent/monitor")).contains("does not answer"));
    }
}
