// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Builds the library twice from the same source: as the shared object that is
//! embedded and preloaded, and as objects that are linked into ourselves (the
//! Rust interface, the measurement of the overhead, the tests of the format).

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=c");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    shared(&out);
    flags(&mut cc::Build::new())
        .file("c/jitter.c")
        .compile("sandbag_jitter_static");
}

/// What both have in common. No stack protector and no checked string calls:
/// they would ask for functions that not every C library has.
fn flags(build: &mut cc::Build) -> &mut cc::Build {
    build
        .opt_level(2)
        .debug(false)
        .pic(true)
        .std("gnu11")
        .warnings(true)
        .extra_warnings(true)
        .flag("-fno-stack-protector")
        .flag("-U_FORTIFY_SOURCE")
        .flag("-fvisibility=hidden")
        // Names of this machine's directories are nothing for the object.
        .flag("-ffile-prefix-map=c/=")
}

/// Linked without a C library: its functions are looked for by name alone in
/// the one that the program has, whichever that is and however old.
fn shared(out: &Path) {
    let mut build = cc::Build::new();
    flags(&mut build).define("SANDBAG_JITTER_PRELOAD", None);
    let compiler = build.get_compiler();
    let mut command = Command::new(compiler.path());
    command
        // That our own binary is to be a static one is no matter of this.
        .args(compiler.args().iter().filter(|arg| *arg != "-static"))
        .args(["-shared", "-nostdlib", "c/jitter.c", "c/preload.c"])
        // Bound when it is loaded: the first call of a function may come from
        // the signal handler.
        .args([
            "-Wl,-z,now",
            "-Wl,-z,relro",
            "-Wl,-z,nodelete",
            "-Wl,-z,noexecstack",
        ])
        .args([
            "-Wl,-soname,libsandbag_jitter.so",
            "-Wl,--build-id=none",
            "-s",
        ]);
    // dlsym(3) was there before 2.34 of the GNU library, which has it in libc.
    if let Some(libdl) = libdl(&compiler) {
        command.args(["-Wl,--no-as-needed".as_ref(), libdl.as_os_str()]);
    }
    command.arg("-o").arg(out.join("libsandbag_jitter.so"));
    let status = command.status();
    assert!(
        status.as_ref().is_ok_and(std::process::ExitStatus::success),
        "the library for LD_PRELOAD could not be built by {command:?}: {status:?}"
    );
}

fn libdl(compiler: &cc::Tool) -> Option<PathBuf> {
    let asked = Command::new(compiler.path())
        .arg("-print-file-name=libdl.so.2")
        .output()
        .ok()?;
    let path = PathBuf::from(String::from_utf8(asked.stdout).ok()?.trim());
    path.is_absolute().then_some(path)
}
