// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::*;
use crate::node::spec::NodeCourse;

const WORDS: Vocabulary<'_> = Vocabulary {
    methods: &["hogs", "shares", "lim"],
    options: &["period", "hog-sync", "lim-variant"],
    host: "n1",
};

fn parse(text: &str) -> Result<NodesFile, SpecError> {
    NodesFile::parse(text, "n.toml", Path::new("dir"), &WORDS)
}

fn refusal(text: &str) -> String {
    parse(text).expect_err(text).to_string()
}

/// A node with these lines after its name, which is on line 2.
fn node(lines: &str) -> String {
    format!("[[node]]\nname = \"a\"\n{lines}\n")
}

#[test]
fn nodes_of_other_hosts_are_left_out() {
    let of =
        |host: &str, speed: &str| node(&format!("host = \"{host}\"\ncpus = 0\nspeed = {speed}"));
    // The same name and CPU, each on its host.
    let file = parse(&format!("{}{}", of("n2", "1"), of("n1.site", "0.5"))).unwrap();
    assert_eq!(file.nodes.len(), 1);
    assert_eq!(file.nodes[0].origin.line, 6);
    let told = refusal(&of("n2", "1"));
    assert!(
        told.contains("all 1 nodes in it are of other hosts than n1"),
        "{told}"
    );
    // Nodes of other hosts are checked, too.
    assert!(refusal(&format!("{}{}", of("n2", "7"), of("n1", "1"))).contains("speed"));
}

#[test]
fn the_example_of_the_documentation() {
    let file = parse(
        r#"
        [defaults]
        method = "hogs"
        period = "20ms"
        env = { A = 1.10, B = "b" }

        [[node]]
        name = "small"
        cpus = "0-1"
        speed = { "0" = 1, "1" = "80%" }
        command = ["./app", "arg", 3]

        [[node]]
        name = "changing"
        cpus = [2, 3]
        profile = "speeds.csv"
        method = "lim"
        period = 5
        hog-sync = "barrier"
        commands = ["./one 'an argument'", ["./two", "another argument"]]
        env = { B = "c", C = true }
        cwd = "work"

        [[node]]
        name = "chosen"
        cores = 2
        [node.speed]
        "4-5" = "1.2GHz"
        6 = 0.5
        "#,
    )
    .unwrap();
    let [small, changing, chosen] = file.nodes.as_slice() else {
        panic!("{file:?}");
    };
    assert_eq!(small.name.as_str(), "small");
    assert_eq!(small.cpus, Cpus::List("0-1".parse().unwrap()));
    assert_eq!(
        small.course,
        NodeCourse::Constant("0=1,1=0.8".parse().unwrap())
    );
    assert_eq!(small.method.as_deref(), Some("hogs"));
    assert_eq!(small.options["period"], "20ms");
    assert_eq!(small.commands, [["./app", "arg", "3"]]);
    assert_eq!((small.origin.line, small.origin.keys["cpus"]), (7, 9));

    assert_eq!(changing.cpus, Cpus::List("2-3".parse().unwrap()));
    assert_eq!(
        changing.course,
        NodeCourse::Profile("dir/speeds.csv".into())
    );
    assert_eq!(changing.method.as_deref(), Some("lim"));
    assert_eq!(changing.options["period"], "5");
    assert_eq!(changing.options["hog-sync"], "barrier");
    assert_eq!(
        changing.commands,
        [["./one", "an argument"], ["./two", "another argument"]]
    );
    let env: Vec<_> = changing
        .env
        .iter()
        .map(|(k, v)| format!("{k}={v}"))
        .collect();
    assert_eq!(env, ["A=1.10", "B=c", "C=true"]);
    assert_eq!(changing.cwd, Some(PathBuf::from("dir/work")));

    assert_eq!(chosen.cpus, Cpus::Cores(2));
    assert_eq!(
        chosen.course,
        NodeCourse::Constant("4-5=1200MHz,6=0.5".parse().unwrap())
    );
    assert!(chosen.commands.is_empty() && chosen.cwd.is_none());
}

#[test]
fn a_speed_of_a_node_replaces_the_default_profile() {
    let file = parse(
        "[defaults]\nprofile = 'p.csv'\n[[node]]\nname='a'\ncpus=0\nspeed=1\n\
         [[node]]\nname='b'\ncpus=1\n",
    )
    .unwrap();
    assert_eq!(
        file.nodes[0].course,
        NodeCourse::Constant("1".parse().unwrap())
    );
    assert_eq!(
        file.nodes[1].course,
        NodeCourse::Profile("dir/p.csv".into())
    );
}

/// Lines below the name, line and key that the message names, a part of the
/// cause, a part of the remedy.
const FAULTS: &str = r#"cpu = 0 | 3 | cpu | not a known key | did you mean cpus?
cpus = 0\nzzz = 1 | 4 | zzz | not a known key | known are name, host, cpus
cpus = 0\nspeed = 1\nhogsync = 1 | 5 | hogsync | known key | hog-sync?
cpus = 0\ncores = 1 | 4 | cores | cpus as well | one of the two
speed = 1 | 1 | cpus | has none | cores = 2
cpus = 0 | 1 | speed | has none | speed = 0.5
cpus = ''\nspeed = 1 | 3 | cpus | no CPU | 0,2-3
cpus = '3-1'\nspeed = 1 | 3 | cpus | `3-1` | 0,2-3
cpus = [0, 0]\nspeed = 1 | 3 | cpus | named twice | [0, 2, 3]
cpus = -1\nspeed = 1 | 3 | cpus | expected CPUs | 0,2-3
cpus = true\nspeed = 1 | 3 | cpus | expected CPUs | 0,2-3
cores = 0\nspeed = 1 | 3 | cores | no number of cores | cores = 2
cores = '2'\nspeed = 1 | 3 | cores | invalid type: string | cores = 2
cpus = 0\nspeed = 0 | 4 | speed | never finish | 0.5 or 50%
cpus = 0\nspeed = 1.5 | 4 | speed | `1.5` | ratio
cpus = 0\nspeed = nan | 4 | speed | not a number | ratio
cpus = 0\nspeed = '0,5' | 4 | speed | comma | point
cpus = 0\nspeed = [1] | 4 | speed | expected a speed | 50%
cpus = 0\nspeed = { } | 4 | speed | none | ratio
cpus = 0\nspeed = { x = 1 } | 4 | speed | `x` is not a list of CPUs | 0.4
cpus = 0\nspeed = { 0 = 2 } | 4 | speed | `2` | 2%
cpus = 0\nspeed = { 0 = 1, '0-1' = 1 } | 4 | speed | twice | one speed
cpus = 0\nspeed = 1\nprofile = 'p' | 5 | profile | as well | constant
cpus = 0\nprofile = '' | 4 | profile | empty | name a file
cpus = 0\nprofile = 1 | 4 | profile | invalid type: integer | quotes
cpus = 0\nspeed = 1\nmethod = 'hog' | 5 | method | `hog` | mean hogs?
cpus = 0\nspeed = 1\nmethod = 'zzz' | 5 | method | `zzz` | known are hogs
cpus = 0\nspeed = 1\nperiod = [1] | 5 | period | a text, a number | one value
cpus = 0\nspeed = 1\ncommand = [] | 5 | command | missing | ./app
cpus = 0\nspeed = 1\ncommand = '' | 5 | command | missing | ./app
cpus = 0\nspeed = 1\ncommand = "'x" | 5 | command | quote | close it
cpus = 0\nspeed = 1\ncommand = 1 | 5 | command | expected a command | ./app
cpus = 0\nspeed = 1\ncommand = "a\u0000" | 5 | command | NUL | leave
cpus = 0\nspeed = 1\ncommand = [['a']] | 5 | command | a text, a number | ./app
cpus = 0\nspeed = 1\ncommands = [] | 5 | commands | none | leave it out
cpus = 0\nspeed = 1\ncommands = 'a' | 5 | commands | expected a list | command =
cpus = 0\nspeed = 1\ncommand = 'a'\ncommands = ['b'] | 6 | commands | as well | list
cpus = 0\nspeed = 1\nenv = 'A=1' | 5 | env | expected a table | NAME
cpus = 0\nspeed = 1\nenv = 1979-05-27 | 5 | env | expected a table | NAME
cpus = 0\nspeed = 1\nenv = { A = 18446744073709551615 } | 5 | env | expected a text | NAME
cpus = 0\nspeed = 1\nenv = { 'A=B' = 1 } | 5 | env | the name `A=B` | another
cpus = 0\nspeed = 1\nenv = { SANDBAG_NODE = 1 } | 5 | env | sets SANDBAG_NODE itself | leave
cpus = 0\nspeed = 1\ncwd = 1 | 5 | cwd | invalid type: integer | quotes"#;

#[test]
fn every_fault_names_line_key_cause_and_remedy() {
    for row in FAULTS.lines() {
        let [lines, line, key, cause, remedy] = row.split(" | ").collect::<Vec<_>>()[..] else {
            panic!("{row}")
        };
        let lines = lines.replace("\\n", "\n");
        let error = refusal(&node(&lines));
        assert!(
            error.starts_with(&format!("n.toml:{line}: {key}: ")),
            "{lines}\n{error}"
        );
        assert!(error.contains(cause), "{lines}\n{error}");
        let (_, found) = error.rsplit_once("; ").unwrap();
        assert!(found.contains(remedy), "{lines}\n{error}");
    }
}

#[test]
fn the_file_as_a_whole() {
    for (text, part) in [
        ("", "n.toml: there are no nodes"),
        ("node = []", "n.toml: there are no nodes"),
        ("[defaults]\nspeed = 1\n", "n.toml: there are no nodes"),
        (
            "[node]\nname = 'a'\n",
            "n.toml:1: node: expected a list of tables",
        ),
        (
            "[[nodes]]\nname = 'a'\n",
            "n.toml:1: nodes: it is not a known key; did you mean node?",
        ),
        (
            "\nmethod = 'hogs'\n[[node]]\n",
            "n.toml:2: method: it stands before",
        ),
        ("defaults = 1\n", "n.toml:1: defaults: expected a table"),
        (
            "[defaults]\ncpus = 0\n",
            "n.toml:2: cpus: it cannot be the same for all",
        ),
        (
            "[defaults]\nzzz = 0\n",
            "n.toml:2: zzz: it is not a known key; known are speed",
        ),
        ("[[node]]\nname = \n", "n.toml:2: "),
        ("[[node]]\nname = 'a'\nname = 'b'\n", "n.toml:3: "),
        ("[[node]]\n", "n.toml:1: name: the node has none"),
        (
            "[[node]]\nname = '../x'\n",
            "n.toml:2: name: `../x` cannot be the name of a file",
        ),
        (
            "[[node]]\nname = 3\n",
            "n.toml:2: name: invalid type: integer",
        ),
    ] {
        let error = refusal(text);
        assert!(error.starts_with(part), "{text}\n{error}");
    }
}

#[test]
fn nodes_share_neither_name_nor_cpu() {
    let both = |second: &str| format!("{}{second}", node("cpus = '0-1'\nspeed = 1"));
    let error = refusal(&both("[[node]]\nname = 'a'\ncpus = 2\nspeed = 1"));
    assert!(
        error.starts_with("n.toml:6: name: `a` is the name of another node (line 1)"),
        "{error}"
    );
    let error = refusal(&both("[[node]]\nname = 'b'\ncpus = '1-2'\nspeed = 1"));
    assert!(
        error.starts_with("n.toml:7: cpus: CPU 1 is also one of node `a` (line 1)"),
        "{error}"
    );
}

#[test]
fn files_that_cannot_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("n.toml");
    let read = || NodesFile::read(&path, &WORDS).unwrap_err().to_string();
    assert!(read().contains("No such file"), "{}", read());
    std::fs::write(&path, b"\xff\xfe[").unwrap();
    assert!(read().contains("UTF-8"), "{}", read());
    std::fs::write(&path, vec![b'\n'; 2 << 20]).unwrap();
    assert!(read().contains("larger"), "{}", read());
    std::fs::write(&path, node("cpus = 0\nprofile = 'p.csv'")).unwrap();
    let file = NodesFile::read(&path, &WORDS).unwrap();
    assert_eq!(
        file.nodes[0].course,
        NodeCourse::Profile(dir.path().join("p.csv"))
    );
}

#[test]
fn a_load_profile_is_looked_for_beside_the_file_and_nowhere_else() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("n.toml");
    let words = Vocabulary {
        options: &["load"],
        ..WORDS
    };
    // Whether it is there or not.
    for (load, option) in [
        (
            "'day.csv'",
            dir.path().join("day.csv").display().to_string(),
        ),
        ("'day'", dir.path().join("day").display().to_string()),
        ("'/day.csv'", "/day.csv".to_owned()),
        ("30", "30".to_owned()),
        ("'130 %'", "130 %".to_owned()),
        ("'0=30'", "0=30".to_owned()),
        (
            "'prometheus+http://mon:9090'",
            "prometheus+http://mon:9090".to_owned(),
        ),
    ] {
        std::fs::write(&path, node(&format!("cpus = 0\nspeed = 1\nload = {load}"))).unwrap();
        let file = NodesFile::read(&path, &words).unwrap();
        assert_eq!(file.nodes[0].options["load"], option);
    }
}

fn any_value() -> impl Strategy<Value = String> {
    prop_oneof![
        "[0-9.,-]{0,6}",
        "'[ -&(-~]{0,12}'",
        Just("[1, 'a']".to_owned()),
        Just("{ 0 = 1, '1' = '50%' }".to_owned()),
        Just("true".to_owned()),
    ]
}

proptest! {
    /// Whatever stands there is read or refused with a message of one line.
    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,80}|([\\[\\]{}'\"=a-z0-9.\n]{0,80})") {
        if let Err(error) = parse(&text) {
            prop_assert!(error.to_string().starts_with("n.toml"));
        }
    }

    #[test]
    fn any_values_of_known_keys_are_read_or_refused(
        fields in prop::collection::btree_map(
            prop::sample::select(vec![
                "cpus", "cores", "speed", "profile", "method", "period", "command", "commands",
                "env", "cwd", "cpu",
            ]),
            any_value(),
            0..6,
        ),
    ) {
        let lines: Vec<String> = fields.iter().map(|(k, v)| format!("{k} = {v}")).collect();
        match parse(&node(&lines.join("\n"))) {
            Ok(file) => prop_assert_eq!(file.nodes.len(), 1),
            Err(error) => {
                let line = error.line.unwrap();
                prop_assert!(line >= 1 && line <= lines.len() as u64 + 3);
            }
        }
    }
}
