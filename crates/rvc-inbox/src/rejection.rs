use http::StatusCode;
use rvc_sign::VerifyError;
use rvc_wire::{EventError, ServerName};

/// Why a request is refused.
///
/// The sender is told by a status: 401 while it is not known who sent the event, 400 for a body
/// that is no event, 413 for one that is too large. The contract retries all of them.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// The body has more bytes than are read.
    #[error("body has more than {most} bytes")]
    TooLarge {
        /// The limit in bytes.
        most: usize,
    },

    /// Headers, time or signature do not verify. It never says which of several secrets came
    /// closest.
    #[error(transparent)]
    Unverified(#[from] VerifyError),

    /// The server header names nobody whose secret is known here.
    #[error("no secret is known for server {server:?}")]
    UnknownServer {
        /// What the header says, cut to 64 characters.
        server: String,
    },

    /// The signed body is no event.
    #[error(transparent)]
    NotAnEvent(#[from] EventError),

    /// The server header, which is not signed, is not the server of the signed body.
    #[error("header says server {header}, the signed body says {body}")]
    OtherServer {
        /// The server of the header, whose secret the body is signed with.
        header: ServerName,
        /// The server of the body.
        body: ServerName,
    },

    /// It cannot be told from a replay: it was signed no later than events that are forgotten by
    /// now. A sender's next attempt has a newer signature and gets through.
    #[error(
        "signed at {signed_at}, and events up to {forgotten_until} are forgotten: sign it again"
    )]
    Indistinct {
        /// When the attempt was signed, in unix seconds.
        signed_at: i64,
        /// The newest signature time that is forgotten, in unix seconds.
        forgotten_until: i64,
    },

    /// The body did not come whole in time.
    #[error("body did not come whole within {allowed_ms} ms")]
    TooSlow {
        /// The time that it has, in milliseconds.
        allowed_ms: u128,
    },

    /// The connection broke, or the framing is wrong, before the body came whole.
    #[error("body was cut short: {reason}")]
    CutShort {
        /// What the connection says.
        reason: String,
    },
}

impl Rejection {
    /// The status that tells the sender.
    #[must_use]
    pub const fn status(&self) -> StatusCode {
        match self {
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Unverified(_)
            | Self::UnknownServer { .. }
            | Self::OtherServer { .. }
            | Self::Indistinct { .. } => StatusCode::UNAUTHORIZED,
            Self::NotAnEvent(_) | Self::CutShort { .. } => StatusCode::BAD_REQUEST,
            Self::TooSlow { .. } => StatusCode::REQUEST_TIMEOUT,
        }
    }

    /// The reason as one word, for logs and scripts.
    #[must_use]
    pub const fn verdict(&self) -> &'static str {
        match self {
            Self::TooLarge { .. } => "too_large",
            Self::Unverified(error) => error.verdict(),
            Self::UnknownServer { .. } => "unknown_server",
            Self::NotAnEvent(_) => "not_an_event",
            Self::OtherServer { .. } => "other_server",
            Self::Indistinct { .. } => "indistinct",
            Self::TooSlow { .. } => "too_slow",
            Self::CutShort { .. } => "cut_short",
        }
    }
}
