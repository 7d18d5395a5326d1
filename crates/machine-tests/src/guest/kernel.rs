// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The guest's kernel: Debian's package of Linux 6.1 for clouds.
//!
//! It is small, has cgroup v2, CFS and the serial console built in, and boots
//! from an initial RAM file system without any module. The package is
//! unpacked in the cache, never installed.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use super::cache;
use crate::case;

/// `apt-cache search --names-only` takes this; signed and unsigned packages
/// hold the same kernel.
const PACKAGES: &str = "^linux-image-6\\.1\\.0-[0-9]+-cloud-amd64(-unsigned)?$";

/// The name of a kernel image begins with this, in the package and the cache.
const IMAGE: &str = "vmlinuz-";

/// The newest kernel in the cache, or, if there is none, the newest that apt
/// offers, fetched by `apt-get download` as any user.
pub fn find_or_fetch() -> anyhow::Result<PathBuf> {
    let cache = cache::directory()?;
    match newest_image(&cache)? {
        Some(image) => Ok(image),
        None => fetch(&cache).context("no kernel for the guest"),
    }
}

fn fetch(cache: &Path) -> anyhow::Result<PathBuf> {
    let search = cache::output(Command::new(cache::tool("apt-cache", "apt")?).args([
        "search",
        "--names-only",
        PACKAGES,
    ]))?;
    let package = newest_package(&String::from_utf8_lossy(&search.stdout)).context(
        "apt knows no linux-image-6.1.0-*-cloud-amd64 (Debian 12, after `apt-get update`)",
    )?;

    let work = tempfile::tempdir_in(cache)?;
    case::note(&format!("fetching {package}"));
    cache::output(
        Command::new(cache::tool("apt-get", "apt")?)
            .args(["--quiet", "download", &package])
            .current_dir(&work),
    )?;
    let package = std::fs::read_dir(&work)?
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .context("apt-get download left no package")?;
    let tree = work.path().join("tree");
    cache::output(
        Command::new(cache::tool("dpkg", "dpkg")?)
            .arg("-x")
            .args([&package, &tree]),
    )?;

    let image = newest_image(&tree.join("boot"))?.context("the package holds no kernel")?;
    let name = image.file_name().context("the kernel has no name")?;
    let kept = cache.join(name);
    std::fs::rename(&image, &kept).with_context(|| kept.display().to_string())?;
    Ok(kept)
}

/// The first word of the line with the highest number behind `6.1.0-`.
fn newest_package(search: &str) -> Option<String> {
    search
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .max_by_key(|name| abi(name))
        .map(str::to_owned)
}

fn newest_image(directory: &Path) -> anyhow::Result<Option<PathBuf>> {
    let entries = std::fs::read_dir(directory).with_context(|| directory.display().to_string())?;
    Ok(entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(IMAGE))
        .max_by_key(|entry| abi(&entry.file_name().to_string_lossy()))
        .map(|entry| entry.path()))
}

/// 56 in `linux-image-6.1.0-56-cloud-amd64` and `vmlinuz-6.1.0-56-cloud-amd64`.
fn abi(name: &str) -> Option<u32> {
    name.split_once("6.1.0-")?.1.split('-').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_package_is_by_number_not_by_letter() {
        let search = "linux-image-6.1.0-9-cloud-amd64 - Linux 6.1 for x86-64 cloud (signed)\n\
                      linux-image-6.1.0-56-cloud-amd64-unsigned - Linux 6.1 for x86-64 cloud\n\
                      linux-image-6.1.0-47-cloud-amd64 - Linux 6.1 for x86-64 cloud (signed)\n";
        assert_eq!(
            newest_package(search).as_deref(),
            Some("linux-image-6.1.0-56-cloud-amd64-unsigned")
        );
        assert_eq!(newest_package(""), None);
    }

    #[test]
    fn the_newest_image_of_a_directory_is_found_among_other_files() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(newest_image(directory.path()).unwrap(), None);
        for name in [
            "vmlinuz-6.1.0-9-x",
            "vmlinuz-6.1.0-50-x",
            "config-6.1.0-60-x",
        ] {
            std::fs::write(directory.path().join(name), "").unwrap();
        }
        assert_eq!(
            newest_image(directory.path()).unwrap(),
            Some(directory.path().join("vmlinuz-6.1.0-50-x"))
        );
    }
}
