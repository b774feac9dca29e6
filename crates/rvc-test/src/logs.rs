use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Dispatch, Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Scope};

/// What a test's thread logs, from the capture until the end of the test.
///
/// The subscriber is the thread's, not the process's, so tests do not see each other's lines. A
/// current-thread runtime logs all of its tasks to it. Other threads are captured where they use
/// [`dispatch`](Self::dispatch).
pub struct Logs {
    lines: Arc<Mutex<Vec<LogLine>>>,
    dispatch: Dispatch,
    _guard: DefaultGuard,
}

/// One logged event.
#[derive(Clone, Debug)]
pub struct LogLine {
    /// How bad it is.
    pub level: Level,
    /// The module that it comes from.
    pub target: String,
    /// Its text.
    pub message: String,
    /// Its fields and those of the spans around it, the inner ones winning, as text.
    pub fields: BTreeMap<String, String>,
}

impl Logs {
    /// Captures what the calling thread logs from now on, at every level.
    #[must_use]
    pub fn capture() -> Self {
        let lines = Arc::default();
        let layer = CaptureLayer {
            lines: Arc::clone(&lines),
        };
        let dispatch = Dispatch::new(tracing_subscriber::registry().with(layer));
        let guard = tracing::dispatcher::set_default(&dispatch);
        Self {
            lines,
            dispatch,
            _guard: guard,
        }
    }

    /// For `tracing::dispatcher::with_default` on other threads.
    #[must_use]
    pub fn dispatch(&self) -> &Dispatch {
        &self.dispatch
    }

    /// Everything logged so far.
    #[must_use]
    pub fn lines(&self) -> Vec<LogLine> {
        lock(&self.lines).clone()
    }

    /// What was logged at this level so far.
    #[must_use]
    pub fn at(&self, level: Level) -> Vec<LogLine> {
        let mut lines = self.lines();
        lines.retain(|line| line.level == level);
        lines
    }
}

impl LogLine {
    /// The field of this name, of the line or of a span around it.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(String::as_str)
    }
}

struct CaptureLayer {
    lines: Arc<Mutex<Vec<LogLine>>>,
}

#[derive(Default)]
struct Fields(BTreeMap<String, String>);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for CaptureLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        let scope = context.event_scope(event);
        for span in scope.into_iter().flat_map(Scope::from_root) {
            if let Some(outer) = span.extensions().get::<Fields>() {
                fields.0.extend(outer.0.clone());
            }
        }
        event.record(&mut fields);
        let line = LogLine {
            level: *event.metadata().level(),
            target: event.metadata().target().to_owned(),
            message: fields.0.remove("message").unwrap_or_default(),
            fields: fields.0,
        };
        lock(&self.lines).push(line);
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }
}

fn lock(lines: &Mutex<Vec<LogLine>>) -> MutexGuard<'_, Vec<LogLine>> {
    lines.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_its_own_fields_and_those_of_its_spans() {
        let logs = Logs::capture();
        let span = tracing::info_span!(
            "task",
            task_id = "nav-1",
            seq = 1,
            trace = tracing::field::Empty
        );
        span.record("trace", "t");
        span.in_scope(|| tracing::warn!(seq = 2, attempt = 3, "refused"));

        let line = logs.at(Level::WARN).remove(0);
        assert_eq!(line.message, "refused");
        assert_eq!(line.field("task_id"), Some("nav-1"));
        assert_eq!(line.field("seq"), Some("2"));
        assert_eq!(line.field("attempt"), Some("3"));
        assert_eq!(line.field("trace"), Some("t"));
    }

    #[test]
    fn threads_do_not_see_each_other() {
        let logs = Logs::capture();
        let other = std::thread::spawn(|| {
            let logs = Logs::capture();
            tracing::error!("theirs");
            logs.lines().len()
        });
        assert_eq!(other.join().expect("it does not panic"), 1);
        assert!(logs.lines().is_empty());
    }
}
