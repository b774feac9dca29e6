//! Signing one event, beside `ring` on the message that is already in one piece.

use std::hint::black_box;
use std::time::Instant;

use ring::hmac;
use rvc_sign::{Secret, sign};

use crate::measure::{Measurement, in_turns};

const TIMESTAMP: i64 = 1_765_532_000;

/// Many and short: it is about a few per cent, and the pace of a machine changes by more from one
/// tenth of a second to the next.
const TURNS: usize = 2 * PLACES;
const ROUNDS: u32 = 1_000;

/// Each turn has its bytes elsewhere in a page. Where they lie against the stack is worth a per
/// cent or two, and one process would measure one such place only.
const PLACES: usize = PAGE / ALIGNMENT;
const PAGE: usize = 4_096;
const ALIGNMENT: usize = 16;

pub(crate) fn sign_1_kib() -> anyhow::Result<Measurement> {
    const SECRET: &[u8] = b"a secret of the usual length";
    let secret = Secret::new(SECRET)?;
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET);
    let body = [b'x'; 1_024];
    let message = [TIMESTAMP.to_string().as_bytes(), b".", &body].concat();

    let (mut body, mut message) = (Moving::new(&body), Moving::new(&message));
    let ours = || {
        Ok(rate(body.next_place(), |body| {
            sign(&secret, TIMESTAMP, body)
        }))
    };
    let bare = || {
        Ok(rate(message.next_place(), |message| {
            hmac::sign(&key, message)
        }))
    };
    let (value, limit) = in_turns(TURNS, ours, bare)?;

    Ok(Measurement {
        name: "sign_1_kib",
        value,
        limit,
        unit: "signatures/s",
        conditions: "limit: ring::hmac::sign on timestamp, dot and body in one piece".to_owned(),
    })
}

/// The same bytes at one place in a page after the other.
struct Moving {
    bytes: Vec<u8>,
    room: Vec<u8>,
    place: usize,
}

impl Moving {
    fn new(bytes: &[u8]) -> Self {
        Self {
            bytes: bytes.to_vec(),
            room: vec![0; PAGE + bytes.len()],
            place: 0,
        }
    }

    fn next_place(&mut self) -> &[u8] {
        self.place = (self.place + ALIGNMENT) % PAGE;
        let bytes = &mut self.room[self.place..][..self.bytes.len()];
        bytes.copy_from_slice(&self.bytes);
        bytes
    }
}

fn rate<T>(input: &[u8], run: impl Fn(&[u8]) -> T) -> f64 {
    let start = Instant::now();
    for _ in 0..ROUNDS {
        black_box(run(black_box(input)));
    }
    f64::from(ROUNDS) / start.elapsed().as_secs_f64()
}
