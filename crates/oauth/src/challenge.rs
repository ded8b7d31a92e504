//! What an upstream says when a request lacks a credential: `WWW-Authenticate` (RFC 9110 §11.6.1, RFC 6750, RFC 9728 §5.1).
//!
//! A header may hold several challenges, a challenge several parameters, and a comma separates both. The author of a header is not trusted:
//! parts that are too long or broken are left out. This module does not decide whether a parameter is believed.

use crate::scope::OauthScopes;

/// How much of the header is read.
pub const HEADER_BYTES_MAX: usize = 8 << 10;
const CHALLENGES_MAX: usize = 16;
const PARAMETERS_MAX: usize = 32;

/// One challenge as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamChallenge {
    /// In lower case.
    pub scheme: String,
    /// Names in lower case; the first of each name counts.
    pub parameters: Vec<(String, String)>,
}

/// What the challenges for an access token require.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Demand {
    /// Where the resource's metadata is, according to the challenge.
    pub resource_metadata: Option<String>,
    /// The scopes that are needed.
    pub scopes: Option<OauthScopes>,
    /// Whether the token was valid but lacked a scope.
    pub insufficient_scope: bool,
}

impl UpstreamChallenge {
    /// The parameter of that name.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

impl Demand {
    /// Reads the values of `WWW-Authenticate`: the first challenge for a bearer token, or none.
    pub fn from_headers<'a>(values: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let challenges = read(values);
        let bearer = challenges.iter().find(|challenge| challenge.scheme == "bearer")?;
        Some(Self {
            resource_metadata: bearer.parameter("resource_metadata").map(ToOwned::to_owned),
            scopes: bearer.parameter("scope").and_then(OauthScopes::read),
            insufficient_scope: bearer.parameter("error") == Some("insufficient_scope"),
        })
    }
}

/// Reads the values of `WWW-Authenticate`.
pub fn read<'a>(values: impl IntoIterator<Item = &'a str>) -> Vec<UpstreamChallenge> {
    let mut found = Vec::new();
    let mut bytes_left = HEADER_BYTES_MAX;
    for value in values {
        if value.len() > bytes_left {
            break;
        }
        bytes_left -= value.len();
        ChallengeParser { rest: value }.read(&mut found);
    }
    found
}

struct ChallengeParser<'a> {
    rest: &'a str,
}

impl<'a> ChallengeParser<'a> {
    /// Adds the challenges in the value, up to the first part that is no challenge: after it the parts cannot be told apart.
    fn read(&mut self, found: &mut Vec<UpstreamChallenge>) {
        let before = found.len();
        while self.skip_separators() {
            let Some(word) = self.token() else { return };
            let parameter = found.len() > before && self.at_value();
            if parameter {
                let Some(value) = self.value() else { return };
                let Some(challenge) = found.last_mut() else { return };
                keep(challenge, word, value);
                continue;
            }
            if found.len() >= CHALLENGES_MAX || !self.ends_scheme() {
                return;
            }
            found.push(UpstreamChallenge { scheme: word.to_ascii_lowercase(), parameters: Vec::new() });
            self.skip_token68();
        }
    }

    /// Skips separators. Returns whether there is more.
    fn skip_separators(&mut self) -> bool {
        self.rest = self.rest.trim_start_matches([' ', '\t', ',']);
        !self.rest.is_empty()
    }

    fn token(&mut self) -> Option<&'a str> {
        let end = self.rest.find(|character| !is_token(character)).unwrap_or(self.rest.len());
        let (token, rest) = self.rest.split_at_checked(end)?;
        self.rest = rest;
        (!token.is_empty()).then_some(token)
    }

    /// Whether a value follows: `=`, with spaces around it as old senders write it.
    fn at_value(&self) -> bool {
        self.rest.trim_start_matches([' ', '\t']).starts_with('=')
    }

    fn value(&mut self) -> Option<String> {
        let rest = self.rest.trim_start_matches([' ', '\t']).strip_prefix('=')?;
        self.rest = rest.trim_start_matches([' ', '\t']);
        match self.rest.strip_prefix('"') {
            Some(rest) => self.quoted(rest),
            None => self.token().map(ToOwned::to_owned),
        }
    }

    fn quoted(&mut self, rest: &'a str) -> Option<String> {
        let mut value = String::new();
        let mut characters = rest.char_indices();
        while let Some((at, character)) = characters.next() {
            match character {
                '"' => {
                    self.rest = rest.get(at + 1..)?;
                    return Some(value);
                }
                '\\' => value.push(characters.next()?.1),
                _ => value.push(character),
            }
        }
        None
    }

    /// A scheme is followed by a space, a comma or nothing.
    fn ends_scheme(&self) -> bool {
        self.rest.is_empty() || self.rest.starts_with([' ', '\t', ','])
    }

    /// Some schemes have one token with `=` at its end instead of parameters. It is skipped.
    fn skip_token68(&mut self) {
        let rest = self.rest.trim_start_matches([' ', '\t']);
        let end = rest.find(|character| !is_token68(character)).unwrap_or(rest.len());
        let Some((word, after)) = rest.split_at_checked(end) else { return };
        let padded = after.trim_start_matches('=');
        let alone = padded.is_empty() || padded.trim_start_matches([' ', '\t']).starts_with(',');
        let is_word_of_its_own =
            !word.is_empty() && alone && (after.len() != padded.len() || word.contains(['/', '+']));
        if is_word_of_its_own {
            self.rest = padded;
        }
    }
}

fn keep(challenge: &mut UpstreamChallenge, name: &str, value: String) {
    let name = name.to_ascii_lowercase();
    if challenge.parameters.len() < PARAMETERS_MAX && challenge.parameter(&name).is_none() {
        challenge.parameters.push((name, value));
    }
}

fn is_token(character: char) -> bool {
    character.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(character)
}

fn is_token68(character: char) -> bool {
    character.is_ascii_alphanumeric() || "-._~+/".contains(character)
}

#[cfg(test)]
mod tests;
