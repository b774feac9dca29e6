//! A host that has another token whenever it is asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::BoxFuture;
use rvc_durable::remote::{DialError, Token, TokenSource};
use rvc_durable::{Durable, Phase, Registration};

use crate::world::{id, submission};

#[derive(Clone, Default)]
pub(crate) struct Rotating(Arc<AtomicUsize>);

impl Rotating {
    /// How often it was asked.
    pub(crate) fn asked(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    /// Starts over a connection that is kept, until the second finds its token expired.
    pub(crate) async fn keep_up(&self, durable: &Durable) {
        for (action, asked) in [("a", 1), ("b", 2), ("c", 2)] {
            durable.submit(submission(action)).await.unwrap();

            let outcome = durable.outcome(&id(action)).await.unwrap();

            assert_eq!(outcome.phase, Phase::Completed, "{action}: {outcome:?}");
            let row = durable.action(&id(action)).await.unwrap().unwrap();
            assert_eq!((row.starts, self.asked()), (1, asked), "{action}");
        }
    }
}

impl TokenSource for Rotating {
    fn token<'a>(&'a self, _: &'a Registration) -> BoxFuture<'a, Result<Option<Token>, DialError>> {
        let nth = self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::ready(Ok(Some(Token::new(format!("t{nth}"))))))
    }
}
