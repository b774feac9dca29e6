//! What the kernel says this process uses.

use std::fs;
use std::time::Duration;

use anyhow::Context;

/// Bytes of resident memory.
pub(crate) fn resident_bytes() -> anyhow::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let kib = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|rest| rest.trim().strip_suffix(" kB"))
        .context("the kernel reports VmRSS in kB")?;
    Ok(kib.trim().parse::<u64>()? * 1024)
}

/// The processor time that this process has used, its children left out.
pub(crate) fn cpu_time() -> anyhow::Result<Duration> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    // The name before the last ')' may contain anything; user and system time are fields 14 and
    // 15 of proc(5), so 12 and 13 after it.
    let (_, rest) = stat.rsplit_once(')').context("a line as proc(5) has it")?;
    let ticks: u64 = rest
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(str::parse::<u64>)
        .sum::<Result<_, _>>()?;
    // Linux counts in USER_HZ, which is 100 on every architecture that Rust targets.
    Ok(Duration::from_millis(ticks * 10))
}
