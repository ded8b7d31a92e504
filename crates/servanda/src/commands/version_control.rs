//! Keeps files out of version control: the ledger, its position file, and backups of clients' files, which may contain secrets.

use std::{fs, path::Path};

use crate::files;

/// Readable by every user who can reach the folder.
const IGNORE_FILE_MODE: u32 = 0o644;

/// The patterns for the ignore file.
const LEFT_OUT: [&str; 3] = [".servanda/", "servanda.position", "*.servanda-backup-*"];
/// How many parent folders are searched.
const DEPTH_MAX: usize = 32;

/// Advice about what to keep out of version control; none outside of a repository, or if its ignore files have all patterns.
pub(crate) fn advice(folder: &Path) -> Option<String> {
    let missing = quoted(&missing(folder)?);
    Some(format!("keep these out of version control, in .gitignore: {missing}"))
}

/// Adds the missing patterns to the folder's ignore file; returns what was done.
pub(crate) fn keep_out(folder: &Path) -> Option<String> {
    let missing = missing(folder)?;
    let file = folder.join(".gitignore");
    let mut text = if file.exists() { files::read_text(&file, files::TEXT_BYTES_MAX).ok()? } else { String::new() };
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    for name in &missing {
        text.extend([name, "\n"]);
    }
    let written = files::write_inside(folder, &file, &text, IGNORE_FILE_MODE);
    Some(match written {
        Ok(()) => format!("added {} to .gitignore", quoted(&missing)),
        Err(_) => advice(folder)?,
    })
}

fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// The patterns that no ignore file between a folder and the root of its repository has.
fn missing(folder: &Path) -> Option<Vec<&'static str>> {
    let full = folder.canonicalize().ok()?;
    let root = full.ancestors().take(DEPTH_MAX).find(|folder| folder.join(".git").exists())?;
    let ignored: String = full
        .ancestors()
        .take_while(|folder| folder.starts_with(root))
        .filter_map(|folder| fs::read_to_string(folder.join(".gitignore")).ok())
        .map(|text| text + "\n")
        .collect();
    let has = |name: &str| ignored.lines().any(|line| line.trim().trim_end_matches('/') == name.trim_end_matches('/'));
    let missing: Vec<&str> = LEFT_OUT.into_iter().filter(|name| !has(name)).collect();
    (!missing.is_empty()).then_some(missing)
}

#[cfg(test)]
mod tests {
    use super::{advice, keep_out};

    #[test]
    fn only_what_a_repository_does_not_leave_out_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().join("project");
        std::fs::create_dir(&project).unwrap();
        assert_eq!(advice(&project), None, "no repository");
        std::fs::create_dir(folder.path().join(".git")).unwrap();
        assert!(advice(&project).unwrap().ends_with("`.servanda/`, `servanda.position`, `*.servanda-backup-*`"));
        std::fs::write(folder.path().join(".gitignore"), ".servanda\n*.servanda-backup-*\n").unwrap();
        assert!(advice(&project).unwrap().ends_with(": `servanda.position`"));
        std::fs::write(project.join(".gitignore"), "servanda.position\n").unwrap();
        assert_eq!(advice(&project), None);
    }

    #[test]
    fn what_is_missing_is_added_once() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join(".git")).unwrap();
        std::fs::write(folder.path().join(".gitignore"), "target").unwrap();
        let said = keep_out(folder.path()).unwrap();
        assert!(said.starts_with("added `.servanda/`"), "{said}");
        let text = std::fs::read_to_string(folder.path().join(".gitignore")).unwrap();
        assert_eq!(text, "target\n.servanda/\nservanda.position\n*.servanda-backup-*\n");
        assert_eq!(keep_out(folder.path()), None);
    }
}
