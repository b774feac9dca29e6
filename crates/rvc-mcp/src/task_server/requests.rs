//! `tasks/get`, `tasks/update` and `tasks/cancel`.

use std::time::Duration;

use rmcp::model::{
    CancelTaskMethod, CancelTaskParams, ConstString, CustomRequest, DetailedTask, GetTaskMethod,
    GetTaskParams, GetTaskResult, UpdateTaskMethod, UpdateTaskParams,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use rvc_tasks::TaskHandle;

use super::authority::AccessKind;
use super::mapping::{Handed, detailed_task};
use super::poll_interval::poll_interval;
use super::{TaskServer, undeclared};

impl<H: ServerHandler> TaskServer<H> {
    pub(super) async fn get(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let access = AccessKind::Get(&request.task_id);
        match self.find(access, &request.task_id, &context)? {
            Some((task, interval)) => {
                let detailed = self.detailed(&request.task_id, &task, interval);
                Ok(GetTaskResult::new(detailed))
            }
            None if self.handler_has_tasks() => self.handler.get_task(request, context).await,
            None => Err(unknown()),
        }
    }

    pub(super) async fn update(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let access = AccessKind::Update(&request.task_id);
        match self.find(access, &request.task_id, &context)? {
            Some((task, _)) => {
                // All or none: a client that corrects one answer need not think of the others.
                for (key, answer) in &request.input_responses {
                    task.check_answer(key, answer)
                        .map_err(|bad| ErrorData::invalid_params(bad.to_string(), None))?;
                }
                for (key, answer) in request.input_responses {
                    // Whatever is not asked, or not any more, is ignored, as the extension says.
                    let _ = task.answer(&key, answer);
                }
                Ok(())
            }
            None if self.handler_has_tasks() => self.handler.update_task(request, context).await,
            None => Err(unknown()),
        }
    }

    pub(super) async fn cancel(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let access = AccessKind::Cancel(&request.task_id);
        match self.find(access, &request.task_id, &context)? {
            Some((task, _)) => {
                task.request_cancel();
                Ok(())
            }
            None if self.handler_has_tasks() => self.handler.cancel_task(request, context).await,
            None => Err(unknown()),
        }
    }

    /// The task as it stands, with the TTL that is announced by this.
    pub(super) fn detailed(&self, id: &str, task: &TaskHandle, interval: Duration) -> DetailedTask {
        let info = task.info();
        let age = task.age();
        let handed = Handed {
            task_id: id,
            ttl: self.handles.announce(id, age),
            poll_interval: poll_interval(interval, &info, age),
        };
        detailed_task(&handed, &info, task.questions(), task.has_stopped())
    }

    fn find(
        &self,
        access: AccessKind<'_>,
        id: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<Option<(TaskHandle, Duration)>, ErrorData> {
        let principal = self.authority.principal(access, context)?;
        Ok(self.handles.find(&principal, id))
    }

    /// Whether the wrapped handler has handles of its own.
    fn handler_has_tasks(&self) -> bool {
        self.handler.get_info().capabilities.supports_tasks()
    }
}

/// What rmcp could not read as a request of the extension comes as a custom one.
pub(super) fn check_custom(
    request: &CustomRequest,
    context: &RequestContext<RoleServer>,
) -> Result<(), ErrorData> {
    let ours = [
        GetTaskMethod::VALUE,
        UpdateTaskMethod::VALUE,
        CancelTaskMethod::VALUE,
    ];
    if !ours.contains(&request.method.as_str()) {
        return Ok(());
    }
    let capabilities = context.client_capabilities();
    if !capabilities.is_some_and(|capabilities| capabilities.supports_tasks()) {
        return Err(undeclared());
    }
    let message = format!("the parameters of {} have the wrong shape", request.method);
    Err(ErrorData::invalid_params(message, None))
}

/// The one answer for an id that is unknown, expired, or another principal's.
fn unknown() -> ErrorData {
    ErrorData::invalid_params("unknown task", None)
}
