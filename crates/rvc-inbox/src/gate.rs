//! What an event must pass before anything is remembered of it.
//!
//! The checks run from cheap to dear, and nothing unsigned costs more than one MAC over its body:
//! size, headers and their form, a known server, the skew, the signature, and only then JSON.

use std::collections::HashMap;

use http::HeaderMap;
use rvc_sign::{Headers, Secret, Verifier, VerifyError};
use rvc_wire::{ServerName, TaskEvent};

use crate::Rejection;

/// The secrets, and how large a body may be. Immutable, so that verifying needs no lock.
#[derive(Debug)]
pub(crate) struct Gate {
    verifiers: HashMap<ServerName, Verifier<Vec<Secret>>>,
    max_body_bytes: usize,
}

/// A request whose headers promise something that can be verified.
#[derive(Debug)]
pub(crate) struct Candidate<'a> {
    headers: Headers<'a>,
    server: &'a ServerName,
    verifier: &'a Verifier<Vec<Secret>>,
    now_unix_s: i64,
}

/// An event that its sender has signed.
#[derive(Debug)]
pub(crate) struct Verified {
    pub(crate) event: TaskEvent,
    pub(crate) secret_index: usize,
    /// In unix seconds.
    pub(crate) signed_at: i64,
}

impl Gate {
    pub(crate) fn new(secrets: HashMap<ServerName, Vec<Secret>>, max_body_bytes: usize) -> Self {
        let verifiers = secrets
            .into_iter()
            .map(|(server, secrets)| (server, Verifier::new(secrets)))
            .collect();
        Self {
            verifiers,
            max_body_bytes,
        }
    }

    pub(crate) fn servers(&self) -> impl Iterator<Item = &ServerName> {
        self.verifiers.keys()
    }

    /// Refuses a body by its size, which may be announced before it comes.
    pub(crate) fn check_size(&self, bytes: u64) -> Result<(), Rejection> {
        let most = self.max_body_bytes;
        if u64::try_from(most).is_ok_and(|most| bytes > most) {
            return Err(Rejection::TooLarge { most });
        }
        Ok(())
    }

    /// Makes every check that needs no body.
    pub(crate) fn admit<'a>(
        &'a self,
        headers: &'a HeaderMap,
        now_unix_s: i64,
    ) -> Result<Candidate<'a>, Rejection> {
        let headers = Headers::from_pairs(headers)?;
        let (server, verifier) = self
            .lookup(headers.server())
            .ok_or_else(|| unknown_server(headers.server()))?;
        // Of the verifier's checks only the last reads the body, so whatever else it says of an
        // empty one holds for every body.
        match verifier.verify(&headers, b"", now_unix_s) {
            Ok(_) | Err(VerifyError::Mismatch) => Ok(Candidate {
                headers,
                server,
                verifier,
                now_unix_s,
            }),
            Err(error) => Err(error.into()),
        }
    }

    fn lookup(&self, server: &[u8]) -> Option<(&ServerName, &Verifier<Vec<Secret>>)> {
        let server: ServerName = str::from_utf8(server).ok()?.parse().ok()?;
        self.verifiers.get_key_value(&server)
    }
}

impl Candidate<'_> {
    /// Verifies the body, then reads it.
    pub(crate) fn open(&self, body: &[u8]) -> Result<Verified, Rejection> {
        let secret_index = self.verifier.verify(&self.headers, body, self.now_unix_s)?;
        let event = TaskEvent::from_json(body)?;
        if event.server != *self.server {
            return Err(Rejection::OtherServer {
                header: self.server.clone(),
                body: event.server,
            });
        }
        let signed_at = str::from_utf8(self.headers.timestamp())
            .ok()
            .and_then(|digits| digits.parse().ok())
            .expect("a timestamp that verified is digits that fit in an i64");
        Ok(Verified {
            event,
            secret_index,
            signed_at,
        })
    }
}

fn unknown_server(header: &[u8]) -> Rejection {
    let server = String::from_utf8_lossy(header).chars().take(64).collect();
    Rejection::UnknownServer { server }
}
