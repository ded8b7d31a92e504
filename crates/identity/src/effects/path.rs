//! File paths among the arguments: one spelling for each, and whether it lies under an allowed root. Purely by text: a symbolic link
//! under a root may lead out of it, which only the file system knows. Whoever opens the path must not follow links, or must ask again
//! with the path that the system resolved.

use std::fmt;

use crate::effects::http::decoded;

/// How long a path may be.
const PATH_BYTES_MAX: usize = 4096;
/// How often encodings may be undone before a path counts as a disguise.
const DECODINGS_MAX: usize = 4;

/// An absolute path without `.`, `..`, doubled slashes, backslashes or encodings. Only [`normalise`] makes one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NormalPath(String);

/// Why a path is refused. It never carries the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathRefusal {
    /// It is empty.
    #[error("the path is empty")]
    Empty,
    /// It is longer than any file system takes.
    #[error("the path is longer than {PATH_BYTES_MAX} bytes")]
    TooLong,
    /// It holds a NUL or another control character.
    #[error("the path holds a control character")]
    ControlCharacter,
    /// `..` leads above the root it starts from.
    #[error("the path leads above where it starts")]
    Above,
    /// It is encoded again and again.
    #[error("the path is encoded more than {DECODINGS_MAX} times")]
    Encoded,
    /// It begins with `~`, a drive or a device, which mean something else on every machine.
    #[error("the path begins with a home, a drive or a device")]
    OtherRoot,
    /// It lies under none of the allowed roots.
    #[error("the path is under none of the allowed roots")]
    Outside,
}

/// The roots that paths may lie under.
#[derive(Clone, Debug, Default)]
pub struct Roots(Vec<NormalPath>);

/// One spelling of `path`; a relative one is taken from `base`.
pub fn normalise(path: &str, base: Option<&NormalPath>) -> Result<NormalPath, PathRefusal> {
    if path.is_empty() {
        return Err(PathRefusal::Empty);
    }
    let path = undisguised(path)?;
    let drive = matches!(path.as_bytes(), [letter, b':', ..] if letter.is_ascii_alphabetic());
    if path.starts_with('~') || drive || path.starts_with("//?/") || path.starts_with("//./") {
        return Err(PathRefusal::OtherRoot);
    }
    let mut parts: Vec<&str> = Vec::new();
    if !path.starts_with('/') {
        let base = base.ok_or(PathRefusal::Outside)?;
        parts.extend(base.0.split('/').filter(|part| !part.is_empty()));
    }
    for part in path.split('/') {
        // Windows takes trailing dots and spaces away, so `.. ` and `...` may be `..` there.
        match part.trim_end_matches(' ') {
            "" | "." => {}
            ".." => {
                parts.pop().ok_or(PathRefusal::Above)?;
            }
            part if part.bytes().all(|byte| byte == b'.' || byte == b' ') => return Err(PathRefusal::Above),
            _ => parts.push(part),
        }
    }
    Ok(NormalPath(format!("/{}", parts.join("/"))))
}

/// Encodings undone, backslashes turned: what the most lenient reader would make of it.
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
    if path.chars().any(|c| c.is_control() || c == '\u{fffd}') {
        return Err(PathRefusal::ControlCharacter);
    }
    // Characters that look like separators and that some systems fold to them.
    Ok(path
        .replace(['\\', '\u{2215}', '\u{2044}', '\u{ff0f}', '\u{ff3c}', '\u{29f8}'], "/")
        .replace(['\u{ff0e}', '\u{2024}'], "."))
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

impl Roots {
    /// Roots of these absolute paths.
    pub fn new<'p>(paths: impl IntoIterator<Item = &'p str>) -> Result<Self, PathRefusal> {
        paths.into_iter().map(|path| normalise(path, None)).collect::<Result<_, _>>().map(Self)
    }

    /// The one spelling of `path`, if it lies under a root. A relative path is tried from each root. No roots allow nothing.
    pub fn admit(&self, path: &str) -> Result<NormalPath, PathRefusal> {
        let mut refusal = PathRefusal::Outside;
        for base in &self.0 {
            match normalise(path, Some(base)) {
                Ok(normal) if self.0.iter().any(|root| normal.is_under(root)) => return Ok(normal),
                Ok(_) => {}
                Err(cause) => refusal = cause,
            }
        }
        Err(refusal)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn disguises_of_a_way_out_are_refused() {
        let roots = Roots::new(["/srv/data", "/var/lib/app/"]).expect("roots");
        for inside in [
            "/srv/data",
            "/srv/data/",
            "/srv/data/a.txt",
            "a.txt",
            "./a//b/../c",
            "/srv/data/a+b",
            "/var/lib/app/x",
            "/srv/./data/x",
            "%61.txt",
            "..a/b",
            "a..b",
        ] {
            assert!(roots.admit(inside).is_ok(), "{inside}");
        }
        for outside in [
            "",
            "/",
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
        ] {
            assert!(roots.admit(outside).is_err(), "{outside:?} became {:?}", roots.admit(outside));
        }
        assert_eq!(Roots::default().admit("/x"), Err(PathRefusal::Outside));
    }

    proptest! {
        #[test]
        fn what_is_admitted_is_normal_and_under_a_root(path in "([./\\\\%a-c]|%2e|%2f|%5c|\\.\\.|~){0,24}") {
            let roots = Roots::new(["/srv/data"]).expect("roots");
            if let Ok(normal) = roots.admit(&path) {
                prop_assert!(normal.as_str() == "/srv/data" || normal.as_str().starts_with("/srv/data/"));
                prop_assert!(normal.as_str().split('/').all(|part| part != ".." && part != "."));
                prop_assert_eq!(normalise(normal.as_str(), None).map(|again| again == normal), Ok(true));
            }
        }

        #[test]
        fn no_path_makes_it_panic(path in "\\PC{0,64}") {
            let _ = normalise(&path, None);
        }
    }
}
