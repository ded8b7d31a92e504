//! Guesses which values are secrets, from their names and from the prefixes that issuers give to tokens. In doubt a value counts as a
//! secret. A secret in the path of a URL, or inside a longer text, is not recognised.

use servanda_config::expansion::references;

/// Words in the name of a variable, header, flag or parameter whose value is likely a secret.
const SECRET_WORDS: [&str; 8] =
    ["TOKEN", "KEY", "SECRET", "PASSWORD", "PASSWD", "AUTHORIZATION", "CREDENTIAL", "COOKIE"];
/// Words for values that are secrets even if they are numbers.
const SURELY_SECRET_WORDS: [&str; 3] = ["SECRET", "PASSWORD", "PASSWD"];
/// Names that mention a secret but do not hold one.
const ABOUT_WORDS: [&str; 6] = ["FILE", "PATH", "DIR", "URL", "ID", "NAME"];
/// Prefixes that issuers give to their tokens.
const TOKEN_MARKS: [&str; 17] = [
    "sk-",
    "sk_",
    "pk_",
    "rk_",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "xox",
    "xapp-",
    "AKIA",
    "AIza",
    "npm_",
    "hf_",
    "-----BEGIN",
];
/// Shorter words may begin like a token without being one.
const MARKED_CHARS_MIN: usize = 16;
/// Words before the secret in a header.
const SCHEMES: [&str; 5] = ["Bearer", "Basic", "Token", "ApiKey", "Digest"];

/// Whether the value of this name is likely a secret.
pub fn is_secret(name: &str, value: &str) -> bool {
    let value = value.trim();
    if value.is_empty() || !references(value).is_empty() {
        return false;
    }
    if is_marked(value) {
        return true;
    }
    let about = variable_name(name).rsplit('_').next().is_some_and(|last| ABOUT_WORDS.contains(&last));
    let plain =
        value.parse::<f64>().is_ok() || ["true", "false", "none", "null"].contains(&value.to_lowercase().as_str());
    !about && (has_word(name, &SURELY_SECRET_WORDS) || has_word(name, &SECRET_WORDS) && !plain)
}

/// Whether a value is certainly a secret: by its form, or by a name that can only mean a secret.
pub fn is_surely_secret(name: &str, value: &str) -> bool {
    is_marked(value.trim()) || has_word(name, &SURELY_SECRET_WORDS)
}

/// A header's value without the scheme before the secret.
pub fn without_scheme(value: &str) -> &str {
    match value.split_once(' ') {
        Some((scheme, secret)) if SCHEMES.iter().any(|known| known.eq_ignore_ascii_case(scheme)) => secret,
        _ => value,
    }
}

/// Whether a name is the name of a secret.
pub fn is_secret_name(name: &str) -> bool {
    has_word(name, &SECRET_WORDS)
}

fn has_word(name: &str, words: &[&str]) -> bool {
    let name = variable_name(name);
    words.iter().any(|word| name.contains(word))
}

/// Whether a value has the form of an issuer's token.
pub fn is_marked(value: &str) -> bool {
    let long = value.chars().count() >= MARKED_CHARS_MIN;
    let marked = TOKEN_MARKS.iter().any(|mark| value.starts_with(mark));
    // A JSON Web Token: three parts, the first of them JSON.
    let web_token = value.starts_with("eyJ") && value.matches('.').count() == 2;
    long && !value.contains(char::is_whitespace) && (marked || web_token)
}

/// Turns any text into the name of an environment variable.
pub fn variable_name(text: &str) -> String {
    let mut name = String::new();
    for character in text.chars() {
        let character = if character.is_ascii_alphanumeric() { character.to_ascii_uppercase() } else { '_' };
        if !(character == '_' && (name.is_empty() || name.ends_with('_'))) {
            name.push(character);
        }
    }
    let name = name.trim_end_matches('_');
    if name.chars().next().is_some_and(|first| first.is_ascii_alphabetic()) {
        name.to_owned()
    } else {
        format!("VALUE_{name}")
    }
}

#[cfg(test)]
mod tests {
    use super::{is_secret, variable_name};

    #[test]
    fn names_and_marks_tell_a_secret() {
        let secret = [
            ("API_TOKEN", "t0p"),
            ("X-Api-Key", "abc"),
            ("DB_PASSWORD", "1234"),
            ("anything", "ghp_0123456789abcdef"),
            ("plain", "eyJhbGciOi.eyJzdWIi.c2ln"),
            ("cookie", "session=1"),
            ("OPENAI_KEY", "sk-x"),
        ];
        let open = [
            ("MODE", "x"),
            ("MAX_TOKENS", "4096"),
            ("TOKEN_CACHE", "true"),
            ("KEY_FILE", "/etc/key.pem"),
            ("API_TOKEN", ""),
            ("API_TOKEN", "${API_TOKEN}"),
            ("MODEL", "sk-small"),
            ("GOOGLE_CLIENT_ID", "abc"),
        ];
        for (name, value) in secret {
            assert!(is_secret(name, value), "{name}={value}");
        }
        for (name, value) in open {
            assert!(!is_secret(name, value), "{name}={value}");
        }
    }

    #[test]
    fn any_text_can_name_a_variable() {
        for (text, expected) in
            [("github-token", "GITHUB_TOKEN"), ("--a..b-", "A_B"), ("9 lives", "VALUE_9_LIVES"), ("é", "VALUE_")]
        {
            assert_eq!(variable_name(text), expected);
        }
    }
}
