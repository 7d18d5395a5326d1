// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The group of a unit or a container, by its name.
//!
//! A unit has the name of its directory. Engines name those of containers by the 64 digits
//! of its id: `docker-ID.scope`, `libpod-ID.scope`, `cri-containerd-ID.scope`, `crio-ID.scope`,
//! or `ID` where the engine does not ask systemd; nspawn and LXC by the name.

use std::cell::LazyCell;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sandbag_linux::Root;
use sandbag_linux::cgroup;
use sandbag_run::{Error, Result};
use sandbag_ui::text::visible;

/// Programs that know a container's id by its name, and what is there once one of them ran.
/// Only then it is asked: an engine mounts and makes directories when it is asked first.
const ENGINES: [(&str, &str); 3] = [
    ("podman", "/run/libpod"),
    ("docker", "/run/docker.sock"),
    ("nerdctl", "/run/containerd"),
];
/// Fewer digits than an engine shows do not name a container for sure.
const LEAST_DIGITS: usize = 12;
const ID_DIGITS: usize = 64;
/// Whether a directory is meant, by its name.
type NameTest = Box<dyn Fn(&str) -> bool>;
/// A tree is not searched deeper.
const DEPTH: usize = 12;

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupName {
    /// `nginx.service`, or `nginx`.
    Unit(String),
    /// A name or an id.
    Container(String),
}

impl fmt::Display for GroupName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unit(name) => write!(f, "unit {}", visible(&unit_name(name))),
            Self::Container(name) => write!(f, "container {}", visible(name)),
        }
    }
}

fn unit_name(name: &str) -> String {
    let kinds = [".service", ".scope", ".slice"];
    if kinds.iter().any(|kind| name.ends_with(kind)) {
        name.to_owned()
    } else {
        format!("{name}.service")
    }
}

/// The directory of the group, in the first tree that has it.
///
/// # Errors
/// [`Error::NotPossible`] if there is none, or more than one.
pub fn find_group(root: &Root, name: &GroupName) -> Result<PathBuf> {
    let tests: Vec<NameTest> = match name {
        GroupName::Unit(name) => {
            let name = unit_name(name);
            vec![Box::new(move |dir| dir == name)]
        }
        GroupName::Container(name) => {
            let (own, name) = (name.clone(), name.clone());
            let by_engine = LazyCell::new(move || id_of(&name));
            let is_its =
                move |dir: &str| by_engine.as_deref().is_some_and(|id| is_container(dir, id));
            vec![
                Box::new(move |dir| is_container(dir, &own)),
                Box::new(is_its),
            ]
        }
    };
    let trees = cgroup::mount_points(root)?;
    for test in &tests {
        for tree in &trees {
            let mut found = Vec::new();
            search(tree, test, DEPTH, &mut found);
            match &found[..] {
                [] => {}
                [one] => return Ok(one.clone()),
                [first, second, ..] => {
                    let both = format!("{} and {}", first.display(), second.display());
                    let what = format!("{name} is not the only one of this name: {both}");
                    return Err(Error::not_possible(
                        what,
                        "slow one of them by --pid and --tree",
                    ));
                }
            }
        }
    }
    let remedy = match name {
        GroupName::Unit(_) => "see systemctl list-units, or use --pid",
        GroupName::Container(_) => "give its id, or use --pid",
    };
    Err(Error::not_possible(
        format!("{name} does not run here"),
        remedy,
    ))
}

/// Whether a directory has the name that engines give to a container's.
fn is_container(dir: &str, wanted: &str) -> bool {
    let machine = |name: &str| name == wanted;
    if dir.strip_prefix("lxc.payload.").is_some_and(machine) {
        return true;
    }
    let bare = dir.strip_suffix(".scope").unwrap_or(dir);
    if bare.strip_prefix("machine-").is_some_and(machine) {
        return true;
    }
    let (engine, id) = bare.rsplit_once('-').unwrap_or(("", bare));
    // The scope of the container's monitor has the same id.
    if engine.ends_with("conmon") {
        return false;
    }
    let is_id = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_named = wanted.len() >= LEAST_DIGITS && is_id(wanted) && id.starts_with(wanted);
    is_named && id.len() == ID_DIGITS && is_id(id)
}

/// Asks the engines that are there.
fn id_of(name: &str) -> Option<String> {
    let ask = |engine: &&str| {
        let mut command = Command::new(engine);
        command.args([
            "inspect",
            "--type",
            "container",
            "--format",
            "{{.Id}}",
            "--",
            name,
        ]);
        let output = command
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output()
            .ok()?;
        let id = String::from_utf8(output.stdout).ok()?;
        let id = id.trim();
        (output.status.success() && id.len() == ID_DIGITS).then(|| id.to_owned())
    };
    let ran = ENGINES
        .iter()
        .filter(|(_, trace)| Path::new(trace).exists());
    ran.map(|(engine, _)| engine).find_map(ask)
}

fn search(dir: &Path, is_it: &dyn Fn(&str) -> bool, depth: usize, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        if entry.file_name().to_str().is_some_and(is_it) {
            found.push(entry.path());
        } else if depth > 0 {
            search(&entry.path(), is_it, depth - 1, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0";

    #[test]
    fn the_names_of_all_engines_are_known() {
        for dir in [
            format!("docker-{ID}.scope"),
            format!("libpod-{ID}.scope"),
            format!("cri-containerd-{ID}.scope"),
            format!("libpod-{ID}"),
            ID.to_owned(),
        ] {
            assert!(
                is_container(&dir, ID) && is_container(&dir, &ID[..12]),
                "{dir}"
            );
            assert!(
                !is_container(&dir, &ID[..8]) && !is_container(&dir, "web1"),
                "{dir}"
            );
        }
        assert!(is_container("machine-deb.scope", "deb") && is_container("lxc.payload.a", "a"));
        for engine in ["libpod", "crio"] {
            assert!(!is_container(&format!("{engine}-conmon-{ID}.scope"), ID));
        }
    }

    #[test]
    fn a_group_is_found_by_its_name_if_there_is_one() {
        let mounts = "31 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let (dir, root) = crate::fake_machine::fake(&[
            ("proc/self/mountinfo", mounts),
            ("proc/self/cgroup", "0::/\n"),
            (
                "sys/fs/cgroup/system.slice/nginx.service/cgroup.procs",
                "7\n",
            ),
            ("sys/fs/cgroup/a/twice.scope/cgroup.procs", ""),
            ("sys/fs/cgroup/b/twice.scope/cgroup.procs", ""),
        ]);
        let unit = |name: &str| find_group(&root, &GroupName::Unit(name.to_owned()));
        let nginx = dir.path().join("sys/fs/cgroup/system.slice/nginx.service");
        assert_eq!(unit("nginx").unwrap(), nginx);
        assert_eq!(unit("nginx.service").unwrap(), nginx);
        assert!(
            unit("ngin")
                .unwrap_err()
                .to_string()
                .contains("does not run here")
        );
        assert!(
            unit("twice.scope")
                .unwrap_err()
                .to_string()
                .contains("not the only one")
        );
    }

    #[test]
    fn a_container_of_podman_is_found_beside_its_monitor() {
        let mounts = "31 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let [own, monitor] = ["", "conmon-"].map(|which| {
            format!("sys/fs/cgroup/machine.slice/libpod-{which}{ID}.scope/cgroup.procs")
        });
        let (dir, root) = crate::fake_machine::fake(&[
            ("proc/self/mountinfo", mounts),
            ("proc/self/cgroup", "0::/\n"),
            (&own, "7\n"),
            (&monitor, "6\n"),
        ]);
        let found = find_group(&root, &GroupName::Container(ID[..12].to_owned())).unwrap();
        assert_eq!(found.join("cgroup.procs"), dir.path().join(&own));
    }
}
