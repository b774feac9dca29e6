use anyhow::{Context, ensure};
use rmcp::ServiceExt;
use rmcp::model::CallToolRequestParams;
use rmcp::service::{RoleClient, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rvc_wire::Map;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_rustls::rustls::crypto::ring;

/// An MCP client, as a brain has one.
pub(crate) struct Client {
    service: RunningService<RoleClient, ()>,
}

impl Client {
    /// Connects over streamable HTTP, and through no proxy.
    pub(crate) async fn connect(url: &str) -> anyhow::Result<Self> {
        // What rvc-durable needs of reqwest leaves the choice to the program. One that was made
        // before stands.
        let _ = ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .no_proxy()
            // rmcp's own client keeps none either: a reused one stalls for 40 ms on Linux.
            .pool_max_idle_per_host(0)
            .build()?;
        let config = StreamableHttpClientTransportConfig::with_uri(url);
        let transport = StreamableHttpClientTransport::with_client(http, config);
        let service = ().serve(transport).await.context("cannot connect to the server")?;
        Ok(Self { service })
    }

    /// Calls a tool, and reads the JSON of its one text block.
    pub(crate) async fn call<T: DeserializeOwned>(
        &self,
        tool: &'static str,
        arguments: Value,
    ) -> anyhow::Result<T> {
        let Value::Object(arguments) = arguments else {
            unreachable!("arguments are written as an object");
        };
        self.call_with(tool, arguments)
            .await
            .with_context(|| format!("{tool} failed"))
    }

    async fn call_with<T: DeserializeOwned>(
        &self,
        tool: &'static str,
        arguments: Map,
    ) -> anyhow::Result<T> {
        let request = CallToolRequestParams::new(tool).with_arguments(arguments);
        let result = self.service.call_tool(request).await?;
        let text = result
            .content
            .first()
            .and_then(|block| block.as_text())
            .context("the answer has no text")?;
        ensure!(
            result.is_error != Some(true),
            "it was refused: {}",
            text.text
        );
        serde_json::from_str(&text.text).with_context(|| format!("it answered {}", text.text))
    }

    pub(crate) async fn close(self) {
        // The server is about to end as well; a session that does not end politely harms nobody.
        let _ = self.service.cancel().await;
    }
}
