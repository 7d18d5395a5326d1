// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The guests' kernels: Debian's packages of Linux, most of them those for clouds.
//!
//! They are small, have cgroup v2 and the serial console built in, and boot
//! from an initial RAM file system without any module. A package is unpacked
//! in the cache, never installed.

use std::path::{Path, PathBuf};

use anyhow::Context;

use super::{cache, packages};
use crate::case;

/// Which kernel a guest runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kernel {
    /// Linux 6.1 of Debian 12: CFS.
    V6_1,
    /// The same for real-time work: the one of Debian's that has the osnoise tracer.
    V6_1Rt,
    /// Linux 6.12 of Debian 13: EEVDF, and slices that a task can choose.
    V6_12,
}

impl Kernel {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::V6_1, Self::V6_1Rt, Self::V6_12];

    /// Those on which loads have to be held, the oldest first.
    pub const ORDINARY: [Self; 2] = [Self::V6_1, Self::V6_12];

    /// Version, as in the names of the cases.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::V6_1 => "6.1",
            Self::V6_1Rt => "6.1-rt",
            Self::V6_12 => "6.12",
        }
    }

    /// The Debian release that has it.
    fn release(self) -> &'static str {
        match self {
            Self::V6_1 | Self::V6_1Rt => "bookworm",
            Self::V6_12 => "trixie",
        }
    }

    /// A regular expression for the package; signed and unsigned ones hold
    /// the same kernel.
    fn package(self) -> &'static str {
        match self {
            Self::V6_1 => r"^linux-image-6\.1\.0-[0-9]+-cloud-amd64(-unsigned)?$",
            Self::V6_1Rt => r"^linux-image-6\.1\.0-[0-9]+-rt-amd64(-unsigned)?$",
            Self::V6_12 => r"^linux-image-6\.12\.[0-9]+\+deb13-cloud-amd64(-unsigned)?$",
        }
    }

    /// The newest image in the cache, or, if there is none, the newest that
    /// Debian has now.
    pub(super) fn find_or_fetch(self) -> anyhow::Result<PathBuf> {
        let cache = cache::directory()?;
        match self.newest_image(&cache)? {
            Some(image) => Ok(image),
            None => self
                .fetch(&cache)
                .with_context(|| format!("no kernel {} for the guest", self.name())),
        }
    }

    fn fetch(self, cache: &Path) -> anyhow::Result<PathBuf> {
        let work = tempfile::tempdir_in(cache)?;
        case::note(&format!("fetching Linux {}", self.name()));
        let (package, tree) = packages::unpack_newest(self.release(), self.package(), work.path())?;
        let image = self
            .newest_image(&tree.join("boot"))?
            .with_context(|| format!("{package} holds no kernel"))?;
        let name = image.file_name().context("the kernel has no name")?;
        let kept = cache.join(name);
        std::fs::rename(&image, &kept).with_context(|| kept.display().to_string())?;
        Ok(kept)
    }

    fn newest_image(self, directory: &Path) -> anyhow::Result<Option<PathBuf>> {
        let (begin, end) = match self {
            Self::V6_1 => ("vmlinuz-6.1.", "-cloud-amd64"),
            Self::V6_1Rt => ("vmlinuz-6.1.", "-rt-amd64"),
            Self::V6_12 => ("vmlinuz-6.12.", "-cloud-amd64"),
        };
        let entries =
            std::fs::read_dir(directory).with_context(|| directory.display().to_string())?;
        Ok(entries
            .filter_map(Result::ok)
            .map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry))
            .filter(|(name, _)| name.starts_with(begin) && name.ends_with(end))
            .max_by_key(|(name, _)| packages::numbers(name))
            .map(|(_, entry)| entry.path()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_image_of_a_kernel_is_found_among_others() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(Kernel::V6_1.newest_image(directory.path()).unwrap(), None);
        for name in [
            "vmlinuz-6.1.0-9-cloud-amd64",
            "vmlinuz-6.1.0-50-cloud-amd64",
            "vmlinuz-6.1.0-51-rt-amd64",
            "config-6.1.0-60-cloud-amd64",
            "vmlinuz-6.12.94-cloud-amd64",
        ] {
            std::fs::write(directory.path().join(name), "").unwrap();
        }
        let newest = |kernel: Kernel| kernel.newest_image(directory.path()).unwrap();
        let path = |name| Some(directory.path().join(name));
        assert_eq!(newest(Kernel::V6_1), path("vmlinuz-6.1.0-50-cloud-amd64"));
        assert_eq!(newest(Kernel::V6_1Rt), path("vmlinuz-6.1.0-51-rt-amd64"));
        assert_eq!(newest(Kernel::V6_12), path("vmlinuz-6.12.94-cloud-amd64"));
    }
}
