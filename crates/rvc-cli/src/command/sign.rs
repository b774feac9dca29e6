use std::process::ExitCode;
use std::time::SystemTime;

use clap::Args;
use rvc_sign::{Secret, SignedHeaders};

use crate::secret_source::SecretSource;
use crate::{input, output};

/// Signs the body on standard input
///
/// Prints the value of X-RVC-Signature, which is `sha256=` and 64 hex digits, or with --headers
/// both signing headers, as `curl -H @-` takes them. Every byte of the input counts, also a line
/// ending after the JSON, which most editors and `echo` add.
#[derive(Args)]
pub(crate) struct Sign {
    #[command(flatten)]
    secret: SecretSource,

    /// When the attempt is made, in unix seconds; now, if --headers tells it along
    #[arg(
        long,
        value_name = "UNIX_SECONDS",
        required_unless_present = "headers",
        value_parser = clap::value_parser!(i64).range(0..)
    )]
    timestamp: Option<i64>,

    /// Print X-RVC-Timestamp and X-RVC-Signature, one header a line
    #[arg(long)]
    headers: bool,
}

impl Sign {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        let secret = Secret::new(&self.secret.bytes()?)?;
        let body = input::body()?;
        let timestamp = self.timestamp.unwrap_or_else(now);
        let signed = SignedHeaders::new(&secret, timestamp, &body);
        if self.headers {
            output::line(format!("X-RVC-Timestamp: {}", signed.timestamp()))?;
            output::line(format!("X-RVC-Signature: {}", signed.signature()))?;
        } else {
            output::line(signed.signature())?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// This machine's clock in unix seconds, 0 if it stands before 1970.
pub(crate) fn now() -> i64 {
    SystemTime::UNIX_EPOCH
        .elapsed()
        .map_or(0, |since| since.as_secs().try_into().unwrap_or(i64::MAX))
}
