//! The form of the log's lines: text for people, or a JSON object a line for programs. Whatever agents, servers and files wrote is data in
//! both: hidden characters are spelled out, and an event is one line.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use serde_json::{Map, Value};
use servanda_contract::time::Clock as _;
use servanda_engine::{CALL_LINES, SystemClock};
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    field::RecordFields,
    fmt::{
        FmtContext, FormatEvent, FormatFields,
        format::{DefaultFields, Format, Writer},
    },
    registry::LookupSpan,
};

use crate::screen::{fitted, spelled_out, stderr_width, wrapped};

/// Writes fields as the formatter does, with hidden characters spelled out.
#[derive(Debug)]
pub(super) struct EscapedFields(pub(super) DefaultFields);

impl<'writer> FormatFields<'writer> for EscapedFields {
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'writer>, fields: R) -> fmt::Result {
        let mut text = String::new();
        // Without colour, so that every escape in this text is foreign and is spelled out.
        self.0.format_fields(Writer::new(&mut text), fields)?;
        writer.write_str(&spelled_out(&text))
    }
}

/// Writes events. As text they are written as the formatter does, wrapped between words on a terminal. A line about a call is a whole
/// sentence with its own time, so it is written without the formatter, on one line on a terminal.
#[derive(Debug)]
pub(super) struct LogEventFormat {
    pub(super) text: Format,
    /// Whether events are JSON; the configuration may change it.
    pub(super) is_json: Arc<AtomicBool>,
}

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

/// The fields of an event as JSON.
#[derive(Debug, Default)]
struct JsonFields(Map<String, Value>);

impl JsonFields {
    fn put(&mut self, field: &Field, value: Value) {
        self.0.insert(field.name().to_owned(), value);
    }
}

impl Visit for JsonFields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, Value::String(spelled_out(&format!("{value:?}"))));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, Value::String(spelled_out(value)));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }
}

impl<S, N> FormatEvent<S, N> for LogEventFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        if self.is_json.load(Ordering::Relaxed) {
            return writeln!(writer, "{}", json(event));
        }
        if event.metadata().target() != CALL_LINES {
            let mut text = String::new();
            self.text.format_event(context, Writer::new(&mut text), event)?;
            return writeln!(writer, "{}", wrapped(text.trim_end(), stderr_width()));
        }
        let mut line = CallLine::default();
        event.record(&mut line);
        // Invisible characters are spelled out first, because that takes room.
        let (whole, brief) = (spelled_out(&line.whole), spelled_out(&line.brief));
        writeln!(writer, "{}", fitted(whole, &brief, stderr_width()))
    }
}

/// An event as one line: when, how grave, from which part, and its fields, of which `message` says what happened.
fn json(event: &Event<'_>) -> Value {
    let mut fields = JsonFields::default();
    event.record(&mut fields);
    let mut line = Map::new();
    line.insert("time".to_owned(), SystemClock.now().to_string().into());
    line.insert("level".to_owned(), event.metadata().level().as_str().to_ascii_lowercase().into());
    line.insert("target".to_owned(), event.metadata().target().into());
    for (name, value) in fields.0 {
        // A field does not replace what is said of every event.
        line.entry(name).or_insert(value);
    }
    Value::Object(line)
}
