// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `sandbag show` says of a run.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use sandbag_run::directory::ACHIEVED_CSV;
use sandbag_ui::BadInput;
use sandbag_ui::failure::Result;
use sandbag_ui::messages::Messages;
use sandbag_ui::output::{NODES_JSON, RUN_JSON};
use sandbag_ui::text::visible;

use crate::report::write::read_nodes;
use crate::report::{plot_run, read_run, terminal};

/// A directory, or JSON that names us.
pub fn is_run(path: &Path) -> bool {
    if path.is_dir() {
        return true;
    }
    // Looking into a pipe would take its beginning away.
    if !path.is_file() {
        return false;
    }
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(4096).read_to_end(&mut head));
    let text = String::from_utf8_lossy(&head);
    // A host may have that name, too.
    let mut after = text.split("\"sandbag\"").skip(1);
    let is_key = after.any(|rest| rest.trim_start().starts_with(':'));
    read.is_ok() && text.trim_start().starts_with('{') && is_key
}

pub fn run(path: &Path, messages: &Messages) -> Result<String> {
    let dir = if path.is_dir() {
        path
    } else {
        path.parent().unwrap_or(Path::new(""))
    };
    if path.is_dir() && path.join(NODES_JSON).exists() {
        let nodes = read_nodes(path).map_err(|error| BadInput(error.to_string()))?;
        return Ok(terminal::nodes_table(&nodes));
    }
    if path.is_dir() && !path.join(RUN_JSON).exists() {
        return Err(BadInput(format!(
            "{} holds no {RUN_JSON}: give a profile, or the directory of a run",
            path.display()
        ))
        .into());
    }
    let run = read_run(path).map_err(|error| BadInput(error.to_string()))?;
    let mut text = format!(
        "{} by {}, {}, on {} ({})\n\n",
        visible(&run.profile),
        visible(&run.method.name),
        visible(&run.started_at),
        visible(&run.machine.host),
        visible(&run.machine.kernel)
    );
    text += &terminal::summary_table(&run);
    match plot_run(&run, &dir.join(ACHIEVED_CSV)) {
        Ok(plot) => {
            text.push('\n');
            text += &plot;
        }
        // The record alone still says what was got.
        Err(error) => messages.warning(&format!("no plot: {error}")),
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_of_a_host_of_our_name_is_no_run() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("x.json");
        for (text, is) in [
            (r#"{"sandbag": "0.1.0", "format": 1}"#, true),
            (r#"{ "format": 1, "sandbag" : "0.1.0"}"#, true),
            (
                r#"{"sysstat": {"hosts": [{"nodename": "sandbag", "machine": "x"}]}}"#,
                false,
            ),
        ] {
            std::fs::write(&file, text).unwrap();
            assert_eq!(is_run(&file), is, "{text}");
        }
        assert!(is_run(dir.path()));
    }
}
