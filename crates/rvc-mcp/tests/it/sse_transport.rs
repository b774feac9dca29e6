//! The client's side of HTTP+SSE against the server's, over sockets.

use std::io;

use bytes::Bytes;
use futures_util::StreamExt as _;
use http::{Request, Response, header};
use http_body_util::{BodyExt as _, Full};
use rmcp::model::CallToolRequestParams;
use rmcp::service::RunningService;
use rmcp::{RoleClient, ServiceExt as _};
use rvc_mcp::{SseBody, SseClient, SseClientConfig, SseHttp, Transport};
use serde_json::{Value, json};

use crate::robot::{ARGUMENTS, Robot, triggers_text};
use crate::sse_client::send;
use crate::tools::text;

/// HTTP on a connection for each request.
#[derive(Clone)]
struct Sockets;

impl SseHttp for Sockets {
    type Error = io::Error;

    async fn send(&self, request: Request<Bytes>) -> io::Result<Response<SseBody<io::Error>>> {
        let (mut parts, body) = request.into_parts();
        let authority = parts.uri.authority().unwrap().to_string();
        parts
            .headers
            .insert(header::HOST, authority.parse().unwrap());
        parts.uri = parts.uri.path_and_query().unwrap().clone().into();
        let request = Request::from_parts(parts, Full::new(body));
        let response = send(&authority, request).await;
        Ok(response.map(|body| {
            let body = body.into_data_stream();
            body.map(|chunk| chunk.map_err(io::Error::other)).boxed()
        }))
    }
}

async fn connect(url: &str) -> RunningService<RoleClient, ()> {
    let config = SseClientConfig::new(url.parse().unwrap());
    let client = SseClient::connect(Sockets, config).await.unwrap();
    ().serve(client).await.unwrap()
}

async fn call(
    client: &RunningService<RoleClient, ()>,
    tool: &'static str,
    arguments: &Value,
) -> String {
    let arguments = arguments.as_object().unwrap().clone();
    let call = CallToolRequestParams::new(tool).with_arguments(arguments);
    text(&client.call_tool(call).await.unwrap())
}

#[tokio::test]
async fn the_whole_contract_works_from_client_to_server() {
    let robot = Robot::new();
    let server = robot.listen(Transport::Sse).await;
    let client = connect(&server.url).await;

    let arguments = serde_json::from_str(ARGUMENTS).unwrap();
    let info = call(&client, "drive", &arguments).await;
    assert!(info.contains(triggers_text()), "{info}");
    let info: Value = serde_json::from_str(&info).unwrap();
    let id = json!({"task_id": info["task_id"]});
    let polled = call(&client, "get_task", &id).await;
    assert_eq!(serde_json::from_str::<Value>(&polled).unwrap(), info);
    let cancelled = call(&client, "cancel_task", &id).await;
    let expected = json!({"task_id": id["task_id"], "state": "cancelled", "stopped": true});
    assert_eq!(serde_json::from_str::<Value>(&cancelled).unwrap(), expected);

    client.cancel().await.unwrap();
    server.end().await;
}
