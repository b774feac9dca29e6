//! rmcp's own task server, driven to every end.

use futures_util::future::BoxFuture;
use rmcp::ServiceExt;
use rvc_durable::remote::{BoxTransport, DialError, Dialer, Token};
use rvc_durable::store::Store;
use rvc_durable::{Durable, Phase, Registration, SupervisorOptions};

use crate::sdk_audit::Server;
use crate::world::{id, memory, registration, submission};

#[derive(Clone, Default)]
struct ToRmcp(Server);

impl Dialer for ToRmcp {
    fn dial<'a>(
        &'a self,
        _: &'a Registration,
        _: Option<Token>,
    ) -> BoxFuture<'a, Result<BoxTransport, DialError>> {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let server = self.0.clone();
        tokio::spawn(async move {
            if let Ok(service) = server.serve(theirs).await {
                let _ = service.waiting().await;
            }
        });
        Box::pin(std::future::ready(Ok(BoxTransport::lines(ours))))
    }
}

#[tokio::test(start_paused = true)]
async fn rmcps_own_tasks_complete_fail_and_are_cancelled() {
    let store = memory();
    store.put_registration(registration()).await.unwrap();
    let durable = Durable::new(store, ToRmcp::default(), SupervisorOptions::new());
    durable.supervise();
    for (action, tool, phase, code) in [
        ("plain", "plain", Phase::Completed, None),
        ("succeeds", "succeeds", Phase::Completed, None),
        ("is_error", "is_error", Phase::Failed, Some("TOOL_ERROR")),
        ("fails", "fails", Phase::Failed, Some("-32603")),
        (
            "cancelled",
            "until_cancelled",
            Phase::Cancelled,
            Some("CANCELLED"),
        ),
    ] {
        let mut submission = submission(action);
        submission.tool = tool.into();
        durable.submit(submission).await.unwrap();
        if action == "cancelled" {
            tokio::time::sleep(std::time::Duration::from_secs(2)).await;
            durable.cancel_action(&id(action)).await.unwrap();
        }

        let outcome = durable.outcome(&id(action)).await.unwrap();
        durable.idle().await.unwrap();

        let found = outcome
            .error_code
            .as_ref()
            .map(|code| code.as_str().to_owned());
        assert_eq!((outcome.phase, found.as_deref()), (phase, code), "{action}");
    }
    let row = durable.action(&id("cancelled")).await.unwrap().unwrap();
    assert_eq!(row.remote.unwrap().status, "cancelled");
}
