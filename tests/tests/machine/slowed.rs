// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the tests of virtual nodes share: programs that spin, what they get,
//! and nodes that wait for programs.
//!
//! Other programs may use the machine meanwhile. What they took is counted, so
//! that less than the node's speed is accepted for it; more is always an error.

use sandbag_linux::CpuList;
use sandbag_linux::sched::set_affinity;

use crate::prelude::*;

/// Every method as it is asked for that works without a cpufreq driver.
pub const METHODS: [&str; 11] = [
    "hogs",
    "hogs --hog-sync barrier",
    "pace",
    "quota",
    "rt",
    "deadline",
    "shares",
    "lim",
    "lim --lim-variant wrekavoc",
    "cap",
    "gov",
];

/// A shell script that starts `count` spinning processes, writes their process
/// ids to the file `pids`, and waits for them.
pub fn spin(count: usize) -> String {
    // No process waits for the end of their output.
    // They ignore SIGINT, so Ctrl-C in the tests does not end them.
    format!(
        "ulimit -t 300; for i in $(seq {count}); do sh -c 'while :; do :; done' > /dev/null 2>&1 & \
         all=\"$all $!\"; done; echo $all > pids.new; mv pids.new pids; wait"
    )
}

/// Processes that spin; gone at the end.
pub struct Spinners(pub Vec<Pid>);

impl Spinners {
    /// Those of [`spin`].
    pub fn of(place: &MachinePlace) -> Result<Self> {
        let text = place.written("pids")?;
        fs::remove_file(place.path("pids"))?;
        Self::from_text(&text)
    }

    /// By their process ids.
    pub fn from_text(text: &str) -> Result<Self> {
        let pids = text.split(' ').map(|pid| Ok(Pid::from_raw(pid.parse()?)));
        Ok(Self(pids.collect::<Result<_>>()?))
    }

    /// What they get during this time.
    pub fn get(&self, time: Duration) -> Result<NodeSpeed> {
        let read = || -> Result<(Instant, u64, f64)> {
            let mut spun = 0;
            for pid in &self.0 {
                spun += used(*pid)?;
            }
            Ok((Instant::now(), spun, idle_s()?))
        };
        let (begin, spun, still) = read()?;
        std::thread::sleep(time);
        let (end, spun_then, still_then) = read()?;
        let time_s = (end - begin).as_secs_f64();
        Ok(NodeSpeed {
            // Ticks of 10 ms each.
            spun: (spun_then - spun) as f64 / 100.0 / time_s,
            idle: (still_then - still).max(0.0) / time_s,
        })
    }

    /// Binds them to CPUs 0 and 1 in turn: the kernel may leave a slow CPU idle though
    /// programs wait on a fast one.
    pub fn spread(&self) -> Result<()> {
        for (nth, spinner) in self.0.iter().enumerate() {
            let cpu = CpuList::from_iter([nth as u32 % 2]);
            set_affinity(spinner.as_raw().cast_unsigned(), &cpu)?;
        }
        Ok(())
    }

    /// Before others who want the CPUs: for nodes whose method does not
    /// compete with its programs.
    pub fn prefer(&self) -> Result<()> {
        for line in groups_of(self.0[0])?.lines() {
            let mut fields = line.splitn(3, ':').skip(1);
            let file = match (fields.next(), fields.next()) {
                (Some("cpu"), Some(path)) => format!("/sys/fs/cgroup/cpu{path}/cpu.shares"),
                (Some(""), Some(path)) => format!("/sys/fs/cgroup{path}/cpu.weight"),
                _ => continue,
            };
            if file.contains("/sandbag") && fs::exists(&file)? {
                // The most that v2 knows; of v1 it is ten times the ordinary.
                fs::write(&file, "10000").context(file)?;
            }
        }
        Ok(())
    }

    /// They are in our own groups, not stopped, and use what other programs leave
    /// of the CPUs. At least as many as CPUs.
    pub fn are_free(&self) -> Result<()> {
        let home = groups_of("self")?;
        for pid in &self.0 {
            wait_for("a program to be back in its group", || {
                (groups_of(pid).ok()? == home).then_some(())
            })?;
            ensure!(lives(*pid), "{pid} does not live on");
            let state = state_of(*pid);
            ensure!(state != Some('T'), "{pid} is stopped");
        }
        // Once more if another program disturbed the first time.
        let got = self.get(Duration::from_millis(200))?;
        let free = |got: &NodeSpeed| got.spun > 0.0 && got.idle < 0.2;
        let got = if free(&got) {
            got
        } else {
            self.get(Duration::from_millis(500))?
        };
        ensure!(free(&got), "not at full speed: {got:?}");
        Ok(())
    }
}

impl Drop for Spinners {
    fn drop(&mut self) {
        for pid in &self.0 {
            let _ = kill(*pid, Signal::SIGKILL);
        }
        let gone = || self.0.iter().all(|pid| !lives(*pid)).then_some(());
        let _ = wait_for("the spinners' end", gone);
    }
}

/// CPU time as parts of one CPU: 2 is all of two CPUs.
#[derive(Debug, Clone, Copy)]
pub struct NodeSpeed {
    /// By the spinners.
    pub spun: f64,
    /// Idle.
    pub idle: f64,
}

impl NodeSpeed {
    /// Whether this is what a node of 2 CPUs promises: not more, and not less
    /// than others left of it. `burned`: what the method itself burns.
    pub fn is_near(self, promised: f64, burned: f64, tolerance: f64) -> bool {
        let others = (2.0 - self.idle - self.spun - burned).max(0.0);
        self.spun < promised + tolerance && self.spun > promised - tolerance - others
    }
}

/// Idle time of the first two CPUs, seconds.
fn idle_s() -> Result<f64> {
    let all = stat::read()?;
    let cpus = [0, 1].map(|cpu| all.get(&Some(cpu)));
    Ok(cpus.into_iter().flatten().map(|time| time.idle_s).sum())
}

/// A node without a command of its own; ended at the end.
pub struct Waiting<'a> {
    pub place: &'a MachinePlace,
    pub name: &'static str,
    pub child: Child,
}

impl<'a> Waiting<'a> {
    /// Starts it, and waits until it answers.
    pub fn start(place: &'a MachinePlace, name: &'static str, options: &str) -> Result<Self> {
        let child = place.start(&format!("-q slow --name {name} --no-out {options}"))?;
        let this = Self { place, name, child };
        wait_for("the node", || this.status().ok().map(|_| ()))?;
        Ok(this)
    }

    /// What `slow list --json` says of it.
    pub fn status(&self) -> Result<Value> {
        let listed = self.place.run("slow list --json")?.expect(0)?;
        for line in listed.out.lines() {
            let status: Value = serde_json::from_str(line).with_context(|| line.to_owned())?;
            if status["name"] == self.name {
                return Ok(status);
            }
        }
        anyhow::bail!("{} is not in: {}", self.name, listed.out)
    }

    /// Runs a shell script in it to its end.
    pub fn script(&self, script: &str) -> Result<PlaceExit> {
        finish(self.start_script(script)?)
    }

    pub fn start_script(&self, script: &str) -> Result<Child> {
        let words = ["slow", "exec", self.name, "--", "sh", "-c", script];
        Ok(self.place.sandbag(words).spawn()?)
    }

    /// Starts `count` spinning processes in it.
    pub fn spin(&self, count: usize) -> Result<(Child, Spinners)> {
        let shell = self.start_script(&spin(count))?;
        Ok((shell, Spinners::of(self.place)?))
    }

    /// Its end, of itself.
    pub fn finish(mut self) -> Result<()> {
        wait_for("the node's end", || self.child.try_wait().ok().flatten())?;
        Ok(())
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = kill(pid_of(&self.child), Signal::SIGTERM);
            let ended = wait_for("its end", || self.child.try_wait().ok().flatten());
            if ended.is_err() {
                let _ = self.child.kill();
                let _ = self.child.wait();
            }
        }
    }
}
