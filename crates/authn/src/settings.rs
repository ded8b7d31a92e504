//! How callers authenticate, as the configuration says. The settings are replaced as a whole when the configuration
//! changes.

use std::{collections::BTreeSet, net::IpAddr};

use reqwest::Url;
use servanda_authority::{key_cache::KeyCachePolicy, rights::Scope, token::Issuer};
use servanda_oauth::{client::ClientAuthMethod, scope::OauthScopes};

/// How long an issuer's keys are used: fetched again after ten minutes, used for six hours if the issuer is unreachable
/// meanwhile, and fetched for an unknown key id at most every five seconds.
pub const KEY_CACHE_POLICY: KeyCachePolicy = KeyCachePolicy {
    fresh_ms_max: 600_000,
    stale_ms_max: 6 * 3_600_000,
    fetch_interval_ms_min: 5_000,
    fetch_ms_max: 10_000,
};

/// Whether callers need a credential.
#[derive(Debug, Clone)]
pub enum AuthnSettings {
    /// No credential: every caller is the one local principal. For loopback only; the code that binds the socket
    /// ensures that.
    Local,
    /// Every caller needs a credential.
    Required(Box<RequiredAuthnSettings>),
}

/// Which credentials are accepted.
#[derive(Debug, Clone)]
pub struct RequiredAuthnSettings {
    /// Our resource identifier: the address that clients use.
    pub resource: String,
    /// Whether API keys are accepted.
    pub keys: bool,
    /// The issuers whose access tokens are accepted.
    pub issuers: Vec<IssuerSettings>,
    /// The identity provider that signs people in to the console.
    pub provider: Option<ProviderSettings>,
    /// Every scope that any tool needs.
    pub scopes_supported: BTreeSet<Scope>,
    /// The scopes that a caller without a credential is told to request first.
    pub scopes_first: BTreeSet<Scope>,
}

/// An issuer and the address of its keys.
#[derive(Debug, Clone)]
pub struct IssuerSettings {
    /// The issuer, and the rights that its tokens give here.
    pub issuer: Issuer,
    /// The address of its keys; found through its metadata if absent.
    pub jwks_uri: Option<String>,
    /// How long its keys are used.
    pub cache: KeyCachePolicy,
}

/// The identity provider that signs people in to the console.
#[derive(Debug, Clone)]
pub struct ProviderSettings {
    /// Who its people are, and how its ID tokens are verified. The audience is our client's id.
    pub issuer: IssuerSettings,
    /// Its name for people.
    pub name: String,
    /// The reference of our client's secret, if it has one.
    pub client_secret: Option<String>,
    /// How our client authenticates; its document decides if absent.
    pub client_auth: Option<ClientAuthMethod>,
    /// The scopes that are requested, beside `openid`.
    pub scopes: OauthScopes,
    /// How long a session lasts at most.
    pub session_ms_max: u64,
    /// Whether people are known by `sub` here and at the doors for agents, without the operator having said so.
    pub compares_subjects: bool,
}

/// Parses an address from which keys may be fetched: over TLS, or on this machine, and without a password in it. The
/// error says why not and does not repeat the address.
pub fn fetchable_url(text: &str) -> Result<Url, &'static str> {
    let url = Url::parse(text).map_err(|_| "it is not a URL")?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("it has a user or a password, which would be sent along");
    }
    if url.fragment().is_some() {
        return Err("it has a fragment");
    }
    match url.scheme() {
        "https" => Ok(url),
        "http" if is_loopback(&url) => Ok(url),
        "http" => Err("`http` is only for this machine; write `https`"),
        _ => Err("it is neither `https` nor, on this machine, `http`"),
    }
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}
