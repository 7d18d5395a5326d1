// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes made-up audits in every form, so that they can be looked at:
//! `cargo run -p sandbag-audit --example audit-pages -- DIR`.

use std::path::PathBuf;

use sandbag_audit::compare::{Options, compare};
use sandbag_audit::fixture::Maker;
use sandbag_audit::report::terminal::{self, Look};
use sandbag_audit::report::{csv, file, junit, page};

fn main() {
    let Some(dir) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: audit-pages DIR");
        std::process::exit(2);
    };
    std::fs::create_dir_all(&dir).unwrap();
    let eight = Maker::eight();
    for (name, made) in [
        ("eight", eight.clone()),
        ("equal", eight.clone().odd(None)),
        ("undecided", eight.clone().odd(None).scatter(0.03)),
        ("many", eight.clone().cpus(128).odd(Some(37))),
        ("two", eight.clone().cpus(2).odd(Some(1))),
    ] {
        let audit = made.make();
        let put = |ending: &str, text: String| {
            std::fs::write(dir.join(format!("{name}.{ending}")), text).unwrap();
        };
        put("html", page::audit(&audit));
        put("csv", csv::csv(&audit));
        put("xml", junit::junit(&audit));
        put("json", file::write(&audit));
        println!("{name}\n{}", terminal::audit(&audit, &Look::default()));
    }
    let quiet = eight.clone().odd(None).make();
    let loaded = eight.slower(1.03).scatter(0.004).seed(2).make();
    let options = Options {
        confidence: quiet.design.confidence,
        tolerance_pct: quiet.design.tolerance_pct,
        anyway: false,
    };
    let found = compare(&quiet, &loaded, &options).unwrap();
    let names = ["quiet.json", "loaded.json"];
    let text = page::comparison(&found, &quiet, &loaded, names);
    std::fs::write(dir.join("compared.html"), text).unwrap();
    println!(
        "compared\n{}",
        terminal::comparison(&found, &Look::default())
    );
}
