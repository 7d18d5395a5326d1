// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One load as several tools recorded it (see fixtures/README.md), through the
//! public interface: the importers agree, and what is exported is read back.

mod collectl_atop;
mod mpstat;
mod one_recording;
mod pcp;
mod prometheus;

use std::path::{Path, PathBuf};

use sandbag_profile::{BoxSteps, InputSource, Profile, ReadOptions, Result};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name)
}

fn open(path: &Path, options: &ReadOptions) -> Result<BoxSteps> {
    InputSource::new(path)?.open(None, options)
}

fn read(path: &Path) -> Profile {
    let steps = open(path, &ReadOptions::default());
    Profile::collect(steps.unwrap_or_else(|e| panic!("{e}"))).unwrap()
}
