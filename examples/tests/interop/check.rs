//! A brain's MCP client and receiver in Python find the contract kept.

use crate::script::{example, python, run};

fn check(environment: &str, transport: &str) {
    let result = run(
        environment,
        "check.py",
        &["--transport", transport, "--", &example("sleeper")],
    );
    result.unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
#[ignore = "needs the peers: cargo xtask ci interop"]
fn mcp_1_30_over_sse() {
    check("mcp-1.30.0", "sse");
}

#[test]
#[ignore = "needs the peers: cargo xtask ci interop"]
fn mcp_1_30_over_streamable_http() {
    check("mcp-1.30.0", "streamable-http");
}

#[test]
#[ignore = "needs the peers: cargo xtask ci interop"]
fn mcp_2_3_over_sse() {
    check("mcp-2.3.0", "sse");
}

#[test]
#[ignore = "needs the peers: cargo xtask ci interop"]
fn mcp_2_3_over_streamable_http() {
    check("mcp-2.3.0", "streamable-http");
}

/// The small sleeper in Python, which can break one rule.
fn check_reference(arguments: &[&str]) -> Result<String, String> {
    let python = python("mcp-1.30.0").into_os_string().into_string();
    let python = python.expect("build directories have plain names");
    let server = concat!(env!("CARGO_MANIFEST_DIR"), "/interop/reference_sleeper.py");
    let call = ["--transport", "streamable-http", "--", &python, server];
    run("mcp-1.30.0", "check.py", &[&call, arguments].concat())
}

#[test]
#[ignore = "needs the peers: cargo xtask ci interop"]
fn a_sleeper_in_python_passes_the_same_check() {
    check_reference(&[]).unwrap_or_else(|failure| panic!("{failure}"));
}

/// One test for each fault: the check must fail, and for the right reason.
macro_rules! the_check_notices {
    ($($fault:ident: $reason:literal,)*) => {
        mod the_check_notices {
            $(
                #[test]
                #[ignore = "needs the peers: cargo xtask ci interop"]
                fn $fault() {
                    let failure = super::check_reference(&["--fault", stringify!($fault)]).unwrap_err();
                    assert!(failure.contains($reason), "{failure}");
                }
            )*
        }
    };
}

the_check_notices! {
    wrong_secret: "the signature does not match",
    reserialised: "the signature does not match",
    stale: "stale: signed at",
    gap: "came after 1",
    reordered: "came after 1",
    dropped_on_503: "came after 1",
    new_bytes: "is not the first one's bytes",
    other_server: "the header says 'walker', the signed body 'sleeper'",
    sorted_keys: "failed: the events:",
    float_numbers: "failed: the events:",
    fires_twice: "failed: the events:",
    never_fires: "failed: the events:",
    failed_when_cancelled: "failed: the cancelled task's events:",
    event_after_cancel: "failed: its events after the cancel:",
    leaks_secret: "failed: the secret is not in the log",
}
