// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CPUs that are kept awake: while the run lasts, and afterwards.

use sandbag_linux::cpuidle::{NO_DELAY, latency_limit};
use sandbag_linux::{CpuList, Root};
use sandbag_run::awake;

use crate::prelude::*;

cases! { CASES: can_keep_awake;
    a_loaded_cpu_is_awake_until_its_run_is_over_or_killed,
}

fn can_keep_awake() -> Result<(), String> {
    root()?;
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
        let words = "load 20 --cpus 0 -d 60s --awake --no-out -q";
        let run = place.start_burning(words, 1)?;
        ensure!(limit.get()? == NO_DELAY, "{}", limit.get()?);
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
