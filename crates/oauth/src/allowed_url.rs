//! Which addresses the gateway may contact. An upstream's documents name addresses, and the author of such a document could name one in the
//! gateway's own network. So an upstream may send the gateway only as far inside as the upstream itself is.
//!
//! Names are checked twice: here by how they are written, and in `fetch` by what they resolve to when a connection is made.

use std::collections::BTreeSet;

use reqwest::Url;
pub use servanda_contract::network::Network;

/// How long an address may be.
const ADDRESS_BYTES_MAX: usize = 2_048;

/// How far inside an upstream may send the gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkTrust {
    network: Network,
    /// The upstream's own address, from the operator's configuration.
    own: Url,
    /// Further hosts from the operator's configuration.
    named: BTreeSet<String>,
}

/// An address that may be contacted, as far as its written form shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedUrl(Url);

/// Why an address is not followed. The text never repeats the address, because the document it comes from may be hostile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DisallowedUrl {
    /// Not an address.
    #[error("it is not an address")]
    NotAnAddress,
    /// It has a user, a password or a fragment.
    #[error("it has a user, a password or a fragment")]
    Decorated,
    /// Not encrypted.
    #[error("it is neither https nor on this machine")]
    NotEncrypted,
    /// Further inside than the upstream.
    #[error("it is in a network that the upstream is not in")]
    TooFarInside,
}

impl NetworkTrust {
    /// For an upstream at that address, which is in that network. A name is in a network if all its addresses are.
    pub const fn new(own: Url, network: Network) -> Self {
        Self { network, own, named: BTreeSet::new() }
    }

    /// Adds addresses from the operator's configuration: their hosts, and no others, may be further inside.
    #[must_use]
    pub fn naming(self, named: &[Url]) -> Self {
        Self { named: named.iter().filter_map(|url| url.host_str().map(ToOwned::to_owned)).collect(), ..self }
    }

    /// Whether the gateway may contact an address of that host. A link-local address is allowed only if the upstream is link-local itself.
    pub fn reaches(&self, host: &str, network: Network) -> bool {
        let written_down = self.own.host_str() == Some(host) || self.named.contains(host);
        let from = if written_down { self.network.max(Network::Loopback) } else { self.network };
        from.may_send_to(network)
    }

    /// The upstream itself.
    pub const fn upstream(&self) -> &Url {
        &self.own
    }

    /// An address that a document names.
    pub fn follow(&self, text: &str) -> Result<AllowedUrl, DisallowedUrl> {
        if text.len() > ADDRESS_BYTES_MAX {
            return Err(DisallowedUrl::NotAnAddress);
        }
        self.follow_url(Url::parse(text).map_err(|_| DisallowedUrl::NotAnAddress)?)
    }

    /// The same, parsed.
    pub fn follow_url(&self, url: Url) -> Result<AllowedUrl, DisallowedUrl> {
        if !matches!(url.scheme(), "https" | "http") || url.host_str().is_none_or(str::is_empty) {
            return Err(DisallowedUrl::NotAnAddress);
        }
        if !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() {
            return Err(DisallowedUrl::Decorated);
        }
        let written = written_network(&url);
        // The operator chose how the upstream itself is reached.
        let own = url.origin() == self.own.origin();
        if url.scheme() == "http" && written != Some(Network::Loopback) && !own {
            return Err(DisallowedUrl::NotEncrypted);
        }
        let host = url.host_str().unwrap_or_default();
        if written.is_some_and(|network| !self.reaches(host, network)) {
            return Err(DisallowedUrl::TooFarInside);
        }
        Ok(AllowedUrl(url))
    }
}

impl AllowedUrl {
    /// The address.
    pub const fn url(&self) -> &Url {
        &self.0
    }
}

/// The network of a host that is written as an IP address or that means this machine.
pub fn written_network(url: &Url) -> Option<Network> {
    let host = url.host_str()?;
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if let Ok(address) = bare.parse() {
        return Some(Network::from_address(address));
    }
    let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    (name == "localhost" || name.ends_with(".localhost")).then_some(Network::Loopback)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trust(url: &str, network: Network) -> NetworkTrust {
        NetworkTrust::new(Url::parse(url).unwrap(), network)
    }

    #[test]
    fn t25_an_upstream_sends_us_no_further_inside_than_it_is() {
        let public = trust("https://mcp.test/mcp", Network::Public);
        let private = trust("http://10.0.0.5/mcp", Network::Private);
        let local = trust("http://127.0.0.1:9/mcp", Network::Loopback);
        // address, followed for a public, a private, a local upstream
        let table = [
            ("https://as.test/x", true, true, true),
            ("https://8.8.8.8/x", true, true, true),
            ("http://as.test/x", false, false, false),
            ("https://10.1.2.3/x", false, true, true),
            ("http://10.1.2.3/x", false, false, false),
            ("http://10.0.0.5/x", false, true, false),
            ("https://192.168.0.1/", false, true, true),
            ("https://100.64.0.1/", false, true, true),
            ("https://[fd00::1]/", false, true, true),
            ("http://localhost:1/x", false, false, true),
            ("https://localhost:1/x", false, false, true),
            ("http://a.LOCALHOST./x", false, false, true),
            ("http://127.9.9.9/x", false, false, true),
            ("http://2130706433/x", false, false, true),
            ("http://[::1]/x", false, false, true),
            ("http://[::ffff:127.0.0.1]/x", false, false, true),
            ("https://[64:ff9b::a00:1]/", false, true, true),
            ("https://[2002:7f00:1::]/", false, false, true),
            ("https://169.254.169.254/latest", false, false, false),
            ("https://[fe80::1]/", false, false, false),
            ("https://0.0.0.0/", false, false, false),
            ("https://255.255.255.255/", false, false, false),
            ("https://user@as.test/", false, false, false),
            ("https://u:p@as.test/", false, false, false),
            ("https://as.test/#x", false, false, false),
            ("ftp://as.test/", false, false, false),
            ("file:///etc/passwd", false, false, false),
            ("as.test", false, false, false),
            ("", false, false, false),
        ];
        for (address, by_public, by_private, by_local) in table {
            let followed = [&public, &private, &local].map(|trust| trust.follow(address).is_ok());
            assert_eq!(followed, [by_public, by_private, by_local], "{address}");
        }
        assert!(public.follow(&format!("https://as.test/{}", "x".repeat(ADDRESS_BYTES_MAX))).is_err());
    }

    #[test]
    fn t25_what_the_operator_wrote_down_is_exempt_and_nothing_beside_it() {
        let named = ["https://10.0.0.1/as", "http://127.0.0.1:9/", "https://169.254.169.254/"];
        let named = named.map(|address| Url::parse(address).unwrap());
        let trust = trust("https://mcp.test/mcp", Network::Public).naming(&named);
        let table = [
            ("https://10.0.0.1/token", true),
            ("http://127.0.0.1:7/token", true),
            ("https://10.0.0.2/token", false),
            ("https://127.0.0.2/token", false),
            ("https://localhost/token", false),
            ("https://169.254.169.254/token", false),
        ];
        for (address, expected) in table {
            assert_eq!(trust.follow(address).is_ok(), expected, "{address}");
        }
        assert!(trust.reaches("mcp.test", Network::Loopback), "the upstream's own name is configured, too");
        assert!(!trust.reaches("as.test", Network::Private));
    }
}
