//! Reads an event stream, piece by piece, and keeps no more of it than allowed.
//!
//! 1. What is kept of one event is at most the cap and a chunk.
//! 2. Of an event over the cap its beginning is reported at once, and at its end the last of it;
//!    the rest is counted, not kept.
//! 3. Comments are not kept at all.

use std::collections::VecDeque;

/// What a stream said.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// Where to POST.
    Endpoint(String),
    /// One message.
    Message(Vec<u8>),
    /// The beginning of an event that is larger than allowed.
    Oversized(Vec<u8>),
    /// The last of that event, which is at its end now.
    OversizedEnd(Vec<u8>),
}

/// An event went on for too long after it was too large.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Endless;

#[derive(Debug)]
pub(super) struct Decoder {
    largest: usize,
    /// The line that is not at its end yet. Empty while nothing is kept.
    line: Vec<u8>,
    line_bytes: usize,
    is_comment: bool,
    is_first_line: bool,
    /// A line feed would belong to the last line.
    after_cr: bool,
    kind: Vec<u8>,
    data: Option<Vec<u8>>,
    /// What became of an event that is too large.
    skipped: Option<Skipped>,
}

#[derive(Debug)]
struct Skipped {
    bytes: usize,
    /// The last of it, as lines.
    tail: Vec<u8>,
}

impl Skipped {
    fn keep(&mut self, text: &[u8]) {
        self.tail
            .extend_from_slice(&text[text.len().saturating_sub(TAIL)..]);
        // Not at every piece, which may be of one byte.
        if self.tail.len() > 2 * TAIL {
            self.tail.drain(..self.tail.len() - TAIL);
        }
    }
}

impl Decoder {
    pub(super) fn new(largest: usize) -> Self {
        Self {
            largest,
            line: Vec::new(),
            line_bytes: 0,
            is_comment: false,
            is_first_line: true,
            after_cr: false,
            kind: Vec::new(),
            data: None,
            skipped: None,
        }
    }

    /// Reads the next piece; what it completes is added to `heard`.
    pub(super) fn push(
        &mut self,
        mut piece: &[u8],
        heard: &mut VecDeque<Heard>,
    ) -> Result<(), Endless> {
        while let Some(first) = piece.first() {
            if std::mem::take(&mut self.after_cr) && *first == b'\n' {
                piece = &piece[1..];
                continue;
            }
            let end = piece.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
            let (text, rest) = piece.split_at(end.unwrap_or(piece.len()));
            self.take(text, heard)?;
            let Some((end, rest)) = rest.split_first() else {
                break;
            };
            self.after_cr = *end == b'\r';
            self.end_line(heard);
            piece = rest;
        }
        Ok(())
    }

    /// Takes a part of a line.
    fn take(&mut self, text: &[u8], heard: &mut VecDeque<Heard>) -> Result<(), Endless> {
        if self.line_bytes == 0 {
            self.is_comment = text.first() == Some(&b':');
        }
        self.line_bytes = self.line_bytes.saturating_add(text.len());
        if self.is_comment {
            return Ok(());
        }
        if let Some(skipped) = &mut self.skipped {
            skipped.bytes = skipped.bytes.saturating_add(text.len());
            skipped.keep(text);
            let is_endless = skipped.bytes / SKIPPED_CAPS > self.largest;
            return if is_endless { Err(Endless) } else { Ok(()) };
        }
        self.line.extend_from_slice(text);
        let kept = self.data.as_ref().map_or(0, Vec::len) + self.line.len();
        if kept > self.largest.saturating_add(FIELD_NAME) {
            let mut beginning = self.data.take().unwrap_or_default();
            if let (b"data", value) = field(&self.line) {
                beginning.extend_from_slice(value);
            }
            let mut skipped = Skipped {
                bytes: 0,
                tail: Vec::new(),
            };
            skipped.keep(&beginning);
            // These lines have lost their field names already.
            let newlines = skipped.tail.iter_mut().filter(|byte| **byte == b'\n');
            newlines.for_each(|byte| *byte = b' ');
            self.skipped = Some(skipped);
            beginning.truncate(HEAD);
            heard.push_back(Heard::Oversized(beginning));
            self.line = Vec::new();
        }
        Ok(())
    }

    fn end_line(&mut self, heard: &mut VecDeque<Heard>) {
        // Not cleared but let go: a large message should not hold its memory twice for ever.
        let mut line = std::mem::take(&mut self.line);
        let is_empty = std::mem::take(&mut self.line_bytes) == 0;
        if std::mem::take(&mut self.is_first_line) && line.starts_with(BYTE_ORDER_MARK) {
            line.drain(..BYTE_ORDER_MARK.len());
        }
        if is_empty {
            self.end_event(heard);
        } else if let Some(skipped) = self.skipped.as_mut().filter(|_| !self.is_comment) {
            skipped.keep(b"\n");
        } else if !self.is_comment && self.skipped.is_none() {
            match field(&line) {
                (b"event", kind) => self.kind = kind.to_vec(),
                (b"data", value) => match &mut self.data {
                    None => self.data = Some(value.to_vec()),
                    Some(data) => {
                        data.push(b'\n');
                        data.extend_from_slice(value);
                    }
                },
                _ => {}
            }
        }
    }

    fn end_event(&mut self, heard: &mut VecDeque<Heard>) {
        let kind = std::mem::take(&mut self.kind);
        if let Some(skipped) = self.skipped.take() {
            heard.push_back(Heard::OversizedEnd(data_in(&skipped.tail)));
            return;
        }
        let Some(data) = self.data.take() else {
            return;
        };
        match kind.as_slice() {
            b"" | b"message" => heard.push_back(Heard::Message(data)),
            b"endpoint" => heard.extend(String::from_utf8(data).ok().map(Heard::Endpoint)),
            _ => {}
        }
    }
}

/// A line's field and its value.
fn field(line: &[u8]) -> (&[u8], &[u8]) {
    match line.iter().position(|byte| *byte == b':') {
        None => (line, b""),
        Some(colon) => {
            let value = &line[colon + 1..];
            (&line[..colon], value.strip_prefix(b" ").unwrap_or(value))
        }
    }
}

/// The data in the last lines of an event. The first of them is cut, and has no field name.
fn data_in(lines: &[u8]) -> Vec<u8> {
    let mut lines = lines.split(|byte| *byte == b'\n');
    let mut data = lines.next().unwrap_or_default().to_vec();
    for line in lines {
        if let (b"data", value) = field(line) {
            data.push(b'\n');
            data.extend_from_slice(value);
        }
    }
    data
}

/// What "data: " takes of a line.
const FIELD_NAME: usize = 6;

/// How much of an event that is too large is shown: enough for a JSON-RPC message's id.
const HEAD: usize = 4 << 10;

/// How much of its end is shown: enough for an id that comes last.
const TAIL: usize = 512;

/// How many times the cap is thrown away of one event.
const SKIPPED_CAPS: usize = 16;

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(pieces: &[&[u8]], largest: usize) -> Result<Vec<Heard>, Endless> {
        let mut decoder = Decoder::new(largest);
        let mut heard = VecDeque::new();
        for piece in pieces {
            decoder.push(piece, &mut heard)?;
        }
        Ok(heard.into())
    }

    fn message(text: &str) -> Heard {
        Heard::Message(text.into())
    }

    #[test]
    fn every_line_ending_is_read_wherever_the_stream_is_cut() {
        for end in ["\n", "\r\n", "\r"] {
            let lines = [
                "\u{feff}: hello",
                "event: endpoint",
                "data: /messages/?session_id=1",
                "",
                ": ping",
                "",
                "event: message",
                "id: 7",
                "retry: 3",
                "data: {\"a\":",
                "data:1}",
                "",
                "data: {}",
                "",
                "event: ping",
                "data: nothing to us",
                "",
                "event: message",
                "",
                "data: unfinished",
            ];
            let text = lines.join(end);
            let expected = [
                Heard::Endpoint("/messages/?session_id=1".into()),
                message("{\"a\":\n1}"),
                message("{}"),
            ];
            for cut in 0..=text.len() {
                let (one, other) = text.as_bytes().split_at(cut);
                assert_eq!(
                    decode(&[one, other], 1024).as_deref(),
                    Ok(&expected[..]),
                    "{end:?} {cut}"
                );
            }
            let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
            assert_eq!(decode(&bytes, 1024).as_deref(), Ok(&expected[..]));
        }
    }

    #[test]
    fn an_event_over_the_cap_shows_its_beginning_and_the_next_one_is_read() {
        let long = "x".repeat(100);
        for text in [
            format!("data: {long}\n\ndata: {{}}\n\n"),
            format!("data: {}\ndata: {long}\n\ndata: {{}}\n\n", &long[..10]),
        ] {
            let heard = decode(&[text.as_bytes()], 50);

            let Ok([Heard::Oversized(beginning), Heard::OversizedEnd(_), next]) = heard.as_deref()
            else {
                panic!("{heard:?}");
            };
            assert!(beginning.starts_with(b"xxxxxxxxxx") && beginning.len() <= 4096);
            assert_eq!(next, &message("{}"));
        }
    }

    #[test]
    fn an_event_over_the_cap_shows_its_end_wherever_the_stream_is_cut() {
        let long = "x".repeat(2_000);
        for text in [
            format!("data: {{\"result\":\"{long}\",\"id\":17}}\n\n"),
            format!(
                "data: {{\"result\":\"{long}\",\r\n: ping\r\nid: 3\r\ndata: \"id\":17}}\r\n\r\n"
            ),
            format!("data: {{\"result\":\ndata: \"{long}\"\ndata:,\"id\":17}}\n\n"),
        ] {
            for size in [1, 7, 100, text.len()] {
                let pieces: Vec<&[u8]> = text.as_bytes().chunks(size).collect();

                let heard = decode(&pieces, 200);

                let Ok([Heard::Oversized(_), Heard::OversizedEnd(end)]) = heard.as_deref() else {
                    panic!("{heard:?}");
                };
                let end = String::from_utf8(end.clone()).unwrap().replace('\n', "");
                assert!(end.ends_with("x\",\"id\":17}"), "{size}: {end}");
                assert!(end.len() <= 2 * TAIL);
            }
        }
    }

    #[test]
    fn an_event_of_the_cap_is_read_whole() {
        let text = "x".repeat(50);
        let stream = format!("data: {text}\n\n");

        assert_eq!(
            decode(&[stream.as_bytes()], 50).as_deref(),
            Ok(&[message(&text)][..])
        );
    }

    #[test]
    fn many_small_lines_are_an_event_over_the_cap_too() {
        let lines = "data: xxxxxxxxxx\n".repeat(10);

        let heard = decode(&[lines.as_bytes()], 50);

        assert!(
            matches!(heard.as_deref(), Ok([Heard::Oversized(_)])),
            "{heard:?}"
        );
    }

    #[test]
    fn a_line_without_end_is_given_up() {
        for start in ["data: ", "nonsense", "data: x\nevent: "] {
            let mut decoder = Decoder::new(50);
            let mut heard = VecDeque::new();
            assert_eq!(decoder.push(start.as_bytes(), &mut heard), Ok(()));
            let mut pieces = 0;
            while decoder.push(b"xxxxxxxxxx", &mut heard).is_ok() {
                pieces += 1;
                assert!(pieces < 200, "it goes on for ever");
                assert!(decoder.line.len() <= 70, "it is kept");
            }
            assert!(pieces > 16 * 5, "the rest of a large message is skipped");
        }
    }

    #[test]
    fn a_comment_without_end_is_not_kept() {
        let mut decoder = Decoder::new(50);
        let mut heard = VecDeque::new();
        for _ in 0..10_000 {
            assert_eq!(decoder.push(b": still here ", &mut heard), Ok(()));
        }
        assert!(decoder.line.is_empty() && heard.is_empty());
    }
}
