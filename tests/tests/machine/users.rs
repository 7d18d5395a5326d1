// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Under sudo: the command is the calling user's, and so is what it leaves.

use crate::prelude::*;

cases! { CASES: root;
    under_sudo_command_and_run_directory_are_the_user_s,
    under_sudo_a_directory_that_was_there_keeps_its_owners,
    under_sudo_each_file_of_a_profile_is_the_user_s,
    under_sudo_a_directory_of_files_is_the_user_s,
    as_root_stays_root,
}

fn as_sudo(place: &MachinePlace, options: &str, script: &str) -> Result<PlaceExit> {
    let words = options.split_whitespace().chain(["--", "sh", "-c", script]);
    finish(place.sudo(words).spawn()?)?.expect(0)
}

fn under_sudo_command_and_run_directory_are_the_user_s(place: &MachinePlace) -> Result<()> {
    let open = place.path("open");
    fs::create_dir(&open)?;
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777))?;
    let ended = as_sudo(
        place,
        "load 20 --no-settle --out open/deeper/r --json=open/r.json -q",
        "id -u; id -g; id -G; echo $USER $HOME; echo x > open/written; sleep 1.2",
    )?;
    let ids = "65534\n65534\n65534\nnobody /nonexistent\n";
    ensure!(ended.out == ids, "{ended:?}");
    for name in [
        "open/written",
        "open/r.json",
        "open/deeper",
        "open/deeper/r",
        "open/deeper/r/run.json",
        "open/deeper/r/achieved.csv",
        "open/deeper/r/report.html",
    ] {
        is_the_user_s(place, name)?;
    }
    Ok(())
}

fn is_the_user_s(place: &MachinePlace, name: &str) -> Result<()> {
    let found = fs::metadata(place.path(name))?;
    let owner = (found.uid(), found.gid());
    ensure!(owner == (NOBODY, NOBODY), "{name} belongs to {owner:?}");
    Ok(())
}

fn under_sudo_each_file_of_a_profile_is_the_user_s(place: &MachinePlace) -> Result<()> {
    fs::write(place.path("day.csv"), "time,cpu0,cpu1\n0,50,20\n1,end\n")?;
    let words = ["convert", "day.csv", "-o", "day.simgrid"];
    finish(place.sudo(words).spawn()?)?.expect(0)?;
    is_the_user_s(place, "day.cpu0.simgrid")?;
    is_the_user_s(place, "day.cpu1.simgrid")
}

fn under_sudo_a_directory_of_files_is_the_user_s(place: &MachinePlace) -> Result<()> {
    for (words, file) in [
        ("jitter api new/c", "new/c/jitter.c"),
        ("generate man new/man", "new/man/sandbag.1"),
        ("generate reference new/pages", "new/pages/metrics.md"),
    ] {
        finish(place.sudo(words.split(' ')).spawn()?)?.expect(0)?;
        is_the_user_s(place, file)?;
        let (dir, _) = file.rsplit_once('/').context("a directory")?;
        is_the_user_s(place, dir)?;
    }
    is_the_user_s(place, "new")
}

fn under_sudo_a_directory_that_was_there_keeps_its_owners(place: &MachinePlace) -> Result<()> {
    fs::create_dir(place.path("there"))?;
    fs::write(place.path("there/other"), "")?;
    as_sudo(place, "load 20 --no-settle --out there -q", "sleep 1.2")?;
    for (name, owner) in [("there/other", 0), ("there/run.json", NOBODY), ("there", 0)] {
        let uid = fs::metadata(place.path(name))?.uid();
        ensure!(uid == owner, "{name} belongs to {uid}");
    }
    Ok(())
}

fn as_root_stays_root(place: &MachinePlace) -> Result<()> {
    let ended = as_sudo(place, "load 20 --no-settle --no-out -q --as-root", "id -u")?;
    ensure!(ended.out == "0\n", "{ended:?}");
    Ok(())
}
