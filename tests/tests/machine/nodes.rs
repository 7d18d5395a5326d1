// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One virtual node: what its programs get by every method, how it is changed
//! while it runs, who gets in and stays in, and what is refused.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixListener;
use std::os::unix::process::ExitStatusExt as _;
use std::time::{SystemTime, UNIX_EPOCH};

use nix::unistd::{Uid, setfsuid};
use sandbag_linux::machine::kernel_version;
use sandbag_linux::topology::Topology;

use crate::prelude::*;
use crate::slowed::{METHODS, Spinners, Waiting, spin};
use crate::terminal::{CTRL_C, Terminal};

cases! { CASES: two_cpus;
    every_method_gives_what_it_promises_and_leaves_nothing,
    each_cpu_has_its_own_speed,
    a_speed_follows_a_profile,
    a_node_is_set_listed_and_stopped,
    a_node_whose_time_is_over_takes_no_speed_and_no_program,
    a_node_that_waits_for_its_beginning_answers,
    who_enters_a_node_is_the_program_itself,
    who_is_in_a_node_stays_in_it,
    programs_that_outlive_a_node_have_their_own_cpus_again,
    programs_that_outlive_a_node_are_named,
    ctrl_c_reaches_a_program_that_entered,
    cpus_and_names_have_one_owner,
    nodes_are_not_nested,
    nobody_else_may_command_a_node,
    what_a_strange_node_answers_is_shown_escaped,
    all_are_stopped_also_after_one_that_does_not_answer,
    foreign_load_beside_a_node_is_named_and_undecided,
    a_program_that_leaves_its_node_is_missed,
}

cases! { REPEATED: || two_cpus().and_then(|()| repeated());
    one_thread_gets_no_more_than_its_speed,
}

/// How far off a node of 2 CPUs may be, CPUs: functional, not accurate.
const TOLERANCE: f64 = 0.16;
const LOOK: Duration = Duration::from_millis(1500);

/// Speed asked, what 4 spinning processes on 2 CPUs should get of them, and
/// what the method itself burns.
fn promised(method: &str) -> (f64, f64, f64) {
    match method {
        // Its published error: 2r/(2r+1) of each CPU is the burner's.
        "shares" => (0.5, 2.0 / 3.0, 4.0 / 3.0),
        // Its published flaw: the share is each process', here 4 of a fifth.
        "lim" => (0.2, 0.8, 0.0),
        "cap" | "gov" => (0.5, 1.0, 0.0),
        _ => (0.5, 1.0, 1.0),
    }
}

fn every_method_gives_what_it_promises_and_leaves_nothing(place: &MachinePlace) -> Result<()> {
    let mut said = String::new();
    // The published variant that stops for whole seconds takes long.
    let is_quick = |method: &&str| case::is_all_wanted() || !method.ends_with("wrekavoc");
    for method in METHODS.into_iter().filter(is_quick) {
        let wrekavoc = method.ends_with("wrekavoc");
        let (speed, promised, burned) = if wrekavoc {
            (0.2, 0.8, 0.0)
        } else {
            promised(method)
        };
        let options =
            format!("-q slow --cpus 0-1 --speed {speed} --method {method} --no-out --no-settle");
        let run = place.start_script(&options, &spin(4))?;
        let spinners = Spinners::of(place)?;
        if !["pace", "quota", "shares"].contains(&method) {
            spinners.prefer()?;
        }
        // What they did before the first order, and lim's first looks.
        std::thread::sleep(Duration::from_millis(if wrekavoc { 2500 } else { 300 }));
        // Stops last whole seconds.
        let (time, tolerance) = if wrekavoc {
            (3 * LOOK, 0.8)
        } else {
            (LOOK, TOLERANCE)
        };
        let got = spinners.get(time)?;
        said += &format!("{method} {:.2} of {promised:.2}, ", got.spun);
        figure!(
            got.is_near(promised, burned, tolerance),
            "{method}: {promised} CPUs promised, {got:?}"
        );
        let ended = end(run, Signal::SIGTERM)?;
        // 128 + SIGTERM, which the shell did not catch.
        ensure!(ended.code() == 143, "{method}: {ended:?}");
        place.as_before().context(method)?;
        spinners.are_free().context(method)?;
    }
    case::note(&format!("CPUs got: {}", said.trim_end_matches(", ")));
    Ok(())
}

fn one_thread_gets_no_more_than_its_speed(place: &MachinePlace) -> Result<()> {
    for method in ["hogs", "pace"] {
        let node = Waiting::start(
            place,
            "one",
            &format!("--cpus 0-1 --speed 0.5 --method {method}"),
        )?;
        let (_shell, spinner) = node.spin(1)?;
        let got = spinner.get(LOOK)?;
        figure!(got.is_near(0.5, 1.0, 0.08), "{method}: {got:?}");
    }
    Ok(())
}

fn each_cpu_has_its_own_speed(place: &MachinePlace) -> Result<()> {
    let node = Waiting::start(place, "unequal", "--cpus 0-1 --speed 0=0.3,1=0.8")?;
    let env = node
        .script("echo $SANDBAG_NODE $SANDBAG_NODE_CPUS $SANDBAG_NODE_SPEED $SANDBAG_NODE_SPEEDS")?;
    ensure!(env.out.trim() == "unequal 0,1 0.55 0=0.3,1=0.8", "{env:?}");
    let mut each = Vec::new();
    for cpu in [0, 1] {
        let script = format!("taskset -pc {cpu} $$ > set; {}", spin(1));
        let shell = node.start_script(&script)?;
        each.push((shell, Spinners::of(place)?));
    }
    each[0].1.prefer()?;
    for ((_, spinner), mu) in each.iter().zip([0.3, 0.8]) {
        let got = spinner.get(LOOK)?;
        // What others took is not known of one CPU: from above only.
        figure!(got.spun < mu + TOLERANCE / 2.0, "{mu}: {got:?}");
        figure!(got.spun > mu / 3.0, "{mu}: {got:?}");
    }
    Ok(())
}

fn a_speed_follows_a_profile(place: &MachinePlace) -> Result<()> {
    let speeds = "time,cpu0,cpu1\n0,90,90\n2,40,20\n4,end\n";
    fs::write(place.path("speed.csv"), speeds)?;
    let node = Waiting::start(place, "wave", "--cpus 0-1 --profile speed.csv")?;
    let (_shell, spinners) = node.spin(4)?;
    spinners.prefer()?;
    spinners.spread()?;
    let asked = |n: usize| node.status().ok()?["speeds"][n]["asked"].as_f64();
    wait_for("the second part", || (asked(1)? < 0.3).then_some(()))?;
    ensure!(asked(0).is_some_and(|mu| (mu - 0.4).abs() < 1e-6));
    let got = spinners.get(Duration::from_millis(1000))?;
    figure!(got.is_near(0.6, 1.4, TOLERANCE), "{got:?}");
    // Its last speed stays while programs may be in it.
    std::thread::sleep(Duration::from_millis(1500));
    ensure!(asked(1).is_some_and(|mu| (mu - 0.2).abs() < 1e-6));
    let got = spinners.get(Duration::from_millis(500))?;
    figure!(got.spun < 0.6 + TOLERANCE, "{got:?}");
    Ok(())
}

fn a_node_is_set_listed_and_stopped(place: &MachinePlace) -> Result<()> {
    let node = Waiting::start(place, "small", "--cpus 0-1 --speed 0.8")?;
    let (_shell, spinners) = node.spin(4)?;
    spinners.prefer()?;
    let status = node.status()?;
    ensure!(status["cpus"] == "0,1", "{status}");
    ensure!(status["method"] == "hogs", "{status}");
    ensure!(status["pid"] == node.child.id(), "{status}");
    // The shell and its 4.
    let members = status["members"].as_array().map_or(0, Vec::len);
    ensure!(members == 5, "{status}");
    let list = place.run("slow list")?.expect(0)?;
    list.shows(&["small: CPUs 0,1 by hogs", "5 processes"])?;

    spinners.spread()?;
    for (speed, total) in [("0.3", 0.6), ("0=0.2,1=90%", 1.1)] {
        let set = format!("slow set small --speed {speed}");
        place.run(&set)?.expect(0)?;
        let got = spinners.get(LOOK)?;
        figure!(
            got.is_near(total, 2.0 - total, TOLERANCE),
            "{speed}: {got:?}"
        );
    }
    let asked = |n: usize| Ok::<_, anyhow::Error>(node.status()?["speeds"][n]["asked"].as_f64());
    ensure!(asked(0)?.is_some_and(|mu| (mu - 0.2).abs() < 1e-6));
    ensure!(asked(1)?.is_some_and(|mu| (mu - 0.9).abs() < 1e-6));
    let status = place.run("status")?.expect(0)?;
    let node_line = "node small, speed 0=0.2,1=0.9 by hogs";
    let status = status.shows(&[node_line, "CPU 0: asked 0.200, "])?;
    ensure!(!status.out.contains('%'), "{status:?}");
    let env = node.script("echo $SANDBAG_NODE_SPEEDS")?;
    ensure!(env.out.trim() == "0=0.2,1=0.9", "{env:?}");

    // What cannot be changes nothing.
    for (speed, said) in [("0.01", "0.060"), ("0=0.5", "CPU 1"), ("0-2=0.5", "CPU 2")] {
        let set = format!("slow set small --speed {speed}");
        place.answers(&set, 2, &["node small", said])?;
    }
    let says = ["no node `smal`", "running are small"];
    place.answers("slow set smal --speed 0.5", 2, &says)?;
    ensure!(asked(0)?.is_some_and(|mu| (mu - 0.2).abs() < 1e-6));

    place.run("slow stop small")?.expect(0)?;
    node.finish()?;
    ensure!(place.run("slow list")?.expect(0)?.out.is_empty());
    place.as_before()?;
    spinners.are_free()
}

fn a_node_whose_time_is_over_takes_no_speed_and_no_program(place: &MachinePlace) -> Result<()> {
    let options = "-q slow --cpus 0 --speed 0.5 -d 300ms --name over --no-settle --no-out";
    let (run, _) = place.start_ready(options, "echo $$ > pid; exec sleep 1000")?;
    std::thread::sleep(Duration::from_millis(1500));
    let says = ["node over: its time (-d) is over"];
    place.answers("slow set over --speed 0.3", 2, &says)?;
    place.answers("slow exec over -- true", 125, &says)?;
    place.run("slow stop over")?.expect(0)?;
    finish(run)?.expect(128 + Signal::SIGTERM as i32)?;
    Ok(())
}

fn a_node_that_waits_for_its_beginning_answers(place: &MachinePlace) -> Result<()> {
    let at = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64() + 60.0;
    let options = format!("-q slow --cpus 0 --speed 0.5 --name far --no-out --at @{at:.3}");
    let run = place.start(&options)?;
    wait_until("the node", || {
        let list = place.run("slow list");
        list.is_ok_and(|list| list.out.contains("far: "))
    })?;
    let list = place.run("slow list")?.expect(0)?;
    list.shows(&["far: CPUs 0 by hogs", "CPU 0: asked 0.500"])?;
    let says = ["node far: it has not begun"];
    place.answers("slow set far --speed 0.3", 2, &says)?;
    place.run("slow stop far")?.expect(0)?;
    finish(run)?.expect(130)?;
    place.as_before()?;
    Ok(())
}

fn who_enters_a_node_is_the_program_itself(place: &MachinePlace) -> Result<()> {
    let node = Waiting::start(place, "n", "--cpus 1 --speed 0.5")?;
    let ended = node.script("echo out; echo err >&2; exit 7")?.expect(7)?;
    ensure!(ended.out == "out\n" && ended.err == "err\n", "{ended:?}");
    let ended = node.script("kill -USR2 $$")?;
    let signal = ended.status.signal();
    ensure!(signal == Some(Signal::SIGUSR2 as i32), "{ended:?}");
    let mut asked =
        node.start_script("trap 'exit 9' TERM; echo > up; while :; do sleep 0.02; done")?;
    place.written("up")?;
    kill(pid_of(&asked), Signal::SIGTERM)?;
    let status = wait_for("its end", || asked.try_wait().ok().flatten())?;
    ensure!(status.code() == Some(9), "{status}");
    let missing = place.run("slow exec n -- no-such-program")?;
    missing.expect(127)?.says(&["no-such-program"])?;
    place.run("slow exec n -- /tmp")?.expect(126)?;
    Ok(())
}

/// The groups of a process that are a node's.
fn node_groups(text: &str, run: u32) -> usize {
    let name = format!("/sandbag-{run}-node");
    text.lines().filter(|line| line.ends_with(&name)).count()
}

fn who_is_in_a_node_stays_in_it(place: &MachinePlace) -> Result<()> {
    let node = Waiting::start(place, "n", "--cpus 1 --speed 0.5")?;
    let run = node.child.id();
    let ended = node.script(
        "cat /proc/self/cgroup; taskset -pc $$; taskset -c 0-1 true; \
         taskset -c 0 sh -c 'taskset -pc $$' || echo refused; nproc",
    )?;
    ensure!(node_groups(&ended.out, run) >= 2, "{ended:?}");
    // Its own wish for CPU 0 is either refused or cut down to the node's.
    let lines = ended.out.lines();
    let mut lists = lines.filter_map(|line| Some(line.split_once("affinity list: ")?.1));
    ensure!(lists.next() == Some("1"), "{ended:?}");
    ensure!(lists.all(|list| list == "1"), "{ended:?}");
    ensure!(ended.out.trim().ends_with('1'), "{ended:?}");

    // A daemon, forked twice, in a session of its own.
    node.script("setsid sh -c '(while :; do :; done) & echo $! > pids' > /dev/null 2>&1 &")?
        .expect(0)?;
    let daemon = Spinners::of(place)?;
    let groups = text_of(format!("/proc/{}/cgroup", daemon.0[0]))?;
    ensure!(node_groups(&groups, run) >= 2, "{groups}");
    let inside = |pid: i32| {
        let members = node.status().ok()?["members"].as_array()?.clone();
        Some(members.iter().any(|member| *member == pid))
    };
    ensure!(inside(daemon.0[0].as_raw()) == Some(true));
    let got = daemon.get(LOOK)?;
    figure!(got.spun < 0.5 + TOLERANCE / 2.0, "{got:?}");
    Ok(())
}

fn programs_that_outlive_a_node_are_named(place: &MachinePlace) -> Result<()> {
    let options = "slow --cpus 1 --speed 0.5 --no-out";
    let told = "goes on at full speed: sleep (process ";
    let run = place.script(options, "sleep 3 & sleep 0.3")?.expect(0)?;
    run.says(&[told])?;
    let run = place.script(options, "sleep 3 & wait")?.expect(0)?;
    ensure!(!run.err.contains(told), "{run:?}");
    place.as_before()?;
    Ok(())
}

fn programs_that_outlive_a_node_have_their_own_cpus_again(place: &MachinePlace) -> Result<()> {
    let allowed = |pid: Pid| process(pid).status::<String>("Cpus_allowed_list", "CPUs");
    let script = |script: &str| place.program("sh", ["-c", script]);
    // Neither its supervisor nor the first program may use a CPU of the node.
    let slow = "exec taskset -c 0 \"$S\" -q slow --name n --cpus 1 --speed 0.5 --no-out";
    let node = Waiting {
        place,
        name: "n",
        child: script(slow).env("S", &place.sandbag).spawn()?,
    };
    wait_for("the node", || node.status().ok())?;
    let enter = "exec taskset -c 0 \"$S\" slow exec n -- sh -c 'echo $$ > bound; exec sleep 1000'";
    let _bound = script(enter).env("S", &place.sandbag).spawn()?;
    let bound = place.pid("bound")?;
    let _free =
        node.start_script("sleep 1000 & echo $! > child; echo $$ > free; exec sleep 1000")?;
    let (child, free) = (place.pid("child")?, place.pid("free")?);
    let all = Spinners(vec![bound, child, free]);
    for pid in &all.0 {
        ensure!(allowed(*pid)?.as_deref() == Some("1"), "{pid} is outside");
    }
    place.run("slow stop n")?.expect(0)?;
    node.finish()?;
    place.as_before()?;
    // An older kernel forgets what a process chose when it moves it.
    let keeps = kernel_version(&Root::default()).is_some_and(|version| version >= (6, 2));
    let now = allowed(bound)?;
    ensure!(now.as_deref() == Some("0") || !keeps, "bound: {now:?}");
    for pid in [child, free] {
        let now = allowed(pid)?;
        ensure!(now == allowed(Pid::this())?, "{pid}: {now:?}");
    }
    Ok(())
}

fn ctrl_c_reaches_a_program_that_entered(place: &MachinePlace) -> Result<()> {
    let node = Waiting::start(place, "n", "--cpus 1 --speed 0.5")?;
    let mut terminal = Terminal::new(
        place,
        "$SANDBAG slow exec n -- sh -c 'trap \"exit 9\" INT; tty; echo > up; \
         while :; do sleep 0.02; done'; echo code $? end",
    )?;
    place.written("up")?;
    terminal.press(CTRL_C)?;
    let said = terminal.finish()?;
    ensure!(
        said.contains("code 9 end") && said.contains("/dev/"),
        "{said}"
    );
    // The node is not the terminal's.
    ensure!(node.status().is_ok());
    Ok(())
}

fn cpus_and_names_have_one_owner(place: &MachinePlace) -> Result<()> {
    let node = Waiting::start(place, "first", "--cpus 0 --speed 0.5")?;
    let pid = node.child.id().to_string();
    for options in ["--cpus 0", "--cpus 0-1", "--cpus 0 --dry-run"] {
        let slow = format!("slow {options} --speed 0.9 --no-out");
        place.answers(&slow, 5, &["CPUs 0 ", "node first", &pid])?;
    }
    let cores = Topology::read(&Root::default())?.one_per_core().len();
    let slow = format!("slow --cores {cores} --speed 0.9 --dry-run");
    place.answers(&slow, 5, &["--cores: ", "are free"])?;
    place.answers("load 10 --cpus 0 -d 1s --no-out", 5, &["CPUs 0 ", &pid])?;
    let slow = "slow --cpus 1 --speed 0.5 --name first --no-out";
    let says = ["`first` runs already", &pid, "slow stop first"];
    place.answers(slow, 5, &says)?;
    let slow = "slow --cpus 0 --speed 0.9 --no-out -- true";
    place.run(slow)?.expect(125)?;
    // A load's CPUs are no node's either, and other CPUs are free.
    let load = place.start("load 10 --cpus 1 --no-out -q")?;
    wait_for("the load", || {
        let second = place.run("slow --cpus 1 --speed 0.5 --dry-run").ok()?;
        (second.code() == 5 && second.err.contains(&load.id().to_string())).then_some(())
    })?;
    ensure!(node.status().is_ok());
    end(load, Signal::SIGTERM)?;
    Ok(())
}

fn nodes_are_not_nested(place: &MachinePlace) -> Result<()> {
    let node = Waiting::start(place, "outer", "--cpus 0 --speed 0.5")?;
    let sandbag = place.sandbag.display();
    node.script(&format!("{sandbag} slow --cpus 1 --speed 0.5 --no-out"))?
        .expect(2)?
        .says(&["inside the virtual node outer"])?;
    let nodes = "[[node]]\nname = \"x\"\ncpus = 1\nspeed = 0.5\n";
    fs::write(place.path("n.toml"), nodes)?;
    node.script(&format!("{sandbag} slow n.toml"))?
        .expect(2)?
        .says(&["inside the virtual node outer"])?;
    Ok(())
}

/// What this gives while this thread's file accesses are another user's.
fn as_nobody<T>(act: impl FnOnce() -> T) -> T {
    const NOBODY: Uid = Uid::from_raw(65534);
    let before = setfsuid(NOBODY);
    let result = act();
    setfsuid(before);
    result
}

fn nobody_else_may_command_a_node(place: &MachinePlace) -> Result<()> {
    let node = Waiting::start(place, "mine", "--cpus 0 --speed 0.5")?;
    let dir = Path::new("/run/sandbag/nodes");
    let socket = dir.join("mine.sock");
    for (path, mode) in [(dir, 0o700), (&socket, 0o600)] {
        let meta = std::fs::symlink_metadata(path)?;
        ensure!(meta.permissions().mode() & 0o7777 == mode, "{meta:?}");
        ensure!(meta.uid() == 0, "{meta:?}");
    }
    let connect = || std::os::unix::net::UnixStream::connect(&socket);
    connect().context("as ourselves")?;
    let refused = as_nobody(connect);
    let kind = refused.as_ref().map_err(std::io::Error::kind).err();
    ensure!(kind == Some(std::io::ErrorKind::PermissionDenied));
    // Who says nothing, or nonsense, does no harm.
    let mut silent = connect()?;
    std::io::Write::write_all(&mut silent, b"{\"no such\":\n")?;
    let _held: Vec<_> = (0..40).map(|_| connect()).collect();
    ensure!(node.status()?["name"] == "mine");
    // It is awake for moments only.
    let asleep = |_| {
        std::thread::sleep(Duration::from_millis(20));
        state_of(pid_of(&node.child)) == Some('S')
    };
    ensure!((0..50).any(asleep), "the supervisor never sleeps");
    drop(node);
    ensure!(!socket.exists(), "the socket stays");
    Ok(())
}

fn what_a_strange_node_answers_is_shown_escaped(place: &MachinePlace) -> Result<()> {
    const FOREIGN: &str = "\u{1b}[31mred\u{9b}31m\u{202e}\r\nFORGED";
    // Makes the directory of the sockets.
    let _node = Waiting::start(place, "mine", "--cpus 0 --speed 0.9")?;
    let path = Path::new("/run/sandbag/nodes/strange.sock");
    let replies = [
        serde_json::json!({
            "version": 1, "reply": "status", "name": FOREIGN, "pid": 1, "cpus": FOREIGN,
            "method": FOREIGN, "members": [], "speeds": [],
        }),
        serde_json::json!({"version": 1, "reply": "error", "message": FOREIGN}),
        serde_json::json!({"version": 1, "reply": FOREIGN}),
    ];
    for reply in replies {
        for words in ["slow list", "slow list --json"] {
            let listener = UnixListener::bind(path)?;
            let line = format!("{reply}\n");
            let server = std::thread::spawn(move || {
                // Dialled once to see whether it lives, then asked.
                for stream in listener.incoming().take(2).flatten() {
                    let mut asked = String::new();
                    if matches!(BufReader::new(&stream).read_line(&mut asked), Ok(1..)) {
                        // A connection without a question gets no answer.
                        let _ = (&stream).write_all(line.as_bytes());
                    }
                }
            });
            let listed = place.run(words);
            std::fs::remove_file(path)?;
            server.join().ok().context("the node of this test failed")?;
            let listed = listed?;
            ensure!(listed.out.contains("mine"), "{listed:?}");
            for line in listed.out.lines().chain(listed.err.lines()) {
                let bad = line.contains(|c: char| c.is_control() || c == '\u{202e}');
                ensure!(!bad && !line.trim_start().starts_with("FORGED"), "{line:?}");
                let is_json = serde_json::from_str::<Value>(line).is_ok();
                ensure!(is_json == words.ends_with("--json"), "{line:?}");
            }
            ensure!(listed.out.contains("[31mred"), "{words}: {listed:?}");
        }
    }
    Ok(())
}

fn all_are_stopped_also_after_one_that_does_not_answer(place: &MachinePlace) -> Result<()> {
    let node = Waiting::start(place, "mine", "--cpus 0 --speed 0.9")?;
    // Is asked first, and hangs up.
    let path = Path::new("/run/sandbag/nodes/foreign.sock");
    let listener = UnixListener::bind(path)?;
    std::thread::spawn(move || listener.incoming().for_each(drop));
    let stopped = place.run("slow stop --all");
    fs::remove_file(path)?;
    let says = ["node `foreign` hung up", "node mine: ending"];
    stopped?.expect(1)?.says(&says)?;
    node.finish()
}

/// `verdict` and all warnings of a run's record.
fn judged(place: &MachinePlace) -> Result<(String, String)> {
    let record = place.record("r")?;
    Ok((record.verdict, record.warnings.join("\n")))
}

fn foreign_load_beside_a_node_is_named_and_undecided(place: &MachinePlace) -> Result<()> {
    // An ordinary task, and one that no hog can wait for.
    for class in ["", "chrt -f 50 "] {
        let spinner = format!("exec timeout 8 taskset -c 0 {class}sh -c 'while :; do :; done'");
        let mut other = Command::new("sh").args(["-c", &spinner]).spawn()?;
        let ran = place.script(
            "-q slow --cpus 0 --speed 0.5 --no-settle --strict --force --out r",
            "timeout 2 sh -c 'while :; do :; done'; true",
        );
        // timeout ends its child with itself.
        kill(pid_of(&other), Signal::SIGTERM)?;
        other.wait()?;
        ran?.expect(4)?;
        let (verdict, warnings) = judged(place)?;
        ensure!(verdict == "undecided", "{class}: {verdict}: {warnings}");
        ensure!(
            warnings.contains("foreign load") && warnings.contains("sh (process "),
            "{class}: {warnings}"
        );
        place.as_before()?;
    }
    Ok(())
}

fn a_program_that_leaves_its_node_is_missed(place: &MachinePlace) -> Result<()> {
    const LEAVE: &str = "while IFS=: read -r n c p; do case $p in *sandbag*) \
        echo $$ > /sys/fs/cgroup/$c/cgroup.procs;; esac; done < /proc/self/cgroup; ";
    let spin = |seconds: f64| format!("timeout {seconds} sh -c 'while :; do :; done'; true");
    // The second ends before it could be seen outside.
    for (script, says) in [
        (format!("{LEAVE}{}", spin(2.5)), "left the node's groups"),
        (format!("{LEAVE}{}", spin(0.8)), "groups"),
    ] {
        let options = "-q slow --cpus 1 --speed 0.2 --as-root --no-settle --strict --force --out r";
        place.script(options, &script)?.expect(3)?;
        let (verdict, warnings) = judged(place)?;
        ensure!(verdict == "missed", "{verdict}: {warnings}");
        ensure!(warnings.contains(says), "{warnings}");
        place.as_before()?;
    }
    Ok(())
}
