use std::any::Any;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rvc_wire::Map;

use crate::failures::internal;
use crate::lifecycle::{End, Exit};
use crate::manager::Inner;
use crate::record::Record;
use crate::{CancelMode, TaskContext, TaskError};

pub(crate) type BodyFuture = Pin<Box<dyn Future<Output = Result<Map, TaskError>> + Send>>;
pub(crate) type BodyStart = Box<dyn FnOnce(TaskContext) -> BodyFuture + Send>;

/// The one future that is spawned for a task: runs its body, and reports that it has stopped,
/// however that came about.
pub(crate) struct Runner {
    manager: Arc<Inner>,
    record: Arc<Record>,
    body: Body,
}

enum Body {
    Unstarted(BodyStart),
    Started(BodyFuture),
    Gone,
}

impl Runner {
    pub(crate) const fn new(manager: Arc<Inner>, record: Arc<Record>, start: BodyStart) -> Self {
        Self {
            manager,
            record,
            body: Body::Unstarted(start),
        }
    }

    /// Lets the body go before its task can end: its destructors may be what stops the robot.
    fn stop(&mut self, exit: Exit) {
        let body = mem::replace(&mut self.body, Body::Gone);
        let exit = match self.record.span().in_scope(|| guarded(|| drop(body))) {
            Ok(()) => exit,
            Err(panic) => {
                self.record.span().in_scope(|| {
                    tracing::error!(panic = %panic, "the body's destructor panicked");
                });
                match exit {
                    returned @ Exit::Returned(_) => returned,
                    _ => Exit::Broken(Some(panicked(&panic))),
                }
            }
        };
        self.manager.body_stopped(&self.record, exit);
    }

    fn stop_dropped(&mut self) {
        let exit = match (&self.body, self.record.cancel_mode()) {
            (Body::Started(_), CancelMode::Cooperative { .. }) => Exit::Broken(None),
            _ => Exit::Dropped,
        };
        self.stop(exit);
    }
}

impl Future for Runner {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { record, body, .. } = &mut *self;
        // A robot must not start to move, or move on, once a cancel was accepted.
        if record.is_to_be_dropped(matches!(body, Body::Started(_))) {
            self.stop_dropped();
            return Poll::Ready(());
        }
        let polled = record.span().in_scope(|| {
            guarded(|| {
                if let Body::Unstarted(_) = body
                    && let Body::Unstarted(start) = mem::replace(body, Body::Gone)
                {
                    *body = Body::Started(start(TaskContext::new(Arc::clone(record))));
                }
                match body {
                    Body::Started(future) => future.as_mut().poll(cx),
                    Body::Unstarted(_) | Body::Gone => unreachable!("a stopped task is not polled"),
                }
            })
        });
        let exit = match polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(Ok(result))) => Exit::Returned(End::Succeeded(result)),
            Ok(Poll::Ready(Err(error))) => {
                record.log_error(&error);
                Exit::Returned(End::Failed(error.into_failure()))
            }
            Err(panic) => {
                record
                    .span()
                    .in_scope(|| tracing::error!(panic = %panic, "the body panicked"));
                Exit::Broken(Some(panicked(&panic)))
            }
        };
        self.stop(exit);
        Poll::Ready(())
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        if !matches!(self.body, Body::Gone) {
            self.stop_dropped();
        }
    }
}

/// Calls what others wrote. A panic ends there, as its message.
fn guarded<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| panic_message(panic.as_ref()))
}

fn panicked(message: &str) -> rvc_wire::TaskFailure {
    internal(format!("the task's body panicked: {message}"))
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    if let Some(text) = panic.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = panic.downcast_ref::<String>() {
        text.clone()
    } else {
        "no message".to_owned()
    }
}
