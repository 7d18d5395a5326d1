// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where a page is written.

use std::io::{self, Write as _};
use std::path::Path;

use anyhow::{Context as _, Result};
use sandbag_profile::NewFile;

use crate::messages::Messages;

/// Writes a page, to standard output for `-`.
pub(super) fn write(path: &Path, page: &str, messages: &Messages) -> Result<()> {
    let name = path.display().to_string();
    if path.as_os_str() == "-" {
        return match io::stdout().write_all(page.as_bytes()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
            _ => Ok(()),
        };
    }
    let mut file = NewFile::create(path).with_context(|| name.clone())?;
    let written = file.write_all(page.as_bytes()).and_then(|()| file.finish());
    written.with_context(|| name.clone())?;
    messages.say(&format!("wrote {name}"));
    Ok(())
}
