//! On which terms people are let in: what a configuration comes to. It is replaced as a whole when the configuration changes.

use std::{collections::BTreeSet, net::IpAddr};

use reqwest::Url;
use servanda_authority::{key_cache::KeyCachePolicy, rights::Scope, token::Issuer};

/// How long an issuer's keys are used: fetched again after ten minutes, used for six hours if the issuer is away meanwhile, and
/// fetched for an unknown key id at most every five seconds.
pub const KEY_CACHE_POLICY: KeyCachePolicy = KeyCachePolicy {
    fresh_ms_max: 600_000,
    stale_ms_max: 6 * 3_600_000,
    fetch_interval_ms_min: 5_000,
    fetch_ms_max: 10_000,
};

/// Who has to show what.
#[derive(Debug, Clone)]
pub enum AuthnSettings {
    /// Nobody anything: whoever reaches the door is the one local principal. For loopback only, which whoever binds it makes sure of.
    Local,
    /// Everybody a credential.
    Required(Box<RequiredAuthnSettings>),
}

/// Which credentials are taken.
#[derive(Debug, Clone)]
pub struct RequiredAuthnSettings {
    /// Our resource identifier: the address that clients know us by.
    pub resource: String,
    /// Whether API keys are.
    pub keys: bool,
    /// Whose access tokens are.
    pub issuers: Vec<IssuerSettings>,
    /// Every scope that some tool needs.
    pub scopes_supported: BTreeSet<Scope>,
    /// What somebody without a credential is told to ask for first.
    pub scopes_first: BTreeSet<Scope>,
}

/// An issuer and where its keys are.
#[derive(Debug, Clone)]
pub struct IssuerSettings {
    /// Whose tokens, and what they are worth here.
    pub issuer: Issuer,
    /// Where its keys are; found by its metadata if not said.
    pub jwks_uri: Option<String>,
    /// How long they are used.
    pub cache: KeyCachePolicy,
}

/// The address, if keys may be fetched from it: over TLS, or on this machine, without a password in it. The error says why not and
/// does not repeat it.
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
