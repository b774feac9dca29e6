use std::time::Duration;

use bytes::Bytes;

/// What a scripted endpoint does with a request.
#[derive(Clone, Debug)]
pub enum Reply {
    /// Answers with a Content-Length and keeps the connection.
    Answer {
        /// The HTTP status.
        status: u16,
        /// Headers beside Content-Length.
        headers: Vec<(String, String)>,
        /// The body.
        body: Bytes,
    },
    /// Replies in this way and then closes the connection, without having announced it.
    ThenClose(Box<Reply>),
    /// Replies in this way after a while.
    Later(Duration, Box<Reply>),
    /// Writes these bytes, whatever they are, and closes the connection.
    Raw(Bytes),
    /// Never answers, and keeps the connection open.
    Hang,
    /// Answers with a body that has no end: a chunk as often as the duration says, or as fast as
    /// it is read if that is zero.
    Endless {
        /// The HTTP status.
        status: u16,
        /// The size of each chunk in bytes.
        chunk: usize,
        /// The time between two chunks.
        every: Duration,
    },
}

impl Reply {
    /// An answer without a body.
    #[must_use]
    pub fn status(status: u16) -> Self {
        Self::Answer {
            status,
            headers: Vec::new(),
            body: Bytes::new(),
        }
    }

    /// Adds a header to an answer.
    ///
    /// # Panics
    ///
    /// If it is not a [`Reply::Answer`].
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        let Self::Answer { headers, .. } = &mut self else {
            panic!("only an answer has headers");
        };
        headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Gives an answer a body.
    ///
    /// # Panics
    ///
    /// If it is not a [`Reply::Answer`].
    #[must_use]
    pub fn body(mut self, bytes: impl Into<Bytes>) -> Self {
        let Self::Answer { body, .. } = &mut self else {
            panic!("only an answer has a body of its own");
        };
        *body = bytes.into();
        self
    }

    /// Replies and then closes the connection, without having announced it.
    #[must_use]
    pub fn then_close(self) -> Self {
        Self::ThenClose(Box::new(self))
    }

    /// Replies after a while.
    #[must_use]
    pub fn after(self, time: Duration) -> Self {
        Self::Later(time, Box::new(self))
    }

    /// Closes the connection without a byte.
    #[must_use]
    pub fn close() -> Self {
        Self::Raw(Bytes::new())
    }
}

impl From<u16> for Reply {
    fn from(status: u16) -> Self {
        Self::status(status)
    }
}
