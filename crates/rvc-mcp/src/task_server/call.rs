//! A tool call: made once, and answered as its caller understands it.

use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, CreateTaskResult,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use rvc_tasks::{CallScope, Caller, TaskHandle, TaskId, TaskInfo, TaskManager};

use super::authority::{AccessKind, Principal};
use super::idempotency::{Begun, key_of};
use super::settings::ToolTasks;
use super::{TaskServer, undeclared};
use crate::answer::json_text;
use crate::call_context::CallContext;

tokio::task_local! {
    static ANSWER: Arc<Mutex<Option<StartedAnswer>>>;
}

/// What a tool answers when it has started a task.
#[derive(Clone)]
struct StartedAnswer {
    task_id: TaskId,
    text: String,
}

/// Notes that a tool is about to answer with a task that it has started.
pub(crate) fn note_started(info: &TaskInfo, answer: &CallToolResult) {
    let Some(text) = text_of(answer) else { return };
    let note = StartedAnswer {
        task_id: info.task_id.clone(),
        text: text.to_owned(),
    };
    // Without the wrapper, or from another tokio task, nobody asks.
    let _ = ANSWER.try_with(|noted| {
        *noted.lock().unwrap_or_else(PoisonError::into_inner) = Some(note);
    });
}

fn text_of(answer: &CallToolResult) -> Option<&str> {
    match answer.content.as_slice() {
        [block] => Some(&block.as_text()?.text),
        _ => None,
    }
}

/// Who makes a call, and what it understands.
struct Client {
    principal: Principal,
    /// It can be given a handle.
    is_declared: bool,
    /// It can show a form and answer it.
    shows_forms: bool,
    key: Option<String>,
}

impl<H: ServerHandler> TaskServer<H> {
    pub(super) async fn call(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let tool = self.tools.get(request.name.as_ref());
        let tool = tool.copied().unwrap_or_default();
        let capabilities = context.client_capabilities().unwrap_or_default();
        let is_declared = capabilities.supports_tasks();
        if tool.required && !is_declared {
            return Err(undeclared());
        }
        let key = key_of(&context.meta.0)?;
        if !is_declared && key.is_none() {
            let scope = scope(Caller::Listens, &context);
            return scope.run(self.handler.call_tool(request, context)).await;
        }
        let access = AccessKind::Call(&request.name);
        let client = Client {
            principal: self.authority.principal(access, &context)?,
            is_declared,
            shows_forms: is_declared && shows_forms(&capabilities),
            key,
        };
        self.call_once(&client, tool, request, context).await
    }

    async fn call_once(
        &self,
        client: &Client,
        tool: ToolTasks,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        // Kept before the tool is called: once the robot moves there must be a handle.
        let place = client
            .is_declared
            .then(|| self.handles.reserve(tool.ttl, self.limits))
            .flatten();
        let caller = if place.is_some() && client.shows_forms {
            Caller::Answers
        } else {
            Caller::Listens
        };
        let mut call = Call::new(scope(caller, &context));
        let turn = match &client.key {
            None => None,
            Some(key) => {
                let begun = self.idempotency.begin(
                    &client.principal,
                    key.clone(),
                    &request.name,
                    request.arguments.as_ref(),
                    &call.scope,
                );
                match begun.await? {
                    Begun::First(turn) => Some(turn),
                    Begun::Again(task, id) => return Ok(self.again(client, tool, &task, id)),
                }
            }
        };
        if tool.required && place.is_none() {
            return Err(no_place());
        }
        let response = call.run(self.handler.call_tool(request, context)).await;
        let Some(task) = call.answered_with(&response, &self.manager) else {
            return response;
        };
        let id = place.map(|place| place.take(&client.principal, &task, tool.poll_interval));
        if let Some(turn) = turn {
            turn.started(&task, id.clone());
        }
        match id {
            Some(id) => {
                // It may have been started from another tokio task, out of the scope.
                task.set_answerable(client.shows_forms);
                let seed = self.seed(&id, tool, &task);
                call.announced = Some(task);
                Ok(seed)
            }
            None => response,
        }
    }

    /// Answers a call that was made before with the task that it started.
    fn again(
        &self,
        client: &Client,
        tool: ToolTasks,
        task: &TaskHandle,
        id: Option<Arc<str>>,
    ) -> CallToolResponse {
        if !client.is_declared {
            return json_text(&task.info()).into();
        }
        let known = id.filter(|id| self.handles.find(&client.principal, id).is_some());
        let id = known.or_else(|| {
            let place = self.handles.reserve(tool.ttl, self.limits)?;
            let id = place.take(&client.principal, task, tool.poll_interval);
            if let Some(key) = &client.key {
                self.idempotency.note_id(&client.principal, key, &id);
            }
            task.set_answerable(client.shows_forms);
            Some(id)
        });
        match id {
            Some(id) => self.seed(&id, tool, task),
            None => json_text(&task.info()).into(),
        }
    }

    fn seed(&self, id: &str, tool: ToolTasks, task: &TaskHandle) -> CallToolResponse {
        let detailed = self.detailed(id, task, tool.poll_interval);
        CreateTaskResult::new(detailed.task).into()
    }
}

/// The scope of a call, with the ids in its `_meta`: the tasks that it starts are found by them.
fn scope(caller: Caller, context: &RequestContext<RoleServer>) -> CallScope {
    CallScope::new(caller).log_context(CallContext::from(context).into())
}

/// Whether the client can be asked: it takes forms, which is what elicitation means where it
/// says nothing more.
fn shows_forms(capabilities: &ClientCapabilities) -> bool {
    let elicitation = capabilities.elicitation.as_ref();
    elicitation.is_some_and(|takes| takes.form.is_some() || takes.url.is_none())
}

fn no_place() -> ErrorData {
    let message = "too many task handles are kept; nothing was started, try again later";
    ErrorData::internal_error(message, None)
}

/// One call of a tool, and what it starts.
///
/// When it is dropped, nobody can answer the questions of tasks that were not announced.
struct Call {
    scope: CallScope,
    answer: Arc<Mutex<Option<StartedAnswer>>>,
    announced: Option<TaskHandle>,
}

impl Call {
    fn new(scope: CallScope) -> Self {
        Self {
            scope,
            answer: Arc::default(),
            announced: None,
        }
    }

    async fn run<F: Future>(&self, call: F) -> F::Output {
        self.scope
            .run(ANSWER.scope(Arc::clone(&self.answer), call))
            .await
    }

    /// The task that the tool answered with, if its answer is that and nothing else.
    fn answered_with(
        &self,
        response: &Result<CallToolResponse, ErrorData>,
        manager: &TaskManager,
    ) -> Option<TaskHandle> {
        let Ok(CallToolResponse::Complete(answer)) = response else {
            return None;
        };
        let noted = self.answer.lock().unwrap_or_else(PoisonError::into_inner);
        let noted = noted.as_ref()?;
        if answer.is_error == Some(true) || text_of(answer) != Some(&noted.text) {
            return None;
        }
        let started = self.scope.started().into_iter();
        started
            .rev()
            .find(|task| task.info().task_id == noted.task_id)
            // Started from another tokio task.
            .or_else(|| manager.handle(&noted.task_id))
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        for task in self.scope.started() {
            let is_announced = |announced: &TaskHandle| announced.is_same_task(&task);
            if !self.announced.as_ref().is_some_and(is_announced) {
                task.set_answerable(false);
            }
        }
    }
}
