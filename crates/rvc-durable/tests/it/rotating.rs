//! A host whose token changes now and then.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures_util::future::BoxFuture;
use rvc_durable::Registration;
use rvc_durable::remote::{DialError, Token, TokenSource};

#[derive(Clone, Default)]
pub(crate) struct Rotating {
    renewed: Arc<AtomicUsize>,
    is_away: Arc<AtomicBool>,
}

impl Rotating {
    /// From now on there is another token.
    pub(crate) fn renew(&self) {
        self.renewed.fetch_add(1, Ordering::SeqCst);
    }

    /// From now on it can give none, or it can again.
    pub(crate) fn go_away(&self, is_away: bool) {
        self.is_away.store(is_away, Ordering::SeqCst);
    }
}

impl TokenSource for Rotating {
    fn token<'a>(&'a self, _: &'a Registration) -> BoxFuture<'a, Result<Option<Token>, DialError>> {
        let token = if self.is_away.load(Ordering::SeqCst) {
            Err(DialError::new("no token today"))
        } else {
            let renewed = self.renewed.load(Ordering::SeqCst);
            Ok(Some(Token::new(format!("t{renewed}"))))
        };
        Box::pin(std::future::ready(token))
    }
}
