// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where a page is written.

use std::path::Path;

use sandbag_input::Existing;
use sandbag_ui::failure::Result;

use sandbag_ui::messages::Messages;
use sandbag_ui::output;

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
