// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag scale bench`: what its figures say on CPUs that are otherwise idle.

use std::fmt::Write as _;

use crate::prelude::*;

cases! { CASES: two_cpus; ranks_beside_little_noise_are_not_saturated }

fn ranks_beside_little_noise_are_not_saturated(place: &MachinePlace) -> Result<()> {
    // 10 us every millisecond, and 1 ms every 100: 2 % of the time.
    let mut trace = "cpu,start_ns,length_ns\n".to_owned();
    for cpu in 0..2u64 {
        for i in 0..2000u64 {
            let length = if i % 100 == 50 { 1_000_000 } else { 10_000 };
            writeln!(trace, "{cpu},{},{length}", i * 1_010_000 + cpu * 77_000)?;
        }
    }
    fs::write(place.path("a.csv"), trace)?;
    for ranks in ["--rounds 2 --ranks 2", "--virtual --clock=cpu --ranks=8"] {
        let bench = "scale bench -d 400ms --jitter a.csv --sync once --force";
        let bench = format!("{bench} --json b.json {ranks}");
        place.run(&bench)?.expect(0)?;
        let found = place.json("b.json")?;
        ensure!(found["oversubscribed"] != true, "{found}");
        ensure!(found["drift_ns"]["first_to_last"].is_f64(), "{found}");
        figure!(found["load"]["saturated"] == false, "{ranks}: {found}");
    }
    Ok(())
}
