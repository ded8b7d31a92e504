//! Where metadata documents are looked for, and in which order: the resource's (RFC 9728), and the authorization server's (RFC 8414,
//! `OpenID` Connect Discovery).

use reqwest::Url;

const RESOURCE: &str = "/.well-known/oauth-protected-resource";
const SERVER: &str = "/.well-known/oauth-authorization-server";
const OPENID: &str = "/.well-known/openid-configuration";

/// The resource's document: below the upstream's own path, then at the root.
pub fn resource_urls(upstream: &Url) -> Vec<Url> {
    let mut found = vec![inserted(upstream, RESOURCE)];
    if !path_of(upstream).is_empty() {
        let mut root = at(upstream, RESOURCE);
        root.set_query(None);
        found.push(root);
    }
    found
}

/// The authorization server's document, by its issuer.
pub fn server_urls(issuer: &Url) -> Vec<Url> {
    let path = path_of(issuer);
    let mut found = vec![inserted(issuer, SERVER), inserted(issuer, OPENID)];
    if !path.is_empty() {
        found.push(at(issuer, &format!("{path}{OPENID}")));
    }
    found
}

/// Inserts the well-known path between the origin and the path.
fn inserted(url: &Url, well_known: &str) -> Url {
    at(url, &format!("{well_known}{}", path_of(url)))
}

fn at(url: &Url, path: &str) -> Url {
    let mut url = url.clone();
    url.set_path(path);
    url.set_fragment(None);
    url
}

/// The path without a slash at its end.
fn path_of(url: &Url) -> &str {
    url.path().trim_end_matches('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(urls: &[Url]) -> Vec<&str> {
        urls.iter().map(Url::as_str).collect()
    }

    #[test]
    fn documents_are_looked_for_in_the_order_of_the_specification() {
        let of = |text| resource_urls(&Url::parse(text).unwrap());
        assert_eq!(shown(&of("https://x.test")), ["https://x.test/.well-known/oauth-protected-resource"]);
        assert_eq!(
            shown(&of("https://x.test:8443/public/mcp")),
            [
                "https://x.test:8443/.well-known/oauth-protected-resource/public/mcp",
                "https://x.test:8443/.well-known/oauth-protected-resource",
            ]
        );
        let of = |text| server_urls(&Url::parse(text).unwrap());
        assert_eq!(
            shown(&of("https://as.test/tenant1")),
            [
                "https://as.test/.well-known/oauth-authorization-server/tenant1",
                "https://as.test/.well-known/openid-configuration/tenant1",
                "https://as.test/tenant1/.well-known/openid-configuration",
            ]
        );
        assert_eq!(
            shown(&of("https://as.test/")),
            [
                "https://as.test/.well-known/oauth-authorization-server",
                "https://as.test/.well-known/openid-configuration",
            ]
        );
    }
}
