// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A node for programs that run already: what they get, that they go back to where they
//! were whatever happens, and who cannot be taken.

use nix::unistd::gettid;

use crate::groups::OwnGroup;
use crate::prelude::*;
use crate::slowed::{Spinners, spin};

cases! { CASES: two_cpus;
    a_process_that_runs_already_gets_the_speed,
    a_tree_is_slowed_with_all_that_it_starts,
    a_large_tree_leaves_no_hole,
    the_run_ends_with_its_target,
    a_load_beside_a_program_says_what_it_got,
    attach_and_detach_take_a_moment,
    in_a_namespace_of_groups_a_process_is_slowed_and_goes_back,
    a_unit_and_a_container_are_found_by_their_groups,
    who_cannot_be_taken_is_refused,
    a_target_is_as_before_after_a_kill_at_any_moment,
}

cases! { REDIS: || two_cpus().and_then(|()| have(&["redis-server", "redis-benchmark"]));
    a_slowed_redis_serves_on_and_is_free_again,
}

cases! { CONTAINER: || two_cpus().and(case::only_in_all()).and_then(|()| have(&["podman", "runc", "busybox"]));
    a_real_container_is_slowed_by_its_name,
}

/// A shell with spinning processes, started by us and not by sandbag; killed at the end.
struct Outside {
    shell: Child,
    spinners: Spinners,
    /// The groups of all before they were slowed.
    home: String,
}

impl Outside {
    fn start(place: &MachinePlace, count: usize) -> Result<Self> {
        let shell = place.program("sh", ["-c", &spin(count)]).spawn()?;
        let spinners = Spinners::of(place)?;
        let home = groups_of(shell.id())?;
        Ok(Self {
            shell,
            spinners,
            home,
        })
    }

    fn all(&self) -> Vec<Pid> {
        [pid_of(&self.shell)]
            .into_iter()
            .chain(self.spinners.0.iter().copied())
            .collect()
    }

    /// The allowed CPUs of all, which a cpuset changes and a run must give back.
    fn allowed(&self) -> Result<Vec<String>> {
        let of = |pid: &Pid| {
            Ok(process(*pid)
                .status("Cpus_allowed_list", "CPUs")?
                .unwrap_or_default())
        };
        self.all().iter().map(of).collect()
    }

    fn is_home(&self) -> bool {
        self.all()
            .iter()
            .all(|pid| groups_of(pid).is_ok_and(|groups| groups == self.home))
    }

    fn comes_home(&self) -> Result<()> {
        wait_until("the program to be back in its groups", || self.is_home())
    }

    /// In a group of sandbag's.
    fn taken(pid: Pid) -> bool {
        groups_of(pid).is_ok_and(|groups| groups.contains("/sandbag"))
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

fn a_process_that_runs_already_gets_the_speed(place: &MachinePlace) -> Result<()> {
    let outside = Outside::start(place, 2)?;
    let before = outside.allowed()?;
    let (slowed, free) = (outside.spinners.0[0], outside.spinners.0[1]);
    let methods = ["hogs", "lim", "pace", "cap"];
    let count = if case::is_all_wanted() { 4 } else { 2 };
    for method in &methods[..count] {
        let words = format!(
            "-q slow --pid {slowed} -c 0 -s .5 --method {method} -d 4s --json=r.json \
                             --force --no-out"
        );
        let run = place.start(&words)?;
        wait_until("the program in the node", || Outside::taken(slowed))?;
        ensure!(
            !Outside::taken(free),
            "{method}: its sibling was taken as well"
        );
        let start = used(slowed)?;
        std::thread::sleep(Duration::from_millis(2000));
        // Of ticks of 10 ms, of one CPU.
        let got = (used(slowed)? - start) as f64 / 200.0;
        figure!(
            (0.35..0.6).contains(&got),
            "{method}: half of a CPU asked, {got:.2} got"
        );
        let ended = finish(run)?.judged()?;
        ensure!(
            outside.is_home(),
            "{method}: not back at the end: {ended:?}"
        );
        let record = place.json("r.json")?;
        ensure!(
            record["length_s"]
                .as_f64()
                .is_some_and(|s| (3.9..4.2).contains(&s)),
            "{record}"
        );
        ensure!(record["node"]["entered"] == 1, "{record}");
        place.as_before()?;
    }
    ensure!(
        outside.allowed()? == before,
        "{:?}, before {before:?}",
        outside.allowed()?
    );
    Ok(())
}

fn a_tree_is_slowed_with_all_that_it_starts(place: &MachinePlace) -> Result<()> {
    // A shell that starts another process after another, some of them after the run began.
    let script = "for i in $(seq 300); do sh -c 'echo $$ >> started; sleep .2'; done";
    let mut shell = place.program("sh", ["-c", script]).spawn()?;
    place.written("started")?;
    let root = pid_of(&shell);
    let home = groups_of(root)?;
    let run = place.start(&format!("-q slow --pid {root} --tree -s .5 -d 3s --no-out"))?;
    wait_until("the tree in the node", || Outside::taken(root))?;
    let grown = || text_of(place.path("started")).map_or(0, |text| text.lines().count());
    let before = grown();
    wait_until("more processes", || grown() > before + 3)?;
    let newest: i32 = text_of(place.path("started"))?
        .lines()
        .last()
        .context("one")?
        .parse()?;
    let newest = Pid::from_raw(newest);
    ensure!(
        Outside::taken(newest) || !lives(newest),
        "{newest} is not in the node"
    );
    finish(run)?.judged()?;
    ensure!(groups_of(root)? == home, "the shell is not back");
    shell.kill()?;
    shell.wait()?;
    Ok(())
}

/// To move 1500 processes into the node takes longer than what a window may lack of the counters.
fn a_large_tree_leaves_no_hole(place: &MachinePlace) -> Result<()> {
    let script = "for n in $(seq 1500); do sleep 1000 & done; echo > started; wait";
    let mut shell = place.program("sh", ["-c", script]);
    let mut shell = shell.process_group(0).spawn()?;
    place.written("started")?;
    let root = pid_of(&shell);
    let run = place.run(&format!(
        "-q slow --pid {root} --tree -s .5 -d 2s --out large"
    ));
    nix::sys::signal::killpg(root, Signal::SIGKILL)?;
    shell.wait()?;
    run?.judged()?;
    let rows = text_of(place.path("large/achieved.csv"))?;
    ensure!(rows.lines().count() > 2, "{rows}");
    ensure!(
        rows.lines().skip(1).all(|row| row.ends_with(",0")),
        "{rows}"
    );
    Ok(())
}

/// A group as an engine makes it, on this machine; removed at the end.
struct MadeGroup(OwnGroup);

impl MadeGroup {
    fn new(name: &str, pid: u32) -> Result<Self> {
        let tree = sandbag_linux::cgroup::find(&Root::default())?;
        let group = OwnGroup::new(tree.own_dir().join(name))?;
        fs::write(group.dir().join("cgroup.procs"), pid.to_string())?;
        Ok(Self(group))
    }
}

impl Drop for MadeGroup {
    fn drop(&mut self) {
        let dir = self.0.dir();
        let home = dir.parent().unwrap_or(dir).join("cgroup.procs");
        for pid in fs::read_to_string(dir.join("cgroup.procs"))
            .unwrap_or_default()
            .lines()
        {
            let _ = fs::write(&home, pid);
        }
    }
}

/// What a service starts while it is slowed is slowed as well, and goes back with it.
fn a_unit_and_a_container_are_found_by_their_groups(place: &MachinePlace) -> Result<()> {
    let id = "0f1e2d3c4b5a6978".repeat(4);
    for (name, asked) in [
        (
            "slowed-test.service".to_owned(),
            "--unit slowed-test".to_owned(),
        ),
        (
            format!("libpod-{id}.scope"),
            format!("--container {}", &id[..12]),
        ),
    ] {
        let outside = Outside::start(place, 1)?;
        let spinner = outside.spinners.0[0];
        let group = MadeGroup::new(&name, spinner.as_raw().unsigned_abs())?;
        let home = groups_of(spinner)?;
        ensure!(home.contains(&name), "{home}");
        let run = place.start(&format!("slow {asked} -c 0 -s .5 -d 3500ms --no-out"))?;
        wait_until("the program in the node", || Outside::taken(spinner))?;
        // Another process of the service.
        let late = outside.shell.id();
        fs::write(group.0.dir().join("cgroup.procs"), late.to_string())?;
        wait_until("the second one in the node", || {
            Outside::taken(pid_of(&outside.shell))
        })?;
        let start = used(spinner)?;
        std::thread::sleep(Duration::from_millis(1500));
        let got = (used(spinner)? - start) as f64 / 150.0;
        figure!(
            (0.3..0.65).contains(&got),
            "{asked}: half of a CPU asked, {got:.2} got"
        );
        finish(run)?.judged()?;
        ensure!(
            groups_of(spinner)? == home,
            "{asked}: not back: {}",
            groups_of(spinner)?
        );
        ensure!(
            groups_of(late)? == home,
            "{asked}: not back: {}",
            groups_of(late)?
        );
        drop(group);
        place.as_before()?;
    }
    place.answers(
        "slow --unit no-such -s .5",
        5,
        &["unit no-such.service does not run here"],
    )?;
    place.answers("slow --container no-such -s .5", 5, &["does not run here"])?;
    Ok(())
}

fn the_run_ends_with_its_target(place: &MachinePlace) -> Result<()> {
    for tree in ["", "--tree"] {
        let outside = Outside::start(place, 1)?;
        let root = outside.shell.id();
        let words = format!("slow --pid {root} {tree} -s .5 -d 1h --name gone --out gone --force");
        let run = place.start(&words)?;
        // A program that ends before all of it was taken is refused instead.
        wait_until("the node to serve", || {
            let set = place.run("slow set gone --speed .4");
            set.is_ok_and(|set| set.code() == 0)
        })?;
        drop(outside);
        let ended = finish(run)?.judged()?.says(&["the program ended"])?;
        ensure!(!ended.err.contains("could not undo"), "{ended:?}");
        place.as_before()?;
    }
    Ok(())
}

/// From the node that holds its speed to the program in it, and from the request to end to
/// the program where it was.
fn attach_and_detach_take_a_moment(place: &MachinePlace) -> Result<()> {
    let outside = Outside::start(place, 1)?;
    let pid = outside.spinners.0[0];
    let (mut least_in, mut least_out) = (f64::MAX, f64::MAX);
    for _ in 0..3 {
        let words = format!("-q slow --pid {pid} -c 0 -s .5 --no-settle --no-out -d 1h");
        let run = place.start_burning(&words, 1)?;
        // Its burner is there.
        let begin = Instant::now();
        wait_until("the program in the node", || Outside::taken(pid))?;
        least_in = least_in.min(begin.elapsed().as_secs_f64());
        std::thread::sleep(Duration::from_millis(300));
        let begin = Instant::now();
        kill(pid_of(&run), Signal::SIGTERM)?;
        outside.comes_home()?;
        least_out = least_out.min(begin.elapsed().as_secs_f64());
        finish(run)?;
    }
    case::note(&format!(
        "attach {:.0} ms, detach {:.0} ms at best",
        least_in * 1e3,
        least_out * 1e3
    ));
    figure!(
        least_in < 0.4 && least_out < 0.4,
        "attach {least_in}, detach {least_out}"
    );
    place.as_before()?;
    Ok(())
}

/// As in a container that has a tree of its own to see.
fn in_a_namespace_of_groups_a_process_is_slowed_and_goes_back(place: &MachinePlace) -> Result<()> {
    let outside = Outside::start(place, 1)?;
    let pid = outside.spinners.0[0];
    let script = format!(
        "unshare --cgroup \"$S\" -q slow --pid {pid} -c 0 -s .5 -d 3s --no-out --json=r.json --force"
    );
    let said = place.bash(&script)?;
    ensure!([0, 3, 4].contains(&said.code()), "{said:?}");
    ensure!(outside.is_home(), "it is not back");
    let used = place.json("r.json")?["node"]["used_s"].as_f64();
    figure!(
        used.is_some_and(|s| (1.2..1.8).contains(&s)),
        "{used:?} of 3 s"
    );
    place.as_before()?;
    Ok(())
}

/// Of podman and runc, from a directory: no image is downloaded.
fn a_real_container_is_slowed_by_its_name(place: &MachinePlace) -> Result<()> {
    let script = r#"
        printf '[storage]\ndriver = "vfs"\ngraphroot = "%s/graph"\nrunroot = "%s/run"\n' "$PWD" "$PWD" >storage.conf
        printf '[engine]\ncgroup_manager = "cgroupfs"\nruntime = "runc"\n' >containers.conf
        export CONTAINERS_STORAGE_CONF=$PWD/storage.conf CONTAINERS_CONF=$PWD/containers.conf
        before=$(find /sys/fs/cgroup -name 'libpod*' | wc -l)
        mkdir -p root/bin root/tmp; cp "$(command -v busybox)" root/bin/; ln -s busybox root/bin/sh
        podman run -d --name slowed --network none --ulimit nofile=1024:1024 --ulimit nproc=1024:1024 \
            --rootfs "$PWD/root" /bin/sh -c 'while :; do :; done' >/dev/null || exit 1
        pid=$(podman inspect --format '{{.State.Pid}}' slowed); home=$(cat /proc/$pid/cgroup)
        echo "$home" | grep -q libpod && echo contained
        "$S" -q slow --container slowed -c 0 -s .5 -d 4s --no-out --json=one.json; echo "code $?"
        test "$(cat /proc/$pid/cgroup)" = "$home" && echo home
        # Removed while it is slowed.
        "$S" -q slow --container slowed -c 0 -s .5 -d 1h --no-out & run=$!
        until grep -q /sandbag /proc/$pid/cgroup; do sleep .05; done
        podman rm -f -t 0 slowed >/dev/null; wait $run; echo "code $?"
        test "$before" = 0 && find /sys/fs/cgroup -depth -path '*/libpod_parent*' -type d -exec rmdir {} +
        true
    "#;
    let said = place.bash(script)?.expect(0)?;
    let out = said.out.replace("code 4", "code 0");
    ensure!(out == "contained\ncode 0\nhome\ncode 0\n", "{said:?}");
    figure!(out == said.out, "undecided: {said:?}");
    let record = place.json("one.json")?;
    let used = record["node"]["used_s"].as_f64().unwrap_or(f64::NAN);
    figure!(
        (1.7..2.3).contains(&used),
        "half of 4 s asked, {used:.2} got"
    );
    place.as_before()?;
    Ok(())
}

fn a_load_beside_a_program_says_what_it_got(place: &MachinePlace) -> Result<()> {
    let outside = Outside::start(place, 2)?;
    let pid = outside.spinners.0[0];
    let words = format!("load 40 --beside pid:{pid} -d 3s --out r");
    let ended = place.run(&words)?.judged()?;
    ended.says(&["beside the load: process", "that the load left"])?;
    let watched = &place.json("r/run.json")?["watched"];
    let share = watched["used_s"]
        .as_f64()
        .zip(watched["available_s"].as_f64());
    // Two equal processes.
    figure!(
        share.is_some_and(|(used, left)| (0.4..0.6).contains(&(used / left))),
        "{watched}"
    );
    ensure!(outside.is_home(), "it was moved");
    // Its CPUs are those of the load.
    place.answers(
        &format!("load 5 --beside tree:{} --dry-run", outside.shell.id()),
        0,
        &[],
    )?;
    place.answers("load 5 --beside pid:0 --no-out", 5, &["no process 0"])?;
    drop(outside);
    place.as_before()?;
    Ok(())
}

fn a_slowed_redis_serves_on_and_is_free_again(place: &MachinePlace) -> Result<()> {
    let script = r#"
        redis-server --port 7411 --save '' --daemonize yes --dir . --pidfile $PWD/redis.pid >/dev/null
        until redis-cli -p 7411 ping 2>/dev/null | grep -q PONG; do sleep .05; done
        pid=$(cat redis.pid); home=$(cat /proc/$pid/cgroup)
        # On the other CPU: what it takes of the node's is foreign load.
        rate() { taskset -c 1 redis-benchmark -p 7411 -t ping_mbulk -n $1 -P 16 -q --csv | tail -1 | cut -d, -f2 | tr -d '"'; }
        free=$(rate 200000)
        "$S" -q slow --pid $pid -c 0 -s .3 -d 1h --no-out & run=$!
        until grep -q /sandbag /proc/$pid/cgroup; do sleep .02; done
        sleep .5; slow=$(rate 100000)
        kill -TERM $run; wait $run; code=$?
        test "$(cat /proc/$pid/cgroup)" = "$home" && echo home
        redis-cli -p 7411 ping; kill $pid
        echo "code $code"; echo "rates $free $slow"
    "#;
    let said = place.bash(script)?.expect(0)?;
    let out = said.out.replace("code 4", "code 0");
    ensure!(out.contains("home\nPONG\ncode 0\n"), "{said:?}");
    figure!(out == said.out, "undecided: {said:?}");
    let rates = said
        .out
        .lines()
        .find_map(|line| line.strip_prefix("rates "))
        .context("rates")?;
    let rates: Vec<f64> = rates.split(' ').map(str::parse).collect::<Result<_, _>>()?;
    let ratio = rates[1] / rates[0];
    case::note(&format!(
        "redis at speed .3 answers {ratio:.2} of its requests per second"
    ));
    figure!((0.12..0.6).contains(&ratio), "{rates:?}");
    place.as_before()?;
    Ok(())
}

fn who_cannot_be_taken_is_refused(place: &MachinePlace) -> Result<()> {
    let refused =
        |pid: &str, says: &str| place.answers(&format!("slow --pid {pid} -s .5"), 5, &[says]);
    refused("1", "cannot be moved")?;
    refused("2147483647", "there is no process")?;
    let of_itself = || refused(&gettid().to_string(), "is a thread of process");
    let said = std::thread::scope(|scope| scope.spawn(of_itself).join());
    said.ok().context("a thread of this test failed")??;
    let of_kernel = sandbag_linux::process::processes(&Root::default())?
        .into_iter()
        .find(|stat| stat.parent == 2 || stat.pid == 2);
    match of_kernel {
        Some(thread) => {
            refused(&thread.pid.to_string(), "thread of the kernel")?;
        }
        None => case::note("no thread of the kernel is to be seen here"),
    }
    refused(
        &format!("{} --tree", std::process::id()),
        "sandbag itself belongs to",
    )?;
    place.answers("slow --tree -c 0 -s .5", 2, &["--pid"])?;
    place.answers("slow --pid 1 -s .5 -- true", 125, &["cannot be used with"])?;
    let outside = Outside::start(place, 1)?;
    let pid = outside.spinners.0[0];
    let first = place.start(&format!("-q slow --pid {pid} -c 0 -s .5 -d 1h --no-out"))?;
    wait_until("the program in the node", || Outside::taken(pid))?;
    refused(&format!("{pid} -c 1"), "in a group of sandbag's already")?;
    end(first, Signal::SIGTERM)?.judged()?;
    outside.comes_home()?;
    // A unit of the user whose name begins with `sandbag`.
    let shell = outside.shell.id();
    let group = MadeGroup::new("sandbag-exporter.service", shell)?;
    place.answers(&format!("slow --pid {shell} -c 0 -s .5 --dry-run"), 0, &[])?;
    drop(group);
    place.as_before()?;
    Ok(())
}

fn a_target_is_as_before_after_a_kill_at_any_moment(place: &MachinePlace) -> Result<()> {
    let outside = Outside::start(place, 3)?;
    let before = outside.allowed()?;
    let root = outside.shell.id();
    let rounds = if case::is_all_wanted() { 24 } else { 12 };
    let mut taken = 0;
    for round in 0..rounds {
        let method = ["hogs", "lim", "cap", "pace"][round % 4];
        let mut run = place.start(&format!(
            "-q slow --pid {root} --tree -c 0-1 -s .5 --method {method} -d 1h --no-out --no-settle"
        ))?;
        // From before its group is made until after it is held.
        let wait_ms = (round as u64 * 37) % 400;
        std::thread::sleep(Duration::from_millis(wait_ms));
        taken += usize::from(outside.all().into_iter().any(Outside::taken));
        run.kill()?;
        run.wait()?;
        outside
            .comes_home()
            .with_context(|| format!("{method}, killed after {wait_ms} ms"))?;
        for pid in outside.all() {
            ensure!(
                state_of(pid) != Some('T'),
                "{method}: {pid} is stopped after {wait_ms} ms"
            );
        }
        place
            .as_before()
            .with_context(|| format!("{method} after {wait_ms} ms"))?;
        ensure!(
            outside.allowed()? == before,
            "{method}: {:?}",
            outside.allowed()?
        );
    }
    case::note(&format!(
        "{rounds} kills, {taken} of them with the program in the node"
    ));
    figure!(
        taken > rounds / 4,
        "only {taken} of {rounds} kills came after the program was taken"
    );
    Ok(())
}
