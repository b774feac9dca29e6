use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use deadpool_postgres::{
    ClientWrapper, Hook, HookError, Manager, ManagerConfig, Object, Pool, Runtime,
};
use futures_util::future::{BoxFuture, join};
use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Config, Row, Statement};
use uuid::Uuid;

use super::failure::Failure;
use super::hosts::Hosts;
use super::listener::CHANNEL;
use crate::moment::Moment;
use crate::store::StoreError;
use crate::store::record::{Value, ms};

/// One attempt at an operation. It is begun afresh when the connection breaks.
pub(super) type Work<D, T> =
    for<'a> fn(&'a Session<'a>, &'a D) -> BoxFuture<'a, Result<T, Failure>>;

/// Where the time comes from, when it is not the server.
pub(super) type Clock = Arc<dyn Fn() -> Moment + Send + Sync>;

/// What an operation is to the engine.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// One statement, or some that only read.
    Statement,
    /// Several that commit together.
    Transaction,
}

/// A few connections, and how an operation is done on one of them.
///
/// 1. An operation holds one connection, and waits for no other one.
/// 2. Everything is bounded: the wait for a connection, the connecting, each statement here and
///    at the server.
/// 3. A connection is used again only after an operation that ended in order. One that was
///    dropped in the middle, timed out or broke, is closed; the server undoes what was open.
pub(super) struct Database {
    pool: Pool,
    patience: Duration,
    clock: Option<Clock>,
}

impl Database {
    pub(super) fn new(
        hosts: Hosts,
        connections: usize,
        patience: Duration,
        clock: Option<Clock>,
    ) -> Result<Self, StoreError> {
        let setup = setup(patience);
        let manager = Manager::from_connect(Config::new(), hosts, ManagerConfig::default());
        let pool = Pool::builder(manager)
            .runtime(Runtime::Tokio1)
            .max_size(connections)
            .wait_timeout(Some(patience))
            .create_timeout(Some(patience))
            .post_create(Hook::async_fn(move |client: &mut ClientWrapper, _| {
                let setup = setup.clone();
                Box::pin(async move {
                    let done = client.batch_execute(&setup).await;
                    done.map_err(HookError::Backend)
                })
            }))
            .build()
            .map_err(|error| StoreError::Open {
                detail: error.to_string(),
            })?;
        Ok(Self {
            pool,
            patience,
            clock,
        })
    }

    /// Does `work` on a connection, again and again while the server is away, for as long as
    /// the store is patient.
    pub(super) async fn run<D, T>(
        &self,
        scope: Scope,
        data: &D,
        work: Work<D, T>,
    ) -> Result<T, StoreError> {
        self.run_within(self.patience, scope, data, work).await
    }

    /// The same for work that may take as long as it takes, once it has begun.
    pub(super) async fn run_for_long<D, T>(
        &self,
        scope: Scope,
        data: &D,
        work: Work<D, T>,
    ) -> Result<T, StoreError> {
        self.run_within(LONG, scope, data, work).await
    }

    async fn run_within<D, T>(
        &self,
        limit: Duration,
        scope: Scope,
        data: &D,
        work: Work<D, T>,
    ) -> Result<T, StoreError> {
        let until = Instant::now() + self.patience;
        let mut attempts = 0;
        let mut again = false;
        loop {
            let attempt = self.attempt(scope, data, work, again);
            let failure = match timeout(limit, attempt).await {
                Ok(Ok(done)) => return Ok(done),
                Ok(Err(failure)) => failure,
                Err(_) => {
                    // The idle ones may have lost the same server, and would cost as long.
                    self.pool.retain(|_, _| false);
                    return Err(StoreError::Unreachable {
                        detail: format!("no answer within {limit:?}"),
                    });
                }
            };
            let pause = pause(attempts.min(4));
            let aftermath = failure.aftermath();
            if !aftermath.repeat || Instant::now() + pause >= until {
                return Err(failure.into());
            }
            let error = StoreError::from(failure);
            tracing::debug!(%error, attempts, "the database is tried again");
            // Where the connection broke, a commit may have been made.
            again |= !aftermath.keep;
            attempts += 1;
            sleep(pause).await;
        }
    }

    async fn attempt<D, T>(
        &self,
        scope: Scope,
        data: &D,
        work: Work<D, T>,
        again: bool,
    ) -> Result<T, Failure> {
        let lent = Lent(Some(self.pool.get().await?));
        let session = Session {
            client: lent.client(),
            at: self.clock.as_ref().map(|clock| clock().unix_ms()),
            again,
            turn: tokio::sync::Mutex::default(),
            news: Mutex::default(),
        };
        let done = match scope {
            Scope::Statement => session.statement(work(&session, data)).await,
            Scope::Transaction => session.transaction(work(&session, data)).await,
        };
        match done {
            Ok((done, keep)) => {
                if keep {
                    lent.give_back();
                }
                Ok(done)
            }
            Err(failure) if failure.aftermath().keep => {
                lent.give_back();
                Err(failure)
            }
            Err(failure) => {
                // The idle ones broke with it, or lead to the same wrong server.
                self.pool.retain(|_, _| false);
                Err(failure)
            }
        }
    }
}

/// A connection on loan, which is closed unless it is given back.
struct Lent(Option<Object>);

impl Lent {
    fn client(&self) -> &ClientWrapper {
        self.0.as_deref().expect("it is given back at the end")
    }

    fn give_back(mut self) {
        self.0 = None;
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(broken) = self.0.take() {
            drop(Object::take(broken));
        }
    }
}

/// A connection during one attempt at an operation.
pub(super) struct Session<'a> {
    client: &'a ClientWrapper,
    at: Option<i64>,
    again: bool,
    /// Held until a statement is sent.
    turn: tokio::sync::Mutex<()>,
    news: Mutex<Vec<String>>,
}

impl Session<'_> {
    /// Whether an attempt before this one may have been committed.
    pub(super) fn again(&self) -> bool {
        self.again
    }

    /// The argument of `store_now`.
    pub(super) fn at(&self) -> Value<'static> {
        Value::Number(self.at)
    }

    pub(super) async fn now(&self) -> Result<Moment, Failure> {
        let rows = self.rows("SELECT store_now($1)", &[self.at()]).await?;
        let now = rows.first().map_or(Ok(0), |row| row.try_get(0))?;
        Ok(Moment::from_unix_ms(now))
    }

    /// Tells the other processes, once the operation is committed.
    pub(super) fn tell(&self, news: String) {
        let mut waiting = self.news.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push(news);
    }

    pub(super) async fn rows(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, Failure> {
        self.query(sql, &references(values)).await
    }

    pub(super) async fn row(
        &self,
        sql: &str,
        values: &[Value<'_>],
    ) -> Result<Option<Row>, Failure> {
        Ok(self.rows(sql, values).await?.into_iter().next())
    }

    /// How many rows a statement changed.
    pub(super) async fn change(&self, sql: &str, values: &[Value<'_>]) -> Result<u64, Failure> {
        let values = references(values);
        let execute = async |statement| self.client.execute(&statement, &values).await;
        self.in_turn(sql, execute).await
    }

    pub(super) async fn query(
        &self,
        sql: &str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Failure> {
        let query = async |statement| self.client.query(&statement, values).await;
        self.in_turn(sql, query).await
    }

    /// Statements that are awaited together are sent in the order in which they are polled,
    /// also where one has to be prepared before it can be sent and the next has not.
    async fn in_turn<T>(
        &self,
        sql: &str,
        send: impl AsyncFnOnce(Statement) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, Failure> {
        let turn = self.turn.lock().await;
        let statement = self.client.prepare_cached(sql).await?;
        let mut answer = pin!(send(statement));
        // The first poll sends it.
        let first = poll_fn(|cx| Poll::Ready(answer.as_mut().poll(cx))).await;
        drop(turn);
        match first {
            Poll::Ready(done) => Ok(done?),
            Poll::Pending => Ok(answer.await?),
        }
    }

    /// Several statements without values.
    pub(super) async fn batch(&self, sql: &str) -> Result<(), Failure> {
        Ok(self.client.batch_execute(sql).await?)
    }

    async fn statement<T>(
        &self,
        work: BoxFuture<'_, Result<T, Failure>>,
    ) -> Result<(T, bool), Failure> {
        let done = work.await?;
        Ok((done, self.notify().await.is_ok()))
    }

    async fn transaction<T>(
        &self,
        work: BoxFuture<'_, Result<T, Failure>>,
    ) -> Result<(T, bool), Failure> {
        // Sent together: polled in this order, and the server takes them in order.
        let (begun, done) = join(self.batch("BEGIN ISOLATION LEVEL READ COMMITTED"), work).await;
        begun?;
        match done {
            Ok(done) => {
                // The news goes out after the commit and not in it: a notifying transaction
                // holds a lock while it is flushed, and all of them would queue for that.
                let (committed, told) = join(self.batch("COMMIT"), self.notify()).await;
                committed?;
                Ok((done, told.is_ok()))
            }
            Err(failure) => {
                if failure.aftermath().keep {
                    self.batch("ROLLBACK").await?;
                }
                Err(failure)
            }
        }
    }

    /// What is lost of it costs the others a poll interval.
    async fn notify(&self) -> Result<(), Failure> {
        let news = std::mem::take(&mut *self.news.lock().unwrap_or_else(PoisonError::into_inner));
        if news.is_empty() {
            return Ok(());
        }
        let sql = "SELECT pg_notify($1, news) FROM unnest($2::text[]) AS news";
        self.query(sql, &[&CHANNEL, &news]).await?;
        Ok(())
    }
}

fn references<'v>(values: &'v [Value<'v>]) -> Vec<&'v (dyn ToSql + Sync)> {
    values
        .iter()
        .map(|value| value as &(dyn ToSql + Sync))
        .collect()
}

/// What every connection begins with: bounds, so that the server gives up when we do, and a
/// commit that is on stable storage whatever the server's default is.
fn setup(patience: Duration) -> String {
    let statement = ms(patience).max(1);
    // Whoever waits for a row keeps a connection from the others: it gives up soon, and comes
    // again.
    let lock = ms(patience / 20).max(1);
    format!(
        "SET statement_timeout = {statement}; SET lock_timeout = {lock}; \
         SET idle_in_transaction_session_timeout = {statement}; \
         SET default_transaction_isolation = 'read committed'; SET jit = off; \
         SET client_min_messages = warning; \
         SELECT set_config('synchronous_commit', 'on', false) \
         WHERE current_setting('synchronous_commit') = 'off'"
    )
}

/// Before another attempt: doubled each time, spread, so that replicas do not come together.
pub(super) fn pause(attempts: u32) -> Duration {
    let longest = FIRST_PAUSE * 2_u32.pow(attempts.min(7));
    let spread = u32::from(Uuid::new_v4().as_bytes()[0]);
    longest / 2 + longest * spread / 512
}

const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// For a migration of a large table.
const LONG: Duration = Duration::from_secs(24 * 3_600);
