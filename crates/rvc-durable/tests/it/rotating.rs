//! A host that has another token whenever it is asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::BoxFuture;
use rvc_durable::Registration;
use rvc_durable::remote::{DialError, Token, TokenSource};

#[derive(Clone, Default)]
pub(crate) struct Rotating(Arc<AtomicUsize>);

impl Rotating {
    /// How often it was asked.
    pub(crate) fn asked(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl TokenSource for Rotating {
    fn token<'a>(&'a self, _: &'a Registration) -> BoxFuture<'a, Result<Option<Token>, DialError>> {
        let nth = self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::ready(Ok(Some(Token::new(format!("t{nth}"))))))
    }
}
