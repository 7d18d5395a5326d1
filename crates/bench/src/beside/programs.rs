// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What runs beside a slowed node: programs that move data, talk to each
//! other, and start many processes. Their files are in a directory that goes
//! with the value.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

/// Programs by name, in the order of the table.
pub const NAMES: [&str; 4] = ["spin", "copy", "compile", "mpi"];

/// One program, ready to be run again and again.
pub struct Program {
    /// Its name.
    pub name: &'static str,
    /// What it does, for the table's legend.
    pub about: &'static str,
    script: String,
}

/// Many pairs of processes that exchange short messages.
const MPI: &str = r#"
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
    int rank, size, word = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    unsigned x = 12345;
    for (int i = 0; i < 3000; i++) {
        x = x * 1103515245u + 12345u;
        int a = (x >> 8) % size, b = (a + 1 + (x >> 20) % (size - 1)) % size;
        if (rank == a) MPI_Sendrecv_replace(&word, 1, MPI_INT, b, 0, b, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == b) MPI_Sendrecv_replace(&word, 1, MPI_INT, a, 0, a, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        volatile unsigned work = x;
        for (int k = 0; k < 20000; k++) work = work * 1664525u + 1013904223u;
    }
    MPI_Finalize();
    return 0;
}
"#;

/// Makes a program's files in `dir`; `None` if something for it is missing.
pub fn make(name: &'static str, dir: &Path) -> Result<Option<Program>> {
    let at = |file: &str| dir.join(file).display().to_string();
    let (about, script) = match name {
        "spin" => (
            "two tasks that count, a fixed amount of work each",
            "for i in 1 2; do awk 'BEGIN { for (i = 0; i < 9000000; i++) x += i }' & done; wait"
                .to_owned(),
        ),
        "copy" => (
            "dd of 256 MiB to a file, with fdatasync",
            format!(
                "dd if=/dev/zero of={} bs=1M count=256 conv=fdatasync status=none",
                at("copy")
            ),
        ),
        "compile" => {
            if !has("gcc") {
                return Ok(None);
            }
            for n in 0..12 {
                fs::write(dir.join(format!("c{n}.c")), source(n))?;
            }
            (
                "12 C files by 4 gcc at a time",
                format!(
                    "ls {0}/c*.c | xargs -P 4 -I F gcc -O2 -c F -o /dev/null",
                    dir.display()
                ),
            )
        }
        "mpi" => {
            if !has("mpicc") || !has("mpirun") {
                return Ok(None);
            }
            fs::write(dir.join("pairs.c"), MPI)?;
            let built = Command::new("mpicc")
                .args(["-O2", "-o", &at("pairs"), &at("pairs.c")])
                .stdin(Stdio::null())
                .output()
                .context("mpicc")?;
            if !built.status.success() {
                bail!("mpicc: {}", String::from_utf8_lossy(&built.stderr));
            }
            (
                "4 MPI processes, random pairs that exchange words (Open MPI)",
                format!(
                    "mpirun --allow-run-as-root --oversubscribe --bind-to none -n 4 {} >/dev/null",
                    at("pairs")
                ),
            )
        }
        _ => bail!("there is no program {name}"),
    };
    Ok(Some(Program {
        name,
        about,
        script,
    }))
}

impl Program {
    /// The command to run it once.
    pub fn command(&self) -> Command {
        let mut command = Command::new("sh");
        command
            .args(["-c", &self.script])
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        command
    }
}

fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

/// A C file that takes a compiler some tenths of a second.
fn source(n: usize) -> String {
    let mut text = String::from("#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n");
    for f in 0..120 {
        text += &format!(
            "int f{n}_{f}(int a, char *b) {{ int s = {f}; for (int i = 0; i < a; i++) {{ \
             s += b[i % 7] * i; if (s % {k} == 0) s ^= (int)strlen(b); else s -= abs(s) / 3; }} \
             return s; }}\n",
            k = f + 3
        );
    }
    text
}
