//! For the kill harness: this process sends itself a signal at a durable step.
//!
//! `RVC_SIGNAL_AT=STEP=SIGNAL`, such as `sending_committed=KILL`: the first time that the step is
//! reached, and never again in this process.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use rvc_durable::{ActionId, Checkpoint, DurableStep, SupervisorOptions};

struct CrashPoint {
    step: DurableStep,
    signal: String,
    done: AtomicBool,
}

/// Adds what the environment asks for.
pub(crate) fn added(options: SupervisorOptions) -> anyhow::Result<SupervisorOptions> {
    let Ok(asked) = std::env::var(VARIABLE) else {
        return Ok(options);
    };
    let (step, signal) = asked
        .split_once('=')
        .with_context(|| format!("{VARIABLE} is no STEP=SIGNAL"))?;
    let step = DurableStep::ALL
        .into_iter()
        .find(|known| known.as_str() == step)
        .with_context(|| format!("{VARIABLE} names no durable step: {step}"))?;
    Ok(options.checkpoint(Arc::new(CrashPoint {
        step,
        signal: format!("-{signal}"),
        done: AtomicBool::new(false),
    })))
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
    }
}

const VARIABLE: &str = "RVC_SIGNAL_AT";
