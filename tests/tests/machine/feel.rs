// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A load that feels like a competitor: CPUs that stay awake, and levels that are held all the
//! same.

use sandbag_linux::cpuidle::{NO_DELAY, latency_limit};
use sandbag_linux::{CpuList, Root};
use sandbag_run::awake;

use crate::prelude::*;

cases! { CASES: can_feel;
    a_loaded_cpu_is_awake_until_its_run_is_over_or_killed,
    each_level_is_held_apart_from_the_other_cpus,
}

fn can_feel() -> Result<(), String> {
    root()?;
    two_cpus()?;
    awake::check(&Root::default(), &CpuList::from_iter([0])).map_err(|error| error.to_string())
}

/// How often CPU 0 has gone to sleep: into any idle state but the first, in which it polls.
fn sleeps() -> Result<u64> {
    let mut count = 0;
    for state in 1.. {
        let file = format!("/sys/devices/system/cpu/cpu0/cpuidle/state{state}/usage");
        let Ok(text) = fs::read_to_string(file) else {
            break;
        };
        count += text.trim().parse::<u64>()?;
    }
    Ok(count)
}

fn a_loaded_cpu_is_awake_until_its_run_is_over_or_killed(place: &MachinePlace) -> Result<()> {
    let limit = latency_limit(&Root::default(), 0);
    let before = limit.get()?;
    for signal in [Signal::SIGINT, Signal::SIGKILL] {
        let words = "load 20 --cpus 0 -d 60s --feel competitor --no-out -q";
        let run = place.start_burning(words, 1)?;
        ensure!(limit.get()? == NO_DELAY, "{}", limit.get()?);
        // Counted when it ends: the sleep in which the limit was set.
        std::thread::sleep(Duration::from_millis(200));
        let slept = sleeps()?;
        std::thread::sleep(Duration::from_millis(500));
        ensure!(sleeps()? == slept, "CPU 0 went to sleep");
        end(run, signal)?;
        wait_until("the limit of before", || {
            limit.get().is_ok_and(|now| now == before)
        })?;
    }
    // A burner that sleeps for most of each period leaves a CPU that goes to sleep.
    let slept = sleeps()?;
    let run = place.start_burning("load 20 --cpus 0 -d 60s --no-out -q", 1)?;
    std::thread::sleep(Duration::from_millis(500));
    end(run, Signal::SIGINT)?;
    ensure!(
        sleeps()? > slept,
        "CPU 0 never sleeps, so this shows nothing"
    );
    Ok(())
}

fn each_level_is_held_apart_from_the_other_cpus(place: &MachinePlace) -> Result<()> {
    let refused = place.run("load 50 -d 1s --no-out --feel competitor --method quota")?;
    refused.expect(2)?.says(&["cannot feel like"])?;
    let profile = "time,cpu0,cpu1\n0,30,80\n1.5,60,20\n3,end\n";
    fs::write(place.path("steps.csv"), profile)?;
    let words = "replay steps.csv --feel competitor --out run -q -- ";
    place.run(&format!("{words}{SPINNER} 3 all"))?.expect(0)?;
    let record = place.record("run")?;
    for (cpu, asked) in record.cpus.iter().zip([45.0, 50.0]) {
        ensure!((cpu.asked_pct - asked).abs() < 0.1, "{cpu:?}");
        cpu.expect_near(asked, 5.0)?;
    }
    let text = fs::read_to_string(place.path("run/run.json"))?;
    ensure!(text.contains("\"feel\""), "{text}");
    Ok(())
}
