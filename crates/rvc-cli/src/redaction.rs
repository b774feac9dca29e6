use std::borrow::Cow;

/// A text without what looks like a user and a password before a host.
pub(crate) fn redacted(text: &str) -> Cow<'_, str> {
    let lines = text.split_inclusive('\n');
    let shown: String = lines
        .map(|line| without_password(&without_user(line)))
        .collect();
    if shown == text {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(shown)
    }
}

/// What stands in quotes may have spaces and quotes in it, so from the first quote on a line is
/// one piece; before it each word is.
fn without_user(line: &str) -> String {
    let quoted_at = line.find(QUOTES).map_or(line.len(), |quote| quote + 1);
    let (words, quoted) = line.split_at(quoted_at);
    let pieces = words.split_inclusive(' ').chain([quoted]);
    pieces
        .map(|piece| match piece.rsplit_once('@') {
            Some((user, host)) if user.contains(':') => format!("…@{host}"),
            _ => piece.to_owned(),
        })
        .collect()
}

fn without_password(line: &str) -> String {
    const NAME: &str = "password=";
    let mut pieces = line.split(NAME);
    let before = pieces.next().into_iter().map(str::to_owned);
    let values = pieces.map(|value| format!("{NAME}…{}", &value[end_of_password(value)..]));
    before.chain(values).collect()
}

/// A quote that a letter or a digit follows is a part of the password.
fn end_of_password(value: &str) -> usize {
    value
        .match_indices(|c| c == '\n' || QUOTES.contains(&c))
        .find(|(at, _)| !value[at + 1..].starts_with(char::is_alphanumeric))
        .map_or(value.len(), |(at, _)| at)
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
        for (text, shown) in [
            ("no u:secret@h/db here", "no …@h/db here"),
            ("no u:secret@h and a@b", "no …@h and a@b"),
            ("no u:secret@h 'a@b'", "no …@h 'a@b'"),
            ("no a@b 'u:se cret@h'", "no a@b '…@h'"),
        ] {
            assert_eq!(redacted(text), shown);
        }
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
