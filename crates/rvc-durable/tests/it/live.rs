//! Actions on servers over real HTTP. On real time, with limits that matter only where a test
//! waits for them.

use std::time::Duration;

use rvc_durable::plan::Settings;
use rvc_durable::remote::HttpDialer;
use rvc_durable::{Durable, Linkage, OwnerId, Registration, SupervisorOptions, TransportKind};

use crate::engine::{TestStore, wall_clock};
use crate::world::{id, robot, submission};

/// Longer than any answer takes that comes at all.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Supervises actions of one server.
pub(crate) async fn durable_over(
    transport: TransportKind,
    url: &str,
    dialer: HttpDialer,
    patience: Duration,
) -> Durable {
    let mut settings = Settings::default();
    settings.request_timeout = patience;
    settings.start_timeout = patience;
    settings.max_start_time = patience * 4;
    settings.min_poll_interval = Duration::from_millis(5);
    settings.max_poll_interval = Duration::from_millis(20);
    settings.max_result_bytes = 1 << 20;
    let options = SupervisorOptions::new()
        .settings(settings)
        .tick(Duration::from_millis(50));
    let durable = Durable::new(TestStore::new(wall_clock), dialer, options);
    durable
        .put_registration(Registration {
            id: robot(),
            owner: OwnerId::local(),
            endpoint: url.parse().unwrap(),
            transport,
            enabled: true,
        })
        .await
        .unwrap();
    durable.supervise();
    durable
}

/// Submits an action, and gives its row once its server was tried twice in vain.
pub(crate) async fn in_vain(durable: &Durable) -> Linkage {
    durable.submit(submission("a")).await.unwrap();
    loop {
        let row = durable.action(&id("a")).await.unwrap().unwrap();
        if row.trouble.errors >= 2 || row.outcome.is_some() {
            return row;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
