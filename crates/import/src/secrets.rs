//! Keeps secrets out of our file: a value that looks like one becomes a reference to an environment variable, and its value is only held in
//! memory while the servers are asked for their tools.
//!
//! `servanda_clients::likely_secrets` decides what looks like a secret.

use std::{collections::BTreeMap, fmt};

use servanda_clients::likely_secrets::{is_marked, is_secret, is_secret_name, variable_name, without_scheme};
use servanda_config::{UpstreamConfig, expansion::references};

/// Values from the client's file that are not written into ours, by variable.
#[derive(Default, Clone, PartialEq, Eq)]
pub struct ImportedSecrets(BTreeMap<String, String>);

impl fmt::Debug for ImportedSecrets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.0.keys()).finish()
    }
}

impl ImportedSecrets {
    /// The value of a variable: the held one, or the environment's.
    pub fn variable(&self, name: &str) -> Option<String> {
        self.0.get(name).cloned().or_else(|| std::env::var(name).ok())
    }

    /// The value in the file that this variable replaced, if there is one.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Whether no value is held.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Holds a value and returns its name: the wanted one, unless that already stands for another value.
    pub fn insert(&mut self, upstream: &str, wanted: &str, value: &str) -> String {
        let wanted = variable_name(wanted);
        let longer = variable_name(&format!("{upstream}_{wanted}"));
        let numbered = (2..).map(|number| format!("{longer}_{number}"));
        let free = |name: &String| {
            let there = self.variable(name);
            there.is_none_or(|there| there == value)
        };
        // There is always an unused number.
        let name = [wanted, longer.clone()].into_iter().chain(numbered).find(free).unwrap_or(longer);
        self.0.insert(name.clone(), value.to_owned());
        name
    }
}

/// Replaces every secret of an upstream by a reference. Returns the fields and the variables that replace them.
pub fn extract_secrets(id: &str, upstream: &mut UpstreamConfig, held: &mut ImportedSecrets) -> Vec<(String, String)> {
    let mut extractor = SecretExtractor { id, held, field: String::new(), replaced: Vec::new() };
    for (name, value) in &mut upstream.env {
        extractor.field = format!("env.{name}");
        extractor.value(name, name, value);
    }
    for (name, value) in &mut upstream.headers {
        extractor.field = format!("headers.{name}");
        // Servers use the same header names, so the server's id is added.
        extractor.value(name, &format!("{id}_{name}"), value);
    }
    if let Some(url) = &mut upstream.url {
        "url".clone_into(&mut extractor.field);
        extractor.address(url);
    }
    let mut flag = None;
    for (index, argument) in upstream.args.iter_mut().enumerate() {
        extractor.field = format!("args[{index}]");
        let next = argument.starts_with('-').then(|| argument.clone());
        extractor.argument(flag.as_deref(), argument);
        flag = next;
    }
    extractor.replaced
}

/// Replaces secrets by references, field by field.
struct SecretExtractor<'a> {
    id: &'a str,
    held: &'a mut ImportedSecrets,
    field: String,
    replaced: Vec<(String, String)>,
}

impl SecretExtractor<'_> {
    /// The reference that replaces a secret.
    fn replace(&mut self, wanted: &str, secret: &str) -> String {
        let variable = self.held.insert(self.id, wanted, secret);
        let reference = format!("${{{variable}}}");
        self.replaced.push((self.field.clone(), variable));
        reference
    }

    /// A variable or header: the whole value, except a scheme before it.
    fn value(&mut self, name: &str, wanted: &str, value: &mut String) {
        // A default that is a secret would be written to our file.
        if let [reference] = references(value).as_slice() {
            if let Some(secret) = reference.default.filter(|default| is_secret(name, default)) {
                let written = format!("${{{}:-{secret}}}", reference.name);
                let reference = self.replace(reference.name, secret);
                *value = value.replacen(&written, &reference, 1);
            }
            return;
        }
        let secret = without_scheme(value).to_owned();
        if is_secret(name, &secret) {
            let scheme = value.strip_suffix(&secret).unwrap_or_default().to_owned();
            *value = format!("{scheme}{}", self.replace(wanted, &secret));
        } else {
            self.address(value);
        }
    }

    /// `--api-key VALUE`, `--api-key=VALUE`, `API_KEY=VALUE`, `Authorization: VALUE`, a URL, or a token by its form.
    fn argument(&mut self, flag: Option<&str>, argument: &mut String) {
        for separator in ['=', ':'] {
            let Some((name, value)) = argument.split_once(separator) else { continue };
            let word = |character: char| character.is_ascii_alphanumeric() || "-_".contains(character);
            if !name.chars().all(word) || value.starts_with("//") {
                continue;
            }
            let (name, rest) = (name.to_owned(), value.trim_start());
            let blank = value.get(..value.len() - rest.len()).unwrap_or_default().to_owned();
            let mut rest = rest.to_owned();
            let variable = name.to_uppercase() == name && !name.starts_with('-') && separator == '=';
            let wanted = if variable { name.clone() } else { format!("{}_{name}", self.id) };
            self.value(&name, &wanted, &mut rest);
            *argument = format!("{name}{separator}{blank}{rest}");
            return;
        }
        if argument.starts_with('-') {
            return;
        }
        let name = flag.unwrap_or("");
        let wanted =
            format!("{}_{}", self.id, if is_marked(argument) && !is_secret_name(name) { "TOKEN" } else { name });
        self.value(name, &wanted, argument);
    }

    /// The password before the host, and parameters whose names suggest a secret.
    fn address(&mut self, address: &mut String) {
        let Some((scheme, rest)) = address.split_once("://") else { return };
        if scheme.contains(char::is_whitespace) {
            return;
        }
        let (front, query) = rest.split_once('?').map_or((rest, None), |(front, query)| (front, Some(query)));
        let (authority, path) = front.find('/').map_or((front, ""), |at| front.split_at(at));
        let mut edited = format!("{scheme}://");
        let login = authority.rsplit_once('@').and_then(|(login, host)| Some((login.split_once(':')?, host)));
        match login {
            Some(((user, password), host)) if !password.is_empty() && references(password).is_empty() => {
                let reference = self.replace(&format!("{}_PASSWORD", self.id), password);
                edited.extend([user, ":", &reference, "@", host]);
            }
            _ => edited += authority,
        }
        edited += path;
        for (index, parameter) in query.into_iter().flat_map(|query| query.split('&')).enumerate() {
            edited.push(if index == 0 { '?' } else { '&' });
            match parameter.split_once('=') {
                Some((name, value)) if is_secret(name, value) => {
                    let reference = self.replace(&format!("{}_{name}", self.id), value);
                    edited.extend([name, "=", &reference]);
                }
                _ => edited += parameter,
            }
        }
        *address = edited;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{ImportedSecrets, extract_secrets};
    use crate::tests::{http, stdio};

    #[test]
    fn a_secret_becomes_a_reference_wherever_it_stands() {
        // The argument, what replaces it, and the value of the variable.
        let arguments = [
            ("--api-key=abc", "--api-key=${S_API_KEY}", "abc"),
            ("GITHUB_TOKEN=abc", "GITHUB_TOKEN=${GITHUB_TOKEN}", "abc"),
            ("Authorization: Bearer abc", "Authorization: Bearer ${S_AUTHORIZATION}", "abc"),
            ("Authorization:${AUTH}", "Authorization:${AUTH}", ""),
            ("ghp_0123456789abcdef", "${S_TOKEN}", "ghp_0123456789abcdef"),
            ("postgres://me:pw@db/x?sslmode=no", "postgres://me:${S_PASSWORD}@db/x?sslmode=no", "pw"),
            ("https://h/mcp?a=1&api_key=abc&b=", "https://h/mcp?a=1&api_key=${S_API_KEY}&b=", "abc"),
            ("@scope/package@1.2.3", "@scope/package@1.2.3", ""),
            ("type=bind,src=/a,dst=/b", "type=bind,src=/a,dst=/b", ""),
            ("C:\\keys", "C:\\keys", ""),
        ];
        for (written, expected, value) in arguments {
            let mut upstream = stdio("x", &[written]);
            let mut held = ImportedSecrets::default();
            extract_secrets("s", &mut upstream, &mut held);
            assert_eq!(upstream.args, [expected], "{written}");
            assert_eq!(held.0.into_values().collect::<Vec<_>>().join(" "), value, "{written}");
        }
        let mut upstream = stdio("x", &["-y", "pkg", "--token", "abc", "--port", "80"]);
        let mut held = ImportedSecrets::default();
        assert_eq!(extract_secrets("s", &mut upstream, &mut held), [("args[3]".to_owned(), "S_TOKEN".to_owned())]);
        assert_eq!(upstream.args, ["-y", "pkg", "--token", "${S_TOKEN}", "--port", "80"]);
        let mut upstream = http("https://h/mcp", &[("Authorization", "Bearer abc"), ("X-Region", "eu")]);
        extract_secrets("gh", &mut upstream, &mut held);
        assert_eq!(upstream.headers["Authorization"], "Bearer ${GH_AUTHORIZATION}");
        assert_eq!(upstream.headers["X-Region"], "eu");
        let mut upstream = stdio("x", &[]);
        upstream.env = BTreeMap::from([("A_TOKEN".to_owned(), "${A_TOKEN:-t0p}".to_owned())]);
        extract_secrets("s", &mut upstream, &mut held);
        assert_eq!(upstream.env["A_TOKEN"], "${A_TOKEN}");
    }

    #[test]
    fn two_values_never_share_a_name() {
        let mut held = ImportedSecrets::default();
        assert_eq!(held.insert("one", "API_KEY", "a"), "API_KEY");
        assert_eq!(held.insert("two", "API_KEY", "a"), "API_KEY");
        assert_eq!(held.insert("two", "API_KEY", "b"), "TWO_API_KEY");
        assert_eq!(held.insert("two", "API_KEY", "c"), "TWO_API_KEY_2");
        // The environment has this variable with another value.
        assert_eq!(held.insert("my-db", "PATH", "x"), "MY_DB_PATH");
        assert_eq!(format!("{held:?}").matches('a').count(), 0, "a held value is not shown");
    }
}
