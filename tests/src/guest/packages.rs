// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packages of a Debian release that need not be the machine's own.
//!
//! # Problem
//! The guests' kernels come from two releases, and this machine's apt knows
//! one of them at most. Its configuration is not ours to change.
//!
//! # Approach
//! apt-get with a configuration of its own: sources, lists and state in a
//! directory that is removed afterwards; of the machine's configuration only
//! how to reach the network (`Acquire`). The mirror is the one that the
//! machine's apt uses. Signatures are checked against Debian's keyring, and
//! nothing loosens that. None of it needs root.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use super::cache;

/// Installed by the package `debian-archive-keyring`, which apt depends on.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// The newest package of a release whose name `pattern` (a regular expression
/// of apt-cache) describes, unpacked into a directory in `work`: its name and
/// the directory.
///
/// # Errors
/// Where apt or the network fails, the release is not signed by Debian's
/// keys, or it has no such package.
pub fn unpack_newest(
    release: &str,
    pattern: &str,
    work: &Path,
) -> anyhow::Result<(String, PathBuf)> {
    let apt = Apt::new(release, work)?;
    apt.run("apt-get", &["--quiet", "update"])?;
    let found = apt.run("apt-cache", &["search", "--names-only", pattern])?;
    let name =
        newest(&found).with_context(|| format!("no package {pattern} in Debian {release}"))?;
    apt.run("apt-get", &["--quiet", "download", &name])?;
    let package = fs::read_dir(work)?
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .context("apt-get download left no package")?;
    let tree = work.join("tree");
    cache::output(
        Command::new(cache::tool("dpkg", "dpkg")?)
            .arg("-x")
            .args([&package, &tree]),
    )?;
    Ok((name, tree))
}

/// apt for one release, with everything it writes in one directory.
struct Apt<'a> {
    work: &'a Path,
    configuration: PathBuf,
}

impl<'a> Apt<'a> {
    fn new(release: &str, work: &'a Path) -> anyhow::Result<Self> {
        if !Path::new(KEYRING).is_file() {
            bail!("no {KEYRING} (Debian package debian-archive-keyring)");
        }
        for directory in ["state/lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(work.join(directory))?;
        }
        fs::write(work.join("status"), "")?;
        let sources = work.join("debian.sources");
        fs::write(
            &sources,
            format!(
                "Types: deb\nURIs: {}\nSuites: {release}\nComponents: main\n\
                 Architectures: amd64\nTargets: Packages\nSigned-By: {KEYRING}\n",
                mirror()?
            ),
        )?;
        let network = cache::output(
            Command::new(cache::tool("apt-config", "apt")?).args(["dump", "Acquire"]),
        )?;
        let configuration = work.join("apt.conf");
        let work_path = work.display();
        fs::write(
            &configuration,
            format!(
                "{}\
                 Acquire::AllowInsecureRepositories \"false\";\n\
                 Acquire::AllowWeakRepositories \"false\";\n\
                 APT::Get::AllowUnauthenticated \"false\";\n\
                 Acquire::Languages \"none\";\n\
                 Dir::Etc::main \"/dev/null\";\n\
                 Dir::Etc::parts \"/dev/null\";\n\
                 Dir::Etc::sourceparts \"/dev/null\";\n\
                 Dir::Etc::sourcelist \"{}\";\n\
                 Dir::State \"{work_path}/state\";\n\
                 Dir::State::status \"{work_path}/status\";\n\
                 Dir::Cache \"{work_path}/cache\";\n",
                String::from_utf8_lossy(&network.stdout),
                sources.display(),
            ),
        )?;
        Ok(Self {
            work,
            configuration,
        })
    }

    fn run(&self, program: &str, arguments: &[&str]) -> anyhow::Result<String> {
        let output = cache::output(
            Command::new(cache::tool(program, "apt")?)
                .args(arguments)
                .env("APT_CONFIG", &self.configuration)
                .current_dir(self.work),
        )?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// Where apt gets Debian from on this machine.
///
/// # Errors
/// If it does not.
pub fn mirror() -> anyhow::Result<String> {
    let targets = cache::output(Command::new(cache::tool("apt-get", "apt")?).args([
        "indextargets",
        "--format",
        "$(LABEL) $(COMPONENT) $(REPO_URI)",
        "Created-By: Packages",
    ]))?;
    pick_mirror(&String::from_utf8_lossy(&targets.stdout))
        .context("apt has no mirror of Debian here")
}

fn pick_mirror(targets: &str) -> Option<String> {
    targets.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        ([Some("Debian"), Some("main")] == [words.next(), words.next()])
            .then(|| words.next().map(str::to_owned))
            .flatten()
    })
}

/// The first word of the line with the highest version in it.
fn newest(found: &str) -> Option<String> {
    found
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .max_by_key(|name| numbers(name))
        .map(str::to_owned)
}

/// All numbers in a name, by which names that differ only in the version are
/// sorted: 6, 1, 0, 56, 64 in `linux-image-6.1.0-56-cloud-amd64`.
pub fn numbers(name: &str) -> Vec<u64> {
    name.split(|character: char| !character.is_ascii_digit())
        .filter_map(|digits| digits.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mirror_is_not_the_one_of_security_updates() {
        let targets = "Debian-Security main http://a.example/security/\n\
                       Debian contrib http://b.example/debian/\n\
                       Debian main http://c.example/debian/\n";
        assert_eq!(
            pick_mirror(targets).as_deref(),
            Some("http://c.example/debian/")
        );
        assert_eq!(pick_mirror("Ubuntu main http://a.example/\n"), None);
    }

    #[test]
    fn the_newest_package_is_by_number_not_by_letter() {
        let found = "linux-image-6.1.0-9-cloud-amd64 - Linux 6.1 for x86-64 cloud (signed)\n\
                     linux-image-6.1.0-56-cloud-amd64-unsigned - Linux 6.1 for x86-64 cloud\n\
                     linux-image-6.1.0-47-cloud-amd64 - Linux 6.1 for x86-64 cloud (signed)\n";
        assert_eq!(
            newest(found).as_deref(),
            Some("linux-image-6.1.0-56-cloud-amd64-unsigned")
        );
        let found = "linux-image-6.12.94+deb13-cloud-amd64 - Linux 6.12 for x86-64 cloud\n\
                     linux-image-6.12.107+deb13-cloud-amd64 - Linux 6.12 for x86-64 cloud\n";
        assert_eq!(
            newest(found).as_deref(),
            Some("linux-image-6.12.107+deb13-cloud-amd64")
        );
        assert_eq!(newest(""), None);
    }
}
