//! What a host that keeps its actions elsewhere may be told.

use super::super::history::Outcome;
use super::life::Life;

/// Rule 10. The questions are those for the action's run, which has no other action: when which
/// process asked.
pub(super) fn told(
    life: &Life,
    outcome: &Outcome,
    questions: &[(u64, u32)],
    found: &mut Vec<String>,
) {
    let is_cancelled = outcome.error_code.as_deref() == Some("CANCELLED");
    if is_cancelled && life.cancelling.is_none() {
        found.push("it is CANCELLED, and nobody had asked for that".to_owned());
    }
    // A delivery that was on its way when the host cancelled is judged below.
    if !is_cancelled && life.delivered != [outcome.phase.as_str()] {
        found.push(format!(
            "the host took {:?}, and it is {outcome:?}",
            life.delivered
        ));
    }
    let state = match outcome.phase.as_str() {
        phase @ ("completed" | "cancelled") => phase,
        _ => "failed",
    };
    let wrong = life.finishes.iter().find(|finish| finish.1 != state);
    if wrong.is_some() || (!is_cancelled && life.finishes.is_empty()) {
        found.push(format!("it ended at the host as {:?}", life.finishes));
    }
    for (at, process, phase) in &life.deliveries {
        if life.delivered.iter().any(|taken| taken != phase) {
            found.push(format!(
                "the host took {:?}, and was told {phase}",
                life.delivered
            ));
        }
        let last = |asked: &[(u64, u32)]| {
            let before = asked
                .iter()
                .rev()
                .find(|it| it.1 == *process && it.0 <= *at);
            before.map(|it| it.0)
        };
        let (Some(looked), Some(asked)) = (last(&life.looks), last(questions)) else {
            found.push("it was delivered, and the host was not asked before".to_owned());
            continue;
        };
        if life.finishes.iter().any(|finish| finish.0 < looked) {
            found.push("it was delivered again, when the host had said that it has it".to_owned());
        }
        if life.cancelled.is_some_and(|cancelled| cancelled < asked) {
            found.push("it was delivered, when the host had said that it is cancelled".to_owned());
        }
    }
}
