// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Failures around a run: the load goes on, and the loss of files that were asked for is
//! reported, also by the exit code.

use nix::mount::{MntFlags, MsFlags, mount, umount2};

use crate::prelude::*;

cases! { CASES: root;
    a_run_directory_that_vanishes_costs_the_files_only,
    a_run_directory_that_cannot_be_made_is_refused,
    a_run_directory_that_was_not_named_costs_the_files_only,
    a_limit_on_files_costs_the_files_only,
    a_thousand_processes_beside_the_load,
    a_fork_storm_at_the_end_is_moved_out,
    a_fork_storm_at_the_end_is_killed_with_kill,
}

cases! { SPOILING: disposable; a_full_disk_costs_the_files_only }

/// The load was held and the files' loss was said.
fn lost_files_only(place: &MachinePlace, out: &str) -> Result<()> {
    let json = place.path("r.json");
    let words = format!(
        "load 30 --cpus 0 -d 3s --out {out} --json={}",
        json.display()
    );
    let ended = place.run(&words)?.expect_any(&[1, 4])?;
    ensure!(ended.err.contains(out), "the loss was not said: {ended:?}");
    let text = fs::read_to_string(json)?;
    let record: serde_json::Value = serde_json::from_str(&text)?;
    let got = record["cpus"][0]["got_pct"].as_f64().context("no figure")?;
    figure!((got - 30.0).abs() < 5.0, "got {got} %");
    place.as_before()?;
    Ok(())
}

/// `ulimit -f` kills with SIGXFSZ who does not expect it.
fn a_limit_on_files_costs_the_files_only(place: &MachinePlace) -> Result<()> {
    // 256 KiB: room for what holds the load, not for the report.
    let limited = "ulimit -f 256; exec $S load 30 --cpus 0 -d 3s --out out";
    let ended = place.bash(limited)?.expect_any(&[1, 4])?;
    ended.says(&["File too large"])?;
    Ok(())
}

struct MountGuard(PathBuf);

impl Drop for MountGuard {
    fn drop(&mut self) {
        let _ = umount2(&self.0, MntFlags::MNT_DETACH);
    }
}

fn a_full_disk_costs_the_files_only(_: &MachinePlace) -> Result<()> {
    let outer = MachinePlace::new()?;
    let disk = outer.path("disk");
    fs::create_dir(&disk)?;
    mount(
        Some("full"),
        &disk,
        Some("tmpfs"),
        MsFlags::empty(),
        Some("size=64k,nr_inodes=64"),
    )?;
    let mounted = MountGuard(disk.clone());
    let _ = fs::write(disk.join("filler"), vec![0; 1 << 20]);
    // The mount is part of the machine from here on.
    let place = MachinePlace::new()?;
    let kept = lost_files_only(&place, &disk.join("r").display().to_string());
    drop(mounted);
    kept?;
    outer.as_before()?;
    Ok(())
}

fn a_run_directory_that_vanishes_costs_the_files_only(place: &MachinePlace) -> Result<()> {
    let run = place.start_burning("load 30 --cpus 0 -d 3s --out r --json=r.json", 1)?;
    std::thread::sleep(Duration::from_millis(1000));
    fs::remove_dir_all(place.path("r"))?;
    let ended = finish(run)?.expect_any(&[0, 1, 4])?;
    // Written anew at the end, or said to be lost.
    let lost = || ended.err.contains("run.json") && ended.code() != 0;
    ensure!(
        place.path("r/run.json").exists() || lost(),
        "the loss was not said: {ended:?}"
    );
    ensure!(place.path("r.json").exists(), "no record");
    Ok(())
}

fn a_run_directory_that_cannot_be_made_is_refused(place: &MachinePlace) -> Result<()> {
    fs::write(place.path("file"), "")?;
    let words = "load 30 --cpus 0 -q --out file/r";
    place
        .run(&format!("{words} -d 1s"))?
        .expect(1)?
        .says(&["file/r"])?;
    place.run(&format!("{words} -- touch ran"))?.expect(125)?;
    ensure!(!place.path("ran").exists(), "the command ran");
    place.as_before()?;
    Ok(())
}

fn a_run_directory_that_was_not_named_costs_the_files_only(place: &MachinePlace) -> Result<()> {
    // Where root cannot make one either; where one can be made, and not its page.
    for (script, said) in [
        (
            "cd /sys; exec $S load 30 --cpus 0 -d 2s",
            "the run is not written",
        ),
        (
            "ulimit -f 256; exec $S load 30 --cpus 0 -d 2s",
            "File too large",
        ),
    ] {
        place.bash(script)?.judged()?.says(&[said])?;
    }
    place.as_before()?;
    Ok(())
}

struct Herd(Vec<Child>);

impl Drop for Herd {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn a_thousand_processes_beside_the_load(place: &MachinePlace) -> Result<()> {
    let mut herd = Herd(Vec::new());
    for _ in 0..1000 {
        let mut sleeper = place.program("sleep", ["1000"]);
        sleeper.stdout(Stdio::null()).stderr(Stdio::null());
        herd.0.push(sleeper.spawn()?);
    }
    let ended = place.script("load 30 --cpus 0 --out r -q", "sleep 2.5")?;
    ended.expect(0)?;
    place.record("r")?.cpus[0].expect_near(30.0, 5.0)
}

/// Two generations that fork all the time, until a file says stop.
const STORM: &str = "touch storm; \
    storm() { while [ -e storm ] && [ $((round += 1)) -lt 3000 ]; do sh -c 'sleep 0.02 & sleep 0.01 &'; done; }; \
    for n in 1 2 3; do (exec >/dev/null 2>&1; storm) & done; \
    sleep 0.5";

fn a_fork_storm_at_the_end_is_moved_out(place: &MachinePlace) -> Result<()> {
    let ended = place.script("load 20 --no-settle --no-out", STORM);
    let left = place.as_before();
    fs::remove_file(place.path("storm"))?;
    let ended = ended?.expect(0)?;
    ensure!(!ended.err.contains("could not undo"), "{ended:?}");
    left?;
    Ok(())
}

fn a_fork_storm_at_the_end_is_killed_with_kill(place: &MachinePlace) -> Result<()> {
    let run = place.start_script(
        "load 20 --no-settle --no-out --kill",
        &format!("{STORM}; echo $$ > pid; exec sleep 1000"),
    )?;
    place.written("pid")?;
    kill(pid_of(&run), Signal::SIGKILL)?;
    let mut run = run;
    run.wait()?;
    let left = place.as_before();
    let stormed = place.program("pgrep", ["-fc", "[s]torm[(][)] "]).output()?;
    fs::remove_file(place.path("storm"))?;
    left?;
    let count = String::from_utf8_lossy(&stormed.stdout).trim().to_owned();
    ensure!(count == "0", "{count} processes of the storm live on");
    Ok(())
}
