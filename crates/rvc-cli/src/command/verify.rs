mod hint;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Args;
use rvc_sign::{Secret, SkewDirection, Verifier, VerifyError};

use crate::command::sign::now;
use crate::command::verify::hint::{Attempt, hints};
use crate::secret_source::SecretSource;
use crate::{input, output};

/// Says whether a signature fits the body on standard input, and why not
///
/// Prints one line: `ok`, `bad_timestamp`, `malformed_signature`, `stale 301 s behind` (or
/// `ahead`) or `mismatch`. The checks run in that order and the first that fails is the verdict.
/// The exit code is 0 for `ok` and 1 for every other verdict. Hints about the usual causes go to
/// standard error.
#[derive(Args)]
pub(crate) struct Verify {
    #[command(flatten)]
    secret: SecretSource,

    /// The value of X-RVC-Timestamp as it came
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    timestamp_header: OsString,

    /// The value of X-RVC-Signature as it came
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    signature_header: OsString,

    /// The receiver's clock in unix seconds; this machine's, if it is not given
    #[arg(long, value_name = "UNIX_SECONDS", allow_negative_numbers = true)]
    now: Option<i64>,
}

impl Verify {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        let secret = self.secret.bytes()?;
        let body = input::body()?;
        let attempt = Attempt {
            secret: &secret,
            timestamp: self.timestamp_header.as_encoded_bytes(),
            signature: self.signature_header.as_encoded_bytes(),
            body: &body,
            now: self.now.unwrap_or_else(now),
        };
        let verifier = Verifier::new([Secret::new(&secret)?]);
        let verdict = verifier.verify_values(
            attempt.timestamp,
            attempt.signature,
            attempt.body,
            attempt.now,
        );
        let Err(error) = verdict else {
            output::line("ok")?;
            return Ok(ExitCode::SUCCESS);
        };
        output::line(shown(&error))?;
        eprintln!("{error}");
        for hint in hints(&attempt, &error) {
            eprintln!("hint: {hint}");
        }
        Ok(ExitCode::FAILURE)
    }
}

fn shown(error: &VerifyError) -> String {
    let verdict = error.verdict();
    match error {
        VerifyError::Stale { skew_s, direction } => {
            let side = match direction {
                SkewDirection::Behind => "behind",
                SkewDirection::Ahead => "ahead",
            };
            format!("{verdict} {skew_s} s {side}")
        }
        _ => verdict.to_owned(),
    }
}
