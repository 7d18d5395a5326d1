// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Machines that are trees of files. Test modules of several crates include this
//! file by its path.

use std::fs;
use std::path::Path;

use sandbag_linux::Root;
use tempfile::TempDir;

/// Paths, or names in a directory, and what the files hold.
pub type Files<'a> = &'a [(&'a str, &'a str)];

/// Writes these files below a directory, also those with an absolute path.
pub fn put(dir: &Path, files: Files<'_>) {
    for (path, text) in files {
        let path = dir.join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

/// A machine with these files.
pub fn fake(files: Files<'_>) -> (TempDir, Root) {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), files);
    let root = Root::at(dir.path());
    (dir, root)
}

/// A machine with these frequency policies: the CPUs of each, its files.
pub fn fake_policies(policies: &[(&[u32], Files<'_>)]) -> (TempDir, Root) {
    let cpu_dir = "sys/devices/system/cpu";
    let (dir, root) = fake(&[(&format!("{cpu_dir}/online"), "0-7\n")]);
    for (cpus, files) in policies {
        let policy = format!("policy{}", cpus[0]);
        for (name, text) in *files {
            let path = format!("{cpu_dir}/cpufreq/{policy}/{name}");
            put(dir.path(), &[(&path, &format!("{text}\n"))]);
        }
        for cpu in *cpus {
            let cpu_dir = dir.path().join(format!("{cpu_dir}/cpu{cpu}"));
            fs::create_dir_all(&cpu_dir).unwrap();
            let target = format!("../cpufreq/{policy}");
            std::os::unix::fs::symlink(target, cpu_dir.join("cpufreq")).unwrap();
        }
    }
    (dir, root)
}
