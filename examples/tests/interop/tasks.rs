//! Clients of the official Tasks extension and of the contract see the same tasks.

use crate::script::{example, run};

fn check(environment: &str, client: &str) {
    let servers = [example("sleeper"), example("navigator")];
    let arguments = ["--client", client, &servers[0], &servers[1]];
    let result = run(environment, "tasks.py", &arguments);
    result.unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
#[ignore = "needs the peers: cargo xtask ci interop"]
fn fastmcp_4_1_and_a_plain_client_agree_at_every_step() {
    check("fastmcp-4.1.4", "fastmcp");
}

#[test]
#[ignore = "needs the peers: cargo xtask ci interop"]
fn mcp_2_3_and_a_plain_client_agree_at_every_step() {
    check("mcp-2.3.0", "mcp");
}
