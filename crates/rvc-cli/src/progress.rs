use serde_json::Value;

use crate::output::printable;

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
