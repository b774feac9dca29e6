use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::rvc::{FullPipe, answer, command, run};

/// A proxy that would swallow every request to loopback that asks it.
const NO_PROXY_THERE: &str = "http://127.0.0.1:9";

#[test]
fn every_event_of_the_demo_arrives_verified_and_in_order() {
    let mut demo = command(["demo", "--json"]);
    for name in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"] {
        demo.env(name, NO_PROXY_THERE);
    }
    let answer = answer(&mut demo, "");
    assert_eq!(
        (answer.code, answer.stderr.as_str()),
        (0, ""),
        "{}",
        answer.stdout
    );
    let lines: Vec<Value> = answer
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();

    assert_eq!(lines[0]["kind"], "opening");
    for name in ["server", "receiver"] {
        assert!(
            lines[0][name]
                .as_str()
                .unwrap()
                .starts_with("http://127.0.0.1:")
        );
    }

    let steps: Vec<&str> = lines
        .iter()
        .filter_map(|line| line["step"].as_str())
        .collect();
    assert_eq!(
        steps,
        [
            "sleep_task",
            "sleep_task",
            "sleep_task",
            "get_task",
            "cancel_task",
            "list_tasks"
        ]
    );

    let mut seqs: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let mut types = BTreeMap::<&str, usize>::new();
    for event in lines.iter().filter(|line| line["kind"] == "event") {
        assert_eq!(event["verified"], true);
        assert!(event["payload"].is_object() && event["event_id"].is_string());
        let task = event["task_id"].as_str().unwrap().to_owned();
        seqs.entry(task)
            .or_default()
            .push(event["seq"].as_u64().unwrap());
        *types.entry(event["type"].as_str().unwrap()).or_default() += 1;
    }
    assert_eq!(seqs.len(), 3);
    for of_task in seqs.values() {
        let in_order: Vec<u64> = (1..).take(of_task.len()).collect();
        assert_eq!(of_task, &in_order);
    }
    assert_eq!(
        (
            types["trigger_fired"],
            types["task_done"],
            types["task_failed"]
        ),
        (2, 1, 1)
    );

    let summary = lines.last().unwrap();
    assert_eq!(
        (&summary["kind"], &summary["ok"]),
        (&json!("summary"), &json!(true))
    );
    assert_eq!(summary["faults"], json!([]));
    let states: Vec<&Value> = summary["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|task| {
            assert_eq!(task["events_sent"], task["events_verified"]);
            &task["state"]
        })
        .collect();
    assert_eq!(states, ["succeeded", "failed", "cancelled"]);
}

#[test]
fn the_demo_is_readable() {
    let answer = run(["demo"], "");
    assert_eq!(
        (answer.code, answer.stderr.as_str()),
        (0, ""),
        "{}",
        answer.stdout
    );
    for fact in [
        "sleep_task",
        "#1",
        "progress",
        "trigger_fired",
        "task_done",
        "FAKE_FAILURE",
        "verified",
        "cancel_task",
        "were verified, and came in order",
        "All 3 tasks ended as they should",
    ] {
        assert!(answer.stdout.contains(fact), "{fact}: {}", answer.stdout);
    }
    assert!(
        !answer.stdout.contains('\u{1b}'),
        "colour outside a terminal"
    );
}

#[test]
fn a_demo_that_nobody_watches_ends_quietly() {
    let mut child = command(["demo"]).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(141));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}

#[test]
fn the_durable_demo_shows_one_outcome_across_the_death_of_a_process() {
    let answer = run(["demo", "--durable", "--json"], "");
    assert_eq!(
        (answer.code, answer.stderr.as_str()),
        (0, ""),
        "{}",
        answer.stdout
    );
    let lines: Vec<Value> = answer
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();

    let kinds: Vec<&str> = lines
        .iter()
        .map(|line| line["kind"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds,
        [
            "server",
            "action",
            "supervisor",
            "action",
            "supervisor",
            "supervisor",
            "outcome",
            "summary"
        ]
    );
    assert_eq!(lines[3]["action"]["phase"], "working");
    assert_eq!(lines[2]["pid"], lines[4]["pid"]);
    assert_ne!(lines[2]["pid"], lines[5]["pid"]);
    let outcome = &lines[6]["action"];
    assert_eq!(
        (&outcome["phase"], &outcome["starts"]),
        (&json!("completed"), &json!(1))
    );
    assert_eq!(
        lines[7],
        json!({"kind": "summary", "ok": true, "fault": null})
    );
}

#[test]
fn the_durable_demo_is_readable() {
    let answer = run(["demo", "--durable"], "");
    assert_eq!(
        (answer.code, answer.stderr.as_str()),
        (0, ""),
        "{}",
        answer.stdout
    );
    for fact in [
        "sleep_task",
        "supervisor 1",
        "SIGKILL",
        "supervisor 2",
        "phase completed, starts 1",
        "one start, one outcome",
    ] {
        assert!(answer.stdout.contains(fact), "{fact}: {}", answer.stdout);
    }
}

#[test]
fn the_demo_ends_though_nobody_reads_it() {
    let pipe = FullPipe::new();
    let output = command(["demo"]).stdout(pipe.writer()).output().unwrap();

    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("nobody reads standard output"), "{stderr}");
}
