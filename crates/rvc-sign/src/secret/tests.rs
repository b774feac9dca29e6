//! What configuration may hold, and what is never shown.

#![allow(clippy::unwrap_used)]

use std::format;
use std::string::ToString;

use super::*;

#[test]
fn white_space_at_either_end_is_refused() {
    for value in [
        " s",
        "s ",
        "\ts",
        "s\t",
        "s\n",
        "s\r\n",
        "s\r",
        "\ns",
        " ",
        "\n",
        "s\u{b}",
        "s\u{a0}",
        "\u{3000}s",
        "s\u{2028}",
    ] {
        assert_eq!(
            Secret::from_config(value.as_bytes()).unwrap_err(),
            SecretError::OuterWhitespace,
            "{value:?}"
        );
    }
    // A broken character at the other end changes nothing.
    for value in [b" \xff".as_slice(), b"\xff ", b" \xff "] {
        assert_eq!(
            Secret::from_config(value).unwrap_err(),
            SecretError::OuterWhitespace
        );
    }
}

#[test]
fn white_space_inside_and_bytes_that_are_no_text_are_taken_exactly() {
    for value in [
        b"a b".as_slice(),
        b"\xff\xfe",
        b"\x00",
        b"a \xff",
        b"\xe2\x80",
    ] {
        let (secret, warning) = Secret::from_config(value).unwrap();
        assert_eq!(secret.key_id(), Secret::new(value).unwrap().key_id());
        assert_eq!(warning, None);
    }
}

#[test]
fn an_empty_secret_counts_as_missing() {
    for error in [
        Secret::new(b"").unwrap_err(),
        Secret::from_config(b"").unwrap_err(),
        Secret::from_file_contents(b"").unwrap_err(),
        Secret::from_file_contents(b"\n").unwrap_err(),
        Secret::from_file_contents(b"\r\n").unwrap_err(),
    ] {
        assert_eq!(error, SecretError::Empty);
        assert!(error.is_missing());
    }
    assert!(!SecretError::OuterWhitespace.is_missing());
}

#[test]
fn quotes_around_a_secret_warn_and_stay_part_of_it() {
    for value in [b"\"s3cret\"".as_slice(), b"'s3cret'", b"\"\""] {
        let (secret, warning) = Secret::from_config(value).unwrap();
        assert_eq!(warning, Some(SecretWarning::Quoted));
        assert_eq!(secret.key_id(), Secret::new(value).unwrap().key_id());
    }
    for value in [
        b"\"s3cret".as_slice(),
        b"s3cret'",
        b"\"s3cret'",
        b"\"",
        b"it's",
    ] {
        assert_eq!(Secret::from_config(value).unwrap().1, None);
    }
    assert_eq!(
        SecretWarning::Quoted.to_string(),
        "the secret stands in quotes, and they are part of it"
    );
}

#[test]
fn a_file_loses_one_final_line_ending_and_no_more() {
    let plain = Secret::new(b"s3cret").unwrap().key_id();
    for contents in [b"s3cret".as_slice(), b"s3cret\n", b"s3cret\r\n"] {
        let (secret, _) = Secret::from_file_contents(contents).unwrap();
        assert_eq!(secret.key_id(), plain);
    }
    for contents in [
        b"s3cret\n\n".as_slice(),
        b"s3cret\r",
        b"s3cret\n\r\n",
        b"s3cret \n",
    ] {
        assert_eq!(
            Secret::from_file_contents(contents).unwrap_err(),
            SecretError::OuterWhitespace
        );
    }
}

#[test]
fn debug_and_errors_show_no_byte_of_the_secret() {
    let secret = Secret::new(b"hunter2hunter2").unwrap();
    assert_eq!(
        format!("{secret:?}"),
        format!("Secret(key {})", secret.key_id())
    );
    assert_eq!(secret.key_id().to_string().len(), 8);

    let error = Secret::from_config(b"hunter2 ").unwrap_err();
    assert!(!format!("{error} {error:?}").contains("hunter2"));
}

#[test]
fn key_ids_tell_secrets_apart() {
    let id = |bytes| Secret::new(bytes).unwrap().key_id();
    assert_eq!(id(b"a"), id(b"a"));
    assert_ne!(id(b"a"), id(b"b"));
}
