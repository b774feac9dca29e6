use std::collections::HashMap;

use http::HeaderMap;
use rvc_sign::Secret;
use rvc_wire::ServerName;

use crate::gate::{Gate, Verified};
use crate::ledger::{Entry, Judgement, Ledger};
use crate::{Accepted, Rejection};

/// The receiving side of event delivery, without any I/O.
///
/// It verifies, reads, dedupes and finds gaps, in bounded memory. It holds a verifier and a ledger
/// for each server; servers never affect one another.
#[derive(Debug)]
pub struct Inbox {
    gate: Gate,
    ledgers: Ledgers,
}

impl Inbox {
    /// Starts to build an inbox.
    pub fn builder() -> InboxBuilder {
        InboxBuilder::default()
    }

    /// Verifies a request's headers and body, judges the event, and remembers it.
    ///
    /// `now_unix_s` is the receiver's clock in unix seconds. The caller acknowledges with 2xx
    /// after `Ok`, and answers [`Rejection::status`] after `Err`. A receiver that can fail to take
    /// the event uses [`examine`](Self::examine) and [`remember`](Self::remember) instead.
    ///
    /// # Errors
    ///
    /// The first check that fails. Nothing is remembered then.
    pub fn accept(
        &mut self,
        headers: &HeaderMap,
        body: &[u8],
        now_unix_s: i64,
    ) -> Result<Accepted, Rejection> {
        let accepted = self.examine(headers, body, now_unix_s)?;
        self.remember(&accepted);
        Ok(accepted)
    }

    /// Does what [`accept`](Self::accept) does without remembering the event, so that it can be
    /// stored first. If storing fails, the sender's next attempt is new again.
    ///
    /// # Errors
    ///
    /// The first check that fails.
    pub fn examine(
        &self,
        headers: &HeaderMap,
        body: &[u8],
        now_unix_s: i64,
    ) -> Result<Accepted, Rejection> {
        self.gate
            .check_size(body.len().try_into().unwrap_or(u64::MAX))?;
        let verified = self.gate.admit(headers, now_unix_s)?.open(body)?;
        self.ledgers.judge(verified)
    }

    /// Remembers an event that [`examine`](Self::examine) answered: from now on it is a duplicate.
    pub fn remember(&mut self, accepted: &Accepted) {
        // An event of another inbox has no ledger here, and means nothing.
        if let Some(ledger) = self.ledgers.0.get_mut(&accepted.event.server) {
            ledger.remember(&accepted.entry);
        }
    }

    /// The parts that need no lock, and those that do.
    pub(crate) fn into_parts(self) -> (Gate, Ledgers) {
        (self.gate, self.ledgers)
    }
}

/// One ledger for each known server.
#[derive(Debug)]
pub(crate) struct Ledgers(HashMap<ServerName, Ledger>);

impl Ledgers {
    pub(crate) fn judge(&self, verified: Verified) -> Result<Accepted, Rejection> {
        let Verified {
            event,
            secret_index,
            signed_at,
        } = verified;
        let ledger = self.0.get(&event.server).expect(ONE_PER_SERVER);
        let entry = ledger.entry(&event, signed_at);
        match ledger.judge(&entry) {
            Judgement::Accepted {
                kind,
                sighting,
                gap,
            } => Ok(Accepted {
                event,
                kind,
                sighting,
                gap,
                secret_index,
                entry,
            }),
            Judgement::Indistinct { forgotten_until } => Err(Rejection::Indistinct {
                signed_at,
                forgotten_until,
            }),
        }
    }

    pub(crate) fn remember(&mut self, server: &ServerName, entry: &Entry) {
        let ledger = self.0.get_mut(server).expect(ONE_PER_SERVER);
        ledger.remember(entry);
    }
}

/// Configures an [`Inbox`].
#[derive(Debug)]
#[must_use]
pub struct InboxBuilder {
    secrets: HashMap<ServerName, Vec<Secret>>,
    max_body_bytes: usize,
    remembered_events: usize,
    tracked_tasks: usize,
}

impl Default for InboxBuilder {
    fn default() -> Self {
        Self {
            secrets: HashMap::new(),
            // A body of 1 MiB (contract decision 8), and some slack for one that counts its bytes
            // differently.
            max_body_bytes: (1 << 20) + (64 << 10),
            remembered_events: 1 << 16,
            tracked_tasks: 1 << 12,
        }
    }
}

impl InboxBuilder {
    /// Accepts events of `server` that are signed with one of `secrets`.
    ///
    /// Several let a secret be rotated: add the new one here, then change the server, then remove
    /// the old one. Called again for the same server, it adds to them.
    pub fn server(mut self, server: ServerName, secrets: impl IntoIterator<Item = Secret>) -> Self {
        self.secrets.entry(server).or_default().extend(secrets);
        self
    }

    /// The largest body in bytes; 1 MiB and 64 KiB by default.
    pub const fn max_body_bytes(mut self, bytes: usize) -> Self {
        self.max_body_bytes = bytes;
        self
    }

    /// For how many of the newest events of each server the ids are remembered; 65,536 by default,
    /// which takes some 6 MiB once that many came.
    ///
    /// It should be far more than a server sends in the time that an attempt is under way: one
    /// that took longer is refused as [`Rejection::Indistinct`], and gets through when it is
    /// signed again.
    pub const fn remembered_events(mut self, events: usize) -> Self {
        self.remembered_events = events;
        self
    }

    /// For how many tasks of each server the newest `seq` is kept; 4,096 by default, which takes
    /// under 1 MiB.
    ///
    /// Beyond it ended tasks are forgotten first, then those that were silent longest. The next
    /// event of a forgotten task is a [`Sighting::First`](crate::Sighting::First) with a gap.
    pub const fn tracked_tasks(mut self, tasks: usize) -> Self {
        self.tracked_tasks = tasks;
        self
    }

    /// Makes the inbox.
    ///
    /// # Errors
    ///
    /// [`InboxError`] for a configuration that could accept no event.
    pub fn build(self) -> Result<Inbox, InboxError> {
        if self.secrets.is_empty() {
            return Err(InboxError::NoServer);
        }
        if let Some((server, _)) = self.secrets.iter().find(|(_, secrets)| secrets.is_empty()) {
            return Err(InboxError::NoSecret {
                server: server.clone(),
            });
        }
        for (limit, name) in [
            (self.max_body_bytes, "max_body_bytes"),
            (self.remembered_events, "remembered_events"),
            (self.tracked_tasks, "tracked_tasks"),
        ] {
            if limit == 0 {
                return Err(InboxError::ZeroLimit { name });
            }
        }
        let gate = Gate::new(self.secrets, self.max_body_bytes);
        let ledgers = gate
            .servers()
            .map(|server| {
                let ledger = Ledger::new(self.remembered_events, self.tracked_tasks);
                (server.clone(), ledger)
            })
            .collect();
        Ok(Inbox {
            gate,
            ledgers: Ledgers(ledgers),
        })
    }
}

/// Why an inbox cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InboxError {
    /// It knows no server, so it would refuse every event.
    #[error("no server is configured")]
    NoServer,

    /// A server has no secret, so all its events would be refused.
    #[error("server {server} has no secret")]
    NoSecret {
        /// The server.
        server: ServerName,
    },

    /// A limit of zero.
    #[error("{name} is zero")]
    ZeroLimit {
        /// The setting.
        name: &'static str,
    },
}

const ONE_PER_SERVER: &str = "a server that has a verifier has a ledger";
