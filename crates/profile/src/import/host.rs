// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The machine that a recording names. A file of several machines has one
//! profile each, and which one is meant has to be said; files that name their
//! machine only in passing must keep to one.

use crate::Fault;

/// The name, once it was found.
#[derive(Debug, Default)]
pub(super) struct Host {
    /// As it stands in the file, which need not be UTF-8.
    name: Option<Vec<u8>>,
}

impl Host {
    /// The file says that it is of this machine.
    pub(super) fn is(&mut self, name: &[u8]) -> Result<(), Fault> {
        match &self.name {
            None => self.name = Some(name.to_vec()),
            Some(expected) if expected == name => {}
            Some(expected) => {
                return Err(Fault::OtherHost {
                    expected: String::from_utf8_lossy(expected).into_owned(),
                    found: String::from_utf8_lossy(name).into_owned(),
                });
            }
        }
        Ok(())
    }

    /// For people.
    pub(super) fn name(&self) -> Option<String> {
        let name = self.name.as_deref()?;
        Some(String::from_utf8_lossy(name).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_of_one_machine() {
        let mut host = Host::default();
        assert_eq!(host.name(), None);
        assert!(host.is(b"vm\xff").is_ok());
        assert!(host.is(b"vm\xff").is_ok(), "no UTF-8, but the same");
        assert_eq!(host.name().as_deref(), Some("vm\u{fffd}"));
        assert!(matches!(
            host.is(b"other"),
            Err(Fault::OtherHost { expected, found }) if expected == "vm\u{fffd}" && found == "other"
        ));
    }
}
