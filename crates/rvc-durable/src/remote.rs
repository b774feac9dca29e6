//! Calls of a remote MCP server, through rmcp and nothing else. No database.
//!
//! ```text
//! Remotes ─► one connection per registration and owner ─► start | poll | cancel | update
//!                    (rebuilt when it breaks)             each bounded by a timeout
//! ```
//!
//! - The registration says how a server is spoken to: [`HttpDialer`] has streamable HTTP from
//!   rmcp and HTTP+SSE from `rvc-mcp`. Over HTTP+SSE the Tasks extension is not declared, since
//!   no version of the protocol has both: what such a server offers are contract tasks and
//!   ordinary results.
//! - A start is one `tools/call`, never repeated here: no redirect is followed, no session is
//!   opened anew behind its back.
//! - A start goes over a connection with the token that the host has just then. A connection
//!   whose token was refused (401, 403) is not used again. A start that is refused so was sent:
//!   only where it may be repeated, another one follows a 401 on a connection that was kept.
//! - The answer is read raw. A handle that does not parse still names running work.
//! - The id that a server echoes is compared with the one that was asked for.

mod call;
mod capped;
mod connection;
mod contract;
mod dialer;
mod failure;
mod http;
mod mcp;
mod remotes;
mod requests;
mod token;
mod transport;

pub use self::connection::Connection;
pub use self::dialer::{DialError, Dialer};
pub use self::http::{HttpDialer, HttpDialerBuilder};
pub use self::mcp::StartCall;
pub use self::remotes::{Remotes, Unreachable};
pub use self::token::{NoTokens, Token, TokenSource};
pub use self::transport::{BoxTransport, TransportError};
