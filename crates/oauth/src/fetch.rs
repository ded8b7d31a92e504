//! Fetches documents and posts requests: bounded in time and size, without redirects, without proxies from the environment, and to no
//! network further inside than the upstream's, whatever a name resolves to at that moment.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use futures_util::StreamExt as _;
use reqwest::{
    Client, Response, Url,
    dns::{Addrs, Name, Resolve, Resolving},
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue},
};
use serde_json::Value;
use servanda_authority::Secret;

use crate::{
    allowed_url::{AllowedUrl, Network, NetworkTrust, written_network},
    discovery::DocumentFetch,
    flow::FlowEvent,
    metadata::DOCUMENT_BYTES_MAX,
    request::TokenRequest,
};

/// How long connecting and a whole exchange may take.
const CONNECT_MS_MAX: u64 = 10_000;
const EXCHANGE_MS_MAX: u64 = 30_000;

/// Contacts the addresses that an upstream's documents name.
#[derive(Debug, Clone)]
pub struct OauthHttp {
    client: Client,
    trust: NetworkTrust,
}

/// A server could not be reached. The error does not name it; the caller knows which one it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the authorization server could not be reached")]
pub struct AuthServerUnreachable(());

impl OauthHttp {
    /// Creates a client for an upstream. `named` are addresses from the operator's configuration: their hosts may be further inside than
    /// the upstream.
    pub async fn new(upstream: &Url, named: &[Url]) -> Result<Self, AuthServerUnreachable> {
        let network = network_of(upstream).await.ok_or(AuthServerUnreachable(()))?;
        let trust = NetworkTrust::new(upstream.clone(), network).naming(named);
        let client = Client::builder()
            .user_agent(concat!("servanda/", env!("CARGO_PKG_VERSION")))
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .connect_timeout(Duration::from_millis(CONNECT_MS_MAX))
            .timeout(Duration::from_millis(EXCHANGE_MS_MAX))
            .pool_max_idle_per_host(0)
            .dns_resolver(Arc::new(TrustedResolver { trust: trust.clone() }))
            .build()
            .map_err(|_| AuthServerUnreachable(()))?;
        Ok(Self { client, trust })
    }

    /// How far its upstream is trusted.
    pub const fn trust(&self) -> &NetworkTrust {
        &self.trust
    }

    /// Fetches a document.
    pub async fn fetch(&self, place: &AllowedUrl) -> DocumentFetch {
        let sending = self.client.get(place.url().clone()).header(ACCEPT, "application/json").send();
        let Ok(response) = sending.await else { return DocumentFetch::Unknown };
        let status = response.status();
        if status.is_client_error() {
            return DocumentFetch::Nothing;
        }
        if status.as_u16() != 200 {
            return DocumentFetch::Unknown;
        }
        // Some servers answer every address with the same page.
        if !is_json(&response) {
            return DocumentFetch::Nothing;
        }
        read(response).await.map_or(DocumentFetch::Unknown, DocumentFetch::Document)
    }

    /// Posts a registration.
    pub async fn register(&self, place: &AllowedUrl, request: &Value) -> Result<FlowEvent, AuthServerUnreachable> {
        let posting = self.client.post(place.url().clone()).header(CONTENT_TYPE, "application/json");
        answered(posting.body(request.to_string())).await
    }

    /// Posts a request for a token.
    pub async fn request_token(&self, request: &TokenRequest) -> Result<FlowEvent, AuthServerUnreachable> {
        let mut posting = self.client.post(request.address.url().clone());
        posting = posting.header(CONTENT_TYPE, "application/x-www-form-urlencoded").header(ACCEPT, "application/json");
        if let Some(authorization) = &request.authorization {
            let mut value = HeaderValue::from_bytes(authorization.expose()).map_err(|_| AuthServerUnreachable(()))?;
            value.set_sensitive(true);
            posting = posting.header(AUTHORIZATION, value);
        }
        answered(posting.body(request.form.expose().to_vec())).await
    }
}

async fn answered(posting: reqwest::RequestBuilder) -> Result<FlowEvent, AuthServerUnreachable> {
    let response = posting.send().await.map_err(|_| AuthServerUnreachable(()))?;
    let status = response.status().as_u16();
    let body = read(response).await.ok_or(AuthServerUnreachable(()))?;
    Ok(FlowEvent::Answered { status, body: Secret::new(body) })
}

fn is_json(response: &Response) -> bool {
    let value = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence == "application/json" || essence.ends_with("+json")
}

async fn read(response: Response) -> Option<Vec<u8>> {
    let mut chunks = response.bytes_stream();
    let mut body = Vec::new();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.ok()?;
        if body.len() + chunk.len() > DOCUMENT_BYTES_MAX {
            return None;
        }
        body.extend_from_slice(&chunk);
    }
    Some(body)
}

/// The network that all addresses of a host are in; the outermost if there are several. The owner of a name decides what it resolves to, so
/// no name but `localhost` counts as this machine.
async fn network_of(url: &Url) -> Option<Network> {
    if let Some(network) = written_network(url) {
        return Some(network);
    }
    let host = url.host_str()?;
    let found = tokio::net::lookup_host((host, url.port_or_known_default().unwrap_or(443))).await.ok()?;
    outermost(found.map(|address| address.ip()))
}

fn outermost(addresses: impl Iterator<Item = IpAddr>) -> Option<Network> {
    addresses.map(|address| Network::from_address(address).min(Network::Private)).min()
}

/// Resolves names, and only to addresses that may be contacted. A name with one disallowed address is refused as a whole, because its owner
/// could return another address the next time.
#[derive(Debug)]
struct TrustedResolver {
    trust: NetworkTrust,
}

impl Resolve for TrustedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let trust = self.trust.clone();
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            if !all_reachable(&trust, name.as_str(), found.iter().map(SocketAddr::ip)) {
                return Err(io::Error::other("the name leads into a network that the upstream is not in").into());
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

fn all_reachable(trust: &NetworkTrust, host: &str, mut addresses: impl Iterator<Item = IpAddr>) -> bool {
    addresses.all(|address| trust.reaches(host, Network::from_address(address)))
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    use super::*;

    /// Answers every request with the same bytes. Returns where it listens.
    async fn server(answer: String) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = vec![0; 4096];
                let _ = stream.read(&mut request).await;
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        address
    }

    fn http(status: &str, kind: &str, body: &str) -> String {
        let length = body.len();
        format!(
            "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
        )
    }

    async fn looked(answer: String) -> &'static str {
        let address = server(answer).await;
        let oauth_http = OauthHttp::new(&format!("http://{address}/mcp").parse().unwrap(), &[]).await.unwrap();
        let place = oauth_http.trust().follow(&format!("http://{address}/document")).unwrap();
        match oauth_http.fetch(&place).await {
            DocumentFetch::Document(_) => "document",
            DocumentFetch::Nothing => "nothing",
            DocumentFetch::Unknown => "unknown",
        }
    }

    #[tokio::test]
    async fn only_a_json_document_of_a_fair_size_is_one() {
        let table = [
            (http("200 OK", "application/json; charset=utf-8", "{}"), "document"),
            (http("200 OK", "text/html", "<html>"), "nothing"),
            (http("404 Not Found", "application/json", "{}"), "nothing"),
            (http("500 Oops", "application/json", "{}"), "unknown"),
            (http("200 OK", "application/json", &" ".repeat(DOCUMENT_BYTES_MAX + 1)), "unknown"),
            ("HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n".to_owned(), "unknown"),
        ];
        for (answer, expected) in table {
            let head = answer.chars().take(60).collect::<String>();
            assert_eq!(looked(answer).await, expected, "{head}");
        }
    }

    #[tokio::test]
    async fn t25_a_name_that_leads_inside_is_not_gone_to() {
        let address = server(http("200 OK", "application/json", "{}")).await;
        // By name, so that only the resolver can stop it: this name resolves to the loopback everywhere.
        let trust = |network| NetworkTrust::new("https://mcp.test/".parse().unwrap(), network);
        let client =
            |trust| Client::builder().no_proxy().dns_resolver(Arc::new(TrustedResolver { trust })).build().unwrap();
        let url = format!("http://localhost:{}/", address.port());
        assert!(client(trust(Network::Loopback)).get(&url).send().await.is_ok());
        assert!(client(trust(Network::Public)).get(&url).send().await.is_err());
        assert!(client(trust(Network::Private)).get(&url).send().await.is_err());
        let named = trust(Network::Public).naming(&[url.parse().unwrap()]);
        assert!(client(named).get(&url).send().await.is_ok(), "it is in the operator's configuration");
        let mixed = ["8.8.8.8", "10.0.0.1"].map(|address| address.parse().unwrap());
        assert!(!all_reachable(&trust(Network::Public), "as.test", mixed.into_iter()));
        assert!(all_reachable(&trust(Network::Private), "as.test", mixed.into_iter()));
    }

    #[test]
    fn t25_no_name_makes_itself_this_machine() {
        let network = |addresses: &[&str]| outermost(addresses.iter().map(|address| address.parse().unwrap()));
        assert_eq!(network(&["127.0.0.1"]), Some(Network::Private));
        assert_eq!(network(&["169.254.169.254"]), Some(Network::Private));
        assert_eq!(network(&["127.0.0.1", "8.8.8.8"]), Some(Network::Public));
        assert_eq!(network(&[]), None);
    }
}
