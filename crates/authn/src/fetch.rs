//! Gets an issuer's keys: by its metadata (`OpenID` Connect Discovery, RFC 8414), or from where the operator says they are. Bounded in
//! time and size; redirects are not followed, because who an issuer is must not be up to whoever answers.

use std::time::Duration;

use reqwest::{Client, StatusCode, Url, header};
use serde::Deserialize;
use servanda_authority::jwks::{KeySet, KeySetError, SET_BYTES_MAX};
use servanda_contract::json::{JsonLimits, decode};

use crate::settings::fetchable_url;

/// One request, connecting included.
const REQUEST_MS_MAX: u64 = 4_000;
/// Bytes of an issuer's metadata.
const METADATA_BYTES_MAX: usize = 256 << 10;
const METADATA_DEPTH_MAX: usize = 16;

/// Why there are no keys.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FetchError {
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
    #[error("it answered with status {0}")]
    Status(u16),
    #[error("it answered with more than {0} bytes")]
    TooLong(usize),
    #[error("its metadata cannot be read or is another issuer's")]
    Metadata,
    #[error("its keys are at an address that is not used: {0}")]
    Address(&'static str),
    #[error(transparent)]
    Keys(#[from] KeySetError),
    #[error("it took too long")]
    TooSlow,
}

/// What is looked at in an issuer's metadata.
#[derive(Deserialize)]
struct Metadata {
    issuer: String,
    jwks_uri: String,
}

/// The way out.
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

    /// The keys of an issuer.
    pub(crate) async fn key_set(&self, issuer: &str, jwks_uri: Option<&str>) -> Result<KeySet, FetchError> {
        let address = match jwks_uri {
            Some(address) => address.to_owned(),
            None => self.discover(issuer).await?,
        };
        // Who is elsewhere does not get to say what is asked on this machine.
        if jwks_uri.is_none() && issuer.starts_with("https:") && !address.starts_with("https:") {
            return Err(FetchError::Address("an issuer over TLS has its keys over TLS"));
        }
        let address = fetchable_url(&address).map_err(FetchError::Address)?;
        Ok(KeySet::read(&self.get(address, SET_BYTES_MAX).await?)?)
    }

    /// Where an issuer says its keys are. The first metadata that there are have the say: one that is wrong is not helped by another.
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

/// Whether an issuer's keys can be had, for whoever looks what is wrong.
pub async fn check_issuer(issuer: &str, jwks_uri: Option<&str>) -> Result<(), String> {
    let fetcher = Fetcher::new().map_err(|error| error.to_string())?;
    fetcher.key_set(issuer, jwks_uri).await.map(drop).map_err(|error| error.to_string())
}

/// Where the metadata of an issuer can be: `OpenID` Connect puts its name behind the issuer's path, RFC 8414 before it.
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
    // RFC 8414 §3.3: metadata that name somebody else are somebody else's.
    if metadata.issuer == issuer { Ok(metadata.jwks_uri) } else { Err(FetchError::Metadata) }
}

fn unreachable(error: &reqwest::Error) -> FetchError {
    let mut source = std::error::Error::source(error);
    let mut why = if error.is_timeout() { "it timed out".to_owned() } else { "the request failed".to_owned() };
    while let Some(cause) = source {
        why = cause.to_string();
        source = cause.source();
    }
    FetchError::Unreachable(why)
}
