//! Whether something that went wrong explains that nobody knows what a start came to.

use super::super::history::Outcome;
use super::super::schedule::Fault;
use super::Judge;
use super::life::Life;

impl Judge<'_> {
    /// Rule 6, of an unknown start: of all that goes wrong somewhere, its answer is lost by that
    /// alone which it had to pass, from when the start was to be sent until it was given up.
    pub(super) fn was_lost(
        &self,
        life: &Life,
        server: usize,
        outcome: &Outcome,
        ended_at: u64,
    ) -> bool {
        let Some((sent_at, Some(holder))) = life.sent() else {
            return false;
        };
        let window = sent_at..ended_at;
        if is_forsaken(outcome) {
            self.troubles
                .any(&window, |fault| takes_the_holder(fault, holder))
        } else {
            self.troubles
                .any(&window, |fault| takes_the_answer(fault, server, holder))
        }
    }
}

/// Whether another supervisor gave the start up, when the lease of the one that held it had run
/// out. The other way is that its own holder did, when the call had failed.
pub(super) fn is_forsaken(outcome: &Outcome) -> bool {
    outcome.said.contains("ended before it recorded an answer")
}

/// It ends the holder, stops it for longer than its lease, or keeps it from renewing that.
fn takes_the_holder(fault: Fault, holder: usize) -> bool {
    match fault {
        Fault::KillSupervisor(n)
        | Fault::StopSupervisor(n)
        | Fault::CutDatabase(n)
        | Fault::RefuseDatabase(n)
        | Fault::StallDatabase(n)
        | Fault::LoseDatabaseAnswer(n) => n == holder,
        Fault::CrashDatabase => true,
        // In order: it finishes what it has begun.
        Fault::EndSupervisor(_)
        | Fault::RestartServer(_)
        | Fault::CutServer(_)
        | Fault::StallServer(_)
        | Fault::DelayServer(_)
        | Fault::LoseServerAnswer(_) => false,
    }
}

/// It breaks the call, or lasts longer than the holder waits.
fn takes_the_answer(fault: Fault, server: usize, holder: usize) -> bool {
    match fault {
        Fault::RestartServer(n)
        | Fault::CutServer(n)
        | Fault::StallServer(n)
        | Fault::LoseServerAnswer(n) => n == server,
        Fault::StopSupervisor(n) => n == holder,
        _ => false,
    }
}
