//! The relying party: the site that passkeys belong to, and the origin of its pages.

/// A site and the origin of its pages. The site is the origin's host or a domain above it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelyingParty {
    id: String,
    origin: String,
}

/// The origin or the site is not one with which browsers use passkeys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadRelyingParty(&'static str);

impl RelyingParty {
    /// The site of an origin's own host.
    pub fn of_origin(origin: &str) -> Result<Self, BadRelyingParty> {
        Self::new(host(origin)?, origin)
    }

    /// A site, and the origin of its pages.
    pub fn new(id: &str, origin: &str) -> Result<Self, BadRelyingParty> {
        let host = host(origin)?;
        let is_above = host.strip_suffix(id).is_some_and(|below| below.ends_with('.')) && id.contains('.');
        if id != host && !is_above {
            return Err(BadRelyingParty("a passkey's site is the host of its origin, or a domain above it"));
        }
        Ok(Self { id: id.to_owned(), origin: origin.to_owned() })
    }

    /// The site: the relying party's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The origin of its pages.
    pub fn origin(&self) -> &str {
        &self.origin
    }
}

/// The host of an origin at which browsers offer passkeys.
fn host(origin: &str) -> Result<&str, BadRelyingParty> {
    let shape = BadRelyingParty("an origin is `https://host` or `https://host:port`, in lower case, without a path");
    let (scheme, authority) = origin.split_once("://").ok_or(shape)?;
    let (host, port) = authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port)));
    let is_port = |port: &str| port.parse::<u16>().is_ok_and(|number| number > 0 && number.to_string() == port);
    let is_label = |label: &str| {
        let spelled = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !label.is_empty() && label.len() <= 63 && label.bytes().all(spelled)
    };
    if host.len() > 253 || !host.split('.').all(is_label) || !port.is_none_or(is_port) {
        return Err(shape);
    }
    let last = host.rsplit('.').next().unwrap_or_default();
    if last.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(BadRelyingParty("browsers use no passkeys at an IP address: use a host name, such as `localhost`"));
    }
    match scheme {
        "https" => Ok(host),
        "http" if last == "localhost" => Ok(host),
        "http" => Err(BadRelyingParty("browsers use passkeys only with https, or on localhost")),
        _ => Err(shape),
    }
}
