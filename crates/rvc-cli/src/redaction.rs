use std::borrow::Cow;

/// A text without what looks like a user and a password before a host.
pub(crate) fn redacted(text: &str) -> Cow<'_, str> {
    let words = text.split_inclusive(ENDS);
    let hidden = |word: &str| {
        if let Some((user, host)) = word.rsplit_once('@')
            && user.contains(':')
        {
            return Some(format!("…@{host}"));
        }
        let (before, _) = word.split_once("password=")?;
        // What ended the word stays.
        let end = word.chars().next_back().filter(|end| ENDS.contains(end));
        Some(format!(
            "{before}password=…{}",
            end.map_or(String::new(), String::from)
        ))
    };
    if words.clone().any(|word| hidden(word).is_some()) {
        let shown = |word| hidden(word).map_or(Cow::Borrowed(word), Cow::Owned);
        Cow::Owned(words.map(shown).collect())
    } else {
        Cow::Borrowed(text)
    }
}

/// What ends a word.
const ENDS: [char; 4] = [' ', '\'', '"', '\n'];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_before_a_host_is_left_out() {
        let text = "unexpected argument 'postgres://u:secret@h/db' found\n";
        assert_eq!(redacted(text), "unexpected argument '…@h/db' found\n");
        let text = "unexpected argument 'postgres://h/db?user=u&password=secret' found\n";
        let shown = "unexpected argument 'postgres://h/db?user=u&password=…' found\n";
        assert_eq!(redacted(text), shown);
    }

    #[test]
    fn other_texts_stay_as_they_are() {
        for text in ["a@b c:d", "--url 'http://robot/mcp' at 12:00\n", ""] {
            assert!(matches!(redacted(text), Cow::Borrowed(same) if same == text));
        }
    }
}
