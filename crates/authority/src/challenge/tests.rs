//! Challenges and the metadata document, as clients read them.

use super::*;
use crate::testing::{golden, golden_json, scopes};

const METADATA: &str = "https://gateway.test/.well-known/oauth-protected-resource/mcp";

#[test]
fn challenges_are_golden() {
    let needed = scopes(&["billing:read", "billing:write"]);
    let all = [
        Challenge::missing(METADATA, &BTreeSet::new()),
        Challenge::missing(METADATA, &needed),
        Challenge::invalid(METADATA, &needed, "the access token has expired"),
        Challenge::insufficient(METADATA, &needed),
    ];
    let lines: Vec<String> =
        all.iter().map(|challenge| format!("{} {}\n", challenge.status, challenge.header)).collect();
    golden("challenges.txt", &lines.concat());
}

#[test]
fn the_document_is_golden() {
    let issuers = vec!["https://issuer.test".to_owned()];
    let mut document =
        ResourceMetadata::new("https://gateway.test/mcp", issuers, scopes(&["crm:read", "billing:read"]));
    golden_json("resource_metadata_plain.json", &document);
    document.resource_name = Some("Gateway".to_owned());
    document.resource_documentation = Some("https://gateway.test/docs".to_owned());
    golden_json("resource_metadata.json", &document);
}

#[test]
fn the_document_is_where_clients_look() {
    let table = [
        ("https://gateway.test/mcp", Some(METADATA)),
        ("https://gateway.test", Some("https://gateway.test/.well-known/oauth-protected-resource")),
        ("https://gateway.test/", Some("https://gateway.test/.well-known/oauth-protected-resource")),
        ("http://127.0.0.1:7000/a/b?c=d", Some("http://127.0.0.1:7000/.well-known/oauth-protected-resource/a/b?c=d")),
        ("gateway.test/mcp", None),
        ("ftp://gateway.test", None),
        ("https:///mcp", None),
        ("https://gateway.test/#x", None),
    ];
    for (resource, expected) in table {
        assert_eq!(ResourceMetadata::address_of(resource).as_deref(), expected, "{resource}");
    }
}

#[test]
fn nothing_breaks_out_of_a_challenge() {
    let challenge = Challenge::invalid("https://x\"\r\nSet-Cookie: a=b", &BTreeSet::new(), "a\\\"b\u{7f}ü");
    assert_eq!(
        challenge.header,
        r#"Bearer error="invalid_token", error_description="a\\\"b??", resource_metadata="https://x\"??Set-Cookie: a=b""#
    );
}

#[test]
fn all_scopes_of_a_call_are_in_one_challenge() {
    let challenge = Challenge::insufficient(METADATA, &scopes(&["billing:write", "hr:read", "hr:write"]));
    assert_eq!(challenge.status, 403);
    assert!(challenge.header.contains(r#"scope="billing:write hr:read hr:write""#), "{challenge:?}");
}

#[test]
fn a_resource_without_a_path_is_written_in_two_ways() {
    let table = [
        ("https://gateway.test", "https://gateway.test/", true),
        ("https://gateway.test/", "https://gateway.test", true),
        ("https://gateway.test/mcp", "https://gateway.test/mcp", true),
        ("https://gateway.test/mcp/", "https://gateway.test/mcp", false),
        ("https://gateway.test//", "https://gateway.test", false),
        ("https://gateway.test.evil", "https://gateway.test", false),
        ("gateway/", "gateway", false),
    ];
    for (named, ours, expected) in table {
        assert_eq!(super::names_resource(named, ours), expected, "{named} {ours}");
    }
}
