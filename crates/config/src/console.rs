//! `console:` of the configuration: the identity provider through which people sign in to the console, beside keys and passkeys.
//!
//! Who its people are is said once. If its tokens are accepted from agents too, that is in `auth.issuers`, so that an agent's owner is the same
//! person in the console; otherwise it is in `people`, in the same words.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use servanda_authn::{IssuerSettings, ProviderSettings};
use servanda_oauth::scope::OauthScopes;
use servanda_vault::SecretReference;
use url::{Host, Url};

use crate::{
    AuthMode, Config, ConfigFieldFault,
    auth::{IssuerConfig, TenantConfig},
    oauth::ClientAuth,
};

/// The place of these settings in the file.
const PLACE: &str = "console.sign_in.oidc";
/// How long a session may last: five minutes to twelve hours, which is also the console's own limit.
const SESSION_SEC_MIN: u64 = 300;
const SESSION_SEC_MAX: u64 = 43_200;
const CLIENT_ID_BYTES_MAX: usize = 1_024;
const NAME_CHARS_MAX: usize = 60;
/// What of `people` may be wrong, by its field there.
const OF_PEOPLE: [&str; 4] = ["tenant", "principal_claim", "principal_prefix", "groups_claim"];

/// The console.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ConsoleConfig {
    /// How people sign in, beside keys and passkeys.
    pub sign_in: SignInConfig,
}

/// How people sign in to the console, beside keys and passkeys.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SignInConfig {
    /// Through an identity provider (`OpenID` Connect). It sends people back to `/sign-in/oidc/answer` below `approvals.console_url`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oidc: Option<OidcConfig>,
}

/// The identity provider that signs people in to the console.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OidcConfig {
    /// The exact `iss` of its ID tokens; its metadata are fetched from there.
    pub issuer: String,
    /// The console's client id there.
    pub client_id: String,
    /// Its secret: `env:NAME`, `file:PATH` or `store:NAME`. A client without one is public; codes are bound to the gateway in any case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<String>,
    /// How the client authenticates, if the provider's metadata are not to choose it: `client_secret_basic` or `client_secret_post`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_auth: Option<ClientAuth>,
    /// The scopes to ask for, beside `openid`: those whose claims `people` names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// What the button says after “Sign in with”; the provider's host by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Who its people are. Left out if the issuer is one of `auth.issuers`, which says it then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub people: Option<PeopleConfig>,
    /// Where its keys are; taken from its metadata by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwks_uri: Option<String>,
    /// The algorithms that are accepted from it: `RS256`, `PS256`, `ES256`, `EdDSA`; all but `PS256` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub algorithms: Option<Vec<String>>,
    /// How much its clock may differ from ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 120_000))]
    pub leeway_ms: Option<u64>,
    /// How long a session lasts at most; twelve hours by default. What the provider changes about a person is known at the next sign-in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 300, max = 43_200))]
    pub session_sec_max: Option<u64>,
}

/// Who the people of a provider are, by the claims of its ID tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PeopleConfig {
    /// Their tenant: one for all, or the value of a claim.
    pub tenant: TenantConfig,
    /// The claim that names the person; `sub` by default. `email` counts only if it is verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal_claim: Option<String>,
    /// A prefix for that name. Needed if the users of an issuer are of the same tenant.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub principal_prefix: String,
    /// The claim that lists the person's groups, for roles and tickets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups_claim: Option<String>,
}

impl ConsoleConfig {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Config {
    /// The identity provider's settings, if there is one.
    pub(crate) fn provider_settings(&self) -> Result<Option<ProviderSettings>, ConfigFieldFault> {
        let Some(oidc) = &self.console.sign_in.oidc else { return Ok(None) };
        let wrong = |field: &str, reason: String| (format!("{PLACE}.{field}"), reason);
        let described = oidc.described(&self.auth.issuers)?;
        let issuer = described.terms(&oidc.client_id).map_err(|fault| oidc.fault_of_issuer(fault))?;
        let is_named = described.principal_claim.is_some();
        let scopes = OauthScopes::new(oidc.scopes.clone()).map_err(|error| wrong("scopes", error.to_string()))?;
        let host = Url::parse(&oidc.issuer).ok().and_then(|url| url.host_str().map(str::to_owned));
        Ok(Some(ProviderSettings {
            issuer,
            name: oidc.name.clone().or(host).unwrap_or_default(),
            client_secret: oidc.client_secret.clone(),
            client_auth: oidc.client_auth.map(ClientAuth::method),
            scopes,
            session_ms_max: oidc.session_sec_max.unwrap_or(SESSION_SEC_MAX).saturating_mul(1000),
            compares_subjects: oidc.people.is_none() && !is_named,
        }))
    }
}

impl OidcConfig {
    /// The secret that a person has to set.
    pub fn secret(&self) -> Option<SecretReference> {
        self.client_secret.as_ref()?.parse().ok()
    }

    /// The issuer, as `auth.issuers` would describe it for tokens of our client.
    fn described(&self, issuers: &[IssuerConfig]) -> Result<IssuerConfig, ConfigFieldFault> {
        let wrong = |field: &str, reason: &str| (format!("{PLACE}.{field}"), reason.to_owned());
        let at_doors = issuers.iter().find(|issuer| issuer.issuer == self.issuer);
        let own = || IssuerConfig {
            issuer: self.issuer.clone(),
            tenant: TenantConfig::Fixed(String::new()),
            audience: Some(self.client_id.clone()),
            jwks_uri: self.jwks_uri.clone(),
            algorithms: self.algorithms.clone(),
            principal_claim: None,
            principal_prefix: String::new(),
            groups_claim: None,
            scopes: None,
            tools: None,
            resources: None,
            ceiling: None,
            leeway_ms: self.leeway_ms,
        };
        match (at_doors, &self.people) {
            (Some(issuer), None) => {
                let said_twice = [
                    ("jwks_uri", self.jwks_uri.is_some()),
                    ("algorithms", self.algorithms.is_some()),
                    ("leeway_ms", self.leeway_ms.is_some()),
                ];
                if let Some((field, _)) = said_twice.into_iter().find(|(_, is_said)| *is_said) {
                    return Err(wrong(field, "`auth.issuers` says it for this issuer; leave it out here"));
                }
                Ok(IssuerConfig { audience: Some(self.client_id.clone()), ..issuer.clone() })
            }
            (Some(_), Some(_)) => Err(wrong(
                "people",
                "`auth.issuers` says who the users of this issuer are, for agents and people alike; leave `people` out",
            )),
            (None, Some(people)) => Ok(IssuerConfig {
                tenant: people.tenant.clone(),
                principal_claim: people.principal_claim.clone(),
                principal_prefix: people.principal_prefix.clone(),
                groups_claim: people.groups_claim.clone(),
                ..own()
            }),
            (None, None) => Err(wrong(
                "people",
                "is missing: write at least `people: {tenant: ...}`, or name the issuer in `auth.issuers` if its tokens are accepted from agents too",
            )),
        }
    }

    /// A fault of the issuer, at the place where this file says it.
    fn fault_of_issuer(&self, (field, reason): ConfigFieldFault) -> ConfigFieldFault {
        let name = field.rsplit('.').next().unwrap_or_default();
        let is_of_people = self.people.is_some() && OF_PEOPLE.contains(&name);
        let place = if is_of_people { format!("{PLACE}.people") } else { PLACE.to_owned() };
        (format!("{place}.{name}"), reason)
    }

    /// What is wrong with the client.
    fn client_fault(&self) -> Option<(&'static str, String)> {
        let wrong = |field, reason: &str| Some((field, reason.to_owned()));
        let is_id = (1..=CLIENT_ID_BYTES_MAX).contains(&self.client_id.len())
            && self.client_id.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_id {
            return wrong("client_id", "must be the id that the provider gave the console's client");
        }
        if let Some(Err(error)) = self.client_secret.as_ref().map(|text| text.parse::<SecretReference>()) {
            return Some(("client_secret", error.to_string()));
        }
        match (self.client_auth, &self.client_secret) {
            (Some(ClientAuth::PrivateKeyJwt), _) => {
                wrong("client_auth", "`private_key_jwt` is not offered here; give the client a secret")
            }
            (Some(ClientAuth::ClientSecretBasic | ClientAuth::ClientSecretPost), None) => {
                wrong("client_auth", "goes with a `client_secret`")
            }
            (Some(ClientAuth::None), Some(_)) => wrong("client_auth", "`none` goes without a `client_secret`"),
            _ => None,
        }
    }

    fn own_fault(&self) -> Option<(&'static str, String)> {
        let wrong = |field, reason: String| Some((field, reason));
        let is_exact = Url::parse(&self.issuer).is_ok_and(|url| url.query().is_none() && url.fragment().is_none());
        if !is_exact {
            return wrong("issuer", "is not an address like https://login.example".to_owned());
        }
        if self.session_sec_max.is_some_and(|seconds| !(SESSION_SEC_MIN..=SESSION_SEC_MAX).contains(&seconds)) {
            return wrong("session_sec_max", format!("must be {SESSION_SEC_MIN} to {SESSION_SEC_MAX}"));
        }
        let is_name =
            |name: &String| (1..=NAME_CHARS_MAX).contains(&name.chars().count()) && !name.chars().any(char::is_control);
        if self.name.as_ref().is_some_and(|name| !is_name(name)) {
            return wrong("name", format!("must be 1 to {NAME_CHARS_MAX} characters"));
        }
        self.client_fault()
    }
}

/// The first field with an impossible value, and why.
pub(super) fn fault(config: &Config) -> Option<ConfigFieldFault> {
    let oidc = config.console.sign_in.oidc.as_ref()?;
    let at = |field: &str, reason: String| Some((format!("{PLACE}.{field}"), reason));
    if config.auth.mode == AuthMode::Local {
        let reason =
            "without credentials one person uses the gateway, and signs in with a link; write `auth: {mode: required}`";
        return Some((PLACE.to_owned(), reason.to_owned()));
    }
    if let Some((field, reason)) = oidc.own_fault() {
        return at(field, reason);
    }
    let settings = match config.provider_settings() {
        Ok(settings) => settings?,
        Err(fault) => return Some(fault),
    };
    if let Some(reason) = console_url_fault(config.approvals.console_url.as_deref()) {
        return Some(("approvals.console_url".to_owned(), reason));
    }
    if let Some(issuer) = opens_doors(config, &settings.issuer) {
        let reason = format!(
            "is also what tokens of `{issuer}` are for at the doors: an ID token of a person would open them. Give the console a client of its own"
        );
        return at("client_id", reason);
    }
    let described = oidc.described(&config.auth.issuers).ok()?;
    let other = config.auth.issuers.iter().filter(|other| other.issuer != oidc.issuer);
    let other = other.into_iter().find(|other| described.may_be_mixed_up_with(other))?;
    let reason = format!(
        "people of `{}` and users of `{}` may be of one tenant and have one name; give both a `principal_prefix`, neither of which begins with \
         the other",
        oidc.issuer, other.issuer
    );
    at("people", reason)
}

/// The issuer whose tokens for our client would open the doors for agents.
fn opens_doors<'a>(config: &'a Config, provider: &IssuerSettings) -> Option<&'a str> {
    let bare = |text: &str| text.trim_end_matches('/').to_owned();
    let client = bare(&provider.issuer.audience);
    let resource = config.auth.resource.as_deref().unwrap_or_default();
    let is_for = |issuer: &&IssuerConfig| bare(issuer.audience.as_deref().unwrap_or(resource)) == client;
    config.auth.issuers.iter().find(is_for).map(|issuer| issuer.issuer.as_str())
}

/// Why people cannot come back to that address.
fn console_url_fault(console_url: Option<&str>) -> Option<String> {
    let Some(text) = console_url else {
        return Some(
            "is missing: people come back from the identity provider to the address that it names, like https://gateway.example".to_owned(),
        );
    };
    let is_origin = |url: &Url| {
        let is_bare = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
        is_bare && url.username().is_empty() && url.password().is_none()
    };
    let is_here = |url: &Url| match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    match Url::parse(text) {
        Ok(url) if !is_origin(&url) => Some(
            "must be an address without a path, like https://gateway.example, if people come back to it".to_owned(),
        ),
        Ok(url) if url.scheme() == "https" || (url.scheme() == "http" && is_here(&url)) => None,
        _ => Some(
            "must be an `https` address, or an `http` address of this machine, if people come back to it".to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests;
