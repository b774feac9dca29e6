use std::ffi::OsStr;
use std::io::{self, IsTerminal, Write};

use serde_json::Value;

use crate::output::printable;

/// A line on a terminal that is written again and again, and taken away when it is dropped.
pub(crate) struct ProgressLine {
    is_shown: bool,
    is_empty: bool,
}

impl ProgressLine {
    /// On standard error, if that is a terminal that can take a line back, and nobody asked for
    /// JSON.
    pub(crate) fn on_stderr(json: bool) -> Self {
        let term = std::env::var_os("TERM");
        Self {
            is_shown: !json && can_show(io::stderr().is_terminal(), term.as_deref()),
            is_empty: true,
        }
    }

    pub(crate) fn show(&mut self, told: &str) {
        if self.is_shown {
            // Progress that cannot be shown is no failure.
            let _ = io::stderr().write_all(rewritten(&shown(told)).as_bytes());
            self.is_empty = false;
        }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if !self.is_empty {
            let _ = io::stderr().write_all(rewritten("").as_bytes());
        }
    }
}

fn can_show(is_terminal: bool, term: Option<&OsStr>) -> bool {
    is_terminal && term != Some(OsStr::new("dumb"))
}

/// What replaces the terminal's line by another one.
///
/// A line that is too long would wrap and stay, and only the terminal knows its width: it is told
/// not to wrap for as long as this takes.
fn rewritten(line: &str) -> String {
    let line: String = line.chars().take(LONGEST).collect();
    format!("\r\u{1b}[K\u{1b}[?7l{line}\u{1b}[?7h")
}

/// Progress as one line: a bar where it tells a percentage, and what it says.
pub(crate) fn shown(progress: &str) -> String {
    let told = match object(progress) {
        Some(fields) => fields
            .iter()
            .map(|(key, value)| match value {
                Value::String(text) => format!("{key} {text}"),
                other => format!("{key} {other}"),
            })
            .collect::<Vec<_>>()
            .join(", "),
        None => progress.to_owned(),
    };
    let told = printable(&told);
    match percent(progress) {
        Some(percent) => format!("{} {told}", bar(percent)),
        None => told,
    }
}

/// The percentage in a contract task's payload (`"percent": 40`), or in a text (`40 % done`).
fn percent(progress: &str) -> Option<f64> {
    let told = if let Some(fields) = object(progress) {
        fields.get("percent")?.as_f64()?
    } else {
        let before = progress.split_once('%')?.0.trim_end();
        let number = before
            .rsplit(|character: char| !is_numeric(character))
            .next()?;
        number.parse().ok()?
    };
    (0.0..=100.0).contains(&told).then_some(told)
}

fn object(progress: &str) -> Option<serde_json::Map<String, Value>> {
    serde_json::from_str(progress).ok()
}

fn is_numeric(character: char) -> bool {
    character.is_ascii_digit() || character == '.'
}

fn bar(percent: f64) -> String {
    let full = (1..=WIDTH)
        .filter(|cell| f64::from(*cell) * 100.0 <= percent * f64::from(WIDTH))
        .count();
    format!(
        "[{:-<width$}]",
        "#".repeat(full),
        width = usize::from(WIDTH)
    )
}

const WIDTH: u8 = 20;

/// More is not read while it moves.
const LONGEST: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_with_a_percentage_is_a_bar() {
        for (progress, line) in [
            (
                r#"{"eta_s":1.5,"percent":50}"#,
                "[##########----------] eta_s 1.5, percent 50",
            ),
            ("40.5% done", "[########------------] 40.5% done"),
            ("step 2: 100 %", "[####################] step 2: 100 %"),
            ("0%", "[--------------------] 0%"),
        ] {
            assert_eq!(shown(progress), line);
        }
    }

    #[test]
    fn a_line_replaces_the_one_before_and_never_wraps() {
        let line = rewritten(&shown("50 % of the way"));
        assert_eq!(
            line,
            "\r\u{1b}[K\u{1b}[?7l[##########----------] 50 % of the way\u{1b}[?7h"
        );
        assert_eq!(rewritten(""), "\r\u{1b}[K\u{1b}[?7l\u{1b}[?7h");
        let long = rewritten(&shown(&"x".repeat(10_000)));
        assert_eq!(long.matches('x').count(), LONGEST);
        assert!(!long.contains('\n'));
    }

    #[test]
    fn only_a_terminal_that_can_take_a_line_back_shows_it() {
        let is = |term| Some(OsStr::new(term));
        for (is_terminal, term, shows) in [
            (true, is("xterm-256color"), true),
            (true, None, true),
            (true, is("dumb"), false),
            (false, is("xterm"), false),
        ] {
            assert_eq!(can_show(is_terminal, term), shows);
        }
    }

    #[test]
    fn progress_without_a_percentage_is_what_it_says_and_commands_no_terminal() {
        for (progress, line) in [
            ("driving", "driving"),
            ("200 % sure", "200 % sure"),
            (r#"{"percent":-1}"#, "percent -1"),
            (r#"{"at":"kitchen"}"#, "at kitchen"),
            ("%", "%"),
            ("\u{1b}[2J", "\\u{1b}[2J"),
        ] {
            assert_eq!(shown(progress), line);
        }
    }
}
