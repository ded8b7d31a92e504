//! Where the search looks, in which order, and what ends it: a web of documents, and the path through it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;
use crate::allowed_url::Network;

const MCP: &str = "https://mcp.test/mcp";
const PRM: &str = "https://mcp.test/.well-known/oauth-protected-resource";
const PRM_BELOW: &str = "https://mcp.test/.well-known/oauth-protected-resource/mcp";

fn resource(identifier: &str, issuers: &[&str]) -> Value {
    json!({"resource": identifier, "authorization_servers": issuers, "scopes_supported": ["a"]})
}

fn server(issuer: &str) -> Value {
    json!({"issuer": issuer, "token_endpoint": "https://as.test/t"})
}

/// The addresses that are fetched, and how the search ends.
fn search(
    web: &[(&str, Option<Value>)],
    metadata: Option<&str>,
    issuer: Option<&str>,
) -> (Vec<String>, Result<DiscoveredServer, DiscoveryError>) {
    let web: BTreeMap<_, _> = web.iter().cloned().collect();
    let known = DiscoveryInput {
        trust: NetworkTrust::new(Url::parse(MCP).unwrap(), Network::Public),
        challenged: true,
        resource_metadata: metadata.map(ToOwned::to_owned),
        issuer: issuer.map(ToOwned::to_owned),
    };
    let mut looked_at = Vec::new();
    let mut next = OauthDiscovery::begin(known);
    loop {
        match next {
            Ok(DiscoveryStep::Fetch(search, place)) => {
                looked_at.push(place.url().to_string());
                let look = match web.get(place.url().as_str()) {
                    Some(Some(document)) => DocumentFetch::Document(document.to_string().into_bytes()),
                    Some(None) => DocumentFetch::Unknown,
                    None => DocumentFetch::Nothing,
                };
                next = search.step(look);
            }
            Ok(DiscoveryStep::Found(found)) => return (looked_at, Ok(*found)),
            Err(error) => return (looked_at, Err(error)),
        }
    }
}

#[test]
fn below_the_path_then_at_the_root_then_as_old_servers_do() {
    let as_server = "https://as.test/.well-known/oauth-authorization-server";
    let (looked_at, found) = search(
        &[
            (PRM, Some(resource("https://mcp.test", &["https://as.test"]))),
            (as_server, Some(server("https://as.test"))),
        ],
        None,
        None,
    );
    assert_eq!(looked_at, [PRM_BELOW, PRM, as_server]);
    assert_eq!(found.unwrap().resource, "https://mcp.test", "as published");

    let own = "https://mcp.test/.well-known/oauth-authorization-server";
    let mut document = server("https://mcp.test");
    document["token_endpoint"] = json!("https://mcp.test/oauth/token");
    let (looked_at, found) = search(&[(own, Some(document))], None, None);
    assert_eq!(looked_at, [PRM_BELOW, PRM, own]);
    assert_eq!(found.unwrap().resource, MCP);

    let (looked_at, found) = search(&[], None, None);
    assert_eq!(looked_at, [PRM_BELOW, PRM, own, "https://mcp.test/.well-known/openid-configuration"]);
    assert_eq!(found.unwrap().server.token_endpoint.url().as_str(), "https://mcp.test/token");
}

#[test]
fn a_challenge_that_names_the_document_is_the_only_place() {
    let elsewhere = "https://mcp.test/custom.json";
    let oidc = "https://as.test/t1/.well-known/openid-configuration";
    let web = [(elsewhere, Some(resource(MCP, &["https://as.test/t1"]))), (oidc, Some(server("https://as.test/t1")))];
    let (looked_at, found) = search(&web, Some(elsewhere), None);
    assert!(found.is_ok());
    let expected = [
        elsewhere,
        "https://as.test/.well-known/oauth-authorization-server/t1",
        "https://as.test/.well-known/openid-configuration/t1",
        oidc,
    ];
    assert_eq!(looked_at, expected);
    assert_eq!(search(&[], Some(elsewhere), None).1.unwrap_err(), DiscoveryError::NoResource);
    let inside = search(&[], Some("https://192.168.1.1/x"), None);
    assert_eq!((inside.0.len(), inside.1.unwrap_err()), (0, DiscoveryError::NotFollowed(DisallowedUrl::TooFarInside)));
}

#[test]
fn a_document_that_is_not_believed_ends_the_search() {
    let as_server = "https://as.test/.well-known/oauth-authorization-server";
    let (looked_at, found) =
        search(&[(PRM_BELOW, Some(resource("https://evil.test/mcp", &["https://as.test"])))], None, None);
    assert_eq!(looked_at, [PRM_BELOW]);
    assert_eq!(found.unwrap_err(), DiscoveryError::NotBelieved(MetadataError::OtherResource));
    let good = resource(MCP, &["https://as.test"]);
    let (looked_at, found) =
        search(&[(PRM_BELOW, Some(good.clone())), (as_server, Some(server("https://evil.test")))], None, None);
    assert_eq!(looked_at, [PRM_BELOW, as_server]);
    assert_eq!(found.unwrap_err(), DiscoveryError::NotBelieved(MetadataError::OtherIssuer));
    // A server that is out of order may still have a document, and the next address would be weaker evidence.
    assert_eq!(search(&[(PRM_BELOW, None)], None, None).1.unwrap_err(), DiscoveryError::Unreachable);
    assert_eq!(search(&[(PRM_BELOW, Some(good))], None, None).1.unwrap_err(), DiscoveryError::NoServer);
}

#[test]
fn an_issuer_that_was_agreed_on_is_the_only_one() {
    let as_server = "https://as.test/.well-known/oauth-authorization-server";
    let two = resource(MCP, &["https://other.test", "https://as.test"]);
    let web = [(PRM_BELOW, Some(two)), (as_server, Some(server("https://as.test")))];
    assert_eq!(search(&web, None, Some("https://as.test")).1.unwrap().server.issuer, "https://as.test");
    assert_eq!(search(&web, None, Some("https://as.test/")).1.unwrap_err(), DiscoveryError::OtherServer);
    // If the upstream says nothing, the operator's setting counts.
    let web = [(as_server, Some(server("https://as.test")))];
    assert_eq!(search(&web, None, Some("https://as.test")).1.unwrap().server.issuer, "https://as.test");
    assert_eq!(search(&[], None, Some("https://as.test")).1.unwrap_err(), DiscoveryError::NoServer);
}

#[test]
fn a_server_that_asked_for_nothing_is_not_taken_for_one_of_old() {
    let trust = NetworkTrust::new(Url::parse(MCP).unwrap(), Network::Public);
    let mut next =
        OauthDiscovery::begin(DiscoveryInput { trust, challenged: false, resource_metadata: None, issuer: None });
    while let Ok(DiscoveryStep::Fetch(search, _)) = next {
        next = search.step(DocumentFetch::Nothing);
    }
    assert_eq!(next.unwrap_err(), DiscoveryError::NoServer);
}
