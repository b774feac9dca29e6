//! The three headers of a signed request, each exactly once.

use crate::VerifyError;

/// The header that names the sending server, in lower case: contract section 3.1.
///
/// The signature does not cover it. A receiver uses it to choose the secrets,
/// and compares it with `server` in the signed body.
pub const SERVER_HEADER: &str = "x-rvc-server";

/// The header with the attempt's time in unix seconds, in lower case: contract
/// section 3.1.
pub const TIMESTAMP_HEADER: &str = "x-rvc-timestamp";

/// The header with `sha256=<hex>`, in lower case: contract section 3.1.
pub const SIGNATURE_HEADER: &str = "x-rvc-signature";

/// The contract's three headers as they came with one request.
///
/// It is made from all of a request's headers at once, so that a second value
/// cannot be lost on the way, as it is where a map keeps the first or the last.
/// The values are raw: only the number of them has been checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Headers<'a> {
    server: &'a [u8],
    timestamp: &'a [u8],
    signature: &'a [u8],
}

impl<'a> Headers<'a> {
    /// Picks the three headers out of a request's names and values.
    ///
    /// Names are compared without regard to ASCII case; other headers are
    /// ignored. An `&http::HeaderMap` fits as it is, and so does any iterator
    /// of name and value as text or bytes.
    ///
    /// ```
    /// use rvc_sign::{Headers, VerifyError};
    ///
    /// let twice = [("x-rvc-server", "navigation"), ("X-RVC-Server", "perception")];
    /// assert_eq!(
    ///     Headers::from_pairs(twice),
    ///     Err(VerifyError::DuplicateHeader { name: "x-rvc-server" }),
    /// );
    /// ```
    ///
    /// # Errors
    ///
    /// [`VerifyError::MissingHeader`] or [`VerifyError::DuplicateHeader`] for
    /// the first of server, timestamp and signature that is not there exactly
    /// once.
    pub fn from_pairs<'n, N, V>(
        pairs: impl IntoIterator<Item = (&'n N, &'a V)>,
    ) -> Result<Self, VerifyError>
    where
        N: AsRef<[u8]> + ?Sized + 'n,
        V: AsRef<[u8]> + ?Sized + 'a,
    {
        let mut server = Occurrence::new(SERVER_HEADER);
        let mut timestamp = Occurrence::new(TIMESTAMP_HEADER);
        let mut signature = Occurrence::new(SIGNATURE_HEADER);
        for (name, value) in pairs {
            for header in [&mut server, &mut timestamp, &mut signature] {
                header.see(name.as_ref(), value.as_ref());
            }
        }
        Ok(Self {
            server: server.exactly_one()?,
            timestamp: timestamp.exactly_one()?,
            signature: signature.exactly_one()?,
        })
    }

    /// The value of [`SERVER_HEADER`]: what the sender says it is, unsigned.
    #[must_use]
    pub const fn server(&self) -> &'a [u8] {
        self.server
    }

    /// The value of [`TIMESTAMP_HEADER`].
    #[must_use]
    pub const fn timestamp(&self) -> &'a [u8] {
        self.timestamp
    }

    /// The value of [`SIGNATURE_HEADER`].
    #[must_use]
    pub const fn signature(&self) -> &'a [u8] {
        self.signature
    }
}

/// How often one header has been seen so far.
struct Occurrence<'a> {
    name: &'static str,
    first: Option<&'a [u8]>,
    again: bool,
}

impl<'a> Occurrence<'a> {
    const fn new(name: &'static str) -> Self {
        Self {
            name,
            first: None,
            again: false,
        }
    }

    fn see(&mut self, name: &[u8], value: &'a [u8]) {
        if name.eq_ignore_ascii_case(self.name.as_bytes()) {
            self.again = self.first.is_some();
            self.first.get_or_insert(value);
        }
    }

    fn exactly_one(self) -> Result<&'a [u8], VerifyError> {
        let name = self.name;
        match self.first {
            None => Err(VerifyError::MissingHeader { name }),
            Some(_) if self.again => Err(VerifyError::DuplicateHeader { name }),
            Some(value) => Ok(value),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::vec::Vec;

    use super::*;

    const GOOD: [(&str, &str); 3] = [
        ("X-RVC-Server", "navigation"),
        ("x-rvc-TIMESTAMP", "1"),
        ("x-rvc-signature", "sha256=0"),
    ];

    #[test]
    fn names_match_in_any_case_and_other_headers_are_ignored() {
        let mut pairs = GOOD.to_vec();
        pairs.insert(1, ("x-rvc-serve", "no"));
        pairs.push(("x-rvc-server2", "no"));

        let headers = Headers::from_pairs(pairs).unwrap();

        assert_eq!(headers.server(), b"navigation");
        assert_eq!(headers.timestamp(), b"1");
        assert_eq!(headers.signature(), b"sha256=0");
    }

    #[test]
    fn a_missing_header_is_named() {
        for (index, name) in [SERVER_HEADER, TIMESTAMP_HEADER, SIGNATURE_HEADER]
            .into_iter()
            .enumerate()
        {
            let mut pairs = GOOD.to_vec();
            pairs.remove(index);
            assert_eq!(
                Headers::from_pairs(pairs),
                Err(VerifyError::MissingHeader { name })
            );
        }
    }

    #[test]
    fn a_second_value_is_refused_even_if_it_is_the_same_or_empty_or_the_third() {
        for (index, name) in [SERVER_HEADER, TIMESTAMP_HEADER, SIGNATURE_HEADER]
            .into_iter()
            .enumerate()
        {
            for extra in [GOOD[index].1, "", "other"] {
                let mut pairs = GOOD.to_vec();
                pairs.push((name, extra));
                let error = Err(VerifyError::DuplicateHeader { name });
                assert_eq!(Headers::from_pairs(pairs.iter().copied()), error);

                pairs.push((name, extra));
                assert_eq!(Headers::from_pairs(pairs), error);
            }
        }
    }

    #[test]
    fn the_first_header_at_fault_is_reported() {
        let none: Vec<(&str, &str)> = Vec::new();
        assert_eq!(
            Headers::from_pairs(none),
            Err(VerifyError::MissingHeader {
                name: SERVER_HEADER
            })
        );
        assert_eq!(
            Headers::from_pairs([GOOD[0], GOOD[1], GOOD[1]]),
            Err(VerifyError::DuplicateHeader {
                name: TIMESTAMP_HEADER
            })
        );
    }
}
