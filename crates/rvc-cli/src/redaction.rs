use std::borrow::Cow;

/// A text without what looks like a user and a password before a host.
pub(crate) fn redacted(text: &str) -> Cow<'_, str> {
    let lines: Vec<Cow<'_, str>> = text.split_inclusive('\n').map(redacted_line).collect();
    if lines.iter().all(|line| matches!(line, Cow::Borrowed(_))) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(lines.concat())
}

fn redacted_line(line: &str) -> Cow<'_, str> {
    let line = without_user(line).map_or(Cow::Borrowed(line), Cow::Owned);
    match without_password(&line) {
        Some(shown) => Cow::Owned(shown),
        None => line,
    }
}

/// What was given stands in quotes, and may have spaces in it; without quotes it is a word.
fn without_user(line: &str) -> Option<String> {
    let (given, host) = line.rsplit_once('@')?;
    let start = given
        .find(QUOTES)
        .or_else(|| given.rfind(' '))
        .map_or(0, |before| before + 1);
    let (before, user) = given.split_at(start);
    user.contains(':').then(|| format!("{before}…@{host}"))
}

/// A quote that a letter or a digit follows is a part of the password.
fn without_password(line: &str) -> Option<String> {
    const NAME: &str = "password=";
    let (before, value) = line.split_once(NAME)?;
    let (end, _) = value
        .match_indices(|c| c == '\n' || QUOTES.contains(&c))
        .find(|(at, _)| !value[at + 1..].starts_with(char::is_alphanumeric))
        .unwrap_or((value.len(), ""));
    let rest = &value[end..];
    let rest = without_password(rest).map_or(Cow::Borrowed(rest), Cow::Owned);
    Some(format!("{before}{NAME}…{rest}"))
}

const QUOTES: [char; 2] = ['\'', '"'];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_before_a_host_is_left_out() {
        for given in [
            "postgres://u:secret@h/db",
            "postgres://u:se cret@h/db",
            "postgres://u:se'cret@h/db",
            "postgres://u:s@cret@h/db",
            "u:se cret@h/db",
        ] {
            let text = format!("unexpected argument '{given}' found\n\nUsage: rvc\n");
            let shown = "unexpected argument '…@h/db' found\n\nUsage: rvc\n";
            assert_eq!(redacted(&text), shown);
        }
        assert_eq!(redacted("no u:secret@h/db here"), "no …@h/db here");
    }

    #[test]
    fn a_password_in_a_query_is_left_out() {
        for password in ["secret", "se cret", "se'cret", "s\"e cret"] {
            let text = format!("unexpected argument 'postgres://h/db?password={password}' found\n");
            let shown = "unexpected argument 'postgres://h/db?password=…' found\n";
            assert_eq!(redacted(&text), shown);
        }
        assert_eq!(redacted("password=se cret"), "password=…");
        let twice = "'password=se cret' and 'password=other'";
        assert_eq!(redacted(twice), "'password=…' and 'password=…'");
    }

    #[test]
    fn a_password_in_either_place_is_left_out() {
        let text = "'postgres://u:secret@h/db?password=other' and\n'v:secret@h'\n";
        let shown = "'…@h/db?password=…' and\n'…@h'\n";
        assert_eq!(redacted(text), shown);
    }

    #[test]
    fn other_texts_stay_as_they_are() {
        for text in ["a@b c:d", "--url 'http://robot/mcp' at 12:00\n", ""] {
            assert!(matches!(redacted(text), Cow::Borrowed(same) if same == text));
        }
    }
}
