//! Which scopes are requested: the least that the upstream says it needs, and at a step-up also those that were requested before.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// How many there may be, and how long each.
const SCOPES_MAX: usize = 128;
const SCOPE_BYTES_MAX: usize = 256;
/// Requests a refresh token.
pub const OFFLINE_ACCESS: &str = "offline_access";

/// A set of scopes, each of characters that a scope may have (RFC 6749 §3.3).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "BTreeSet<String>", into = "BTreeSet<String>")]
pub struct OauthScopes(BTreeSet<String>);

/// What the choice of scopes is based on.
#[derive(Debug, Clone, Default)]
pub struct ScopeSources<'a> {
    /// What the operator or the user set.
    pub configured: Option<&'a OauthScopes>,
    /// What was requested before, at a step-up.
    pub before: Option<&'a OauthScopes>,
    /// What the challenge asks for.
    pub challenged: Option<&'a OauthScopes>,
    /// `scopes_supported` of the resource.
    pub documented: Option<&'a OauthScopes>,
    /// `scopes_supported` of the authorization server.
    pub offered: Option<&'a OauthScopes>,
    /// Whether a refresh token is useful.
    pub offline: bool,
}

/// Text that is not a set of scopes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a scope has up to {SCOPE_BYTES_MAX} visible ASCII characters, without quotes and backslashes; at most {SCOPES_MAX}"
)]
pub struct InvalidOauthScopes(());

impl OauthScopes {
    /// A set of these scopes.
    pub fn new<I: IntoIterator<Item = T>, T: Into<String>>(scopes: I) -> Result<Self, InvalidOauthScopes> {
        let scopes: BTreeSet<String> = scopes.into_iter().map(Into::into).take(SCOPES_MAX + 1).collect();
        let good = scopes.len() <= SCOPES_MAX && scopes.iter().all(|scope| is_scope(scope));
        good.then_some(Self(scopes)).ok_or(InvalidOauthScopes(()))
    }

    /// Reads a line of scopes separated by spaces; none if it is empty or not valid.
    pub fn read(line: &str) -> Option<Self> {
        Self::new(line.split(' ').filter(|scope| !scope.is_empty())).ok().filter(|scopes| !scopes.0.is_empty())
    }

    /// The line that is sent; none if there are no scopes.
    pub fn line(&self) -> Option<String> {
        (!self.0.is_empty()).then(|| self.0.iter().map(String::as_str).collect::<Vec<_>>().join(" "))
    }

    /// Whether all of the others are among these.
    pub fn contain(&self, others: &Self) -> bool {
        self.0.is_superset(&others.0)
    }

    /// Iterates over the scopes.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    fn has(&self, scope: &str) -> bool {
        self.0.contains(scope)
    }
}

impl ScopeSources<'_> {
    /// The scopes to request. Without any source none are sent, and the server decides. Fails if they are too many together.
    pub fn choose(&self) -> Result<OauthScopes, InvalidOauthScopes> {
        let first = [self.configured, self.challenged, self.documented].into_iter().flatten().next();
        let mut chosen = first.cloned().unwrap_or_default().0;
        // A step-up also requests the scopes of before, and never ignores a challenge.
        if let Some(before) = self.before {
            chosen.extend(before.0.iter().cloned());
            chosen.extend(self.challenged.iter().flat_map(|scopes| scopes.0.iter().cloned()));
        }
        let offered = self.offered.is_some_and(|offered| offered.has(OFFLINE_ACCESS));
        if self.offline && offered && !chosen.is_empty() {
            chosen.insert(OFFLINE_ACCESS.to_owned());
        }
        OauthScopes::new(chosen)
    }
}

fn is_scope(scope: &str) -> bool {
    let good = |byte: u8| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e);
    !scope.is_empty() && scope.len() <= SCOPE_BYTES_MAX && scope.bytes().all(good)
}

impl TryFrom<BTreeSet<String>> for OauthScopes {
    type Error = InvalidOauthScopes;

    fn try_from(scopes: BTreeSet<String>) -> Result<Self, InvalidOauthScopes> {
        Self::new(scopes)
    }
}

impl From<OauthScopes> for BTreeSet<String> {
    fn from(scopes: OauthScopes) -> Self {
        scopes.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scopes(line: &str) -> Option<OauthScopes> {
        OauthScopes::read(line)
    }

    #[test]
    fn the_least_that_is_needed_is_asked_for() {
        // configured, before, challenged, documented, offered by the server, chosen
        let table = [
            ("", "", "a", "a b c", "", Some("a")),
            ("", "", "", "a b c", "", Some("a b c")),
            ("", "", "", "", "a b", None),
            ("x", "", "a", "b", "", Some("x")),
            ("", "a", "b", "c", "", Some("a b")),
            ("x", "a", "b", "c", "", Some("a b x")),
            ("", "", "a", "", "a offline_access", Some("a offline_access")),
            ("", "", "", "", "offline_access", None),
            ("", "", "a", "", "b", Some("a")),
        ];
        for (configured, before, challenged, documented, offered, expected) in table {
            let sets = [configured, before, challenged, documented, offered].map(scopes);
            let [configured, before, challenged, documented, offered] = &sets;
            let wishes = ScopeSources {
                configured: configured.as_ref(),
                before: before.as_ref(),
                challenged: challenged.as_ref(),
                documented: documented.as_ref(),
                offered: offered.as_ref(),
                offline: true,
            };
            assert_eq!(wishes.choose().unwrap().line().as_deref(), expected, "{sets:?}");
            let without = ScopeSources { offline: false, ..wishes }.choose().unwrap();
            assert!(!without.has(OFFLINE_ACCESS));
        }
    }

    #[test]
    fn together_they_are_no_more_than_can_be_read_again() {
        let many = |prefix: &str| OauthScopes::new((0..100).map(|number| format!("{prefix}{number}"))).unwrap();
        let (before, challenged) = (many("a"), many("b"));
        let wishes = ScopeSources { before: Some(&before), challenged: Some(&challenged), ..ScopeSources::default() };
        assert!(wishes.choose().is_err());
    }

    #[test]
    fn a_scope_cannot_end_what_it_stands_in() {
        for bad in ["a\"b", "a\\b", "a\nb", "\u{e9}", &"x".repeat(257)] {
            assert_eq!(scopes(bad), None, "{bad:?}");
            assert!(OauthScopes::new([bad]).is_err(), "{bad:?}");
        }
        assert!(OauthScopes::new((0..200).map(|number| number.to_string())).is_err());
    }
}
