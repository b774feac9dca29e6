//! Does what is planned, and undoes it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rvc_test::FaultProxy;
use rvc_test::postgres::Cluster;

use super::fleet::Member;
use super::history::{Journal, Seen};
use super::schedule::{Fault, PlannedFault, Victim};
use super::server::Server;

/// Where faults take place.
#[derive(Clone, Copy)]
pub(super) struct Stage<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) members: &'a [Arc<Member>],
    pub(super) servers: &'a [Arc<Server>],
    pub(super) host_link: &'a FaultProxy,
    pub(super) journal: &'a Journal,
}

impl Stage<'_> {
    /// Returns when the last fault is repaired.
    pub(super) fn play(self, faults: &[PlannedFault]) {
        let begun = Instant::now();
        // A repair may take longer than planned: the next fault there waits for it.
        let turns: HashMap<Victim, Mutex<()>> = faults
            .iter()
            .map(|planned| (planned.fault.victim(), Mutex::default()))
            .collect();
        std::thread::scope(|scope| {
            for planned in faults {
                std::thread::sleep(planned.at.saturating_sub(begun.elapsed()));
                let turn = &turns[&planned.fault.victim()];
                scope.spawn(move || {
                    let fault = planned.fault;
                    let _mine = turn.lock().unwrap();
                    self.journal.write(Seen::FaultBegan { fault });
                    self.commit(fault, planned.lasts);
                    self.journal.write(Seen::FaultEnded { fault });
                });
            }
        });
    }

    fn commit(self, fault: Fault, lasts: Duration) {
        let wait = || std::thread::sleep(lasts);
        match fault {
            Fault::KillSupervisor(n) => {
                self.members[n].kill();
                self.members[n].spawn();
            }
            Fault::StopSupervisor(n) => {
                self.members[n].signal("-STOP");
                wait();
                self.members[n].signal("-CONT");
            }
            Fault::EndSupervisor(n) => {
                self.members[n].end();
                self.members[n].spawn();
            }
            Fault::CrashDatabase => {
                self.cluster.crash().unwrap();
                wait();
                self.cluster.resume().unwrap();
            }
            Fault::CutDatabase(n) => self.link(n).cut(),
            Fault::RefuseDatabase(n) => {
                self.link(n).refuse();
                wait();
                self.link(n).restore();
            }
            Fault::StallDatabase(n) => stall(self.link(n), lasts),
            Fault::LoseDatabaseAnswer(n) => lose(self.link(n), lasts),
            Fault::RestartServer(n) => {
                self.servers[n].kill();
                wait();
                self.servers[n].revive();
            }
            Fault::CutServer(n) => self.servers[n].proxy.cut(),
            Fault::StallServer(n) => stall(&self.servers[n].proxy, lasts),
            Fault::DelayServer(n) => {
                self.servers[n].proxy.delay(Duration::from_millis(50));
                wait();
                self.servers[n].proxy.restore();
            }
            Fault::LoseServerAnswer(n) => lose(&self.servers[n].proxy, lasts),
        }
    }

    fn link(&self, index: usize) -> &FaultProxy {
        self.members
            .get(index)
            .map_or(self.host_link, |member| &member.link)
    }
}

/// A stall ends well, or in a cut.
fn stall(proxy: &FaultProxy, lasts: Duration) {
    proxy.stall();
    std::thread::sleep(lasts);
    if lasts.as_millis().is_multiple_of(2) {
        proxy.cut();
    }
    proxy.restore();
}

/// Loses one answer, if there is one in time.
fn lose(proxy: &FaultProxy, lasts: Duration) {
    proxy.cut_answers_after(usize::try_from(lasts.as_millis()).unwrap() % 3_000);
    std::thread::sleep(lasts);
    proxy.restore();
}
