// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The word by which a service tells who started it that it is ready (sd_notify(3)).

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Says `READY=1` to the socket of `NOTIFY_SOCKET`, a path or a name of the abstract
/// namespace (`@name`). Nothing without that variable.
///
/// # Errors
/// No socket is there, or it is not read.
pub fn ready() -> io::Result<()> {
    match env::var_os("NOTIFY_SOCKET") {
        Some(to) => send(&to),
        None => Ok(()),
    }
}

fn send(to: &OsStr) -> io::Result<()> {
    let to = match to.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(to)?,
    };
    UnixDatagram::unbound()?
        .send_to_addr(b"READY=1", &to)
        .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_and_an_abstract_name_hear_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let name = format!("sandbag-test-{}", std::process::id());
        let heard = [
            (
                UnixDatagram::bind(&path).unwrap(),
                path.clone().into_os_string(),
            ),
            (
                UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap(),
                format!("@{name}").into(),
            ),
        ];
        for (socket, to) in heard {
            send(&to).unwrap();
            let mut word = [0; 16];
            let length = socket.recv(&mut word).unwrap();
            assert_eq!(&word[..length], b"READY=1");
        }
        assert!(send(dir.path().join("nobody").as_os_str()).is_err());
    }
}
