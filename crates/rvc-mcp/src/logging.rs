//! Log lines on standard error, set up the same way in every binary.
//!
//! On stdio, standard output belongs to MCP: a log line there would break the protocol.

use std::io::IsTerminal;
use std::str::FromStr;

use tracing::Subscriber;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// What log lines look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum LogFormat {
    /// One JSON object a line. The fields of an event stand at its top level, those of the spans
    /// around it in `spans`, outermost first.
    #[default]
    Json,
    /// For people.
    Pretty,
}

impl LogFormat {
    /// What the program's arguments ask for: `--log pretty` or `--log=json`; JSON if nothing.
    ///
    /// For a program that parses no arguments; it overlooks all others.
    ///
    /// # Errors
    ///
    /// [`LoggingError::Format`].
    pub fn from_args() -> Result<Self, LoggingError> {
        let arguments = std::env::args_os().skip(1);
        Self::in_args(arguments.map(|argument| argument.to_string_lossy().into_owned()))
    }

    fn in_args(mut arguments: impl Iterator<Item = String>) -> Result<Self, LoggingError> {
        while let Some(argument) = arguments.next() {
            if argument == "--log" {
                return arguments.next().unwrap_or_default().parse();
            }
            if let Some(name) = argument.strip_prefix("--log=") {
                return name.parse();
            }
        }
        Ok(Self::default())
    }
}

impl FromStr for LogFormat {
    type Err = LoggingError;

    fn from_str(name: &str) -> Result<Self, LoggingError> {
        match name {
            "json" => Ok(Self::Json),
            "pretty" => Ok(Self::Pretty),
            _ => Err(LoggingError::Format(name.to_owned())),
        }
    }
}

/// Starts logging to standard error.
///
/// `RUST_LOG` says what is logged, in the usual syntax; unset or empty, it is INFO and above,
/// and warnings of the libraries beneath.
///
/// # Errors
///
/// [`LoggingError`] when `RUST_LOG` is not understood or logging was started before.
///
/// # Examples
///
/// ```
/// rvc_mcp::logging::init("json".parse()?)?;
/// tracing::info!(port = 9100, "serving");
/// # Ok::<(), rvc_mcp::logging::LoggingError>(())
/// ```
pub fn init(format: LogFormat) -> Result<(), LoggingError> {
    let filter = filter(std::env::var("RUST_LOG").ok().as_deref())?;
    tracing::subscriber::set_global_default(subscriber(format, filter, std::io::stderr))
        .map_err(|_| LoggingError::AlreadyStarted)
}

fn filter(rust_log: Option<&str>) -> Result<EnvFilter, LoggingError> {
    let directives = match rust_log {
        None | Some("") => "info,rmcp=warn,hyper=warn,hyper_util=warn",
        Some(directives) => directives,
    };
    EnvFilter::try_new(directives).map_err(|source| LoggingError::Filter {
        directives: directives.to_owned(),
        source,
    })
}

fn subscriber<W>(
    format: LogFormat,
    filter: EnvFilter,
    writer: W,
) -> Box<dyn Subscriber + Send + Sync>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer);
    match format {
        LogFormat::Json => Box::new(
            builder
                .json()
                .flatten_event(true)
                .with_current_span(false)
                .finish(),
        ),
        LogFormat::Pretty => Box::new(builder.with_ansi(std::io::stderr().is_terminal()).finish()),
    }
}

/// Why logging was not started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoggingError {
    /// No format has this name.
    #[error("the log format must be json or pretty, not {0:?}")]
    Format(String),

    /// `RUST_LOG` is not understood.
    #[error("RUST_LOG is not understood: {directives:?}")]
    Filter {
        /// What it holds.
        directives: String,
        /// What is wrong with it.
        #[source]
        source: tracing_subscriber::filter::ParseError,
    },

    /// A program can start logging once.
    #[error("logging was started before")]
    AlreadyStarted,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::io;
    use std::sync::{Arc, Mutex};

    use serde_json::Value;

    use super::*;

    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(format: LogFormat, rust_log: Option<&str>, log: impl FnOnce()) -> String {
        let memory = Memory::default();
        let writer = memory.clone();
        let subscriber = subscriber(format, filter(rust_log).unwrap(), move || writer.clone());
        tracing::subscriber::with_default(subscriber, log);
        String::from_utf8(memory.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn a_json_line_carries_the_fields_of_the_event_and_of_the_spans_around_it() {
        let text = logged(LogFormat::Json, None, || {
            let task = tracing::info_span!("task", server = "navi", task_id = "nav-7f3a2b");
            let _entered = task.enter();
            let attempt = tracing::info_span!("delivery", attempt = 2);
            let _entered = attempt.enter();
            tracing::info!(seq = 4, "delivered\n{}", '"');
        });

        assert_eq!(text.lines().count(), 1);
        let line: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(line["message"], "delivered\n\"");
        assert_eq!(line["level"], "INFO");
        assert_eq!(line["seq"], 4);
        assert!(line["timestamp"].is_string());
        assert_eq!(line["spans"][0]["server"], "navi");
        assert_eq!(line["spans"][0]["task_id"], "nav-7f3a2b");
        assert_eq!(line["spans"][1]["attempt"], 2);
        assert!(text.contains(r#""task_id":"nav-7f3a2b""#));
    }

    #[test]
    fn pretty_lines_are_no_json() {
        let text = logged(LogFormat::Pretty, None, || {
            tracing::warn!(seq = 4, "dropped");
        });
        assert!(text.contains("WARN"));
        assert!(text.contains("dropped seq=4"));
    }

    #[test]
    fn without_rust_log_our_own_info_is_logged_and_rmcps_is_not() {
        let log = || {
            tracing::info!("ours");
            tracing::debug!("detail");
            tracing::info!(target: "rmcp::service", "noise");
            tracing::warn!(target: "rmcp::service", "trouble");
        };
        for unset in [None, Some("")] {
            let text = logged(LogFormat::Pretty, unset, log);
            assert!(text.contains("ours") && text.contains("trouble"));
            assert!(!text.contains("detail") && !text.contains("noise"));
        }
        let text = logged(LogFormat::Pretty, Some("debug"), log);
        assert!(text.contains("detail") && text.contains("noise"));
    }

    #[test]
    fn a_rust_log_that_is_not_understood_is_an_error() {
        let error = filter(Some("rvc_mcp=loud")).unwrap_err();
        assert!(error.to_string().contains("RUST_LOG"));
    }

    #[test]
    fn a_programs_arguments_name_the_format() {
        let in_args = |arguments: &[&str]| {
            LogFormat::in_args(arguments.iter().map(|argument| (*argument).to_owned()))
        };
        for (arguments, format) in [
            (&[][..], LogFormat::Json),
            (&["--port", "1"], LogFormat::Json),
            (&["--log", "json"], LogFormat::Json),
            (&["-v", "--log", "pretty"], LogFormat::Pretty),
            (&["--log=pretty", "--log=json"], LogFormat::Pretty),
        ] {
            assert_eq!(in_args(arguments).unwrap(), format, "{arguments:?}");
        }
        assert!(in_args(&["--log"]).is_err());
        assert!(in_args(&["--log=xml"]).is_err());
    }

    #[test]
    fn formats_have_names() {
        assert_eq!("json".parse::<LogFormat>().unwrap(), LogFormat::Json);
        assert_eq!("pretty".parse::<LogFormat>().unwrap(), LogFormat::Pretty);
        assert!("xml".parse::<LogFormat>().is_err());
    }
}
