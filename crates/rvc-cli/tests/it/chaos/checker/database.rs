//! What the database may have seen of an action.

use super::super::history::Wrote;
use super::life::Life;

/// Rules 3 and 7.
pub(super) fn writes(life: &Life, found: &mut Vec<String>) {
    let of = |what: &str| -> Vec<&Wrote> {
        let all = life.wrote.iter().map(|(_, wrote)| *wrote);
        all.filter(|wrote| wrote.what == what).collect()
    };
    let outcomes = of("outcome");
    match outcomes.as_slice() {
        [one] if one.change == "INSERT" => {}
        _ => found.push(format!("its outcome was not written once: {outcomes:?}")),
    }
    let mut actions = of("action");
    actions.retain(|wrote| {
        wrote.change != "INSERT" && (wrote.before != wrote.after || wrote.after.is_none())
    });
    match actions.as_slice() {
        // Its state is the foreign host's.
        [] if life.is_foreign() => {}
        [one]
            if !life.is_foreign()
                && one.change == "UPDATE"
                && one.before.as_deref() == Some("pending") =>
        {
            let with_it = outcomes
                .iter()
                .all(|outcome| outcome.transaction == one.transaction);
            if !with_it {
                found.push(format!("state and outcome apart: {one:?}, {outcomes:?}"));
            }
        }
        _ => found.push(format!("its state did not change once: {actions:?}")),
    }
    for wrote in of("phase") {
        let arrow = (
            wrote.before.as_deref().unwrap_or_default(),
            wrote.after.as_deref().unwrap_or_default(),
        );
        if !is_arrow(arrow, life.is_foreign()) {
            found.push(format!("a phase went astray: {wrote:?}"));
        }
    }
    let links = of("linkage");
    if links.len() > 1 || links.iter().any(|link| link.before.is_some()) {
        found.push(format!("it was linked more than once: {links:?}"));
    }
}

fn is_arrow((before, after): (&str, &str), is_foreign: bool) -> bool {
    match before {
        // It has its outcome, and tells it to a foreign host.
        "accepted" => is_foreign && FINAL.contains(&after),
        // Only its own cancel a foreign host is not told.
        _ if is_foreign && after == "accepted" => {
            matches!(before, "intent" | "sending" | "working" | "input_required")
        }
        _ if is_foreign && FINAL.contains(&after) && after != "cancelled" => false,
        "intent" => matches!(after, "sending" | "cancelled" | "failed"),
        "sending" => !matches!(after, "accepted" | "expired" | "input_required"),
        "working" => !matches!(after, "intent" | "sending" | "accepted" | "unknown"),
        "input_required" => matches!(after, "working" | "completed" | "failed" | "cancelled"),
        _ => false,
    }
}

/// Rule 8.
pub(super) fn rows(life: &Life, found: &mut Vec<String>) {
    let Some(row) = life.row else {
        found.push("it was acknowledged, and is not there".to_owned());
        return;
    };
    if row.is_open || row.state == "pending" || !FINAL.contains(&row.phase.as_str()) {
        found.push(format!("it is stuck: {row:?}"));
    }
}

const FINAL: [&str; 5] = ["completed", "failed", "cancelled", "expired", "unknown"];
