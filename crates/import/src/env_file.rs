//! Reads a file of variables (`.env`): one `NAME=value` per line, with `export`, quotes and comments as people write them. No shell is
//! involved, so nothing in it is executed or expanded.

use std::{collections::BTreeMap, path::Path};

use servanda_files as files;

/// How much is read.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The variables of a file.
pub(crate) fn read(file: &Path) -> std::io::Result<BTreeMap<String, String>> {
    files::read_text(file, FILE_BYTES_MAX).map(|text| variables(&text))
}

fn variables(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    let pairs = lines.filter_map(|line| line.strip_prefix("export ").unwrap_or(line).split_once('='));
    pairs.map(|(name, value)| (name.trim().to_owned(), unquoted(value.trim()))).collect()
}

fn unquoted(value: &str) -> String {
    for quote in ['"', '\''] {
        if let Some((inside, _)) = value.strip_prefix(quote).and_then(|rest| rest.split_once(quote)) {
            return inside.to_owned();
        }
    }
    // After a blank, `#` begins a comment.
    value.split(" #").next().unwrap_or_default().trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::{FILE_BYTES_MAX, read, variables};

    /// A value that is cut off would be a different value.
    #[test]
    fn a_file_that_is_too_large_is_not_cut_off() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(FILE_BYTES_MAX).unwrap();
        assert!(read(file.path()).is_ok());
        file.as_file().set_len(FILE_BYTES_MAX + 1).unwrap();
        assert!(read(file.path()).unwrap_err().to_string().contains("is larger than"));
    }

    #[test]
    fn lines_become_variables() {
        let text = "# comment\nA=1\nexport B = two # second\nC=\"x # y\" \nD='$A'\n\nnonsense\nE=\nF=a#b\nG=k=v\r\n";
        let found: Vec<_> = variables(text).into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(found, ["A=1", "B=two", "C=x # y", "D=$A", "E=", "F=a#b", "G=k=v"]);
    }
}
