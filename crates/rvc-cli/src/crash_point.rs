//! For the kill harness: what a process cannot have done to it from outside.
//!
//! - `RVC_SIGNAL_AT=STEP=SIGNAL`, such as `sending_committed=KILL`: it sends itself a signal the
//!   first time that the durable step is reached, and never again in this process.
//! - `RVC_CLOCK_OFFSET=SECONDS`: its wall clock is off by so much.
//! - `RVC_FOREIGN_HOST=DIRECTORY`: actions belong to a host that is a directory.

mod file_host;

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use anyhow::Context;
use rvc_durable::store::SqliteOptions;
use rvc_durable::{ActionId, Checkpoint, DurableStep, Moment, SupervisorOptions};

use self::file_host::FileHost;

struct CrashPoint {
    step: DurableStep,
    signal: String,
    done: AtomicBool,
}

/// Adds what the environment asks for.
pub(crate) fn added(mut options: SupervisorOptions) -> anyhow::Result<SupervisorOptions> {
    if let Some(directory) = std::env::var_os(FOREIGN_HOST) {
        options = options.host(Arc::new(FileHost::new(directory)));
    }
    let Ok(asked) = std::env::var(SIGNAL_AT) else {
        return Ok(options);
    };
    let (step, signal) = asked
        .split_once('=')
        .with_context(|| format!("{SIGNAL_AT} is no STEP=SIGNAL"))?;
    let step = DurableStep::ALL
        .into_iter()
        .find(|known| known.as_str() == step)
        .with_context(|| format!("{SIGNAL_AT} names no durable step: {step}"))?;
    Ok(options.checkpoint(Arc::new(CrashPoint {
        step,
        signal: format!("-{signal}"),
        done: AtomicBool::new(false),
    })))
}

/// Sets the store's clock as the environment asks for.
pub(crate) fn shifted(file: SqliteOptions) -> anyhow::Result<SqliteOptions> {
    let Ok(asked) = std::env::var(CLOCK_OFFSET) else {
        return Ok(file);
    };
    let offset: i64 = asked
        .parse()
        .with_context(|| format!("{CLOCK_OFFSET} is no number of seconds"))?;
    Ok(file.clock(move || {
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let now = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
        Moment::from_unix_ms(now.saturating_add(offset.saturating_mul(1000)))
    }))
}

impl Checkpoint for CrashPoint {
    fn reached(&self, step: DurableStep, _: &ActionId) {
        if step != self.step || self.done.swap(true, Ordering::SeqCst) {
            return;
        }
        let pid = std::process::id().to_string();
        // Without `unsafe` a process signals itself through a program. SIGKILL never returns.
        Command::new("kill")
            .args([self.signal.as_str(), &pid])
            .stdin(Stdio::null())
            .status()
            .expect("there is a program kill");
        // It is there, and takes effect when another of our threads runs, which on a starved
        // machine this one may be ahead of.
        std::thread::sleep(TAKES_EFFECT);
    }
}

const TAKES_EFFECT: Duration = Duration::from_millis(100);

const SIGNAL_AT: &str = "RVC_SIGNAL_AT";

const CLOCK_OFFSET: &str = "RVC_CLOCK_OFFSET";

const FOREIGN_HOST: &str = "RVC_FOREIGN_HOST";
