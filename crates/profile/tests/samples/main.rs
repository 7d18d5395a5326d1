// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Real files that are not in the repository, in the folder that
//! `SANDBAG_SAMPLES` names: `krash_profiles`, `sysstat` (its own test data),
//! `local_2cpu_180s`, `collectl`, `pcp_tools` and `pcp_percore` (those of
//! Performance Co-Pilot's tests), `prometheus`, `swf` and `lublin_reference`.
//! The tests are ignored unless asked for (`make unit` asks where the variable
//! is set).

mod collectl_atop;
mod mpstat;
mod pcp;
mod prometheus;
mod swf;
mod sysstat;

use std::path::PathBuf;

use sandbag_profile::{InputSource, Profile, ProfileSummary, ReadOptions, summarise};

fn sample(name: &str) -> PathBuf {
    let folder = std::env::var_os("SANDBAG_SAMPLES")
        .expect("SANDBAG_SAMPLES names the folder with the sample files");
    PathBuf::from(folder).join(name)
}

fn read(name: &str) -> (Profile, ProfileSummary) {
    let source = InputSource::new(&sample(name)).unwrap();
    let steps = || {
        source
            .open(None, &ReadOptions::default())
            .unwrap_or_else(|e| panic!("{name}: {e}"))
    };
    let profile = Profile::collect(steps()).unwrap_or_else(|e| panic!("{name}: {e}"));
    let summary = summarise(&mut steps()).unwrap();
    assert_eq!(summary.warnings, profile.warnings);
    (profile, summary)
}

/// Why a file is refused.
fn refusal(name: &str) -> String {
    let source = InputSource::new(&sample(name)).unwrap();
    let steps = source.open(None, &ReadOptions::default());
    let error = steps.and_then(Profile::collect).err().unwrap();
    error.to_string()
}
