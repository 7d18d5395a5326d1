// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The commands of the documentation, as a reader types them.

use std::fmt::Write as _;

use crate::prelude::*;

cases! { CASES: || repeated().and_then(|()| two_cpus()); commands_of_tutorials_and_how_tos_run }

/// What the pages do for longer than a test has to.
const SHORTER: [(&str, &str); 8] = [
    (" -d 10s", " -d 1s"),
    (" -d 5s", " -d 1s"),
    (" sleep 10", " sleep 2"),
    ("2000000", "20000"),
    ("--quick", "--quick --limit 1s"),
    ("--runs 5", "--runs 1"),
    ("--worst 10", "--brief"),
    ("--quantum", "--no-classes --quantum"),
];

/// A script of the blocks of a page that are tagged `console`: what follows a `$`. Each
/// command ends with 0, or with one of the codes of the tag's `exit=0,3,4`.
fn script(page: &str) -> (usize, String) {
    let mut script = "sudo() { \"$@\"; }\n".to_owned();
    let (mut codes, mut commands) = (String::new(), 0);
    for (line, text) in page.lines().enumerate() {
        let text = text.trim_start();
        if let Some(tag) = text.strip_prefix("```") {
            codes = match tag.strip_prefix("console") {
                Some(exit) => exit
                    .trim()
                    .strip_prefix("exit=")
                    .unwrap_or("0")
                    .replace(',', "|"),
                None => String::new(),
            };
        } else if let Some(command) = text.strip_prefix("$ ").filter(|_| !codes.is_empty()) {
            let command = SHORTER
                .iter()
                .fold(command.to_owned(), |command, (long, short)| {
                    command.replace(long, short)
                });
            let _ = writeln!(
                script,
                "{command}\ncode=$?\ncase $code in {codes}) ;; *) echo line {} ended with $code >&2; exit 99 ;; esac",
                line + 1
            );
            commands += 1;
        }
    }
    (commands, script)
}

fn commands_of_tutorials_and_how_tos_run(place: &MachinePlace) -> Result<()> {
    let bin = place.sandbag.parent().context("no directory")?.display();
    let path = format!("{bin}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin");
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let mut ran = 0;
    for kind in ["tutorial", "how-to"] {
        for page in fs::read_dir(docs.join(kind))? {
            let page = page?.path();
            let (commands, script) = script(&fs::read_to_string(&page)?);
            if commands == 0 {
                continue;
            }
            let name = page.file_stem().context("no name")?;
            fs::create_dir(place.path(&name.to_string_lossy()))?;
            let mut shell = place.program("bash", ["-c", &script]);
            shell.current_dir(place.path(&name.to_string_lossy()));
            let ended = finish(shell.env("PATH", &path).spawn()?)?;
            ended
                .expect(0)
                .with_context(|| page.display().to_string())?;
            ran += commands;
        }
    }
    ensure!(ran >= 30, "{ran} commands");
    Ok(())
}
