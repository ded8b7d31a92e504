//! Finds the policy files of a configuration: a file, a folder with its subfolders, or a name with `*` in a folder.

use std::{
    collections::BTreeSet,
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use servanda_config::LoadedConfig;

use super::PolicyTexts;
use crate::{failure::CommandFailure, files};

/// The default folder of policies.
const FOLDER: &str = "policies";
/// The ending of policy files.
const ENDING: &str = "cedar";
/// The most files that are read.
const FILES_MAX: usize = 10_000;
/// The most bytes of one file; all of them together have a limit of their own.
const FILE_BYTES_MAX: u64 = 32 << 20;
/// How deep subfolders are searched.
const DEPTH_MAX: usize = 8;

/// The files of `policy.files`, or of the default folder.
pub(super) fn policy_files(loaded: &LoadedConfig) -> Result<Vec<PathBuf>, CommandFailure> {
    if let Some(patterns) = &loaded.config.policy.files {
        return expand_all(loaded, "policy.files", patterns);
    }
    let folder = loaded.beside(Path::new(FOLDER));
    match fs::metadata(&folder) {
        Ok(_) => in_folder(&folder),
        // A folder that was moved or is not mounted must not silently remove every policy.
        Err(error) if error.kind() == ErrorKind::NotFound && loaded.had_policies => {
            Err(CommandFailure::bad_input(format!("the policies' folder `{}` is gone", folder.display()))
                .hint("put it back; if there are to be no policies, leave it empty or say so: `policy: { files: [] }`"))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(unreadable_folder(&folder, &error)),
    }
}

/// Whether the default folder exists.
pub(crate) fn has_folder(loaded: &LoadedConfig) -> bool {
    loaded.config.policy.files.is_none() && fs::metadata(loaded.beside(Path::new(FOLDER))).is_ok()
}

/// The files of `policy.shadow`.
pub(super) fn shadow_files(loaded: &LoadedConfig) -> Result<Vec<PathBuf>, CommandFailure> {
    expand_all(loaded, "policy.shadow", &loaded.config.policy.shadow)
}

/// Every file whose change changes the policies. A missing file is reported when the policies are read.
pub(crate) fn watched(loaded: &LoadedConfig) -> Vec<PathBuf> {
    [policy_files(loaded), shadow_files(loaded)].into_iter().flat_map(Result::unwrap_or_default).collect()
}

/// Reads files of a configuration; messages name them as the configuration does.
pub(super) fn read(loaded: &LoadedConfig, files: &[PathBuf]) -> Result<PolicyTexts, CommandFailure> {
    let shown = |file: &Path| {
        let inside = file.strip_prefix(&loaded.folder).ok().filter(|inside| !inside.as_os_str().is_empty());
        inside.unwrap_or(file).display().to_string()
    };
    files.iter().map(|file| Ok((shown(file), text(file)?))).collect::<Result<_, _>>().map(PolicyTexts)
}

/// Reads a file or a folder from the command line.
pub(super) fn read_at(path: &Path) -> Result<PolicyTexts, CommandFailure> {
    let files = if path.is_dir() { in_folder(path)? } else { vec![path.to_owned()] };
    if files.is_empty() {
        return Err(CommandFailure::bad_input(format!("there is no `*.{ENDING}` file in `{}`", path.display()))
            .hint("name a file of policies, or a folder that has some"));
    }
    files.iter().map(|file| Ok((file.display().to_string(), text(file)?))).collect::<Result<_, _>>().map(PolicyTexts)
}

fn text(file: &Path) -> Result<String, CommandFailure> {
    let unreadable = |error: std::io::Error| {
        CommandFailure::bad_input(format!("cannot read the policies in `{}`: {error}", file.display()))
            .hint("nothing was started; policies are text files in UTF-8")
    };
    files::read_text(file, FILE_BYTES_MAX).map_err(unreadable)
}

/// Every pattern must match something: a typo must not produce a gateway without policies.
fn expand_all(loaded: &LoadedConfig, field: &str, patterns: &[String]) -> Result<Vec<PathBuf>, CommandFailure> {
    let mut found = BTreeSet::new();
    for pattern in patterns {
        let files = expand(&loaded.beside(Path::new(pattern))).map_err(|failure| failure.at(&loaded.file, field))?;
        if files.is_empty() {
            return Err(CommandFailure::bad_input(format!("`{pattern}` matches no file"))
                .at(&loaded.file, field)
                .hint("nothing was started; paths are relative to the configuration, and folders are looked through for *.cedar"));
        }
        found.extend(files);
    }
    Ok(found.into_iter().collect())
}

fn expand(path: &Path) -> Result<Vec<PathBuf>, CommandFailure> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let parent = path.parent().unwrap_or(Path::new(""));
    if parent.to_str().is_none_or(|parent| parent.contains('*')) {
        return Err(CommandFailure::bad_input("`*` stands for a part of a file's name, not of a folder's")
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
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| unreadable_folder(folder, &error))?,
    };
    let mut files = BTreeSet::new();
    for entry in entries {
        let file = entry.map_err(|error| unreadable_folder(folder, &error))?.file_name();
        let path = parent.join(&file);
        if file.to_str().is_some_and(|file| fits(name, file)) && path.is_file() {
            files.insert(path);
        }
        few_enough(files.len())?;
    }
    Ok(files.into_iter().collect())
}

/// Too many files are an error, because files that are not read would be policies that do not apply.
fn few_enough(files: usize) -> Result<(), CommandFailure> {
    if files <= FILES_MAX {
        return Ok(());
    }
    Err(CommandFailure::bad_input(format!("there are more than {FILES_MAX} files of policies")))
}

fn unreadable_folder(folder: &Path, error: &std::io::Error) -> CommandFailure {
    CommandFailure::bad_input(format!("cannot read the policies' folder `{}`: {error}", folder.display()))
}

/// Whether a name matches a pattern.
fn fits(pattern: &str, name: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else { return pattern == name };
    let Some(rest) = name.strip_prefix(before) else { return false };
    // The rest of the pattern may match at any position in the rest of the name.
    rest.char_indices().map(|(at, _)| at).chain([rest.len()]).any(|at| fits(after, rest.get(at..).unwrap_or_default()))
}

/// The policy files in a folder and its subfolders, in a fixed order.
fn in_folder(folder: &Path) -> Result<Vec<PathBuf>, CommandFailure> {
    let mut found = BTreeSet::new();
    let mut folders = vec![(folder.to_owned(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        let entries = fs::read_dir(&folder).map_err(|error| unreadable_folder(&folder, &error))?;
        for entry in entries {
            let path = entry.map_err(|error| unreadable_folder(&folder, &error))?.path();
            if path.is_dir() {
                if depth >= DEPTH_MAX {
                    let message = format!("`{}` is deeper than {DEPTH_MAX} folders in each other", path.display());
                    return Err(CommandFailure::bad_input(message).hint("move its policies up, or name it by itself"));
                }
                folders.push((path, depth + 1));
            } else if path.extension().is_some_and(|ending| ending == ENDING) {
                found.insert(path);
            }
            few_enough(found.len())?;
        }
    }
    Ok(found.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{DEPTH_MAX, FILES_MAX, expand, few_enough, fits, in_folder};

    #[test]
    fn what_would_not_be_read_is_an_error() {
        assert!(few_enough(FILES_MAX).is_ok() && few_enough(FILES_MAX + 1).is_err());
        let world = tempfile::tempdir().unwrap();
        let mut folder = world.path().to_owned();
        for _ in 0..DEPTH_MAX {
            folder.push("in");
        }
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("a.cedar"), "").unwrap();
        assert_eq!(in_folder(world.path()).unwrap().len(), 1);
        fs::create_dir(folder.join("deeper")).unwrap();
        assert!(in_folder(world.path()).is_err());
    }

    #[test]
    fn a_name_with_a_star_means_no_more_files_than_are_read() {
        let world = tempfile::tempdir().unwrap();
        for number in 0..=FILES_MAX {
            fs::write(world.path().join(format!("{number}.cedar")), "").unwrap();
        }
        assert_eq!(expand(&world.path().join("1*.cedar")).unwrap().len(), 1_112);
        assert!(expand(&world.path().join("*.cedar")).is_err());
    }

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
