// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which methods the lab compares: those that work here.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::setup::Methods;
use anyhow::{Context as _, Result};
use sandbag_linux::CpuList;
use sandbag_load::method;

use sandbag_ui::BadInput;

/// Which methods work on these CPUs: by what a run with them checks.
pub fn find_methods(sandbag: &Path, cpus: &CpuList, wanted: &[String]) -> Result<Methods> {
    if let Some(name) = wanted
        .iter()
        .find(|name| !method::SLOWING.contains(&name.as_str()))
    {
        return Err(BadInput(format!(
            "--methods: there is no method {name}; there are {}",
            method::SLOWING.join(", ")
        ))
        .into());
    }
    let mut refused = Vec::new();
    let mut usable = |names: &[&str], verb: &[&str]| -> Result<Vec<String>> {
        let mut usable = Vec::new();
        for name in names {
            if !wanted.is_empty() && !wanted.iter().any(|w| w == name) {
                continue;
            }
            match refusal(sandbag, cpus, verb, name)? {
                None => usable.push((*name).to_owned()),
                Some(reason) => refused.push(format!("{name} ({}): {reason}", verb[0])),
            }
        }
        Ok(usable)
    };
    Ok(Methods {
        loading: usable(&method::NAMES, &["load", "50"])?,
        slowing: usable(&method::SLOWING, &["slow", "--speed", "0.5"])?,
        refused,
    })
}

fn refusal(sandbag: &Path, cpus: &CpuList, verb: &[&str], method: &str) -> Result<Option<String>> {
    let ended = Command::new(sandbag)
        .arg("-q")
        .args(verb)
        .args(["--dry-run", "--cpus", &cpus.to_string()])
        .args(["--method", method])
        .stdin(Stdio::null())
        .output()
        .context("try a method")?;
    let said = String::from_utf8_lossy(&ended.stderr);
    let reason = said.trim().trim_start_matches("sandbag: ");
    Ok((!ended.status.success()).then(|| reason.to_owned()))
}
