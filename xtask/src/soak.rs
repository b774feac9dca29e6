//! Runs the chaos for long, then the soak tests again and again.

use std::ffi::OsStr;
use std::time::{Duration, Instant};

use anyhow::bail;

use crate::outcome::Outcome;
use crate::postgres;
use crate::runner::{self, Selection};
use crate::workspace::Workspace;

/// The arguments of `cargo xtask soak`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many times.
    #[arg(long, default_value_t = 10, conflicts_with = "minutes")]
    times: u32,
    /// For how long instead; the round that is under way then is finished.
    #[arg(long)]
    minutes: Option<u64>,
    /// For how many minutes chaos reigns before; 0 leaves it out.
    #[arg(long, default_value_t = 60)]
    chaos: u64,
}

/// Runs the ignored tests that have `soak` in their names.
///
/// # Errors
/// On the first round in which a test fails, and where the chaos finds no `PostgreSQL`.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> anyhow::Result<()> {
    if args.chaos > 0 {
        chaos(workspace, args.chaos)?;
    }
    let start = Instant::now();
    let mut round = 0;
    while wants_another(args, round, start.elapsed()) {
        round += 1;
        eprintln!("\n── soak: round {round}");
        let outcome = runner::run(workspace, Selection::Soak, &[])?;
        if let Outcome::Failed { error, .. } = outcome {
            bail!("round {round}: {error}");
        }
    }
    eprintln!("soak: {round} rounds in {} s", start.elapsed().as_secs());
    Ok(())
}

fn chaos(workspace: &Workspace, minutes: u64) -> anyhow::Result<()> {
    if let Some(reason) = postgres::missing(workspace) {
        bail!("{reason}; or leave the chaos out with --chaos 0");
    }
    eprintln!("\n── soak: chaos for {minutes} minutes");
    let seconds = (minutes * 60).to_string();
    let variables = [("RVC_CHAOS_SECONDS", OsStr::new(&seconds))];
    match runner::run(workspace, Selection::Chaos, &variables)? {
        Outcome::Failed { error, .. } => bail!("chaos: {error}"),
        _ => Ok(()),
    }
}

fn wants_another(args: &Args, done: u32, elapsed: Duration) -> bool {
    match args.minutes {
        Some(minutes) => elapsed < Duration::from_secs(minutes * 60),
        None => done < args.times,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Args, wants_another};

    #[test]
    fn rounds_end_after_the_number_asked_for() {
        let args = Args {
            times: 2,
            minutes: None,
            chaos: 0,
        };

        assert!(wants_another(&args, 1, Duration::from_secs(86_400)));
        assert!(!wants_another(&args, 2, Duration::ZERO));
    }

    #[test]
    fn a_time_counts_instead_of_the_number() {
        let args = Args {
            times: 1,
            minutes: Some(1),
            chaos: 0,
        };

        assert!(wants_another(&args, 9, Duration::from_secs(59)));
        assert!(!wants_another(&args, 0, Duration::from_secs(60)));
    }
}
