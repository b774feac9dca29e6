use std::io::{self, Write};

/// Writes one line to standard output, at once.
///
/// Unlike `println!` it does not panic when nobody reads on.
pub(crate) fn line(text: impl AsRef<[u8]>) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_ref())?;
    stdout.write_all(b"\n")?;
    stdout.flush()
}

/// Whether an error is only that whoever read the output went away.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

/// Text that came from outside, safe to print: a terminal obeys control characters.
pub(crate) fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_sent_no_control_characters() {
        for (text, shown) in [
            ("nav-7f3a2b", "nav-7f3a2b"),
            ("küche 台", "küche 台"),
            ("\u{1b}[2J", "\\u{1b}[2J"),
            ("a\r\nb\u{9b}c\u{7f}", "a\\r\\nb\\u{9b}c\\u{7f}"),
        ] {
            assert_eq!(printable(text), shown);
        }
    }
}
