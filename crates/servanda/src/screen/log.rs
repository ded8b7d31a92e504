//! The log on stderr. It quotes agents, servers and files, and people read it on a terminal, now or later from a file, so foreign control
//! characters are spelled out. An event is one line. The formatter's own colours stay.
//!
//! Its form and its levels follow the configuration while the gateway runs.

mod format;
mod levels;

use std::{
    io::IsTerminal as _,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use servanda_config::{LogConfig, LogFormat};
use tracing_subscriber::{
    EnvFilter,
    fmt::format::{DefaultFields, format},
};

use self::format::{EscapedFields, LogEventFormat};
pub(crate) use self::levels::LogStart;

/// The variable that sets the log's levels.
const VARIABLE: &str = "SERVANDA_LOG";

/// The log of this process. There is one, as there is one stderr.
static LOG: OnceLock<RunningLog> = OnceLock::new();

/// What of a running log may change.
struct RunningLog {
    start: LogStart,
    is_json: Arc<AtomicBool>,
    replace: Box<dyn Fn(EnvFilter) + Send + Sync>,
}

/// Starts the log as text, at the level of the command line unless `SERVANDA_LOG` sets another, with one line per call if that is asked for.
/// Panics are reported with the same care.
pub(crate) fn start(start: LogStart) {
    let filter = levels::filter(start, &LogConfig::default(), EnvFilter::try_from_env(VARIABLE).ok());
    let has_colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let is_json = Arc::new(AtomicBool::new(false));
    let text = format().with_target(false).with_ansi(has_colour);
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .fmt_fields(EscapedFields(DefaultFields::new()))
        .with_ansi(has_colour)
        .with_writer(std::io::stderr)
        // If the log cannot be written (a full disk, a closed terminal), the library would report that with a print that panics, on any
        // thread, for example the ledger's.
        .log_internal_errors(false)
        .event_format(LogEventFormat { text, is_json: Arc::clone(&is_json) })
        .with_filter_reloading();
    let handle = builder.reload_handle();
    // It fails only if the log is gone, and then nobody reads it.
    let replace = Box::new(move |filter| drop(handle.reload(filter)));
    builder.init();
    let _ = LOG.set(RunningLog { start, is_json, replace });
    std::panic::set_hook(Box::new(|panic| {
        // The message of a panic may quote the text that led to it.
        let trace = std::backtrace::Backtrace::capture();
        let screen = crate::screen::Screen { json: false };
        screen.say(format_args!("{panic}\n{trace}"));
    }));
}

/// Lets the log follow a configuration from now on.
pub(crate) fn follow(config: &LogConfig) {
    if let Some(log) = LOG.get() {
        log.is_json.store(config.format == LogFormat::Json, Ordering::Relaxed);
        (log.replace)(levels::filter(log.start, config, EnvFilter::try_from_env(VARIABLE).ok()));
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{self, Write},
        sync::{Arc, Mutex},
    };

    use tracing_subscriber::fmt::{MakeWriter, format::DefaultFields};

    use super::format::{EscapedFields, LogEventFormat};

    #[derive(Clone, Default)]
    struct Paper(Arc<Mutex<Vec<u8>>>);

    impl Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl<'a> MakeWriter<'a> for Paper {
        type Writer = Self;

        fn make_writer(&'a self) -> Self {
            self.clone()
        }
    }

    #[test]
    fn nothing_in_an_event_steers_a_terminal() {
        let hostile =
            "\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}2J\u{202e}\u{2066}\u{200b}\u{8}\rCR\nFAKE LOG LINE\u{1b}[32m\u{e0041}";
        let paper = Paper::default();
        let subscriber = tracing_subscriber::fmt()
            .fmt_fields(EscapedFields(DefaultFields::new()))
            .with_writer(paper.clone())
            .with_ansi(true)
            .finish();
        let error = io::Error::other(hostile);
        tracing::subscriber::with_default(subscriber, || {
            let span = tracing::info_span!("call", tool = hostile);
            let _inside = span.enter();
            tracing::error!(text = hostile, shown = %hostile, known = ?hostile, %error, source = &error as &dyn std::error::Error, "said {hostile}");
        });
        let written = String::from_utf8(paper.0.lock().unwrap().clone()).unwrap();
        assert_eq!(written.lines().count(), 1, "{written}");
        let own = ["\u{1b}[2m", "\u{1b}[0m", "\u{1b}[31m", "\u{1b}[1m"];
        let rest = own.iter().fold(written.trim_end().to_owned(), |rest, code| rest.replace(code, ""));
        assert!(written.contains(own[2]), "the level has its colour: {written}");
        assert!(servanda_contract::legibility::hidden_characters(&rest).is_empty(), "{rest:?}");
        assert!(rest.contains("<U+202E>") && rest.contains("\\nFAKE"), "{rest}");
    }

    /// A captured log in JSON: every line is an object, fields keep their kinds, and no field hides what is said of every event.
    #[test]
    fn an_event_is_a_json_object_on_one_line() {
        let paper = Paper::default();
        let text = tracing_subscriber::fmt::format().with_target(false);
        let subscriber = tracing_subscriber::fmt()
            .with_writer(paper.clone())
            .event_format(LogEventFormat { text, is_json: Arc::new(true.into()) })
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(target: "servanda_decision", took_ms = 7_u64, kept = true, tool = "a\n\u{202e}b", level = "none", "said {}", "it");
            tracing::error!("and again");
        });
        let written = String::from_utf8(paper.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<serde_json::Value> = written.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 2, "{written}");
        let mut first = lines[0].clone();
        assert!(first["time"].as_str().unwrap().ends_with('Z'), "{first}");
        first.as_object_mut().unwrap().remove("time");
        let expected = serde_json::json!({ "level": "warn", "target": "servanda_decision", "message": "said it",
            "took_ms": 7, "kept": true, "tool": "a\\n<U+202E>b" });
        assert_eq!(first, expected);
    }
}
