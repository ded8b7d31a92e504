//! `credential:` of an upstream: which credentials the gateway sends to it, and where they are kept. Values are never in the configuration.

use std::fmt;

use schemars::JsonSchema;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
};
use servanda_vault::{InvalidSecretReference, SecretName, SecretReference, is_variable};

use crate::{UpstreamConfig, oauth::OauthConfig};

/// The most credentials of one upstream.
const CREDENTIALS_MAX: usize = 8;
/// Headers that belong to the protocol or to HTTP itself.
const TAKEN: [&str; 8] = [
    "accept",
    "content-type",
    "content-length",
    "host",
    "connection",
    "transfer-encoding",
    "last-event-id",
    "user-agent",
];
/// The place of the value in a format.
const PLACE: &str = "{}";

/// One credential for an upstream: a secret in a header, an argument or a variable, or a statement about the call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CredentialConfig {
    /// Where the secret is kept: `env:NAME`, `file:PATH` or `store:NAME` (`servanda secret set NAME`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<SecretPlace>,
    /// The header that carries it, for a `url`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// The argument of tool calls that carries it, as a JSON pointer: `/api_key`. Agents cannot see this argument.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argument: Option<String>,
    /// The variable that carries it, for a `command`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<String>,
    /// How it is written there; `{}` stands for the secret: `Bearer {}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// A signed statement about the call that carries it: the caller, the agents in between, the tool and the arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub statement: Option<StatementConfig>,
    /// A token of an OAuth 2.1 authorization server, for a `url`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oauth: Option<OauthConfig>,
}

/// A signed statement about each call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StatementConfig {
    /// The header that carries it.
    pub header: String,
    /// The audience: the server's name for itself; its `url` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audience: Option<String>,
    /// The issuer: the name of this gateway.
    #[serde(default = "default_issuer")]
    pub issuer: String,
}

/// A secret that a person has to set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedSecret {
    /// The secret.
    pub reference: SecretReference,
    /// Whether it is sent to the upstream itself, and not to an authorization server.
    pub shown: bool,
}

/// Where a secret is kept. If a person writes the secret itself here, it is not shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct SecretPlace(String);

impl SecretPlace {
    /// A secret in the encrypted store, under that name.
    pub fn store(name: &SecretName) -> Self {
        Self(SecretReference::Store(name.clone()).to_string())
    }

    /// The reference.
    pub fn reference(&self) -> Result<SecretReference, InvalidSecretReference> {
        self.0.parse()
    }
}

impl CredentialConfig {
    /// The secret that is sent to the upstream, if it is one that a person has to set.
    pub fn reference(&self) -> Option<SecretReference> {
        self.secret.as_ref()?.reference().ok()
    }

    /// All secrets it needs that a person has to set.
    pub fn secrets(&self) -> Vec<NamedSecret> {
        let shown = self.reference().map(|reference| NamedSecret { reference, shown: true });
        let of_oauth = self.oauth.iter().flat_map(OauthConfig::secrets);
        let of_oauth = of_oauth.filter_map(|(_, text)| text.parse().ok());
        shown.into_iter().chain(of_oauth.map(|reference| NamedSecret { reference, shown: false })).collect()
    }

    /// A secret with the format applied.
    pub fn written(&self, secret: &str) -> String {
        self.format.as_deref().map_or_else(|| secret.to_owned(), |format| format.replacen(PLACE, secret, 1))
    }

    fn fault(&self, upstream: &UpstreamConfig) -> Option<String> {
        if let Some(oauth) = &self.oauth {
            let alone = Self { oauth: None, ..self.clone() } == Self::default();
            return if alone {
                oauth_fault(oauth, upstream)
            } else {
                Some("`oauth` cannot be combined with other members".to_owned())
            };
        }
        let places = [&self.header, &self.argument, &self.env];
        match (&self.secret, &self.statement) {
            (None, None) => return Some("needs a `secret`, a `statement` or `oauth`".to_owned()),
            (Some(_), Some(_)) => return Some("has a `secret` and a `statement`; write two of them".to_owned()),
            (None, Some(statement)) => {
                if places.iter().any(|place| place.is_some()) || self.format.is_some() {
                    return Some("a `statement` has its own `header` and nothing beside it".to_owned());
                }
                return statement.fault(upstream);
            }
            (Some(place), None) => {
                if let Err(error) = place.reference() {
                    return Some(format!("`secret`: {error}"));
                }
            }
        }
        if places.iter().filter(|place| place.is_some()).count() != 1 {
            return Some("a `secret` goes into one of `header`, `argument` and `env`".to_owned());
        }
        if self.format.as_ref().is_some_and(|format| format.matches(PLACE).count() != 1) {
            return Some(format!("`format` has `{PLACE}` once, where the secret goes"));
        }
        let header = self.header.as_deref().and_then(|header| header_fault(header, upstream));
        header.or_else(|| self.argument.as_deref().and_then(argument_fault)).or_else(|| {
            let name = self.env.as_deref()?;
            match name {
                _ if upstream.command.is_none() => Some("`env` goes with a `command`, not with a `url`".to_owned()),
                _ if !is_variable(name) => Some("`env` is no name of a variable".to_owned()),
                _ if upstream.env.contains_key(name) => Some(format!("`env` sets `{name}` as well")),
                _ => None,
            }
        })
    }
}

impl StatementConfig {
    fn fault(&self, upstream: &UpstreamConfig) -> Option<String> {
        if self.issuer.trim().is_empty() || self.audience.as_ref().is_some_and(|audience| audience.trim().is_empty()) {
            return Some("`issuer` and `audience` of a statement are not empty".to_owned());
        }
        header_fault(&self.header, upstream)
    }
}

/// The first invalid credential of the upstreams: the field, and the reason.
pub(super) fn fault<'a>(
    mut upstreams: impl Iterator<Item = (&'a String, &'a UpstreamConfig)>,
) -> Option<(String, String)> {
    upstreams.find_map(|(id, upstream)| {
        let field = format!("upstreams.{id}.credential");
        if upstream.credential.len() > CREDENTIALS_MAX {
            return Some((field, format!("there are at most {CREDENTIALS_MAX}")));
        }
        let reason = upstream.credential.iter().find_map(|credential| credential.fault(upstream));
        reason.or_else(|| same_place(upstream)).map(|reason| (field, reason))
    })
}

fn same_place(upstream: &UpstreamConfig) -> Option<String> {
    let mut places: Vec<String> = upstream
        .credential
        .iter()
        .filter_map(|one| {
            let header = one.header.as_ref().or(one.statement.as_ref().map(|statement| &statement.header));
            let header = header.cloned().or_else(|| one.oauth.as_ref().map(|_| "authorization".to_owned()));
            header.map(|name| name.to_ascii_lowercase()).or(one.argument.clone()).or(one.env.clone())
        })
        .collect();
    places.sort();
    places.windows(2).find_map(|two| match two {
        [one, other] if one == other => Some(format!("two of them go into `{one}`")),
        _ => None,
    })
}

fn oauth_fault(oauth: &OauthConfig, upstream: &UpstreamConfig) -> Option<String> {
    header_fault("authorization", upstream)
        .map(|_| "`oauth` goes with a `url` that has no `authorization` among its `headers`".to_owned())
        .or_else(|| oauth.fault().map(|(field, reason)| format!("`oauth.{field}` {reason}")))
        .or_else(|| {
            let field = oauth.secret_for_anybody(upstream.url.as_deref().unwrap_or_default())?;
            Some(format!(
                "`oauth.{field}` goes with the `issuer` that it may be shown to, as `issuer: https://login.example.com`: \
                 without it the upstream would choose"
            ))
        })
}

fn header_fault(name: &str, upstream: &UpstreamConfig) -> Option<String> {
    let lower = name.to_ascii_lowercase();
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if upstream.url.is_none() {
        Some("`header` goes with a `url`, not with a `command`".to_owned())
    } else if name.is_empty() || !name.bytes().all(token) {
        Some("`header` is no name of a header".to_owned())
    } else if TAKEN.contains(&lower.as_str()) || lower.starts_with("mcp-") {
        Some(format!("the header `{name}` belongs to the protocol"))
    } else if upstream.headers.keys().any(|other| other.eq_ignore_ascii_case(name)) {
        Some(format!("`headers` has `{name}` as well"))
    } else {
        None
    }
}

fn argument_fault(pointer: &str) -> Option<String> {
    let good = servanda_upstream::is_argument_pointer(pointer);
    (!good).then(|| "`argument` is a JSON pointer of a few parts, as `/api_key`".to_owned())
}

fn default_issuer() -> String {
    "servanda".to_owned()
}

/// Reads one, or a list of them.
pub(super) fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<CredentialConfig>, D::Error> {
    struct OneOrMany;
    impl<'de> Visitor<'de> for OneOrMany {
        type Value = Vec<CredentialConfig>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("a credential, or a list of them")
        }

        fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<Self::Value, M::Error> {
            CredentialConfig::deserialize(MapAccessDeserializer::new(map)).map(|one| vec![one])
        }

        fn visit_seq<S: SeqAccess<'de>>(self, mut sequence: S) -> Result<Self::Value, S::Error> {
            let mut all = Vec::new();
            while let Some(one) = sequence.next_element()? {
                all.push(one);
            }
            Ok(all)
        }
    }
    deserializer.deserialize_any(OneOrMany)
}

/// The schema of one, or a list of them.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is wanted")]
pub(super) enum OneOrManySchema {
    One(Box<CredentialConfig>),
    Many(Vec<CredentialConfig>),
}

impl fmt::Debug for SecretPlace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reference() {
            Ok(reference) => write!(formatter, "{reference}"),
            Err(_) => formatter.write_str("not a reference"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    fn fault_of(upstream: &str) -> String {
        let text = format!("servanda: 1\nupstreams:\n  crm:\n    {}\n", upstream.replace('\n', "\n    "));
        let config: Result<Config, _> = servanda_contract::document::read("servanda.yaml", &text);
        match config {
            Err(error) => error.to_string(),
            Ok(config) => fault(config.upstreams.iter())
                .map_or_else(|| "good".to_owned(), |(field, reason)| format!("{field}: {reason}")),
        }
    }

    #[test]
    fn what_cannot_be_meant_is_said() {
        let url = "url: https://crm.test/mcp\n";
        let command = "command: crm\n";
        let table = [
            (url, r#"credential: { secret: "store:crm", header: Authorization, format: "Bearer {}" }"#, "good"),
            (url, r#"credential: [{ secret: "env:A", header: X-A }, { statement: { header: X-Call } }]"#, "good"),
            (url, r#"credential: { secret: "file:/run/s", argument: /api_key }"#, "good"),
            (command, r#"credential: { secret: "store:crm", env: API_KEY }"#, "good"),
            (url, "credential: { oauth: {} }", "good"),
            (url, "credential: { oauth: { scopes: [a], flow: user } }", "good"),
            (
                url,
                r#"credential: { oauth: { client_id: x, client_secret: "env:A" } }"#,
                "`oauth.client_secret` goes with the `issuer` that it may be shown to",
            ),
            (
                url,
                r#"credential: { oauth: { client_id: x, client_secret: "env:A", issuer: "https://as.test" } }"#,
                "good",
            ),
            (
                "url: http://127.0.0.1:9/mcp\n",
                r#"credential: { oauth: { client_id: x, client_secret: "env:A" } }"#,
                "good",
            ),
            (
                url,
                r#"credential: { oauth: { flow: jwt_bearer, client_id: x, assertion: "env:A" } }"#,
                "`oauth.assertion` goes with the `issuer`",
            ),
            (url, "credential: { oauth: {}, header: X }", "cannot be combined"),
            (command, "credential: { oauth: {} }", "`oauth` goes with a `url`"),
            (url, r#"credential: [{ oauth: {} }, { secret: "env:A", header: Authorization }]"#, "two of them go into"),
            (url, "credential: { oauth: { client_secret: canary } }", "`oauth.client_secret` a secret is named"),
            (url, "credential: {}", "needs a `secret`, a `statement` or `oauth`"),
            (url, r#"credential: { secret: "sk_live_canary", header: X }"#, "a secret is named `env:NAME`"),
            (url, r#"credential: { secret: "store:crm" }"#, "goes into one of"),
            (url, r#"credential: { secret: "store:crm", header: X, env: Y }"#, "goes into one of"),
            (url, r#"credential: { secret: "store:crm", env: Y }"#, "`env` goes with a `command`"),
            (command, r#"credential: { secret: "store:crm", header: X }"#, "`header` goes with a `url`"),
            (command, "credential: { statement: { header: X } }", "`header` goes with a `url`"),
            (url, r#"credential: { secret: "store:crm", header: Mcp-Name }"#, "belongs to the protocol"),
            (url, r#"credential: { secret: "store:crm", header: "X Y" }"#, "no name of a header"),
            (url, r#"credential: { secret: "store:crm", header: X, format: "Bearer" }"#, "`format` has `{}` once"),
            (url, r#"credential: { secret: "store:crm", argument: api_key }"#, "is a JSON pointer"),
            (url, r#"credential: { secret: "store:crm", argument: /1/2/3/4/5/6/7/8/9 }"#, "is a JSON pointer"),
            (command, r#"credential: { secret: "store:crm", env: 1X }"#, "no name of a variable"),
            (url, r#"credential: { secret: "store:crm", header: X, statement: { header: Y } }"#, "write two of them"),
            (
                url,
                r#"credential: [{ secret: "env:A", header: X }, { secret: "env:B", header: x }]"#,
                "two of them go into `x`",
            ),
            (url, r#"credential: { secrets: "store:crm" }"#, "secrets"),
            ("url: https://a.test\nheaders: { x: y }\n", r#"credential: { secret: "env:A", header: X }"#, "as well"),
        ];
        for (upstream, credential, expected) in table {
            let found = fault_of(&format!("{upstream}{credential}"));
            assert!(found.contains(expected), "{credential}: {found}");
            assert!(!found.contains("canary"), "{found}");
        }
    }
}
