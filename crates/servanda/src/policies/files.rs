//! Which files a configuration means: a file, a folder and the folders in it, or a name with `*` in a folder.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use super::Written;
use crate::{config::Loaded, failure::Failure};

/// Where policies are if nobody says otherwise.
const FOLDER: &str = "policies";
/// How their files end.
const ENDING: &str = "cedar";
/// Files that are read.
const FILES_MAX: usize = 10_000;
/// Bytes of one file; all of them together have a limit of their own.
const FILE_BYTES_MAX: u64 = 32 << 20;
/// How deep folders are looked into.
const DEPTH_MAX: usize = 8;

/// The files of `policy.files`, or of the folder that is meant where nothing is said.
pub(super) fn named(loaded: &Loaded) -> Result<Vec<PathBuf>, Failure> {
    if let Some(patterns) = &loaded.config.policy.files {
        return expand_all(loaded, "policy.files", patterns);
    }
    let folder = loaded.beside(Path::new(FOLDER));
    if folder.is_dir() { in_folder(&folder) } else { Ok(Vec::new()) }
}

/// The files of `policy.shadow`.
pub(super) fn next(loaded: &Loaded) -> Result<Vec<PathBuf>, Failure> {
    expand_all(loaded, "policy.shadow", &loaded.config.policy.shadow)
}

/// Every file whose change is a change of the policies. What cannot be found now is told when they are read.
pub(crate) fn watched(loaded: &Loaded) -> Vec<PathBuf> {
    [named(loaded), next(loaded)].into_iter().flat_map(Result::unwrap_or_default).collect()
}

/// Reads files of a configuration; they are called as the configuration would call them.
pub(super) fn read(loaded: &Loaded, files: &[PathBuf]) -> Result<Written, Failure> {
    let shown = |file: &Path| {
        let inside = file.strip_prefix(&loaded.folder).ok().filter(|inside| !inside.as_os_str().is_empty());
        inside.unwrap_or(file).display().to_string()
    };
    files.iter().map(|file| Ok((shown(file), text(file)?))).collect::<Result<_, _>>().map(Written)
}

/// Reads a file or a folder that somebody named.
pub(super) fn read_at(path: &Path) -> Result<Written, Failure> {
    let files = if path.is_dir() { in_folder(path)? } else { vec![path.to_owned()] };
    if files.is_empty() {
        return Err(Failure::bad_input(format!("there is no `*.{ENDING}` file in `{}`", path.display()))
            .hint("name a file of policies, or a folder that has some"));
    }
    files.iter().map(|file| Ok((file.display().to_string(), text(file)?))).collect::<Result<_, _>>().map(Written)
}

fn text(file: &Path) -> Result<String, Failure> {
    let unreadable = |error: std::io::Error| {
        Failure::bad_input(format!("cannot read the policies in `{}`: {error}", file.display()))
            .hint("nothing was started; policies are text files in UTF-8")
    };
    let bytes = fs::metadata(file).map_err(unreadable)?.len();
    if bytes > FILE_BYTES_MAX {
        return Err(Failure::bad_input(format!("`{}` has more than {FILE_BYTES_MAX} bytes", file.display())));
    }
    fs::read_to_string(file).map_err(unreadable)
}

/// Each pattern has to mean something: a typo must not be a gateway without policies.
fn expand_all(loaded: &Loaded, field: &str, patterns: &[String]) -> Result<Vec<PathBuf>, Failure> {
    let mut found = BTreeSet::new();
    for pattern in patterns {
        let files = expand(&loaded.beside(Path::new(pattern))).map_err(|failure| failure.at(&loaded.file, field))?;
        if files.is_empty() {
            return Err(Failure::bad_input(format!("`{pattern}` means no file"))
                .at(&loaded.file, field)
                .hint("nothing was started; paths are relative to the configuration, and folders are looked through for *.cedar"));
        }
        found.extend(files);
    }
    Ok(found.into_iter().collect())
}

fn expand(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let parent = path.parent().unwrap_or(Path::new(""));
    if parent.to_str().is_none_or(|parent| parent.contains('*')) {
        return Err(Failure::bad_input("`*` stands for a part of a file's name, not of a folder's")
            .hint("nothing was started; name the folder itself to have all that is in it"));
    }
    if !name.contains('*') {
        return match (path.is_dir(), path.is_file()) {
            (true, _) => in_folder(path),
            (_, true) => Ok(vec![path.to_owned()]),
            _ => Ok(Vec::new()),
        };
    }
    let folder = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    let Ok(entries) = fs::read_dir(folder) else { return Ok(Vec::new()) };
    let entries = entries.filter_map(|entry| Some(entry.ok()?.file_name().to_str()?.to_owned()));
    let mut files: Vec<PathBuf> = entries
        .filter(|entry| fits(name, entry))
        .map(|entry| parent.join(entry))
        .filter(|file| file.is_file())
        .collect();
    files.sort();
    files.truncate(FILES_MAX);
    Ok(files)
}

/// Whether a name is what a pattern means.
fn fits(pattern: &str, name: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else { return pattern == name };
    let Some(rest) = name.strip_prefix(before) else { return false };
    // The rest of the pattern may begin anywhere in the rest of the name.
    rest.char_indices().map(|(at, _)| at).chain([rest.len()]).any(|at| fits(after, rest.get(at..).unwrap_or_default()))
}

/// The files of policies in a folder and the folders in it, in a fixed order.
fn in_folder(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut found = BTreeSet::new();
    let mut folders = vec![(folder.to_owned(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        let entries = fs::read_dir(&folder).map_err(|error| {
            Failure::bad_input(format!("cannot read the policies' folder `{}`: {error}", folder.display()))
        })?;
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() && depth < DEPTH_MAX {
                folders.push((path, depth + 1));
            } else if path.extension().is_some_and(|ending| ending == ENDING) {
                found.insert(path);
            }
            if found.len() > FILES_MAX {
                return Err(Failure::bad_input(format!("there are more than {FILES_MAX} files of policies")));
            }
        }
    }
    Ok(found.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn a_star_is_any_part_of_a_name() {
        let table = [
            ("a.cedar", "a.cedar", true),
            ("a.cedar", "b.cedar", false),
            ("*.cedar", "a.cedar", true),
            ("*.cedar", "a.cedar.bak", false),
            ("team-*-v*.cedar", "team-pay-v2.cedar", true),
            ("team-*-v*.cedar", "team-pay.cedar", false),
            ("*", "ü", true),
            ("a*a", "a", false),
        ];
        for (pattern, name, expected) in table {
            assert_eq!(fits(pattern, name), expected, "{pattern} {name}");
        }
    }
}
