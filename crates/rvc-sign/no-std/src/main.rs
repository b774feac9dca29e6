//! Links only while `rvc-sign` uses neither the standard library nor an
//! allocation; then verifies one golden vector and exits with 0.
//!
//! - No std: this program has a panic handler. A second one, from std, is an
//!   error of the compiler (E0152, `panic_impl`).
//! - No alloc: `ring` names `alloc`, so there must be a global allocator. This
//!   one calls a function that is defined nowhere. While nothing allocates, the
//!   linker drops it; otherwise it reports the undefined symbol
//!   `rvc_sign_must_not_allocate`.
//!
//! Everything public in `rvc-sign` is called here, formatting too, since the
//! linker sees only what is.
//!
//! The features `plant-std` and `plant-alloc` plant one fault each, to show that
//! the check can fail: with either, the build must not succeed.

#![no_std]
#![no_main]

use core::alloc::{GlobalAlloc, Layout};
use core::ffi::{c_char, c_int};
use core::fmt::{self, Write};
use core::panic::PanicInfo;

use rvc_sign::{
    Headers, SERVER_HEADER, SIGNATURE_HEADER, Secret, SecretError, SecretWarning, SignedHeaders,
    SkewDirection, TIMESTAMP_HEADER, Verifier, VerifyError, sign,
};

/// The vector "empty body" of `tests/it/vectors/sign.json`.
const SECRET: &[u8] = b"s3cret";
const TIMESTAMP: i64 = 1_765_532_000;
const BODY: &[u8] = b"";
const SIGNATURE: &str = "sha256=749c43f515532ab88ec9261c9e76e29b4aa57c24824d4429f468e6e30519a070";

#[unsafe(no_mangle)]
extern "C" fn main(_argc: c_int, _argv: *const *const c_char) -> c_int {
    #[cfg(feature = "plant-alloc")]
    plant_allocation();

    let checks = [
        vector_verifies(),
        a_forgery_is_refused(),
        secrets_are_read(),
        everything_formats(),
    ];
    c_int::from(checks.contains(&false))
}

fn vector_verifies() -> bool {
    let Ok(secret) = Secret::new(SECRET) else {
        return false;
    };
    let signed = SignedHeaders::new(&secret, TIMESTAMP, BODY);
    let Ok(headers) = Headers::from_pairs([
        (SERVER_HEADER, "navigation"),
        (TIMESTAMP_HEADER, signed.timestamp()),
        (SIGNATURE_HEADER, signed.signature()),
    ]) else {
        return false;
    };
    signed.signature() == SIGNATURE
        && sign(&secret, TIMESTAMP, BODY).hex().len() == 64
        && headers.server() == b"navigation"
        && Verifier::new([secret]).verify(&headers, BODY, TIMESTAMP) == Ok(0)
}

fn a_forgery_is_refused() -> bool {
    let Ok(secret) = Secret::new(SECRET) else {
        return false;
    };
    let verifier = Verifier::new([secret]).max_skew_s(0);
    let verdict = |timestamp, signature, now| {
        verifier
            .verify_values(timestamp, signature, b"forged", now)
            .map_err(|error| (error.verdict(), error.is_malformed()))
    };
    verdict("1765532000", SIGNATURE, TIMESTAMP) == Err(("mismatch", false))
        && verdict("1765532000", SIGNATURE, TIMESTAMP + 1) == Err(("stale", false))
        && verdict("1765532000", "", TIMESTAMP) == Err(("malformed_signature", true))
        && verdict("", SIGNATURE, TIMESTAMP) == Err(("bad_timestamp", true))
}

fn secrets_are_read() -> bool {
    let plain = Secret::from_config(SECRET);
    let file = Secret::from_file_contents(b"s3cret\r\n");
    let quoted = Secret::from_config(b"'s3cret'");
    let (Ok((plain, None)), Ok((file, None)), Ok((_, Some(SecretWarning::Quoted)))) =
        (plain, file, quoted)
    else {
        return false;
    };
    plain.clone().key_id() == file.key_id()
        && Secret::from_config(b" s3cret").is_err_and(|error| !error.is_missing())
        && Secret::from_file_contents(b"\n").is_err_and(|error| error.is_missing())
}

fn everything_formats() -> bool {
    let Ok(secret) = Secret::new(SECRET) else {
        return false;
    };
    let mut count = Count(0);
    let signed = SignedHeaders::new(&secret, TIMESTAMP, BODY);
    let signature = sign(&secret, TIMESTAMP, BODY);
    let written = write!(
        count,
        "{} {:?} {signature:?} {signed:?} {:?} {}",
        secret.key_id(),
        Verifier::new([secret]),
        Headers::from_pairs([("", "")]),
        SecretWarning::Quoted,
    )
    .and_then(|()| {
        let direction = SkewDirection::Ahead;
        for error in [
            VerifyError::DuplicateHeader { name: "name" },
            VerifyError::Stale {
                skew_s: 301,
                direction,
            },
            VerifyError::BadTimestamp,
            VerifyError::MalformedSignature,
            VerifyError::Mismatch,
        ] {
            write!(count, "{error} {error:?}")?;
        }
        for error in [SecretError::Empty, SecretError::OuterWhitespace] {
            write!(count, "{error} {error:?}")?;
        }
        Ok(())
    });
    written.is_ok() && count.0 > 0
}

/// Counts what is written to it.
struct Count(usize);

impl Write for Count {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 += text.len();
        Ok(())
    }
}

#[cfg(feature = "plant-alloc")]
fn plant_allocation() {
    extern crate alloc;
    core::hint::black_box(alloc::vec![1_u8]);
}

/// An allocator that cannot be linked in.
struct NeverLinked;

#[global_allocator]
static ALLOCATOR: NeverLinked = NeverLinked;

// SAFETY: it never returns memory. The program does not link if it is called.
unsafe impl GlobalAlloc for NeverLinked {
    unsafe fn alloc(&self, _: Layout) -> *mut u8 {
        // SAFETY: defined nowhere, so never called.
        unsafe { rvc_sign_must_not_allocate() }
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

unsafe extern "C" {
    fn rvc_sign_must_not_allocate() -> *mut u8;
}

#[link(name = "c")]
unsafe extern "C" {
    fn abort() -> !;
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    // SAFETY: `abort` has no preconditions.
    unsafe { abort() }
}

/// What the precompiled `core` and `alloc` name for unwinding, which cannot
/// happen here.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}
