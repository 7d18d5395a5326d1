// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The program that checks itself.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::support::compile;

/// Compiled once. What is static is never dropped, so the directory is cargo's.
pub fn victim() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let place = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let dir = tempfile::tempdir_in(place).unwrap();
        let path = place.join("victim");
        std::fs::rename(compile(dir.path(), "victim.c", &["-pthread"]), &path).unwrap();
        path
    })
}
