// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A run seen from outside while it runs: `top`, `status --watch`, metrics, and what a real
//! Prometheus makes of them.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use crate::prelude::*;
use crate::prometheus::{Daemon, SERVER, free_port};
use crate::slowed::Waiting;
use crate::terminal::Terminal;

cases! { CASES: two_cpus;
    top_and_status_say_what_a_run_gets,
    top_on_a_terminal_stops_a_run_and_leaves_the_terminal_as_it_was,
    two_tops_and_a_terminal_that_vanishes_disturb_nothing,
    metrics_are_served_while_the_run_goes_on,
    a_metrics_file_lives_as_long_as_its_run,
    an_exporter_that_fails_is_in_the_report_and_keeps_no_run_from_ending,
    a_port_in_use_is_refused_before_anything_is_done,
    a_load_is_changed_while_it_runs_and_ends_as_planned,
    a_run_is_paused_and_goes_on,
    a_paused_run_is_resumed_by_its_name_and_ends_when_it_is_asked_to,
}

cases! { PROMETHEUS: servers;
    prometheus_sees_what_the_report_says,
}

fn servers() -> Result<(), String> {
    case::only_in_all()?;
    two_cpus()?;
    have(&[SERVER, "promtool", "setpriv"])
}

/// Far more than a load is off, and than one that is not held could be by chance.
const POINTS: f64 = 3.0;

fn top_and_status_say_what_a_run_gets(place: &MachinePlace) -> Result<()> {
    place.answers("top", 2, &["--once prints text"])?;
    ensure!(place.run("top --once -i 100ms")?.expect(0)?.out.is_empty());
    let run = place.start_burning("-q load 0=40,1=70 -d 1h --no-out", 2)?;
    std::thread::sleep(Duration::from_millis(1800));
    let said = place.run("top --once")?.expect(0)?;
    let row = |cpu: &str| -> Result<Vec<f64>> {
        let is_row = |line: &&str| line.split_whitespace().next() == Some(cpu);
        let row = said
            .out
            .lines()
            .find(is_row)
            .with_context(|| said.out.clone())?;
        Ok(row
            .split_whitespace()
            .map(str::parse)
            .collect::<Result<_, _>>()?)
    };
    for (cpu, asked) in [("0", 40.0), ("1", 70.0)] {
        let row = row(cpu)?;
        ensure!(row[1] == asked, "{}", said.out);
        figure!((row[2] - asked).abs() < POINTS, "{}", said.out);
    }
    let mut watch = place.start("status --watch --json")?;
    std::thread::sleep(Duration::from_millis(2600));
    kill(pid_of(&watch), Signal::SIGINT)?;
    let mut lines = String::new();
    watch
        .stdout
        .take()
        .context("stdout")?
        .read_to_string(&mut lines)?;
    ensure!(watch.wait()?.success(), "{lines}");
    figure!((2..=4).contains(&lines.lines().count()), "{lines}");
    let last: Value = serde_json::from_str(lines.lines().last().context("one")?)?;
    ensure!(last["now"][1]["asked_pct"] == 70.0, "{last}");
    ensure!(last["now"][1]["others_pct"].is_number(), "{last}");
    place.answers("status --watch --json=x.json", 2, &["leave out the file"])?;
    end(run, Signal::SIGTERM)?.judged()?;
    Ok(())
}

fn top_on_a_terminal_stops_a_run_and_leaves_the_terminal_as_it_was(
    place: &MachinePlace,
) -> Result<()> {
    let run = place.start_burning("-q load 30 -d 1h --no-out", 2)?;
    let mut terminal = Terminal::new(
        place,
        "stty -a > before; stty rows 24 cols 80; stty -a > before; $SANDBAG top -i 200ms; \
         code=$?; stty -a > after; cmp before after && echo code $code end",
    )?;
    std::thread::sleep(Duration::from_millis(1500));
    for key in *b"\tsn" {
        terminal.press(key)?;
    }
    std::thread::sleep(Duration::from_millis(300));
    ensure!(lives(pid_of(&run)), "stopped without being confirmed");
    for key in *b"sy" {
        terminal.press(key)?;
        std::thread::sleep(Duration::from_millis(300));
    }
    finish(run)?.judged()?;
    terminal.press(b'q')?;
    let said = terminal.finish()?;
    for part in [
        "1 run",
        "asked %",
        "constant 30 %",
        "? y or n",
        "asked ",
        "code 0 end",
    ] {
        ensure!(said.contains(part), "no {part:?} in {said}");
    }
    // Killed by Ctrl-C it leaves the terminal as it was, too.
    let mut terminal = Terminal::new(
        place,
        "stty -a > before; $SANDBAG top; code=$?; stty -a > after; cmp before after && \
         echo code $code end",
    )?;
    std::thread::sleep(Duration::from_millis(700));
    terminal.press(crate::terminal::CTRL_C)?;
    let said = terminal.finish()?;
    ensure!(
        said.contains("no run of this user") && said.contains("code 0 end"),
        "{said}"
    );
    Ok(())
}

fn two_tops_and_a_terminal_that_vanishes_disturb_nothing(place: &MachinePlace) -> Result<()> {
    let run = place.start_burning("-q load 30 -d 1h --out r", 2)?;
    let script = "echo $$ > NAME; exec $SANDBAG top -i 200ms";
    let first = Terminal::new(place, &script.replace("NAME", "first"))?;
    let mut second = Terminal::new(place, &script.replace("NAME", "second"))?;
    let top = place.pid("first")?;
    place.pid("second")?;
    std::thread::sleep(Duration::from_millis(1500));
    first.hang_up(&[top])?;
    wait_until("the end of the first top", || !lives(top))?;
    second.press(b'q')?;
    let said = second.finish()?;
    ensure!(
        said.contains("1 run") && said.contains("constant 30 %"),
        "{said}"
    );
    end(run, Signal::SIGTERM)?.judged()?;
    let verdict = place.record("r")?.verdict;
    figure!(verdict == "kept", "{verdict}");
    place.as_before()?;
    Ok(())
}

/// What a server answers to a request.
fn ask(port: u16, request: &str) -> Result<String> {
    let mut client = TcpStream::connect(("127.0.0.1", port))?;
    client.write_all(
        format!("{request} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes(),
    )?;
    let mut text = String::new();
    client.read_to_string(&mut text)?;
    Ok(text)
}

/// The value of a sample.
fn value(text: &str, sample: &str) -> Result<f64> {
    let line = text.lines().find(|line| line.starts_with(sample));
    let line = line.with_context(|| format!("no {sample} in {text}"))?;
    Ok(line.rsplit(' ').next().unwrap_or_default().parse()?)
}

fn metrics_are_served_while_the_run_goes_on(place: &MachinePlace) -> Result<()> {
    let port = free_port()?;
    let run = place.start_burning(&format!("-q load 0=60 -d 1h --no-out --metrics {port}"), 1)?;
    // A client that hangs delays neither the other clients nor the run.
    let hangs = TcpStream::connect(("127.0.0.1", port))?;
    std::thread::sleep(Duration::from_millis(3500));
    let text = ask(port, "GET /metrics")?;
    let pid = run.id();
    let got = value(
        &text,
        &format!("sandbag_load_got_ratio{{run=\"{pid}\",cpu=\"0\"}}"),
    )?;
    figure!((got - 0.6).abs() < POINTS / 100.0, "{text}");
    ensure!(value(&text, "sandbag_load_asked_ratio")? == 0.6, "{text}");
    ensure!(text.ends_with("# EOF\n"), "{text}");
    let later = || value(&ask(port, "GET /metrics")?, "sandbag_load_seconds_total");
    let first = later()?;
    std::thread::sleep(Duration::from_secs(2));
    figure!(
        (0.5..2.0).contains(&(later()? - first)),
        "{first}, then {}",
        later()?
    );
    ensure!(ask(port, "GET /")?.starts_with("HTTP/1.1 404"));
    end(run, Signal::SIGTERM)?.judged()?;
    wait_until("the port to be free", || {
        TcpListener::bind(("127.0.0.1", port)).is_ok()
    })?;
    drop(hangs);
    place.as_before()?;
    // Nor does it outlive a run that is killed.
    let run = place.start_burning(&format!("-q load 0=60 -d 1h --no-out --metrics {port}"), 1)?;
    kill(pid_of(&run), Signal::SIGKILL)?;
    finish(run)?;
    place.as_before()?;
    Ok(())
}

/// Until the load is in the file.
fn wait_for_metrics_of(place: &MachinePlace) -> Result<f64> {
    wait_for("metrics in the file", || {
        let text = text_of(place.path("m.prom")).ok()?;
        let got = value(&text, "sandbag_load_got_ratio");
        got.ok().filter(|got| *got > 0.5)
    })
}

fn a_metrics_file_lives_as_long_as_its_run(place: &MachinePlace) -> Result<()> {
    let words = "-q load 0=60 -d 1h --no-out --metrics-file m.prom";
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        let run = place.start_burning(words, 1)?;
        wait_for_metrics_of(place)?;
        kill(pid_of(&run), signal)?;
        finish(run)?;
        wait_until("the end of the file", || !place.path("m.prom").exists())?;
        place.as_before()?;
    }
    place.answers(
        "load 5 --no-out --metrics-file m.txt",
        2,
        &["must end with .prom"],
    )?;
    place.answers(
        "load 5 --no-out --metrics-file none/m.prom",
        2,
        &["--metrics-file", "no directory none"],
    )?;
    Ok(())
}

fn an_exporter_that_fails_is_in_the_report_and_keeps_no_run_from_ending(
    place: &MachinePlace,
) -> Result<()> {
    for (signal, warning) in [
        (Signal::SIGSTOP, "the exporter of the metrics stands still"),
        (Signal::SIGKILL, "the exporter of the metrics has ended"),
    ] {
        let words = "load 0=60 -d 1h --force --out r --metrics-file m.prom";
        let run = place.start_burning(words, 1)?;
        wait_for_metrics_of(place)?;
        let all = sandbag_linux::process::processes(&sandbag_linux::Root::default())?;
        let is_exporter = |pid: u32| {
            let words = process(Pid::from_raw(pid.cast_signed())).command_line();
            words.is_ok_and(|words| words.get(1).is_some_and(|word| word == "__exporter"))
        };
        let own = all.iter().filter(|child| child.parent == run.id());
        let pid = own.map(|child| child.pid).find(|pid| is_exporter(*pid));
        let exporter = Pid::from_raw(pid.context("no exporter")?.cast_signed());
        kill(exporter, signal)?;
        if signal == Signal::SIGKILL {
            wait_until("the end of the old file", || !place.path("m.prom").exists())?;
        }
        end(run, Signal::SIGTERM)?.judged()?.says(&[warning])?;
        ensure!(!lives(exporter) && !place.path("m.prom").exists());
        let warnings = place.json("r/run.json")?["warnings"].to_string();
        ensure!(warnings.contains(warning), "{warnings}");
        place.as_before()?;
    }
    Ok(())
}

fn a_port_in_use_is_refused_before_anything_is_done(place: &MachinePlace) -> Result<()> {
    let taken = TcpListener::bind("127.0.0.1:0")?;
    let port = taken.local_addr()?.port();
    let words = format!("load 5 -d 1s --out none --metrics {port}");
    place.answers(&words, 5, &["choose another port"])?;
    ensure!(!place.path("none").exists(), "a run directory of nothing");
    place.answers(
        "load 5 -d 1s --metrics x:y",
        2,
        &["write PORT or HOST:PORT"],
    )?;
    place.as_before()?;
    Ok(())
}

fn a_load_is_changed_while_it_runs_and_ends_as_planned(place: &MachinePlace) -> Result<()> {
    // From no burner at all to two, and within a profile of several steps.
    let run = place.start("-q load 0=0,1=20 -d 8s --out r --json=r.json")?;
    let pid = run.id();
    let set = |words: &str| place.run(&format!("set {pid} {words}"));
    std::thread::sleep(Duration::from_millis(2200));
    set("--load 0=60")?.expect(0)?.says(&["load 0=60 %"])?;
    std::thread::sleep(Duration::from_millis(2000));
    set("--load 35")?.expect(0)?;
    set("--load 5=10")?
        .expect(2)?
        .says(&["CPU 5 is not loaded by this run"])?;
    set("--load 120")?.expect(2)?;
    set("--speed .5")?.expect(1)?.says(&["is no node"])?;
    place.answers("set 1 --pause", 2, &["no run is 1"])?;
    place.answers("set 1", 2, &["--load"])?;
    finish(run)?.judged()?;
    let record = place.json("r.json")?;
    figure!(
        record["length_s"]
            .as_f64()
            .is_some_and(|s| (7.9..8.2).contains(&s)),
        "{record}"
    );
    let warnings = record["warnings"].to_string();
    ensure!(warnings.contains("load 0=60 % from then on"), "{warnings}");
    ensure!(warnings.contains("load 35 % from then on"), "{warnings}");
    figure!(record["verdict"] == "kept", "{record}");
    let asked: Vec<f64> = (0..2)
        .map(|cpu| record["cpus"][cpu]["asked_pct"].as_f64().context("asked"))
        .collect::<Result<_>>()?;
    // When they were set, by the run's own clock: it begins once its first level is held.
    let times: Vec<f64> = warnings
        .split("sandbag set, after ")
        .skip(1)
        .map(|rest| rest.split(' ').next().unwrap_or_default().parse())
        .collect::<Result<_, _>>()?;
    ensure!(times.len() == 2, "{warnings}");
    let (first, second) = (times[0] / 8.0, times[1] / 8.0);
    let expected = [
        60.0 * (second - first) + 35.0 * (1.0 - second),
        20.0 * second + 35.0 * (1.0 - second),
    ];
    let is_near = |n: usize| (asked[n] - expected[n]).abs() < 1.5;
    figure!(is_near(0) && is_near(1), "{asked:?} for {expected:?}");
    place.as_before()?;
    // A request that comes before the run waits for it, and the supervisor sleeps meanwhile.
    let at = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)?
        .as_secs_f64()
        + 1.5;
    let run = place.start(&format!(
        "-q load 20 --at @{at:.3} -d 1s --no-out --json=at.json"
    ))?;
    std::thread::sleep(Duration::from_millis(300));
    let early = place.start(&format!("set {} --load 30", run.id()))?;
    finish(run)?.judged()?;
    finish(early)?;
    let cpu_s = place.json("at.json")?["supervisor"]["cpu_s"]
        .as_f64()
        .context("cost")?;
    ensure!(cpu_s < 1.0, "the supervisor took {cpu_s} s while it waited");
    // What is killed leaves no socket.
    let run = place.start_burning("-q load 20 -d 1h --no-out", 2)?;
    kill(pid_of(&run), Signal::SIGKILL)?;
    finish(run)?;
    place.as_before()?;
    Ok(())
}

fn a_run_is_paused_and_goes_on(place: &MachinePlace) -> Result<()> {
    let words = "-q load 20 --out r --json=r.json";
    let script = "echo $$ > pid; while ! [ -e end ]; do sleep .1; done";
    let (run, command) = place.start_ready(words, script)?;
    let pid = run.id();
    std::thread::sleep(Duration::from_millis(1500));
    // Continued before it stands still.
    for after_ms in [0, 5, 20, 60, 120] {
        kill(pid_of(&run), Signal::SIGTSTP)?;
        std::thread::sleep(Duration::from_millis(after_ms));
        kill(pid_of(&run), Signal::SIGCONT)?;
        // One that stands still after this is never continued.
        std::thread::sleep(Duration::from_millis(400));
        wait_until(&format!("the run to go on after {after_ms} ms"), || {
            let states = [pid_of(&run), command].map(state_of);
            !states.contains(&Some('T'))
        })?;
    }
    place.answers(&format!("set {pid} --pause"), 0, &["stands still"])?;
    wait_until("the command to stand still", || {
        state_of(command) == Some('T')
    })?;
    std::thread::sleep(Duration::from_millis(1200));
    let status = place.run("status --json")?.expect(0)?.json()?;
    ensure!(status["paused"] == true, "{status}");
    place.run("status")?.expect(0)?.shows(&["ago; paused"])?;
    place.answers(&format!("set {pid} --resume"), 0, &["goes on"])?;
    wait_until("the command to go on", || state_of(command) != Some('T'))?;
    fs::write(place.path("end"), "")?;
    finish(run)?.expect(0)?;
    let record = place.json("r.json")?;
    figure!(
        record["paused_s"]
            .as_f64()
            .is_some_and(|s| (1.0..2.5).contains(&s)),
        "{record}"
    );
    Ok(())
}

/// Less than the 5 s for which an answer is waited for.
const AT_ONCE: Duration = Duration::from_secs(4);

fn a_paused_run_is_resumed_by_its_name_and_ends_when_it_is_asked_to(
    place: &MachinePlace,
) -> Result<()> {
    let stands = |pid: Pid| wait_until("the pause", || state_of(pid) == Some('T'));
    let node = Waiting::start(place, "small", "--cpus 0 --speed 0.5")?;
    let supervisor = pid_of(&node.child);
    let begin = Instant::now();
    // The second one finds it on its way to the pause.
    for _ in 0..2 {
        place.answers("set small --pause", 0, &["stands still"])?;
    }
    stands(supervisor)?;
    let hint = &["sandbag set small --resume"];
    place.answers("slow set small --speed 0.7", 1, hint)?;
    place.answers("set small --speed 0.7", 1, &["may stand still"])?;
    let shown = ["node small, speed 0=0.5", "; paused", "asked 0.500"];
    place.run("status")?.expect(0)?.shows(&shown)?;
    place.answers("set small --resume", 0, &["goes on"])?;
    figure!(begin.elapsed() < AT_ONCE, "{:?}", begin.elapsed());
    wait_until("its answer", || node.status().is_ok())?;
    place.answers("set small --pause", 0, &["stands still"])?;
    stands(supervisor)?;
    place.run("slow stop small")?.expect(0)?;
    node.finish()?;

    let words = "load 20 --cpus 0 --no-settle --no-out -q";
    let (run, command) = place.start_ready(words, "echo $$ > pid; exec sleep 60")?;
    kill(pid_of(&run), Signal::SIGTSTP)?;
    stands(pid_of(&run))?;
    stands(command)?;
    let begin = Instant::now();
    place.run("stop --all")?.expect(0)?;
    figure!(begin.elapsed() < AT_ONCE, "{:?}", begin.elapsed());
    // The command's own.
    finish(run)?.expect(128 + 15)?;
    ensure!(!lives(command), "the command lives on");
    Ok(())
}

fn prometheus_sees_what_the_report_says(place: &MachinePlace) -> Result<()> {
    let (ask_port, port) = (free_port()?, free_port()?);
    fs::write(
        place.path("prometheus.yml"),
        format!(
            "global: {{scrape_interval: 1s}}\nscrape_configs:\n- job_name: sandbag\n\
             \x20 static_configs: [{{targets: ['127.0.0.1:{port}']}}]\n"
        ),
    )?;
    let options = "--config.file=prometheus.yml --storage.tsdb.path=data --log.level=error";
    let server = format!("{SERVER} {options} --web.listen-address=127.0.0.1:{ask_port}");
    let server = Daemon::start(place, ask_port, &server)?;
    let run = place.start(&format!(
        "-q load 0=35 -d 14s --out r --metrics {port} --metrics-file m.prom"
    ))?;
    std::thread::sleep(Duration::from_secs(8));
    fs::copy(place.path("m.prom"), place.path("seen.prom"))?;
    std::thread::sleep(Duration::from_secs(5));
    let query = "avg_over_time(sandbag_load_got_ratio%7Bcpu%3D%220%22%7D%5B5s%5D)";
    let said = ask(ask_port, &format!("GET /api/v1/query?query={query}"))?;
    finish(run)?.judged()?;
    drop(server);
    let body = said.split("\r\n\r\n").nth(1).context("no body")?;
    let start = body.find('{').with_context(|| said.clone())?;
    let end = body.rfind('}').with_context(|| said.clone())?;
    let answer: Value = serde_json::from_str(&body[start..=end])?;
    let seen = answer["data"]["result"][0]["value"][1]
        .as_str()
        .context(said.clone())?;
    let seen: f64 = seen.parse::<f64>()? * 100.0;
    let record = place.json("r/run.json")?;
    let got = record["cpus"][0]["got_pct"].as_f64().context("got")?;
    case::note(&format!(
        "Prometheus saw {seen:.2} %, the report says {got:.2} %"
    ));
    figure!((seen - got).abs() < POINTS, "{seen} and {got}");
    // Prometheus' own checker; 3 is for advice about names.
    place
        .bash("promtool check metrics < seen.prom")?
        .expect_any(&[0, 3])?;
    Ok(())
}
