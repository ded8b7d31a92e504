//! Fetches an issuer's keys: from its metadata (`OpenID` Connect Discovery, RFC 8414), or from the address that the
//! operator configured. Bounded in time and size. Redirects are not followed, because the answering host must not
//! decide who the issuer is.

use std::time::Duration;

use reqwest::{Client, StatusCode, Url, header};
use serde::Deserialize;
use servanda_authority::jwks::{KeySet, KeySetError, SET_BYTES_MAX};
use servanda_contract::json::{JsonLimits, decode};

use crate::settings::fetchable_url;

/// The time limit of one request, connecting included.
const REQUEST_MS_MAX: u64 = 4_000;
/// The longest metadata of an issuer, in bytes.
const METADATA_BYTES_MAX: usize = 256 << 10;
const METADATA_DEPTH_MAX: usize = 16;

/// Why the keys of an issuer cannot be fetched.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FetchError {
    #[error("the issuer cannot be reached: {0}")]
    Unreachable(String),
    #[error("the issuer answered with status {0}")]
    Status(u16),
    #[error("the issuer answered with more than {0} bytes")]
    TooLong(usize),
    #[error("the issuer's metadata cannot be read or belongs to another issuer")]
    Metadata,
    #[error("the issuer's keys are at an address that is not allowed: {0}")]
    Address(&'static str),
    #[error(transparent)]
    Keys(#[from] KeySetError),
    #[error("fetching the issuer's keys took too long")]
    TooSlow,
}

/// The members of an issuer's metadata that are used.
#[derive(Deserialize)]
struct Metadata {
    issuer: String,
    jwks_uri: String,
}

/// The HTTP client for issuers.
#[derive(Debug, Clone)]
pub(crate) struct Fetcher(Client);

impl Fetcher {
    pub(crate) fn new() -> Result<Self, reqwest::Error> {
        let client = Client::builder()
            .user_agent(concat!("servanda/", env!("CARGO_PKG_VERSION")))
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(Duration::from_millis(REQUEST_MS_MAX))
            .timeout(Duration::from_millis(REQUEST_MS_MAX))
            .pool_max_idle_per_host(0)
            .build()?;
        Ok(Self(client))
    }

    /// Fetches the keys of an issuer.
    pub(crate) async fn key_set(&self, issuer: &str, jwks_uri: Option<&str>) -> Result<KeySet, FetchError> {
        let address = match jwks_uri {
            Some(address) => address.to_owned(),
            None => self.discover(issuer).await?,
        };
        // A remote issuer must not make this gateway send requests to its own machine.
        if jwks_uri.is_none() && issuer.starts_with("https:") && !address.starts_with("https:") {
            return Err(FetchError::Address("an `https` issuer must have its keys at an `https` address"));
        }
        let address = fetchable_url(&address).map_err(FetchError::Address)?;
        Ok(KeySet::read(&self.get(address, SET_BYTES_MAX).await?)?)
    }

    /// The address of an issuer's keys, from its metadata. The first metadata document that exists decides; if it is
    /// wrong, no other is tried.
    async fn discover(&self, issuer: &str) -> Result<String, FetchError> {
        let mut last = FetchError::Metadata;
        for address in metadata_addresses(issuer) {
            let address = fetchable_url(&address).map_err(FetchError::Address)?;
            match self.get(address, METADATA_BYTES_MAX).await {
                Ok(bytes) => return read_metadata(&bytes, issuer),
                Err(error @ FetchError::Status(_)) => last = error,
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }

    async fn get(&self, address: Url, bytes_max: usize) -> Result<Vec<u8>, FetchError> {
        let asked = self.0.get(address).header(header::ACCEPT, "application/json").send().await;
        let mut answer = asked.map_err(|error| unreachable(&error))?;
        if answer.status() != StatusCode::OK {
            return Err(FetchError::Status(answer.status().as_u16()));
        }
        let mut bytes = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(|error| unreachable(&error))? {
            if bytes.len() + chunk.len() > bytes_max {
                return Err(FetchError::TooLong(bytes_max));
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    }
}

/// Checks whether an issuer's keys can be fetched, for diagnosis.
pub async fn check_issuer(issuer: &str, jwks_uri: Option<&str>) -> Result<(), String> {
    let fetcher = Fetcher::new().map_err(|error| error.to_string())?;
    fetcher.key_set(issuer, jwks_uri).await.map(drop).map_err(|error| error.to_string())
}

/// The addresses where an issuer's metadata may be: `OpenID` Connect puts the well-known name behind the issuer's path,
/// RFC 8414 before it.
pub(crate) fn metadata_addresses(issuer: &str) -> Vec<String> {
    let issuer = issuer.strip_suffix('/').unwrap_or(issuer);
    let openid = format!("{issuer}/.well-known/openid-configuration");
    let origin_end = issuer.find("://").and_then(|start| issuer.get(start + 3..)?.find('/').map(|end| start + 3 + end));
    let (origin, path) = issuer.split_at(origin_end.unwrap_or(issuer.len()));
    vec![openid, format!("{origin}/.well-known/oauth-authorization-server{path}")]
}

fn read_metadata(bytes: &[u8], issuer: &str) -> Result<String, FetchError> {
    let limits = JsonLimits { bytes_max: METADATA_BYTES_MAX, depth_max: METADATA_DEPTH_MAX };
    let value = decode(bytes, limits).map_err(|_| FetchError::Metadata)?;
    let metadata: Metadata = serde_json::from_value(value).map_err(|_| FetchError::Metadata)?;
    // RFC 8414 §3.3: metadata that name another issuer must not be used.
    if metadata.issuer == issuer { Ok(metadata.jwks_uri) } else { Err(FetchError::Metadata) }
}

fn unreachable(error: &reqwest::Error) -> FetchError {
    let mut source = std::error::Error::source(error);
    let mut why = if error.is_timeout() { "the request timed out".to_owned() } else { "the request failed".to_owned() };
    while let Some(cause) = source {
        why = cause.to_string();
        source = cause.source();
    }
    FetchError::Unreachable(why)
}
