use super::*;
use crate::registration::TransportKind;

fn robot(endpoint: &str, enabled: bool) -> Registration {
    Registration {
        id: "robot".parse().unwrap(),
        owner: OwnerId::local(),
        endpoint: endpoint.parse().unwrap(),
        transport: TransportKind::StreamableHttp,
        enabled,
    }
}

#[tokio::test]
async fn a_new_endpoint_enables_nothing_and_disables_nothing() {
    let (store, _) = open();
    for enabled in [false, true] {
        let first = robot("http://before/mcp", enabled);
        store.put_registration(first.clone()).await.unwrap();
        assert_eq!(store.registrations(None).await, Ok(vec![first.clone()]));

        // By whoever read it before it was disabled, or enabled.
        let mut moved = robot("http://after/mcp", !enabled);
        moved.transport = TransportKind::Sse;
        moved.owner = "another".parse().unwrap();
        store.put_registration(moved.clone()).await.unwrap();

        moved.enabled = enabled;
        assert_eq!(store.registrations(None).await, Ok(vec![moved]));
        assert_eq!(store.remove_registration(first.id).await, Ok(true));
    }
}
