//! Runs a command beside a throwaway `PostgreSQL` cluster.
//!
//! ```text
//! cargo run -p rvc-test --bin with-postgres -- cargo nextest run …
//! ```
//!
//! The command finds the cluster's socket folder in `RVC_TEST_POSTGRES`, and its programs, such
//! as `createdb`, on the path. Its exit code is passed on.

use std::process::{Command, ExitCode};

use rvc_test::postgres::Cluster;

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    let Some(program) = words.next() else {
        eprintln!("usage: with-postgres COMMAND [ARGUMENT…]");
        return ExitCode::from(2);
    };
    let cluster = match Cluster::start_with(&[("fsync", "off"), ("max_connections", "400")]) {
        Ok(cluster) => cluster,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::split_paths(&path).chain([cluster.programs().to_owned()]);
    let status = Command::new(program)
        .args(words)
        .env("PATH", std::env::join_paths(path).unwrap_or_default())
        .env("RVC_TEST_POSTGRES", cluster.socket_folder())
        .status();
    match status {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("the command did not start: {error}");
            ExitCode::FAILURE
        }
    }
}
