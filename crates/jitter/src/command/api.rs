// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag jitter api`: what C programs need to ask for jitter themselves.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use crate::inside::library::{C_FILES, LIBRARY_NAME};
use clap::Args;
use sandbag_ui::failure::{Context as _, Result};

use sandbag_ui::exit;
use sandbag_ui::messages::Messages;
use sandbag_ui::output::{Overwrite, make_dir, put};

/// Write the header, the source and the library for programs that ask for
/// their jitter themselves
///
/// Link with libsandbag_jitter.so, or add jitter.c to the program. Outside of
/// `sandbag jitter replay --inside` the calls do nothing.
#[derive(Debug, Args)]
pub struct ApiArgs {
    /// The directory, made if need be
    #[arg(value_name = "DIR")]
    dir: PathBuf,

    #[command(flatten)]
    overwrite: Overwrite,
}

pub fn main(args: &ApiArgs, messages: &Messages) -> Result<u8> {
    let dir = &args.dir;
    make_dir(dir).with_context(|| dir.display().to_string())?;
    for (name, contents) in C_FILES {
        let path = dir.join(name);
        let mode = if name == LIBRARY_NAME { 0o755 } else { 0o644 };
        put(&path, contents, args.overwrite.existing())?;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))
            .with_context(|| path.display().to_string())?;
        messages.detail(&path.display().to_string());
    }
    Ok(exit::KEPT)
}
