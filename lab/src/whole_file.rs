// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files that are written whole or not at all.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

/// Writes a file in one step, so that neither a page nor the choices of an experiment
/// are cut off.
///
/// # Errors
/// The file cannot be written.
pub fn put(path: &Path, bytes: &[u8]) -> Result<()> {
    let new = path.with_extension("new");
    fs::write(&new, bytes)
        .and_then(|()| fs::rename(&new, path))
        .with_context(|| path.display().to_string())
}
