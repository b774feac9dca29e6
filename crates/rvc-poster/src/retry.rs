//! When a failed attempt is repeated (contract decision 13).

use std::time::Duration;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc2822;

/// How long to wait after an event's `failures`th failed attempt.
pub(crate) fn delay_after(failures: u32) -> Duration {
    match failures {
        0 | 1 => Duration::from_millis(500),
        2 => Duration::from_secs(2),
        3 => Duration::from_secs(8),
        _ => Duration::from_secs(30),
    }
}

/// Reads a `Retry-After` header: seconds, or a date that is compared with `now_unix_s`.
///
/// `None` is a header that is neither, or a date that has passed.
pub(crate) fn retry_after(header: &str, now_unix_s: i64) -> Option<Duration> {
    let header = header.trim();
    if !header.is_empty() && header.bytes().all(|byte| byte.is_ascii_digit()) {
        // More seconds than fit are longer than any event is kept.
        return Some(Duration::from_secs(header.parse().unwrap_or(u64::MAX)));
    }
    let wait_s = http_date(header)?.saturating_sub(now_unix_s);
    u64::try_from(wait_s).ok().map(Duration::from_secs)
}

/// Reads an HTTP date (RFC 9110 section 5.6.7, the preferred form) as unix seconds.
pub(crate) fn http_date(text: &str) -> Option<i64> {
    // `GMT` is a zone of RFC 2822's obsolete grammar, which is read too.
    OffsetDateTime::parse(text.trim(), &Rfc2822)
        .ok()
        .map(OffsetDateTime::unix_timestamp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delays_are_half_a_second_two_eight_and_then_thirty() {
        let delays: Vec<_> = (1..=6)
            .map(|failures| delay_after(failures).as_secs_f64())
            .collect();
        assert_eq!(delays, [0.5, 2.0, 8.0, 30.0, 30.0, 30.0]);
    }

    #[test]
    fn retry_after_is_read_as_seconds_and_as_a_date() {
        let now = 784_111_777; // Sun, 06 Nov 1994 08:49:37 GMT
        for (header, wait_s) in [
            ("120", Some(120)),
            (" 0 ", Some(0)),
            ("99999999999999999999999", Some(u64::MAX)),
            ("Sun, 06 Nov 1994 08:50:37 GMT", Some(60)),
            ("Sun, 06 Nov 1994 08:48:37 GMT", None),
            ("-5", None),
            ("+5", None),
            ("1.5", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(
                retry_after(header, now),
                wait_s.map(Duration::from_secs),
                "{header:?}"
            );
        }
    }

    #[test]
    fn a_date_that_is_none_is_refused() {
        assert_eq!(
            http_date("Sun, 06 Nov 1994 08:49:37 GMT"),
            Some(784_111_777)
        );
        for bad in ["", "784111777", "Sun, 99 Nov 1994 08:49:37 GMT", "\u{fc}"] {
            assert_eq!(http_date(bad), None, "{bad:?}");
        }
    }
}
