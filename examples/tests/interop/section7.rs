//! The contract's section 7, with the release build.

use std::net::{Ipv4Addr, TcpListener};

use crate::script::{example, run};

#[test]
#[ignore = "needs the peers: cargo xtask ci interop"]
fn mcp_transport_sse_and_mcp_port_9100_do_what_section_7_asks() {
    // The port that the contract writes, unless another program on this machine has it.
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 9100)).is_ok();
    let port = if free { "9100" } else { "0" };
    let result = run("mcp-1.30.0", "section7.py", &[port, &example("sleeper")]);
    result.unwrap_or_else(|failure| panic!("{failure}"));
}
