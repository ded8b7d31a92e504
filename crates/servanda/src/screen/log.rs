//! The log on stderr. It quotes agents, servers and files, and people read it on a terminal, now or later from a file, so foreign control
//! characters are spelled out. An event is one line. The formatter's own colours stay.

use std::{fmt, io::IsTerminal as _};

use servanda_engine::CALL_LINES;
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
    level_filters::LevelFilter,
};
use tracing_subscriber::{
    EnvFilter,
    field::RecordFields,
    filter::Directive,
    fmt::{
        FmtContext, FormatEvent, FormatFields,
        format::{DefaultFields, Format, Writer, format},
    },
    registry::LookupSpan,
};

use crate::screen::{fitted, spelled_out, stderr_width, wrapped};

/// Writes fields as the formatter does, with hidden characters spelled out.
#[derive(Debug)]
struct EscapedFields(DefaultFields);

impl<'writer> FormatFields<'writer> for EscapedFields {
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'writer>, fields: R) -> fmt::Result {
        let mut text = String::new();
        // Without colour, so that every escape in this text is foreign and is spelled out.
        self.0.format_fields(Writer::new(&mut text), fields)?;
        writer.write_str(&spelled_out(&text))
    }
}

/// Writes events as the formatter does, wrapped between words on a terminal. A line about a call is a whole sentence with its own time, so
/// it is written without the formatter, on one line on a terminal.
#[derive(Debug)]
struct LogEventFormat(Format);

/// A line about a call, and a shorter one.
#[derive(Debug, Default)]
struct CallLine {
    whole: String,
    brief: String,
}

impl Visit for CallLine {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.whole = format!("{value:?}");
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => value.clone_into(&mut self.whole),
            "brief" => value.clone_into(&mut self.brief),
            _ => {}
        }
    }
}

impl<S, N> FormatEvent<S, N> for LogEventFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        if event.metadata().target() != CALL_LINES {
            let mut text = String::new();
            self.0.format_event(context, Writer::new(&mut text), event)?;
            return writeln!(writer, "{}", wrapped(text.trim_end(), stderr_width()));
        }
        let mut line = CallLine::default();
        event.record(&mut line);
        // Invisible characters are spelled out first, because that takes room.
        let (whole, brief) = (spelled_out(&line.whole), spelled_out(&line.brief));
        writeln!(writer, "{}", fitted(whole, &brief, stderr_width()))
    }
}

/// Starts the log at this level, unless `SERVANDA_LOG` sets another, with one line per call if that is asked for. Panics are reported with
/// the same care.
pub(crate) fn start(level: &str, prints_calls: bool) {
    let filter =
        EnvFilter::try_from_env("SERVANDA_LOG").unwrap_or_else(|_| EnvFilter::new(format!("servanda={level},{level}")));
    let calls = if prints_calls { LevelFilter::INFO } else { LevelFilter::OFF };
    let filter = match format!("{CALL_LINES}={calls}").parse::<Directive>() {
        Ok(calls) => filter.add_directive(calls),
        Err(_) => filter,
    };
    let has_colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .fmt_fields(EscapedFields(DefaultFields::new()))
        .with_ansi(has_colour)
        .with_writer(std::io::stderr)
        // If the log cannot be written (a full disk, a closed terminal), the library would report that with a print that panics, on any
        // thread, for example the ledger's.
        .log_internal_errors(false)
        .event_format(LogEventFormat(format().with_target(false).with_ansi(has_colour)))
        .init();
    std::panic::set_hook(Box::new(|panic| {
        // The message of a panic may quote the text that led to it.
        let trace = std::backtrace::Backtrace::capture();
        let screen = crate::screen::Screen { json: false };
        screen.say(format_args!("{panic}\n{trace}"));
    }));
}

#[cfg(test)]
mod tests {
    use std::{
        io::{self, Write},
        sync::{Arc, Mutex},
    };

    use tracing_subscriber::fmt::{MakeWriter, format::DefaultFields};

    use super::EscapedFields;

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
}
