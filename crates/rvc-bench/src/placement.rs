//! Where the measured processes may run: it changes every figure by a factor.

use std::fs;

/// One sentence: the processors that this process and its children may use.
pub(crate) fn stated() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let cpus = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .map_or("unknown", str::trim);
    format!("processors for both: {cpus}")
}
