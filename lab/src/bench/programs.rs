// SPDX-License-Identifier: Apache-2.0 OR MIT
//! This program, and the sandbag that it measures.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// Where both are.
#[derive(Debug)]
pub struct Programs {
    /// This one, for the processes that it starts of itself.
    pub own: PathBuf,
    /// The sandbag to be measured.
    pub sandbag: PathBuf,
}

impl Programs {
    /// The sandbag that was named, or the one beside this program.
    pub fn find(sandbag: Option<&Path>) -> Result<Self> {
        let own = std::env::current_exe().context("find this program")?;
        let sandbag = match sandbag {
            Some(path) => path.to_owned(),
            None => own.with_file_name("sandbag"),
        };
        let sandbag = sandbag
            .canonicalize()
            .with_context(|| format!("find {}", sandbag.display()))?;
        Ok(Self { own, sandbag })
    }
}
