//! File paths in the arguments: one spelling for each, and whether it is under an allowed root. Purely by text: a symbolic link
//! under a root may lead out of it, which only the file system knows. A program that opens the path must not follow links, or
//! must check again with the path that the system resolved.

use std::fmt;

use servanda_contract::legibility;
use unicode_normalization::UnicodeNormalization as _;

use crate::effects::http::decoded;

/// How long a path may be.
const PATH_BYTES_MAX: usize = 4096;
/// How often encodings may be undone before the path is refused as disguised.
const DECODINGS_MAX: usize = 4;

/// An absolute path without `.`, `..`, doubled slashes, backslashes or encodings. Only [`normalise`] creates one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NormalPath(String);

/// Why a path is refused. It never carries the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathRefusal {
    /// It is empty.
    #[error("the path is empty")]
    Empty,
    /// It is longer than any file system accepts.
    #[error("the path is longer than {PATH_BYTES_MAX} bytes")]
    TooLong,
    /// It has a NUL, another control character, or an invisible character.
    #[error("the path holds a control character, or a character that does not show")]
    ControlCharacter,
    /// `..` leads above the root it starts from.
    #[error("the path leads above where it starts")]
    Above,
    /// It is encoded too many times.
    #[error("the path is encoded more than {DECODINGS_MAX} times")]
    Encoded,
    /// It begins with `~`, a drive or a device, which mean something else on every machine.
    #[error("the path begins with a home, a drive or a device")]
    OtherRoot,
    /// It is relative, and only the server knows its working folder.
    #[error("the path is not absolute; only the server knows from where it would be read")]
    Relative,
    /// It is a URL.
    #[error("the path is a URL")]
    Url,
    /// It goes upwards and is encoded, so that different readers would go upwards from different places.
    #[error("the path goes upwards and is encoded, or has separators that only some systems know")]
    Disguised,
    /// It lies under none of the allowed roots.
    #[error("the path is under none of the allowed roots")]
    Outside,
}

/// The roots that paths may lie under.
#[derive(Clone, Debug, Default)]
pub struct PathRoots(Vec<NormalPath>);

/// One spelling of an absolute `path`.
pub fn normalise(path: &str) -> Result<NormalPath, PathRefusal> {
    if path.is_empty() {
        return Err(PathRefusal::Empty);
    }
    let written = path;
    let path = undisguised(written)?;
    if path != written && (goes_up(written) || goes_up(&path)) {
        return Err(PathRefusal::Disguised);
    }
    let drive = matches!(path.as_bytes(), [letter, b':', ..] if letter.is_ascii_alphabetic());
    if path.starts_with('~') || drive || path.starts_with("//") {
        return Err(PathRefusal::OtherRoot);
    }
    let scheme = path.split(['/', '.']).next().and_then(|first| first.split_once(':')).map(|(scheme, _)| scheme);
    if scheme.is_some_and(|scheme| {
        !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    }) {
        return Err(PathRefusal::Url);
    }
    if !path.starts_with('/') {
        return Err(PathRefusal::Relative);
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        // Windows drops trailing dots and spaces, so `.. ` and `...` may be `..` there.
        match part.trim_end_matches(' ') {
            "" | "." => {}
            part if part.starts_with("..;") => return Err(PathRefusal::Above),
            ".." => {
                parts.pop().ok_or(PathRefusal::Above)?;
            }
            part if part.bytes().all(|byte| byte == b'.' || byte == b' ') => return Err(PathRefusal::Above),
            _ => parts.push(part),
        }
    }
    Ok(NormalPath(format!("/{}", parts.join("/"))))
}

/// The path as read by a program that undoes no encodings: without `.` and doubled slashes, and with `..` applied. Paths that
/// go upwards in disguise are refused before.
fn as_written(path: &str) -> NormalPath {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    NormalPath(format!("/{}", parts.join("/")))
}

/// Whether any reader would read a part of the path as `..`.
fn goes_up(path: &str) -> bool {
    path.split(['/', '\\']).any(|part| {
        // `..;a` is `..` to servers that know parameters of parts.
        let part = part.split(';').next().unwrap_or(part).trim_end_matches(' ');
        part == ".." || (part.len() > 2 && part.bytes().all(|byte| byte == b'.' || byte == b' '))
    })
}

/// Encodings undone, backslashes converted: what the most lenient reader would read.
fn undisguised(path: &str) -> Result<String, PathRefusal> {
    if path.len() > PATH_BYTES_MAX {
        return Err(PathRefusal::TooLong);
    }
    let mut path = path.to_owned();
    let mut decodings = 0;
    while path.contains('%') {
        // `+` is a plus sign in a path.
        let once = decoded(&path.replace('+', "%2B"));
        if once == path {
            break;
        }
        path = once;
        decodings += 1;
        if decodings > DECODINGS_MAX {
            return Err(PathRefusal::Encoded);
        }
    }
    // Some readers read `%u002e` as a dot.
    if path.contains("%u") || path.contains("%U") {
        return Err(PathRefusal::Encoded);
    }
    if path.chars().any(|c| c.is_control() || c == '\u{fffd}') || !legibility::hidden_characters(&path).is_empty() {
        return Err(PathRefusal::ControlCharacter);
    }
    // Some systems fold compatibility characters, so that `﹒﹒` becomes `..` and `﹨` a backslash.
    let folded = if path.is_ascii() { path } else { folded_separators(&path) };
    Ok(folded.replace(['\\', '\u{2215}', '\u{29f8}'], "/"))
}

/// The path with a dot, a slash or a backslash for every character that is folded to them.
fn folded_separators(path: &str) -> String {
    let mut folded = String::with_capacity(path.len());
    for character in path.chars() {
        let plain: String = std::iter::once(character).nfkc().collect();
        if !character.is_ascii() && plain.contains(['.', '/', '\\']) {
            folded.push_str(&plain);
        } else {
            folded.push(character);
        }
    }
    folded.replace('\u{2044}', "/")
}

impl NormalPath {
    /// The spelling.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is `root` or lies under it, part for part: `/srv/data2` is not under `/srv/data`.
    pub fn is_under(&self, root: &Self) -> bool {
        root.0 == "/" || self.0.strip_prefix(&root.0).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

impl fmt::Display for NormalPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl PathRoots {
    /// Roots of these absolute paths.
    pub fn new<'p>(paths: impl IntoIterator<Item = &'p str>) -> Result<Self, PathRefusal> {
        paths.into_iter().map(normalise).collect::<Result<_, _>>().map(Self)
    }

    /// The one spelling of `path`, if it lies under a root. Without roots nothing is admitted.
    pub fn admit(&self, path: &str) -> Result<NormalPath, PathRefusal> {
        let normal = normalise(path)?;
        // A reader that undoes no encodings uses the path as written.
        let is_inside =
            |root: &NormalPath| normal.is_under(root) && (normal.0 == path || as_written(path).is_under(root));
        if self.0.iter().any(is_inside) { Ok(normal) } else { Err(PathRefusal::Outside) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn disguises_of_a_way_out_are_refused() {
        let roots = PathRoots::new(["/srv/data", "/var/lib/app/"]).expect("roots");
        for inside in [
            "/srv/data",
            "/srv/data/",
            "/srv/data/a.txt",
            "/srv/data/./a//b/../c",
            "/srv/data/a+b",
            "/var/lib/app/x",
            "/srv/./data/x",
            "/srv/data/%61.txt",
            "/srv/data/..a/b",
            "/srv/data/a..b",
            "/srv/data/a:b",
        ] {
            assert!(roots.admit(inside).is_ok(), "{inside}");
        }
        for outside in [
            "",
            "/",
            "a.txt",
            "./a",
            "srv/data/a",
            "file:/srv/data/a",
            "file:///srv/data/a",
            "FILE:///srv/data/a",
            "http://a/srv/data/a",
            "http:/srv/data/a",
            "%66ile:///srv/data/a",
            "/etc/passwd",
            "/srv/data2/x",
            "/srv/data/../secret",
            "../secret",
            "a/../../secret",
            "..\\..\\etc\\passwd",
            "..%2f..%2fetc/passwd",
            "%2e%2e/%2e%2e/etc",
            "%252e%252e%252f%252e%252e%252fetc",
            "..%5c..%5cetc",
            "/srv/data/a\0.txt",
            "a%00.txt",
            "~/x",
            "~root/x",
            "C:\\Windows",
            "\\\\?\\C:\\x",
            "....//....//etc",
            "..;/x/../../../etc",
            "\u{ff0e}\u{ff0e}/\u{ff0e}\u{ff0e}/etc",
            "..\u{2215}..\u{2215}etc",
            ".. /.. /etc",
            "%c0%ae%c0%ae/",
            "a\nb",
            "%25252525252e%25252525252e/",
            "/srv/data/a%2fa%2fa%2fa/../../../../etc/passwd",
            "/srv/data/a\\a\\a\\a/../../../../etc/passwd",
            "/srv/data/a\u{2215}a\u{2215}a/../../../etc/passwd",
            "/etc/x/%2e%2e/%2e%2e/srv/data/f",
            "/etc/x/.. /.. /srv/data/f",
            "/srv%2fdata/f",
            "\\\\srv\\data\\x",
            "//srv/data/x",
            "/srv/data/..;/x",
            "/srv/data/%u002e%u002e/x",
            "/srv/data/.\u{200b}./x",
        ] {
            assert!(roots.admit(outside).is_err(), "{outside:?} became {:?}", roots.admit(outside));
        }
        assert_eq!(PathRoots::default().admit("/x"), Err(PathRefusal::Outside));
    }

    #[test]
    fn characters_that_a_system_folds_to_dots_and_slashes_are_no_disguise() {
        let roots = PathRoots::new(["/srv/data"]).expect("roots");
        for outside in [
            "/srv/data/\u{2025}/secret",
            "/srv/data/\u{fe52}\u{fe52}/secret",
            "/srv/data/\u{fe30}/secret",
            "/srv/data/..\u{fe68}etc",
            "/srv/data/\u{2026}/x",
        ] {
            assert!(roots.admit(outside).is_err(), "{outside:?} became {:?}", roots.admit(outside));
        }
        assert!(roots.admit("/srv/data/\u{e9}t\u{e9}.txt").is_ok());
    }

    proptest! {
        #[test]
        fn what_is_admitted_is_normal_and_under_a_root(path in "([./\\\\%a-c]|%2e|%2f|%5c|\\.\\.|~){0,24}") {
            let roots = PathRoots::new(["/srv/data"]).expect("roots");
            if let Ok(normal) = roots.admit(&path) {
                prop_assert!(normal.as_str() == "/srv/data" || normal.as_str().starts_with("/srv/data/"));
                prop_assert!(normal.as_str().split('/').all(|part| part != ".." && part != "."));
                prop_assert_eq!(normalise(normal.as_str()).map(|again| again == normal), Ok(true));
            }
        }

        #[test]
        fn no_path_makes_it_panic(path in "\\PC{0,64}") {
            let _ = normalise(&path);
        }
    }
}
