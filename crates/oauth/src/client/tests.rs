//! Which client the gateway is, and how it authenticates.

use reqwest::Url;

use super::*;
use crate::{
    allowed_url::{Network, NetworkTrust},
    assertion,
};
use servanda_authority::signature::Algorithm;

fn server(proofs: Option<&[&str]>, takes_documents: bool, registers: bool) -> AuthServerMetadata {
    let trust = NetworkTrust::new(Url::parse("https://mcp.test").unwrap(), Network::Public);
    let document = json!({
        "issuer": "https://as.test",
        "token_endpoint": "https://as.test/t",
        "registration_endpoint": registers.then_some("https://as.test/r"),
        "client_id_metadata_document_supported": takes_documents,
        "token_endpoint_auth_methods_supported": proofs,
    });
    AuthServerMetadata::verify(document.to_string().as_bytes(), "https://as.test", &trust).unwrap()
}

fn shown(way: Result<ClientAcquisition, OauthClientError>) -> String {
    match way {
        Ok(ClientAcquisition::Existing(client)) => format!("{} by {}", client.id, client.proof.method().name()),
        Ok(ClientAcquisition::Register { request, method, .. }) => {
            assert_eq!(request["token_endpoint_auth_method"], method.name());
            format!("register by {}", method.name())
        }
        Err(error) => format!("{error:?}"),
    }
}

fn configured([id, secret, key, document]: [bool; 4]) -> OauthClientConfig {
    let (pem, _) = assertion::tests::ed25519();
    OauthClientConfig {
        id: id.then(|| "id".to_owned()),
        secret: secret.then(|| Secret::from("s".to_owned())),
        key: key.then(|| SigningKey::read(&pem, Algorithm::EdDsa, None).unwrap()),
        method: None,
        document: document.then(|| "https://me.test/client.json".to_owned()),
    }
}

#[test]
fn registered_for_us_then_a_document_then_by_registering() {
    let all = Some(["none", "client_secret_basic", "client_secret_post", "private_key_jwt"].as_slice());
    let post = Some(["client_secret_post"].as_slice());
    let basic = Some(["client_secret_basic"].as_slice());
    let signed = Some(["tls_client_auth"].as_slice());
    // (id, secret, key, document), what the server accepts, documents, registration
    let table = [
        ([true, true, false, true], all, true, true, "id by client_secret_basic"),
        ([true, true, false, false], post, false, true, "id by client_secret_post"),
        ([true, true, false, false], None, false, true, "id by client_secret_basic"),
        ([true, true, true, false], all, false, true, "id by private_key_jwt"),
        ([true, true, true, false], basic, false, true, "id by client_secret_basic"),
        ([true, false, false, true], None, true, true, "id by none"),
        ([true, true, false, false], signed, false, true, "NoProof"),
        ([false, false, false, true], all, true, true, "https://me.test/client.json by none"),
        ([false, false, false, true], all, false, true, "register by none"),
        ([false, false, false, false], all, true, true, "register by none"),
        ([false, false, false, false], None, true, true, "register by none"),
        ([false, false, false, false], basic, true, true, "register by client_secret_basic"),
        ([false, false, false, false], post, true, true, "register by client_secret_post"),
        ([false, false, false, false], signed, true, true, "NoProof"),
        ([false, false, false, false], all, true, false, "NotConfigured"),
    ];
    for (given, proofs, documents, registers, expected) in table {
        let way = configured(given).acquisition(
            &server(proofs, documents, registers),
            Some("http://127.0.0.1:1/callback"),
            &OauthScopes::default(),
        );
        assert_eq!(shown(way), expected, "{given:?} {proofs:?}");
    }
    let nobody_to_ask = configured([false; 4]).acquisition(&server(None, false, true), None, &OauthScopes::default());
    assert_eq!(shown(nobody_to_ask), "NotConfigured");
}

#[test]
fn a_registration_says_what_kind_of_program_we_are() {
    let way = OauthClientConfig::default().acquisition(
        &server(None, false, true),
        Some("http://127.0.0.1:1/callback"),
        &OauthScopes::read("b a").unwrap(),
    );
    let Ok(ClientAcquisition::Register { request, .. }) = way else { panic!("{way:?}") };
    assert_eq!(request["application_type"], "native");
    assert_eq!(request["redirect_uris"], json!(["http://127.0.0.1:1/callback"]));
    assert_eq!(request["grant_types"], json!(["authorization_code", "refresh_token"]));
    assert_eq!(request["scope"], "a b");
}

#[test]
fn the_answer_to_a_registration_decides_how_we_prove_ourselves() {
    let table = [
        (201, json!({"client_id": "a"}), ClientAuthMethod::None, "a by none"),
        // A password that was not requested and has no method is not used.
        (201, json!({"client_id": "a", "client_secret": "s"}), ClientAuthMethod::None, "a by none"),
        (
            201,
            json!({"client_id": "a", "client_secret": "s"}),
            ClientAuthMethod::ClientSecretPost,
            "a by client_secret_post",
        ),
        (
            200,
            json!({"client_id": "a", "client_secret": "s", "token_endpoint_auth_method": "client_secret_basic"}),
            ClientAuthMethod::None,
            "a by client_secret_basic",
        ),
        (
            201,
            json!({"client_id": "a", "token_endpoint_auth_method": "client_secret_basic"}),
            ClientAuthMethod::None,
            "NoProof",
        ),
        (
            201,
            json!({"client_id": "a", "token_endpoint_auth_method": "private_key_jwt"}),
            ClientAuthMethod::None,
            "NoProof",
        ),
        (201, json!({"client_id": ""}), ClientAuthMethod::None, "Form"),
        (201, json!([]), ClientAuthMethod::None, "Form"),
        (400, json!({"client_id": "a"}), ClientAuthMethod::None, "Refused"),
    ];
    for (status, body, asked, expected) in table {
        let client = OauthClient::from_registration(status, body.to_string().as_bytes(), asked);
        assert_eq!(shown(client.map(ClientAcquisition::Existing)), expected, "{status} {body}");
    }
}
