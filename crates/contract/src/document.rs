//! Documents that people write: YAML, or JSON, which is a subset of it. An error names the file, the line and the field,
//! because its reader has the file open. This module parses text; it opens no files.
//!
//! [`read`] is compiled anew for every type in every crate that names one. Large types have a function of their own in their crate, such as
//! [`ToolContract::from_document`](crate::ToolContract::from_document), so that it is compiled once.

mod wording;

use std::fmt;

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

/// A document that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentError {
    file: String,
    position: Option<(u64, u64)>,
    field: Option<String>,
    reason: String,
}

/// Reads one document. `file` is used only in errors.
pub fn read<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, DocumentError> {
    read_with(file, text, serde_saphyr::Options::default())
}

/// Reads a document that is an object, of any members.
pub fn read_members(file: &str, text: &str) -> Result<Map<String, Value>, DocumentError> {
    read(file, text)
}

/// Reads a document that a program wrote, with no limit on the number of parts except its length. Aliases and depth, which make
/// a document grow while it is read, are bounded as in any other document.
pub fn read_long<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, DocumentError> {
    let (max_nodes, max_events) = (text.len(), text.len().saturating_mul(2));
    let options =
        serde_saphyr::options! { budget: serde_saphyr::budget! { max_nodes: max_nodes, max_events: max_events } };
    read_with(file, text, options)
}

fn read_with<T: DeserializeOwned>(file: &str, text: &str, options: serde_saphyr::Options) -> Result<T, DocumentError> {
    let mut field = None;
    let result = serde_saphyr::with_deserializer_from_str_with_options(text, options, |deserializer| {
        serde_path_to_error::deserialize(deserializer).map_err(|error| {
            // The library writes `?` for a step of the path that it did not know yet.
            let path = error.path().to_string();
            field = Some(path.trim_end_matches(['?', '.']).to_owned()).filter(|path| !path.is_empty());
            error.into_inner()
        })
    });
    result.map_err(|error| {
        let error = error.without_snippet();
        let position = error.location().map(|at| (at.line(), at.column()));
        DocumentError { file: file.to_owned(), position, field, reason: reason(error) }
    })
}

/// Writes a document as YAML.
pub fn write<T: Serialize>(value: &T) -> Result<String, DocumentError> {
    let mut text = serde_saphyr::to_string(value).map_err(|error| DocumentError {
        file: "(being written)".to_owned(),
        position: None,
        field: None,
        reason: error.to_string(),
    })?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}

impl DocumentError {
    /// An error about a document that parses but has an impossible value.
    pub fn new(file: &str, field: &str, reason: impl Into<String>) -> Self {
        Self { file: file.to_owned(), position: None, field: Some(field.to_owned()), reason: reason.into() }
    }

    /// The field, as a dotted path.
    pub fn field(&self) -> Option<&str> {
        self.field.as_deref()
    }

    /// The line, counted from one.
    pub fn line(&self) -> Option<u64> {
        self.position.map(|(line, _)| line)
    }
}

/// Rewords a deserialiser's message for people who write documents.
pub(crate) fn plain_reason(text: &str) -> String {
    wording::plain(text)
}

/// The reason in one line, without the position, which is reported separately.
fn reason(error: &serde_saphyr::Error) -> String {
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default();
    let end = first.rfind(" at line ").unwrap_or(first.len());
    let text = first.get(..end).unwrap_or(first);
    let text = text.trim_start_matches("error: ").trim();
    wording::plain(text)
}

impl fmt::Display for DocumentError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.file)?;
        if let Some((line, column)) = self.position {
            write!(formatter, ":{line}:{column}")?;
        }
        formatter.write_str(": ")?;
        if let Some(field) = &self.field {
            write!(formatter, "`{field}`: ")?;
        }
        formatter.write_str(&self.reason)
    }
}

impl std::error::Error for DocumentError {}

#[cfg(test)]
mod tests {
    use super::read;
    use crate::ToolContract;

    const CONTRACT: &str = include_str!("../tests/fixtures/void_invoice.yaml");

    fn error(text: &str) -> String {
        read::<ToolContract>("contracts/void_invoice.yaml", text).unwrap_err().to_string()
    }

    #[test]
    fn a_contract_reads_and_writes_to_the_same_digest() {
        let contract: ToolContract = read("contract.yaml", CONTRACT).unwrap();
        let again: ToolContract = read("contract.yaml", &super::write(&contract).unwrap()).unwrap();
        assert_eq!(contract.digest().unwrap(), again.digest().unwrap());
    }

    #[test]
    fn errors_name_file_line_and_field() {
        let cases = [
            ("timeout_ms: 5000", "timeout_ms: soon"),
            ("timeout_ms: 5000", "timeout_msec: 5000"),
            ("side_effect_class: MEDIUM_RISK_WRITE", "side_effect_class: HARMLESS"),
            ("  compensation_tool: null\n", ""),
            ("class: N", "class: N\n  class: R"),
        ];
        let expected = [
            ("contracts/void_invoice.yaml:25:", "`runtime.timeout_ms`: should be a whole number of zero or more"),
            ("contracts/void_invoice.yaml:25:", "timeout_msec"),
            ("contracts/void_invoice.yaml:37:", "`transactional.side_effect_class`"),
            ("contracts/void_invoice.yaml:", "compensation_tool"),
            ("contracts/void_invoice.yaml:62:", "`effect`: `class` stands there twice"),
        ];
        for ((from, to), (place, field)) in cases.into_iter().zip(expected) {
            assert!(CONTRACT.contains(from), "{from}");
            let line = error(&CONTRACT.replacen(from, to, 1));
            println!("{line}");
            assert!(line.starts_with(place) && line.contains(field) && !line.contains('\n'), "{line}");
        }
    }

    #[test]
    fn json_is_yaml() {
        let contract: ToolContract = read("contract.yaml", CONTRACT).unwrap();
        let again: ToolContract = read("contract.json", &serde_json::to_string(&contract).unwrap()).unwrap();
        assert_eq!(contract, again);
    }

    /// A file describes one tool. People would believe that a second document in it is in force too.
    #[test]
    fn a_second_document_in_the_file_is_refused() {
        assert!(read::<ToolContract>("x.yaml", &format!("{CONTRACT}\n---\nidentity: {{}}\n")).is_err());
        assert!(read::<ToolContract>("x.yaml", &format!("---\n{CONTRACT}\n")).is_ok());
    }

    #[test]
    fn long_documents_are_read_by_their_length() {
        let long = format!("[{}]", vec!["1"; 300_000].join(","));
        assert!(read::<Vec<u8>>("x.yaml", &long).unwrap_err().to_string().contains("budget"));
        assert_eq!(super::read_long::<Vec<u8>>("x.yaml", &long).unwrap().len(), 300_000);
    }

    /// Documents that would exhaust memory or the stack give an ordinary error.
    #[test]
    fn hostile_documents_are_refused() {
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..12 {
            let alias = vec![format!("*a{}", level - 1); 10].join(", ");
            bomb.push_str(&["a", &level.to_string(), ": &a", &level.to_string(), " [", &alias, "]\n"].concat());
        }
        for text in [bomb, "[".repeat(100_000), "{a: ".repeat(100_000), "\u{0}".to_owned(), String::new()] {
            assert!(read::<serde_json::Value>("x.yaml", &text).is_err() || text.is_empty(), "{text:.40}");
            assert!(read::<ToolContract>("x.yaml", &text).is_err(), "{text:.40}");
            assert!(super::read_long::<ToolContract>("x.yaml", &text).is_err(), "{text:.40}");
        }
    }
}
