// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CPU 1 is taken offline and comes back, under each kind of run.

use crate::prelude::*;

cases! { CASES: hotplug;
    a_cpu_that_goes_offline_is_a_hole_the_others_go_on,
    a_burner_comes_back_with_its_cpu,
    a_recording_ends_and_keeps_what_it_has,
    a_replay_goes_on_on_the_other_cpu,
    an_audit_goes_on_without_the_cpu,
}

const ONLINE: &str = "/sys/devices/system/cpu/cpu1/online";

fn hotplug() -> Result<(), String> {
    disposable()?;
    let now = fs::read_to_string(ONLINE).map_err(|e| format!("{ONLINE}: {e}"))?;
    if now.trim() != "1" {
        return Err("CPU 1 is offline already".to_owned());
    }
    fs::write(ONLINE, "0").map_err(|e| format!("CPU 1 cannot be taken offline: {e}"))?;
    fs::write(ONLINE, "1").map_err(|e| format!("CPU 1 does not come back: {e}"))
}

struct BackOnline;

impl BackOnline {
    /// Takes it offline; it comes back with this.
    fn later() -> Result<Self> {
        let back = Self;
        fs::write(ONLINE, "0").context("take CPU 1 offline")?;
        Ok(back)
    }
}

impl Drop for BackOnline {
    fn drop(&mut self) {
        let _ = fs::write(ONLINE, "1");
    }
}

fn a_cpu_that_goes_offline_is_a_hole_the_others_go_on(place: &MachinePlace) -> Result<()> {
    let run = place.start_burning("load 30 --cpus 0-1 -d 5s --out r", 2)?;
    std::thread::sleep(Duration::from_millis(1500));
    let back = BackOnline::later()?;
    std::thread::sleep(Duration::from_millis(200));
    place.answers("load 20 --cpus 1 -d 1s --no-out", 2, &["offline"])?;
    ensure!(lives(pid_of(&run)), "the run ended");
    let ended = finish(run)?;
    drop(back);
    ensure!(ended.code() == 3, "missed: {ended:?}");
    let record = place.record("r")?;
    let (first, second) = (&record.cpus[0], &record.cpus[1]);
    ensure!(first.holes == 0, "{first:?}");
    first.expect_near(30.0, 5.0)?;
    figure!(second.holes >= 3, "{second:?}");
    Ok(())
}

fn a_burner_comes_back_with_its_cpu(place: &MachinePlace) -> Result<()> {
    let run = place.start_burning("load 50 --cpus 1 -d 5s --out r", 1)?;
    std::thread::sleep(Duration::from_millis(1500));
    let back = BackOnline::later()?;
    std::thread::sleep(Duration::from_millis(600));
    drop(back);
    let ended = finish(run)?.expect(3)?;
    let absence = "CPU 1 was offline, or closed to its burner by a cpuset, for ";
    let ended = ended.says(&[absence])?;
    figure!(ended.err.contains(&format!("{absence}0.")), "{ended:?}");
    let record = place.record("r")?;
    let cpu = &record.cpus[0];
    // Of five windows those that the CPU was away from.
    figure!((1..=3).contains(&cpu.holes), "{cpu:?}");
    cpu.expect_near(50.0, 10.0)
}

fn a_recording_ends_and_keeps_what_it_has(place: &MachinePlace) -> Result<()> {
    let run = place.start("jitter record --cpus 0-1 -d 30s --round 500ms --preheat 0s -o a.sbj")?;
    wait_for("the first rounds", || {
        let written = fs::metadata(place.path("a.sbj")).ok()?.len();
        (written > 4096).then_some(())
    })?;
    let back = BackOnline::later()?;
    let ended = finish(run)?;
    drop(back);
    ensure!(ended.code() != 0, "{ended:?}");
    ended.says(&["CPU 1 went offline", "is kept"])?;
    place.run("jitter show --brief a.sbj")?.expect(0)?;
    // In the first round, too, of which the other CPU's part is kept.
    let run = place.start("jitter record --cpus 0-1 -d 4s --preheat 0s -o c.sbj")?;
    std::thread::sleep(Duration::from_millis(2000));
    let back = BackOnline::later()?;
    let ended = finish(run)?;
    drop(back);
    ensure!(ended.code() != 0, "{ended:?}");
    ended.says(&["CPU 1 went offline", "is kept"])?;
    place.run("jitter show --brief c.sbj")?.expect(0)?;
    // Also before anything is recorded.
    let back = BackOnline::later()?;
    let ended = place.run("jitter record --cpus 0-1 -d 1s -o b.sbj")?;
    drop(back);
    ended.expect(2)?.says(&["CPU 1 is not online"])?;
    Ok(())
}

fn a_replay_goes_on_on_the_other_cpu(place: &MachinePlace) -> Result<()> {
    let ms = 1_000_000u64;
    place.trace(0..2, (0..100).map(|i| [i * 50 * ms, 2 * ms]))?;
    let run = place.start("jitter replay made.json --cpus 0-1 --share 1 -d 4s --out r")?;
    wait_until("the record", || place.path("r").exists())?;
    std::thread::sleep(Duration::from_millis(1500));
    let back = BackOnline::later()?;
    let ended = finish(run)?;
    drop(back);
    ensure!(ended.code() == 3, "{ended:?}");
    let ended = ended.says(&["CPU 1 went offline"])?;
    let record = place.json("r/run.json")?;
    let injected = |at: usize| record["cpus"][at]["counts"]["injected"].as_u64();
    let (first, second) = (
        injected(0).context("no count")?,
        injected(1).context("no count")?,
    );
    figure!(first > second + 10, "{first} and {second}: {ended:?}");
    Ok(())
}

fn an_audit_goes_on_without_the_cpu(place: &MachinePlace) -> Result<()> {
    let run = "audit run --quick --tests compute,syscall,noise --cpus 0-1 --limit 2s \
               --rounds 6..200 --precision 0.001 -o a.json";
    let run = place.start(run)?;
    place.one_of(Role::Auditor)?;
    std::thread::sleep(Duration::from_millis(1500));
    let back = BackOnline::later()?;
    let ended = finish(run)?;
    drop(back);
    // Nothing is known of a CPU after it went.
    ended.expect_any(&[3, 4])?;
    let audit = place.json("a.json")?;
    ensure!(
        audit["left_out"].to_string().contains("lost on the way"),
        "{}",
        audit["left_out"]
    );
    let tests = audit["tests"].as_array().context("no tests")?;
    for test in tests {
        let samples = test["samples"].as_array().context("no samples")?;
        ensure!(!samples.is_empty(), "{} has no runs left", test["name"]);
        let last_round = |cpu: u64| {
            let of_cpu = samples.iter().filter(|sample| sample["cpu"] == cpu);
            of_cpu.filter_map(|sample| sample["round"].as_u64()).max()
        };
        ensure!(last_round(1) < last_round(0), "{test}");
    }
    Ok(())
}
