//! URLs in the arguments: which scheme and host they name, and whether a tool may be sent there (T20). This looks at the text
//! alone. A caller that resolves the name checks the address with [`UrlDestination::network_allowed`]. The server resolves the
//! name again and may get another address.

use std::fmt;
use std::net::IpAddr;

use servanda_contract::network::Network;
use url::{Host, Url};

/// How long a URL may be.
const URL_BYTES_MAX: usize = 8_192;
/// Last parts of names that resolve only inside a private network.
const INSIDE: [&str; 9] = ["localhost", "localdomain", "local", "internal", "lan", "home", "corp", "intranet", "arpa"];

/// Where a tool's URLs may lead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlRules {
    schemes: Vec<String>,
    /// Exact names, or `*.` and a name. Empty means every public host.
    hosts: Vec<String>,
}

/// Where a URL leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlDestination {
    /// The host, as a name or an address.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Whether the contract names the host. Only then may it have an address inside a private network.
    pub is_named: bool,
}

/// Why a URL is refused. It never carries the URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlRefusal {
    /// Not a URL that every reader reads the same way.
    #[error("it is not a URL that every program reads alike")]
    NotPlain,
    /// Another scheme.
    #[error("its scheme is not one of those allowed: {0}")]
    Scheme(String),
    /// With a user or a password.
    #[error("it holds a user or a password")]
    Credentials,
    /// Another host.
    #[error("its host is not one of those the contract names")]
    Host,
    /// A host that is not public.
    #[error("its host is not a public one: the contract may name it in `hosts`")]
    Inside,
}

impl UrlRules {
    /// Rules of a contract; without schemes only `https`.
    pub fn new(schemes: &[String], hosts: &[String]) -> Result<Self, String> {
        let schemes: Vec<String> = if schemes.is_empty() { vec!["https".to_owned()] } else { schemes.to_vec() };
        if let Some(other) = schemes.iter().find(|scheme| !matches!(scheme.as_str(), "http" | "https" | "ws" | "wss")) {
            return Err(format!("`{other}` is not a supported scheme; say `https`, `http`, `wss` or `ws`"));
        }
        let hosts: Vec<String> = hosts.iter().map(|host| host.to_ascii_lowercase()).collect();
        let is_host = |host: &String| {
            let name = host.strip_prefix("*.").unwrap_or(host);
            !name.contains('*') && Host::parse(name).is_ok()
        };
        match hosts.iter().find(|host| !is_host(host)) {
            Some(host) => Err(format!("`{host}` is not a host; say a name, an address, or `*.` and a name")),
            None => Ok(Self { schemes, hosts }),
        }
    }

    /// Where the URL leads, if its text allows sending a tool there.
    pub fn admit(&self, text: &str) -> Result<UrlDestination, UrlRefusal> {
        let plain = text.len() <= URL_BYTES_MAX
            && text.chars().all(|character| !character.is_control() && !character.is_whitespace() && character != '\\');
        let url = plain.then(|| Url::parse(text).ok()).flatten().ok_or(UrlRefusal::NotPlain)?;
        // Some readers repair `https:/host` and `https:host`; others read them as paths.
        if !text.get(url.scheme().len()..).is_some_and(|rest| rest.starts_with("://") && !rest.starts_with(":///")) {
            return Err(UrlRefusal::NotPlain);
        }
        if !self.schemes.iter().any(|scheme| scheme == url.scheme()) {
            return Err(UrlRefusal::Scheme(self.schemes.join(", ")));
        }
        if !url.username().is_empty()
            || url.password().is_some()
            || text.split(['?', '#']).next().is_some_and(|before| before.contains('@'))
        {
            return Err(UrlRefusal::Credentials);
        }
        let (host, port) =
            (url.host().ok_or(UrlRefusal::NotPlain)?, url.port_or_known_default().ok_or(UrlRefusal::NotPlain)?);
        let name = host.to_string().to_ascii_lowercase();
        let name = name.strip_suffix('.').unwrap_or(&name).to_owned();
        if !is_plain_host(&host, &name, text) {
            return Err(UrlRefusal::NotPlain);
        }
        let is_named = self.hosts.iter().any(|known| is_host_of(known, &name));
        if !self.hosts.is_empty() && !is_named {
            return Err(UrlRefusal::Host);
        }
        let destination = UrlDestination { host: bare(&host, name), port, is_named };
        let inside = match host {
            Host::Ipv4(address) => !destination.network_allowed(IpAddr::V4(address)),
            Host::Ipv6(address) => !destination.network_allowed(IpAddr::V6(address)),
            Host::Domain(_) => !is_named && is_inside_name(&destination.host),
        };
        if inside { Err(UrlRefusal::Inside) } else { Ok(destination) }
    }
}

impl UrlDestination {
    /// Whether its host may have that address. A name may never lead to link-local addresses, where cloud machines get their
    /// credentials.
    pub fn network_allowed(&self, address: IpAddr) -> bool {
        match Network::from_address(address) {
            Network::Public => true,
            Network::Private | Network::Loopback => self.is_named,
            Network::Link => self.is_named && self.host.parse::<IpAddr>().is_ok(),
        }
    }
}

impl fmt::Display for UrlDestination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// Whether every reader reads the host the same way: a name of letters, digits and hyphens as it is written, or an address in
/// its one spelling. `010.0.0.5` means different addresses to different readers, some readers end `a;b.example` at the
/// semicolon, and `faß.example` is another name by the older rules for names beyond ASCII.
fn is_plain_host(host: &Host<&str>, name: &str, text: &str) -> bool {
    let written = text.split("://").nth(1).and_then(|rest| rest.split(['/', '?', '#']).next()).unwrap_or_default();
    let written_name = written.split(':').next().unwrap_or_default();
    let written_name = written_name.strip_suffix('.').unwrap_or(written_name);
    match host {
        Host::Ipv4(address) => written_name == address.to_string(),
        Host::Ipv6(_) => written.starts_with('[') && !written.contains('%'),
        Host::Domain(_) => {
            written_name.eq_ignore_ascii_case(name)
                && name.split('.').all(|part| {
                    !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
                })
                && !name.rsplit('.').next().is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit()))
        }
    }
}

fn is_host_of(known: &str, name: &str) -> bool {
    match known.strip_prefix("*.") {
        Some(parent) => name.strip_suffix(parent).is_some_and(|rest| rest.ends_with('.')),
        None => {
            known.trim_start_matches('[').trim_end_matches(']') == name.trim_start_matches('[').trim_end_matches(']')
        }
    }
}

fn is_inside_name(name: &str) -> bool {
    !name.contains('.') || name.rsplit('.').next().is_some_and(|last| INSIDE.contains(&last))
}

/// An address without brackets.
fn bare(host: &Host<&str>, name: String) -> String {
    match host {
        Host::Ipv6(address) => address.to_string(),
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_leads_to_public_hosts_or_to_those_a_contract_names() {
        let open = UrlRules::new(&[], &[]).unwrap();
        let named = UrlRules::new(
            &["https".to_owned(), "http".to_owned()],
            &["api.example.com".to_owned(), "*.example.org".to_owned(), "10.0.0.5".to_owned(), "localhost".to_owned()],
        )
        .unwrap();
        // the URL, whether it is admitted without hosts, and with them
        for (url, by_open, by_named) in [
            ("https://example.com/a?b=c#d", true, false),
            ("https://api.example.com:8443/", true, true),
            ("https://a.example.org/", true, true),
            ("https://example.org/", true, false),
            ("https://evilexample.org/", true, false),
            ("https://8.8.8.8/", true, false),
            ("http://api.example.com/", false, true),
            ("http://10.0.0.5/", false, true),
            ("http://localhost:1/", false, true),
            ("https://10.0.0.6/", false, false),
            ("https://127.0.0.1/", false, false),
            ("https://2130706433/", false, false),
            ("https://0x7f.1/", false, false),
            ("https://017700000001/", false, false),
            ("https://[::1]/", false, false),
            ("https://[::ffff:169.254.169.254]/", false, false),
            ("https://169.254.169.254/latest/meta-data/", false, false),
            ("https://metadata.google.internal/", false, false),
            ("https://router.local/", false, false),
            ("https://intranet/", false, false),
            ("https://a.localhost./", false, false),
            ("https://user@example.com/", false, false),
            ("https://example.com@10.0.0.6/", false, false),
            ("https://api.example.com@evil.test/", false, false),
            ("https://api.example.com\\@evil.test/", false, false),
            ("https:\\\\api.example.com/", false, false),
            ("https:api.example.com", false, false),
            ("https:///api.example.com/", false, false),
            ("https://api.exa\tmple.com/", false, false),
            (" https://api.example.com/", false, false),
            ("//api.example.com/", false, false),
            ("api.example.com", false, false),
            ("file:///etc/passwd", false, false),
            ("javascript:alert(1)", false, false),
            ("gopher://api.example.com/", false, false),
            ("data:text/plain,x", false, false),
            ("https://\u{2460}27.0.0.1/", false, false),
            ("https://0127.0.0.1/", false, false),
            ("https://010.0.0.5/", false, false),
            ("https://127.0.0.1;.example.org/", false, false),
            ("https://evil.test'.example.org/", false, false),
            ("https://example.com../", false, false),
            ("https://localhost.localdomain/", false, false),
            ("https://192.0.0.192/", false, false),
            ("https://168.63.129.16/", false, false),
            ("https://[fec0::1]/", false, false),
            ("https://[64:ff9b:1::7f00:1]/", false, false),
            ("https://[::ffff:0:127.0.0.1]/", false, false),
            ("https://[2001:0:7f00:1::]/", false, false),
            ("https://[::2]/", false, false),
            ("https://[100::1]/", false, false),
            ("https://[5f00::1]/", false, false),
            ("https://[2606:4700::1]/", true, false),
            ("", false, false),
        ] {
            assert_eq!((open.admit(url).is_ok(), named.admit(url).is_ok()), (by_open, by_named), "{url}");
        }
        assert!(UrlRules::new(&["file".to_owned()], &[]).is_err());
        assert!(UrlRules::new(&[], &["a.*.b".to_owned()]).is_err());
    }

    #[test]
    fn a_name_is_read_as_it_is_written() {
        let open = UrlRules::new(&[], &[]).unwrap();
        for (url, admitted) in [
            ("https://fa\u{df}.example.org/", false),
            ("https://xn--fa-hia.example.org/", true),
            ("https://api%2eexample.com/", false),
            ("https://api\u{3002}example.com/", false),
            ("https://\u{ff41}pi.example.com/", false),
            ("https://API.Example.com./", true),
        ] {
            assert_eq!(open.admit(url).is_ok(), admitted, "{url}");
        }
    }

    #[test]
    fn a_name_is_judged_again_by_its_address() {
        let open = UrlRules::new(&[], &[]).unwrap().admit("https://rebound.test/").unwrap();
        let named = UrlRules::new(&[], &["db.test".to_owned()]).unwrap().admit("https://db.test/").unwrap();
        for (address, by_open, by_named) in [
            ("8.8.8.8", true, true),
            ("10.0.0.1", false, true),
            ("127.0.0.1", false, true),
            ("169.254.169.254", false, false),
        ] {
            let address: IpAddr = address.parse().unwrap();
            assert_eq!(
                (open.network_allowed(address), named.network_allowed(address)),
                (by_open, by_named),
                "{address}"
            );
        }
    }
}
