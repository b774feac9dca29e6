use std::borrow::Cow;

/// A text without what looks like a user and a password before a host.
pub(crate) fn redacted(text: &str) -> Cow<'_, str> {
    let words = text.split_inclusive([' ', '\'', '"', '\n']);
    let hidden = |word: &str| {
        let (user, host) = word.rsplit_once('@')?;
        user.contains(':').then(|| format!("…@{host}"))
    };
    if words.clone().any(|word| hidden(word).is_some()) {
        let shown = |word| hidden(word).map_or(Cow::Borrowed(word), Cow::Owned);
        Cow::Owned(words.map(shown).collect())
    } else {
        Cow::Borrowed(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_before_a_host_is_left_out() {
        let text = "unexpected argument 'postgres://u:secret@h/db' found\n";
        assert_eq!(redacted(text), "unexpected argument '…@h/db' found\n");
    }

    #[test]
    fn other_texts_stay_as_they_are() {
        for text in ["a@b c:d", "--url 'http://robot/mcp' at 12:00\n", ""] {
            assert!(matches!(redacted(text), Cow::Borrowed(same) if same == text));
        }
    }
}
