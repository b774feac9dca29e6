use std::io::{self, Read};

use anyhow::{Context, ensure};

/// Reads a body from standard input, byte for byte.
pub(crate) fn body() -> anyhow::Result<Vec<u8>> {
    let mut body = Vec::new();
    // One byte more than is allowed tells an endless input from the largest body.
    io::stdin()
        .take(MOST_BYTES + 1)
        .read_to_end(&mut body)
        .context("cannot read standard input")?;
    ensure!(
        u64::try_from(body.len()).is_ok_and(|bytes| bytes <= MOST_BYTES),
        "standard input has more than {MOST_BYTES} bytes"
    );
    Ok(body)
}

const MOST_BYTES: u64 = 64 << 20;
