// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One experiment on many hosts: hosts are UTS namespaces of this machine, each with a CPU.

use sandbag_machine_tests::ours;

use crate::prelude::*;

cases! { CASES: two_cpus;
    hosts_begin_together_and_make_one_report,
    a_host_that_dies_ends_the_others,
    who_does_not_come_releases_the_others,
    a_dry_run_meets_nobody,
    a_signal_reaches_the_program_of_its_host,
}

/// Starts `sandbag WORDS --hosts` on the host of this rank, of `ranks`.
fn on_host(place: &MachinePlace, rank: u32, ranks: u32, words: &str) -> Result<Child> {
    let script = format!(
        "hostname n{rank}; exec {} {words} --cpus {rank} --hosts --rank {rank} --ranks {ranks} \
         --lost-after 2s",
        place.program_path().display()
    );
    let mut host = Command::new("unshare");
    host.args(["--uts", "sh", "-c", &script]);
    host.current_dir(place.path("")).stdin(Stdio::null());
    host.stdout(Stdio::null())
        .stderr(fs::File::create(place.path(&format!("said-{rank}")))?);
    Ok(host.spawn()?)
}

fn hosts_begin_together_and_make_one_report(place: &MachinePlace) -> Result<()> {
    let hosts: Vec<Child> = (0..2)
        .map(|rank| on_host(place, rank, 2, "load 40 -d 2s --out run"))
        .collect::<Result<_>>()?;
    for host in hosts {
        finish(host)?.judged()?;
    }
    let experiment = place.json("run/hosts.json")?;
    ensure!(experiment["early_end"].is_null(), "{experiment}");
    ensure!(experiment["members"][1]["host"] == "n1", "{experiment}");
    // One clock: what was measured of it is its error.
    let offset = &experiment["members"][1]["offset"];
    let (ms, within) = (offset["ms"].as_f64(), offset["within_ms"].as_f64());
    let (ms, within) = ms.zip(within).context("no offset")?;
    ensure!(ms.abs() <= within, "{ms} ms off, within {within}");
    place.run("gather run -o all.html")?.judged()?;
    ensure!(fs::read_to_string(place.path("all.html"))?.contains("data:image/bmp"));
    let gathered = place.run("gather run --json")?.judged()?.json()?;
    let skew = gathered["start_skew_ms"].as_f64().context("no skew")?;
    ensure!(skew <= 1.0, "{skew} ms between the starts");
    for host in gathered["hosts"].as_array().context("no hosts")? {
        let got = host["got_pct"].as_f64().context("nothing got")?;
        figure!((got - 40.0).abs() < 5.0, "{host}");
    }
    // A result is not replaced.
    let again = on_host(place, 0, 1, "load 40 -d 1s --out run")?;
    finish(again)?.expect(2)?;
    ensure!(place.written("said-0")?.contains("--force"));
    Ok(())
}

/// Any process on any host: all end, and the report says who died.
fn a_host_that_dies_ends_the_others(place: &MachinePlace) -> Result<()> {
    let seed = fastrand::u64(..);
    let mut chance = fastrand::Rng::with_seed(seed);
    let rounds = case::rounds(6);
    let mut worst = Duration::ZERO;
    for round in 0..rounds {
        let out = format!("run-{round}");
        let words = format!("-q load 40 -d 1m --out {out}");
        let mut hosts: Vec<Child> = (0..2)
            .map(|rank| on_host(place, rank, 2, &words))
            .collect::<Result<_>>()?;
        place.burners(2)?;
        std::thread::sleep(Duration::from_millis(chance.u64(..2000)));
        // The one that the launcher started, or its own sandbag.
        let victims: Vec<Pid> = ours::of_role(place.program_path(), Role::Supervisor);
        let victim = chance.choice(victims).context("nobody to kill")?;
        let begin = Instant::now();
        kill(victim, Signal::SIGKILL)?;
        wait_until("both hosts to end", || {
            hosts
                .iter_mut()
                .all(|host| host.try_wait().is_ok_and(|end| end.is_some()))
        })?;
        let ended = hosts.into_iter().map(finish).collect::<Result<Vec<_>>>()?;
        place
            .as_before()
            .with_context(|| format!("round {round}, seed {seed}"))?;
        worst = worst.max(begin.elapsed());
        let codes: Vec<i32> = ended.iter().map(|end| end.code()).collect();
        ensure!(
            codes.iter().all(|code| *code != 0),
            "{codes:?}, seed {seed}"
        );
        place
            .run(&format!("gather {out}"))?
            .expect_any(&[1, 3, 4])?;
    }
    case::note(&format!(
        "{rounds} kills; all hosts as before after {:.1} s at worst; seed {seed}",
        worst.as_secs_f64()
    ));
    Ok(())
}

fn who_does_not_come_releases_the_others(place: &MachinePlace) -> Result<()> {
    let begin = Instant::now();
    let hosts: Vec<Child> = (0..2)
        .map(|rank| on_host(place, rank, 3, "load 40 -d 1m --out run --start-timeout 2s"))
        .collect::<Result<_>>()?;
    for host in hosts {
        ensure!(finish(host)?.code() == 1);
    }
    figure!(
        begin.elapsed() < Duration::from_secs(6),
        "{:?}",
        begin.elapsed()
    );
    let said = place.written("said-0")?;
    ensure!(
        said.contains("2 of 3 hosts came") && said.contains("ranks 2"),
        "{said}"
    );
    ensure!(
        place
            .written("said-1")?
            .contains("n0 (rank 0): 2 of 3 hosts came")
    );
    Ok(())
}

/// It changes nothing, so that the other hosts are not needed.
fn a_dry_run_meets_nobody(place: &MachinePlace) -> Result<()> {
    let words = "load 40 -d 1s --cpus 0 --out dry --hosts --rank 0 --ranks 2 --dry-run";
    place.run(words)?.expect(0)?;
    ensure!(!place.path("dry").exists(), "a directory of nothing");
    Ok(())
}

fn a_signal_reaches_the_program_of_its_host(place: &MachinePlace) -> Result<()> {
    let words = "load 10 --no-settle --cpus 0 --out u -q --hosts --rank 0 --ranks 1";
    let script = "trap 'echo got; exit 7' USR1; echo $$ > pid; while :; do sleep .05; done";
    let (run, _) = place.start_ready(words, script)?;
    // The one that a launcher starts.
    kill(pid_of(&run), Signal::SIGUSR1)?;
    let ended = finish(run)?.expect(7)?;
    ensure!(ended.out == "got\n", "{ended:?}");
    place.as_before()?;
    Ok(())
}
