use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use deadpool_postgres::Connect;
use futures_util::future::BoxFuture;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::config::Host;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Config, Connection, Error, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

/// The servers of a URL, of which one is the primary.
///
/// Each has a turn for the whole of a connect, the login and the look at its role included: one
/// that takes connections and says nothing, as a machine that hangs does, is passed by.
#[derive(Clone)]
pub(super) struct Hosts {
    configs: Arc<[Config]>,
    tls: MakeRustlsConnect,
    turn: Duration,
    /// Which of them served last, and is asked first.
    served: Arc<AtomicUsize>,
}

type Stream = <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream;

impl Hosts {
    pub(super) fn new(config: &Config, tls: MakeRustlsConnect, turn: Duration) -> Self {
        let configs = match count(config) {
            0 | 1 => [config.clone()].into(),
            many => (0..many).map(|place| alone(config, place)).collect(),
        };
        Self {
            configs,
            tls,
            turn,
            served: Arc::default(),
        }
    }

    /// Connects to the first that is there and what the URL wants. The last of them has as long
    /// as the caller waits.
    pub(super) async fn connect(&self) -> Result<(Client, Connection<Socket, Stream>), Error> {
        let count = self.configs.len();
        let mut place = self.served.load(Ordering::Relaxed);
        for _ in 1..count {
            let connect = self.configs[place].connect(self.tls.clone());
            match timeout(self.turn, connect).await {
                Ok(Ok(connected)) => {
                    self.served.store(place, Ordering::Relaxed);
                    return Ok(connected);
                }
                Ok(Err(error)) => tracing::debug!(%error, place, "a database host is passed by"),
                Err(_) => tracing::debug!(place, "a database host says nothing"),
            }
            place = (place + 1) % count;
        }
        let connected = self.configs[place].connect(self.tls.clone()).await?;
        self.served.store(place, Ordering::Relaxed);
        Ok(connected)
    }
}

impl Connect for Hosts {
    fn connect(&self, _: &Config) -> BoxFuture<'_, Result<(Client, JoinHandle<()>), Error>> {
        Box::pin(async move {
            let (client, connection) = Self::connect(self).await?;
            let task = tokio::spawn(async move {
                if let Err(error) = connection.await {
                    tracing::debug!(%error, "a connection to the database broke");
                }
            });
            Ok((client, task))
        })
    }
}

/// How many servers a configuration names.
pub(super) fn count(config: &Config) -> usize {
    config.get_hosts().len().max(config.get_hostaddrs().len())
}

/// A configuration with one of its hosts, of which a [`Config`] cannot take the others away.
fn alone(config: &Config, place: usize) -> Config {
    let mut one = Config::new();
    match config.get_hosts().get(place) {
        Some(Host::Tcp(name)) => _ = one.host(name),
        Some(Host::Unix(folder)) => _ = one.host_path(folder),
        None => {}
    }
    if let Some(address) = config.get_hostaddrs().get(place) {
        one.hostaddr(*address);
    }
    // One port may be given for all.
    let ports = config.get_ports();
    if let Some(port) = ports.get(place).or(ports.first()) {
        one.port(*port);
    }
    if let Some(user) = config.get_user() {
        one.user(user);
    }
    if let Some(password) = config.get_password() {
        one.password(password);
    }
    if let Some(name) = config.get_dbname() {
        one.dbname(name);
    }
    if let Some(options) = config.get_options() {
        one.options(options);
    }
    if let Some(name) = config.get_application_name() {
        one.application_name(name);
    }
    if let Some(limit) = config.get_connect_timeout() {
        one.connect_timeout(*limit);
    }
    if let Some(limit) = config.get_tcp_user_timeout() {
        one.tcp_user_timeout(*limit);
    }
    if let Some(interval) = config.get_keepalives_interval() {
        one.keepalives_interval(interval);
    }
    if let Some(retries) = config.get_keepalives_retries() {
        one.keepalives_retries(retries);
    }
    one.keepalives(config.get_keepalives())
        .keepalives_idle(config.get_keepalives_idle())
        .ssl_mode(config.get_ssl_mode())
        .ssl_negotiation(config.get_ssl_negotiation())
        .channel_binding(config.get_channel_binding())
        .target_session_attrs(config.get_target_session_attrs())
        .load_balance_hosts(config.get_load_balance_hosts());
    one
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_host_keeps_all_that_the_url_says() {
        let url = "postgres://u:p@one:1,two:2/db?sslmode=require&connect_timeout=3\
            &target_session_attrs=read-write&application_name=a&options=-csearch_path%3Drvc\
            &keepalives_idle=7&keepalives_interval=8&keepalives_retries=9&tcp_user_timeout=10\
            &channel_binding=disable";
        let both: Config = url.parse().unwrap();

        for (place, rest) in ["one:1", "two:2"].into_iter().enumerate() {
            let single: Config = url.replace("one:1,two:2", rest).parse().unwrap();
            assert_eq!(alone(&both, place), single);
        }
    }
}
