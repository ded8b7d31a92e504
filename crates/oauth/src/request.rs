//! Requests to a token endpoint. Every request for an upstream's token names the resource that it is for (RFC 8707), and every request carries
//! the client's authentication in the one agreed place.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use form_urlencoded::Serializer;
use servanda_authority::Secret;
use servanda_contract::Timestamp;
use zeroize::Zeroizing;

use crate::{
    allowed_url::AllowedUrl,
    assertion::{ASSERTION_TYPE, AssertionError},
    client::{ClientAuthentication, OauthClient},
    scope::OauthScopes,
};

/// The grant type of RFC 8693.
pub const EXCHANGE_GRANT: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
/// The grant type of RFC 7523.
pub const JWT_BEARER_GRANT: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

/// What entitles the client to a token.
#[derive(Debug, Clone, Copy)]
pub enum Grant<'a> {
    /// A user's consent.
    Code {
        /// The code that came back.
        code: &'a Secret,
        /// The verifier it is tied to.
        verifier: &'a Secret,
        /// Where it came back to.
        redirect: &'a str,
    },
    /// A refresh token.
    Refresh(&'a Secret),
    /// The client itself.
    ClientCredentials,
    /// A token about the user (RFC 8693).
    Exchange {
        /// The token to exchange.
        subject: &'a Secret,
        /// Its type.
        subject_type: &'a str,
        /// The wanted type; an access token if not given.
        requested_type: Option<&'a str>,
        /// The audience of the issued token, if it is not the resource.
        audience: Option<&'a str>,
    },
    /// A signed assertion that is a grant by itself (RFC 7523 §2.1).
    JwtBearer(&'a Secret),
}

/// What a token is for.
#[derive(Debug, Clone, Copy)]
pub struct TokenPurpose<'a> {
    /// The resource's identifier; none for a person's sign-in, which is for no resource.
    pub resource: Option<&'a str>,
    /// The scopes that are wanted.
    pub scopes: &'a OauthScopes,
}

/// Where a token is requested.
#[derive(Debug, Clone, Copy)]
pub struct TokenEndpoint<'a> {
    /// The address.
    pub address: &'a AllowedUrl,
    /// Its issuer, which signed assertions are for.
    pub issuer: &'a str,
}

/// A request to a token endpoint, ready to be posted.
#[derive(Debug)]
pub struct TokenRequest {
    /// The endpoint.
    pub address: AllowedUrl,
    /// The form in the body.
    pub form: Secret,
    /// The value of the `Authorization` header.
    pub authorization: Option<Secret>,
}

/// Builds a request.
pub fn token_request(
    grant: &Grant<'_>,
    client: &OauthClient,
    endpoint: TokenEndpoint<'_>,
    purpose: TokenPurpose<'_>,
    now: Timestamp,
) -> Result<TokenRequest, AssertionError> {
    let mut form = Serializer::new(String::new());
    write_grant(&mut form, grant);
    // A code has the scopes that the user consented to, and a refresh those of before.
    if !matches!(grant, Grant::Code { .. } | Grant::Refresh(_))
        && let Some(line) = purpose.scopes.line()
    {
        form.append_pair("scope", &line);
    }
    if let Some(resource) = purpose.resource {
        form.append_pair("resource", resource);
    }
    let mut authorization = None;
    match &client.proof {
        ClientAuthentication::None => {
            form.append_pair("client_id", &client.id);
        }
        ClientAuthentication::Basic(secret) => authorization = Some(basic(&client.id, secret)),
        ClientAuthentication::Post(secret) => {
            form.append_pair("client_id", &client.id).append_pair("client_secret", text(secret));
        }
        ClientAuthentication::Signed(key) => {
            let assertion = key.assert(&client.id, endpoint.issuer, now)?;
            form.append_pair("client_id", &client.id)
                .append_pair("client_assertion_type", ASSERTION_TYPE)
                .append_pair("client_assertion", text(&assertion));
        }
    }
    Ok(TokenRequest { address: endpoint.address.clone(), form: Secret::from(form.finish()), authorization })
}

fn write_grant(form: &mut Serializer<'_, String>, grant: &Grant<'_>) {
    match grant {
        Grant::Code { code, verifier, redirect } => {
            form.append_pair("grant_type", "authorization_code")
                .append_pair("code", text(code))
                .append_pair("code_verifier", text(verifier))
                .append_pair("redirect_uri", redirect);
        }
        Grant::Refresh(token) => {
            form.append_pair("grant_type", "refresh_token").append_pair("refresh_token", text(token));
        }
        Grant::ClientCredentials => {
            form.append_pair("grant_type", "client_credentials");
        }
        Grant::Exchange { subject, subject_type, requested_type, audience } => {
            form.append_pair("grant_type", EXCHANGE_GRANT)
                .append_pair("subject_token", text(subject))
                .append_pair("subject_token_type", subject_type);
            if let Some(requested_type) = requested_type {
                form.append_pair("requested_token_type", requested_type);
            }
            if let Some(audience) = audience {
                form.append_pair("audience", audience);
            }
        }
        Grant::JwtBearer(assertion) => {
            form.append_pair("grant_type", JWT_BEARER_GRANT).append_pair("assertion", text(assertion));
        }
    }
}

/// Tokens and passwords are text. One that is not text is sent as an empty string.
fn text(secret: &Secret) -> &str {
    secret.as_text().unwrap_or_default()
}

/// RFC 6749 §2.3.1: both halves are encoded as in a form first.
fn basic(id: &str, secret: &Secret) -> Secret {
    let encoded = |part: &str| form_urlencoded::byte_serialize(part.as_bytes()).collect::<String>();
    let pair = Zeroizing::new(format!("{}:{}", encoded(id), encoded(text(secret))));
    Secret::from(format!("Basic {}", STANDARD.encode(pair.as_bytes())))
}

#[cfg(test)]
mod tests {
    use reqwest::Url;
    use servanda_authority::signature::Algorithm;

    use super::*;
    use crate::{
        allowed_url::{Network, NetworkTrust},
        assertion::{self, SigningKey},
    };

    fn posted(grant: &Grant<'_>, proof: ClientAuthentication) -> (String, Option<String>) {
        let trust = NetworkTrust::new(Url::parse("https://mcp.test/mcp").unwrap(), Network::Public);
        let place = trust.follow("https://as.test/t").unwrap();
        let client = OauthClient { id: "i:d".to_owned(), proof };
        let endpoint = TokenEndpoint { address: &place, issuer: "https://as.test" };
        let scopes = OauthScopes::read("a b").unwrap();
        let purpose = TokenPurpose { resource: Some("https://mcp.test/mcp"), scopes: &scopes };
        let made = token_request(grant, &client, endpoint, purpose, Timestamp::from_unix_ms(0)).unwrap();
        assert!(!format!("{made:?}").contains("s3"), "{made:?}");
        let authorization = made.authorization.map(|secret| secret.as_text().unwrap().to_owned());
        (made.form.as_text().unwrap().to_owned(), authorization)
    }

    #[test]
    fn every_grant_says_what_it_is_for() {
        let secret = |text: &str| Secret::from(text.to_owned());
        let (code, verifier) = (secret("c&"), secret("v"));
        let for_what = "resource=https%3A%2F%2Fmcp.test%2Fmcp&client_id=i%3Ad";
        let table = [
            (
                Grant::Code { code: &code, verifier: &verifier, redirect: "http://127.0.0.1:1/callback" },
                "grant_type=authorization_code&code=c%26&code_verifier=v&redirect_uri=http%3A%2F%2F127.0.0.1%3A1%2Fcallback&",
            ),
            (Grant::Refresh(&code), "grant_type=refresh_token&refresh_token=c%26&"),
            (Grant::ClientCredentials, "grant_type=client_credentials&scope=a+b&"),
            (
                Grant::JwtBearer(&code),
                "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=c%26&scope=a+b&",
            ),
            (
                Grant::Exchange { subject: &code, subject_type: "t", requested_type: Some("r"), audience: Some("x") },
                "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange&subject_token=c%26&\
                 subject_token_type=t&requested_token_type=r&audience=x&scope=a+b&",
            ),
        ];
        for (grant, expected) in table {
            assert_eq!(posted(&grant, ClientAuthentication::None), (format!("{expected}{for_what}"), None));
        }
    }

    #[test]
    fn a_proof_is_in_one_place_only() {
        let grant = Grant::ClientCredentials;
        let start = "grant_type=client_credentials&scope=a+b&resource=https%3A%2F%2Fmcp.test%2Fmcp";
        let (form, header) = posted(&grant, ClientAuthentication::Basic(Secret::from("s3 /".to_owned())));
        assert_eq!((form.as_str(), header.as_deref()), (start, Some("Basic aSUzQWQ6czMrJTJG")));
        let (form, header) = posted(&grant, ClientAuthentication::Post(Secret::from("s3".to_owned())));
        assert_eq!((form, header), (format!("{start}&client_id=i%3Ad&client_secret=s3"), None));
        let (pem, _) = assertion::tests::ed25519();
        let key = SigningKey::read(&pem, Algorithm::EdDsa, None).unwrap();
        let (form, header) = posted(&grant, ClientAuthentication::Signed(key));
        assert!(form.contains("&client_assertion_type=urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type%3Ajwt-bearer&client_assertion=ey"));
        assert!(header.is_none() && !form.contains("client_secret"));
    }
}
