//! The contract's section 7, with the release build.

use crate::script::{example, run};

#[test]
#[ignore = "needs the peers: cargo xtask ci interop"]
fn mcp_transport_sse_and_mcp_port_9100_do_what_section_7_asks() {
    let result = run("mcp-1.30.0", "section7.py", &[&example("sleeper")]);
    let written = result.unwrap_or_else(|failure| panic!("{failure}"));
    // Which port it was, where that was not 9100.
    println!("{written}");
}
