//! Signing one event, beside `ring` on the message that is already in one piece.

use std::hint::black_box;
use std::time::Instant;

use ring::hmac;
use rvc_sign::{Secret, sign};

use crate::measure::{Measurement, in_turns};

const TIMESTAMP: i64 = 1_765_532_000;

/// Many and short: it is about a few per cent, and the pace of a machine changes by more from one
/// tenth of a second to the next.
const TURNS: usize = 501;
const ROUNDS: u32 = 1_000;

pub(crate) fn sign_1_kib() -> anyhow::Result<Measurement> {
    let body = [b'x'; 1024];
    let secret = Secret::new(b"a secret of the usual length")?;
    let key = hmac::Key::new(hmac::HMAC_SHA256, b"a secret of the usual length");
    let message = [TIMESTAMP.to_string().as_bytes(), b".", &body].concat();

    let ours = || Ok(rate(|| sign(&secret, TIMESTAMP, black_box(&body))));
    let bare = || Ok(rate(|| hmac::sign(&key, black_box(&message))));
    let (value, limit) = in_turns(TURNS, ours, bare)?;

    Ok(Measurement {
        name: "sign_1_kib",
        value,
        limit,
        unit: "signatures/s",
        conditions: "limit: ring::hmac::sign on timestamp, dot and body in one piece".to_owned(),
    })
}

fn rate<T>(run: impl Fn() -> T) -> f64 {
    let start = Instant::now();
    for _ in 0..ROUNDS {
        black_box(run());
    }
    f64::from(ROUNDS) / start.elapsed().as_secs_f64()
}
