//! Signing one event, beside `ring` on the message that is already in one piece.

use std::hint::black_box;
use std::time::Instant;

use ring::hmac;
use rvc_sign::{Secret, sign};

use crate::measure::{Measurement, median};

const TIMESTAMP: i64 = 1_765_532_000;
const TURNS: u32 = 501;
const ROUNDS: u32 = 1_000;

pub(crate) fn sign_1_kib() -> anyhow::Result<Measurement> {
    let body = [b'x'; 1024];
    let secret = Secret::new(b"a secret of the usual length")?;
    let key = hmac::Key::new(hmac::HMAC_SHA256, b"a secret of the usual length");
    let message = [TIMESTAMP.to_string().as_bytes(), b".", &body].concat();

    let (value, limit) = side_by_side(
        || sign(&secret, TIMESTAMP, black_box(&body)),
        || hmac::sign(&key, black_box(&message)),
    );

    Ok(Measurement {
        name: "sign_1_kib",
        value,
        limit,
        unit: "signatures/s",
        conditions: "limit: ring::hmac::sign on timestamp, dot and body in one piece".to_owned(),
    })
}

/// The rates of both, as medians of many short turns: a few per cent are less
/// than the pace of a machine changes from one tenth of a second to the next.
fn side_by_side<A, B>(ours: impl Fn() -> A, limit: impl Fn() -> B) -> (f64, f64) {
    let (values, limits) = (0..TURNS).map(|_| (rate(&ours), rate(&limit))).unzip();
    (median(values), median(limits))
}

fn rate<T>(run: impl Fn() -> T) -> f64 {
    let start = Instant::now();
    for _ in 0..ROUNDS {
        black_box(run());
    }
    f64::from(ROUNDS) / start.elapsed().as_secs_f64()
}
