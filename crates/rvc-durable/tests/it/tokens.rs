//! Whose token goes with a call. Over real HTTP, on real time.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use rvc_durable::plan::{RunState, Settings};
use rvc_durable::remote::{DialError, HttpDialer, Token, TokenSource};
use rvc_durable::{
    ActionId, ActionState, Delivery, Durable, ForeignHost, HostError, OwnerId, Phase, Registration,
    RegistrationId, RunId, SupervisorOptions, TransportKind,
};
use serde_json::json;

use crate::engine::{TestStore, wall_clock};
use crate::http_peer::{Http, HttpPeer};
use crate::world::{id, robot, submission};

/// Each owner's token is their name.
struct PerOwner;

impl TokenSource for PerOwner {
    fn token<'a>(
        &'a self,
        registration: &'a Registration,
    ) -> BoxFuture<'a, Result<Option<Token>, DialError>> {
        let token = Token::new(registration.owner.as_str());
        Box::pin(std::future::ready(Ok(Some(token))))
    }
}

fn owned(url: &str, owner: OwnerId) -> Registration {
    Registration {
        id: robot(),
        owner,
        endpoint: url.parse().unwrap(),
        transport: TransportKind::StreamableHttp,
        enabled: true,
    }
}

fn options() -> SupervisorOptions {
    let mut settings = Settings::default();
    settings.min_poll_interval = Duration::from_millis(5);
    settings.max_poll_interval = Duration::from_millis(20);
    SupervisorOptions::new()
        .settings(settings)
        .tick(Duration::from_millis(50))
}

fn durable(options: SupervisorOptions, tokens: impl TokenSource) -> Durable {
    let dialer = HttpDialer::builder().tokens(Arc::new(tokens));
    Durable::new(TestStore::new(wall_clock), dialer.build().unwrap(), options)
}

/// A server whose tools answer at once.
async fn prompt() -> HttpPeer {
    HttpPeer::new(|_, _, _| Http::Json(json!({"content": []}))).await
}

async fn completes(durable: &Durable, action: &str, owner: &str) {
    let submission = submission(action).owner(owner.parse().unwrap());
    durable.submit(submission).await.unwrap();
    let outcome = durable.outcome(&id(action)).await.unwrap();
    assert_eq!(outcome.phase, Phase::Completed, "{outcome:?}");
}

/// A host that lets everybody use the one server.
struct Open(String);

fn told<T: Send + 'static>(answer: T) -> BoxFuture<'static, Result<T, HostError>> {
    Box::pin(std::future::ready(Ok(answer)))
}

impl ForeignHost for Open {
    fn run_state(&self, _: RunId) -> BoxFuture<'_, Result<RunState, HostError>> {
        told(RunState::Active)
    }
    fn was_delivered(&self, _: ActionId) -> BoxFuture<'_, Result<bool, HostError>> {
        told(false)
    }
    fn deliver(&self, _: Delivery) -> BoxFuture<'_, Result<(), HostError>> {
        told(())
    }
    fn finish(&self, _: ActionId, _: ActionState) -> BoxFuture<'_, Result<(), HostError>> {
        told(())
    }
    fn authorise(
        &self,
        _: RegistrationId,
        owner: OwnerId,
    ) -> BoxFuture<'_, Result<Option<Registration>, HostError>> {
        told(Some(owned(&self.0, owner)))
    }
}

#[tokio::test]
async fn two_owners_of_one_registration_call_with_their_own_tokens() {
    let peer = prompt().await;
    let durable = durable(options().host(Arc::new(Open(peer.url.clone()))), PerOwner);
    durable.supervise();

    for (action, owner) in [("a", "ann"), ("b", "bob"), ("c", "ann"), ("d", "bob")] {
        completes(&durable, action, owner).await;
    }

    let tokens = ["Bearer ann", "Bearer bob", "Bearer ann", "Bearer bob"];
    assert_eq!(peer.header("tools/call", "authorization"), tokens);
    assert_eq!(peer.count("server/discover"), 2, "each has a connection");
    durable.close().await;
}

#[tokio::test]
async fn a_registration_that_changed_hands_is_called_with_the_new_owners_token() {
    let peer = prompt().await;
    let durable = durable(options(), PerOwner);
    durable.supervise();

    for (action, owner) in [("a", "ann"), ("b", "bob")] {
        let registration = owned(&peer.url, owner.parse().unwrap());
        durable.put_registration(registration).await.unwrap();
        completes(&durable, action, owner).await;
    }

    let tokens = ["Bearer ann", "Bearer bob"];
    assert_eq!(peer.header("tools/call", "authorization"), tokens);
    durable.close().await;
}
