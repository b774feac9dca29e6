use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args;
use rvc_sign::{Secret, SecretError, SecretWarning};

/// Where a command takes the secret from.
///
/// Everybody on the machine can read a command line (`ps`), so the other ways are better.
#[derive(Args)]
#[group(multiple = false)]
pub(crate) struct SecretSource {
    /// The secret as text; visible in `ps` to everybody on the machine
    #[arg(long, value_name = "SECRET", allow_hyphen_values = true)]
    secret: Option<OsString>,

    /// The secret's exact bytes in hex; visible in `ps` as well
    #[arg(long, value_name = "HEX")]
    secret_hex: Option<String>,

    /// A file that holds the secret; one final line ending is not part of it
    ///
    /// Without any of the three, RVC_EVENT_SECRET or the file that RVC_EVENT_SECRET_FILE names.
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
}

impl SecretSource {
    /// The secret's bytes, checked as a server checks them at its start.
    pub(crate) fn bytes(&self) -> anyhow::Result<Vec<u8>> {
        if let Some(hex) = &self.secret_hex {
            let bytes = decode_hex(hex).context("--secret-hex is no even number of hex digits")?;
            // Given digit by digit, white space is no accident.
            Secret::new(&bytes).context("--secret-hex")?;
            return Ok(bytes);
        }
        if let Some(secret) = &self.secret {
            return checked("--secret", secret.as_encoded_bytes());
        }
        if let Some(file) = &self.secret_file {
            return from_file("--secret-file", file);
        }
        from_environment()
    }
}

/// A secret from a configuration value. Warns of what is odd.
pub(crate) fn configured(name: &str, value: &[u8]) -> anyhow::Result<Secret> {
    let (secret, warning) = Secret::from_config(value).map_err(|error| explained(name, error))?;
    warn(name, warning);
    Ok(secret)
}

fn checked(name: &str, value: &[u8]) -> anyhow::Result<Vec<u8>> {
    configured(name, value)?;
    Ok(value.to_vec())
}

fn from_file(name: &str, file: &PathBuf) -> anyhow::Result<Vec<u8>> {
    let contents =
        std::fs::read(file).with_context(|| format!("{name}: cannot read {}", file.display()))?;
    let (_, warning) =
        Secret::from_file_contents(&contents).map_err(|error| explained(name, error))?;
    warn(name, warning);
    Ok(without_final_line_ending(&contents).to_vec())
}

fn from_environment() -> anyhow::Result<Vec<u8>> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    match (set(VARIABLE), set(FILE_VARIABLE)) {
        (Some(_), Some(_)) => bail!("{VARIABLE} and {FILE_VARIABLE} are both set"),
        (Some(secret), None) => checked(VARIABLE, secret.as_encoded_bytes()),
        (None, Some(file)) => from_file(FILE_VARIABLE, &file.into()),
        (None, None) => bail!(
            "no secret is given: use --secret-file, --secret-hex, --secret, or {VARIABLE} in the \
             environment"
        ),
    }
}

fn explained(name: &str, error: SecretError) -> anyhow::Error {
    let context = match error {
        SecretError::OuterWhitespace => {
            format!("{name} is refused here as it is in a server")
        }
        _ => format!("{name} is refused"),
    };
    anyhow::Error::new(error).context(context)
}

fn warn(name: &str, warning: Option<SecretWarning>) {
    if let Some(warning) = warning {
        tracing::warn!(from = name, "{warning}");
    }
}

fn without_final_line_ending(contents: &[u8]) -> &[u8] {
    contents
        .strip_suffix(b"\r\n")
        .or_else(|| contents.strip_suffix(b"\n"))
        .unwrap_or(contents)
}

/// The bytes of hex digits in either case.
pub(crate) fn decode_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text
        .chars()
        .map(|digit| digit.to_digit(16))
        .collect::<Option<Vec<_>>>()?;
    if digits.len() % 2 != 0 {
        return None;
    }
    digits
        .chunks_exact(2)
        .map(|pair| u8::try_from(pair[0] << 4 | pair[1]).ok())
        .collect()
}

const VARIABLE: &str = "RVC_EVENT_SECRET";
const FILE_VARIABLE: &str = "RVC_EVENT_SECRET_FILE";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_is_read_in_either_case_and_only_in_pairs() {
        assert_eq!(decode_hex("00fFa1"), Some(vec![0x00, 0xff, 0xa1]));
        assert_eq!(decode_hex(""), Some(vec![]));
        for bad in ["0", "0g", " 00", "0x00", "+1", "ä0"] {
            assert_eq!(decode_hex(bad), None, "{bad}");
        }
    }
}
