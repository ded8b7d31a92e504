//! Documents people write: YAML, or JSON, which is a subset of it. An error names the file, the line and the field, because
//! whoever reads it has the file open. Opening files is somebody else's business.

use std::fmt;

use serde::{Serialize, de::DeserializeOwned};

/// A document that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentError {
    file: String,
    position: Option<(u64, u64)>,
    field: Option<String>,
    reason: String,
}

/// Reads one document. `file` is only named in errors.
pub fn read<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, DocumentError> {
    let mut field = None;
    let result = serde_saphyr::with_deserializer_from_str(text, |deserializer| {
        serde_path_to_error::deserialize(deserializer).map_err(|error| {
            field = Some(error.path().to_string()).filter(|path| path != ".");
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
    /// An error of a document that was read but says something impossible.
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

/// The library's own words in one line, without the position it repeats.
fn reason(error: &serde_saphyr::Error) -> String {
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default();
    let end = first.rfind(" at line ").unwrap_or(first.len());
    let text = first.get(..end).unwrap_or(first);
    text.trim_start_matches("error: ").trim().to_owned()
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
        let lines: Vec<String> = cases
            .iter()
            .map(|(from, to)| {
                assert!(CONTRACT.contains(from), "{from}");
                error(&CONTRACT.replacen(from, to, 1))
            })
            .collect();
        for line in &lines {
            println!("{line}");
            assert!(line.starts_with("contracts/void_invoice.yaml:"), "{line}");
        }
        assert!(lines[0].contains("`runtime.timeout_ms`"), "{}", lines[0]);
        assert!(lines[1].contains("timeout_msec"), "{}", lines[1]);
        assert!(lines[2].contains("`transactional.side_effect_class`"), "{}", lines[2]);
        assert!(lines[3].contains("compensation_tool"), "{}", lines[3]);
    }
}
