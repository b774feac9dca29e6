//! Whose token goes with a call. Over real HTTP, on real time.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use rvc_durable::plan::{RunState, Settings};
use rvc_durable::remote::{DialError, HttpDialer, Token, TokenSource};
use rvc_durable::{
    ActionId, ActionState, Delivery, Durable, ForeignHost, HostError, Outcome, OwnerId, Phase,
    Registration, RegistrationId, RunId, StartPolicy, SupervisorOptions, TransportKind,
};
use serde_json::json;

use crate::engine::{TestStore, wall_clock};
use crate::http_peer::{Http, HttpPeer};
use crate::rotating::Rotating;
use crate::world::{code, id, robot, submission};

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

/// One owner's server, and whoever supervises its actions.
async fn supervised(url: &str, tokens: impl TokenSource) -> Durable {
    let durable = durable(options(), tokens);
    let registration = owned(url, OwnerId::local());
    durable.put_registration(registration).await.unwrap();
    durable.supervise();
    durable
}

async fn run(durable: &Durable, action: &str, policy: StartPolicy) -> Outcome {
    let submission = submission(action).policy(policy);
    durable.submit(submission).await.unwrap();
    durable.outcome(&id(action)).await.unwrap()
}

/// A server that refuses the second start, and says how the token is wrong, or does not.
async fn refusing_the_second(status: &'static str, challenges: bool) -> HttpPeer {
    HttpPeer::new(move |_, _, nth| match nth {
        2 if challenges => Http::Status(status, vec![("www-authenticate", "Bearer".into())]),
        2 => Http::Status(status, vec![]),
        _ => Http::Json(json!({"content": []})),
    })
    .await
}

#[tokio::test]
async fn under_at_most_once_a_401_on_a_kept_connection_ends_the_action_and_is_its_only_start() {
    for challenges in [false, true] {
        let peer = refusing_the_second("401 Unauthorized", challenges).await;
        let durable = supervised(&peer.url, Rotating::default()).await;
        for (action, expected, connections) in [("a", "", 1), ("b", "401", 1), ("c", "", 2)] {
            let outcome = run(&durable, action, StartPolicy::AtMostOnce).await;

            let row = durable.action(&id(action)).await.unwrap().unwrap();
            assert_eq!((code(&outcome), row.starts), (expected, 1), "{action}");
            assert_eq!(outcome.message.contains("401"), !expected.is_empty());
            assert_eq!(peer.count("server/discover"), connections, "{action}");
        }
        assert_eq!(peer.count("tools/call"), 3);
        durable.close().await;
    }
}

#[tokio::test]
async fn a_start_that_may_be_repeated_is_after_a_401_and_over_a_fresh_connection() {
    for policy in [StartPolicy::ServerDedup, StartPolicy::IdempotentTool] {
        let peer = refusing_the_second("401 Unauthorized", true).await;
        let durable = supervised(&peer.url, Rotating::default()).await;
        for (action, starts, connections) in [("a", 1, 1), ("b", 2, 2), ("c", 1, 2)] {
            let outcome = run(&durable, action, policy).await;

            let row = durable.action(&id(action)).await.unwrap().unwrap();
            assert_eq!(outcome.phase, Phase::Completed, "{action}: {outcome:?}");
            assert_eq!(row.starts, starts, "{policy} {action}");
            assert_eq!(peer.count("server/discover"), connections, "{action}");
        }
        assert_eq!(peer.count("tools/call"), 4);
        durable.close().await;
    }
}

#[tokio::test]
async fn a_start_that_may_be_repeated_ends_with_a_401_that_a_fresh_connection_gets_too() {
    let peer = HttpPeer::new(|_, _, nth| match nth {
        1 => Http::Json(json!({"content": []})),
        _ => Http::Status("401 Unauthorized", vec![]),
    })
    .await;
    let durable = supervised(&peer.url, Rotating::default()).await;
    run(&durable, "a", StartPolicy::IdempotentTool).await;

    let outcome = run(&durable, "b", StartPolicy::IdempotentTool).await;

    assert_eq!((outcome.phase, code(&outcome)), (Phase::Failed, "401"));
    assert_eq!(peer.count("tools/call"), 3);
    durable.close().await;
}

#[tokio::test]
async fn a_start_goes_with_the_token_that_the_source_has_at_that_moment() {
    let peer = prompt().await;
    let tokens = Rotating::default();
    let durable = supervised(&peer.url, tokens.clone()).await;
    for (action, is_renewed) in [("a", false), ("b", true), ("c", false)] {
        if is_renewed {
            tokens.renew();
        }
        completes(&durable, action, "local").await;
    }

    let sent = ["Bearer t0", "Bearer t1", "Bearer t1"];
    assert_eq!(peer.header("tools/call", "authorization"), sent);
    assert_eq!(peer.count("server/discover"), 2, "one for each token");
    durable.close().await;
}

#[tokio::test]
async fn a_start_waits_for_a_source_that_gives_no_token_and_is_not_sent_with_an_old_one() {
    let peer = prompt().await;
    let tokens = Rotating::default();
    let durable = supervised(&peer.url, tokens.clone()).await;
    completes(&durable, "a", "local").await;
    tokens.go_away(true);
    durable.submit(submission("b")).await.unwrap();
    let row = loop {
        let row = durable.action(&id("b")).await.unwrap().unwrap();
        if row.trouble.errors > 0 || row.outcome.is_some() {
            break row;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    assert_eq!((row.phase, row.starts), (Phase::Intent, 0));
    assert_eq!(row.trouble.last.as_deref(), Some("no token today"));

    tokens.go_away(false);

    completes(&durable, "b", "local").await;
    assert_eq!(peer.count("tools/call"), 2);
    durable.close().await;
}

#[tokio::test]
async fn what_a_token_may_not_do_fails_and_the_next_start_comes_over_a_fresh_connection() {
    let peer = refusing_the_second("403 Forbidden", false).await;
    let durable = supervised(&peer.url, Rotating::default()).await;
    for (action, expected, connections) in [("a", "", 1), ("b", "403", 1), ("c", "", 2)] {
        let outcome = run(&durable, action, StartPolicy::AtMostOnce).await;

        assert_eq!(code(&outcome), expected);
        assert_eq!(peer.count("server/discover"), connections, "{action}");
    }
    assert_eq!(peer.count("tools/call"), 3);
    durable.close().await;
}
