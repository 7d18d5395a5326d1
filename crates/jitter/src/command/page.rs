// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where a page is written.

use std::path::Path;

use anyhow::Result;
use sandbag_profile::Existing;

use crate::messages::Messages;
use crate::output;

/// Writes a page, to standard output for `-`.
pub(super) fn write(
    path: &Path,
    page: &str,
    existing: Existing,
    messages: &Messages,
) -> Result<()> {
    output::put(path, page, existing)?;
    if path.as_os_str() != "-" {
        messages.say(&format!("wrote {}", path.display()));
    }
    Ok(())
}
