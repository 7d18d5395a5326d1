// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What most of the tests use.

pub use std::fs;
pub use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
pub use std::os::unix::process::CommandExt as _;
pub use std::path::{Path, PathBuf};
pub use std::process::{Child, Command, Stdio};
pub use std::time::{Duration, Instant};

pub use anyhow::{Context as _, Result, ensure};
pub use nix::sys::signal::{Signal, kill};
pub use nix::unistd::Pid;
pub use sandbag_linux::Root;
pub use sandbag_linux::process::Process;
pub use sandbag_machine_tests::case;
pub use sandbag_machine_tests::ours::Role;
pub use sandbag_machine_tests::spinner::SpinnerResult;
pub use sandbag_machine_tests::{guest, stat};
pub use serde_json::Value;

pub use crate::place::*;
pub use crate::processes::*;
pub use crate::run_record::{FIELDS, are_described};
