// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes made-up runs, so that pages and tables can be looked at:
//! `cargo run -p sandbag-load --example pages -- DIR`.

#[path = "../src/report/fixture.rs"]
mod fixture;

use std::path::PathBuf;

use sandbag_load::report::terminal::{nodes_table, summary_table};
use sandbag_load::report::{Nodes, plot_run, write_nodes, write_run};

fn main() {
    let Some(dir) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: pages DIR");
        std::process::exit(2);
    };
    for (name, made) in [
        ("quiet", fixture::quiet()),
        ("large", fixture::large()),
        ("long", fixture::long()),
        ("missed", fixture::missed()),
        ("holes", fixture::holes_and_steal()),
        ("empty", fixture::empty()),
        ("node", fixture::node()),
    ] {
        let dir = dir.join(name);
        std::fs::create_dir_all(&dir).unwrap();
        let achieved = dir.join("achieved.csv");
        made.write_achieved(&achieved);
        write_run(&dir, &made.run).unwrap();
        println!("{}\n{}", dir.display(), summary_table(&made.run));
        println!("{}", plot_run(&made.run, &achieved).unwrap());
    }
    let dir = dir.join("nodes");
    let mut runs = Vec::new();
    for made in fixture::nodes() {
        let own = dir.join(&made.run.node.as_ref().unwrap().name);
        std::fs::create_dir_all(&own).unwrap();
        made.write_achieved(&own.join("achieved.csv"));
        write_run(&own, &made.run).unwrap();
        runs.push(made.run);
    }
    write_nodes(&dir, &runs).unwrap();
    println!("{}\n{}", dir.display(), nodes_table(&Nodes::of(&runs)));
}
