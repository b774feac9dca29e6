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
//! - A connection whose token was refused (401, 403) is not used again. A 401 to a start over a
//!   connection that was kept is a start that was not sent; over a fresh one it is the answer.
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
mod requests;
mod transport;

pub use self::connection::{Connection, Remotes, Unreachable};
pub use self::dialer::{DialError, Dialer};
pub use self::http::{HttpDialer, HttpDialerBuilder, NoTokens, Token, TokenSource};
pub use self::mcp::StartCall;
pub use self::transport::{BoxTransport, TransportError};
