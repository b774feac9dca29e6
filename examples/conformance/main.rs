//! The server that the official conformance suite is run against, on this kit's tasks.
//!
//! ```sh
//! cargo run --example conformance -- --transport streamable-http --log pretty
//! npx @modelcontextprotocol/conformance server --url http://127.0.0.1:9100/mcp --suite all
//! ```
//!
//! The suite prescribes the names of the tools and what they answer. `jobs` has those that start
//! tasks; the rest shows that the kit leaves the other parts of the protocol as rmcp has them.
#![expect(deprecated, reason = "older clients set a level")]

mod contents;
mod jobs;
mod library;
mod rounds;

use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use clap::Parser;
use rmcp::handler::server::tool::ToolRouter;
use rmcp::model::{
    CompleteRequestParams, CompleteResult, GetPromptRequestParams, GetPromptResponse,
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, PaginatedRequestParams,
    ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities, ServerConfig,
    SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter, UnsubscribeRequestParams,
};
use rmcp::service::{RequestContext, SubscriptionContext, SubscriptionSink};
use rmcp::{ErrorData, RoleServer, ServerHandler, tool_handler};
use rvc_examples::ServerFlags;
use rvc_mcp::{TaskServer, ToolTasks, task_tools};
use rvc_tasks::{EventPoster, TaskManager};

use self::rounds::Seal;

#[tokio::main]
async fn main() -> ExitCode {
    let flags = ServerFlags::parse();
    rvc_examples::run(flags.log, Box::pin(serve(&flags))).await
}

async fn serve(flags: &ServerFlags) -> anyhow::Result<()> {
    let poster = EventPoster::from_env("conformance".parse()?)?;
    let manager = TaskManager::new("conformance".parse()?, poster);
    let tools = Fixtures::jobs() + Fixtures::contents() + Fixtures::rounds();
    let fixtures = Fixtures {
        manager: manager.clone(),
        tools: tools + task_tools(manager.clone()),
        listeners: Arc::default(),
        seal: Arc::new(Seal::new()?),
    };
    let mut server = TaskServer::new(fixtures, &manager);
    for tool in [
        "failing_job",
        "confirm_delete",
        "multi_input",
        "test_tool_with_task",
    ] {
        server = server.tool(tool, ToolTasks::new().required());
    }
    rvc_mcp::serve(flags.serve_config()?, move || server.clone(), manager).await?;
    Ok(())
}

#[derive(Clone)]
struct Fixtures {
    manager: TaskManager,
    tools: ToolRouter<Self>,
    /// Who wants to hear that a list has changed.
    listeners: Arc<Mutex<Vec<SubscriptionSink>>>,
    seal: Arc<Seal>,
}

impl Fixtures {
    fn listeners(&self) -> Vec<SubscriptionSink> {
        let listeners = self.listeners.lock();
        listeners.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[tool_handler(router = self.tools)]
impl ServerHandler for Fixtures {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_completions()
            .enable_logging()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_tools()
            .enable_tool_list_changed()
            .build();
        ServerConfig::new(capabilities)
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(requested.supported_by(&self.get_info().capabilities))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let listeners = || {
            self.listeners
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        let id = context.sink().id().clone();
        listeners().push(context.sink().clone());
        context.cancelled().await;
        listeners().retain(|listener| *listener.id() != id);
        Ok(())
    }

    async fn list_resources(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        library::resources()
    }

    async fn list_resource_templates(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        library::templates()
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        library::read(&request.uri)
    }

    async fn list_prompts(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        library::prompts()
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        library::prompt(request)
    }

    async fn complete(
        &self,
        _request: CompleteRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        library::completion()
    }

    // Older clients ask for these; that they are answered is all that is asked.
    async fn set_level(
        &self,
        _request: SetLevelRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn subscribe(
        &self,
        _request: SubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn unsubscribe(
        &self,
        _request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }
}
