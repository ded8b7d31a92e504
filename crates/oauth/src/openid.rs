//! `OpenID` Connect as a client: the address at which a person signs in, and where the provider's document is looked for.
//!
//! The rest is as for upstreams: `metadata` says what of the document counts, `callback` reads the answer, `request` redeems the code. The ID
//! token that comes back is verified elsewhere, like every token that says who somebody is.

use reqwest::Url;
use servanda_authority::Secret;

use crate::{
    allowed_url::AllowedUrl,
    discovery::DocumentFetch,
    fetch::OauthHttp,
    metadata::{AuthServerMetadata, MetadataError},
    pkce,
    scope::OauthScopes,
    well_known,
};

/// The scope that makes a request one for an ID token.
pub const OPENID_SCOPE: &str = "openid";
/// The kind of subject that is another one for each client.
const PAIRWISE: &str = "pairwise";

/// What a person is sent to the provider with.
#[derive(Debug, Clone, Copy)]
pub struct AuthenticationRequest<'a> {
    /// Our client there.
    pub client: &'a str,
    /// Where the browser returns to.
    pub redirect: &'a str,
    /// The scopes that are requested, beside `openid`.
    pub scopes: &'a OauthScopes,
    /// Comes back with the answer.
    pub state: &'a Secret,
    /// Comes back in the ID token.
    pub nonce: &'a Secret,
    /// Its hash is sent now, and it itself with the code.
    pub verifier: &'a Secret,
    /// Whether the person has to show again who they are, although the provider knows them.
    pub asks_again: bool,
}

/// Why a provider's document is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProviderLookupError {
    /// No document could be fetched.
    #[error("the identity provider's document could not be fetched")]
    Unreachable,
    /// There is none.
    #[error("the identity provider publishes no document at its issuer's well-known addresses")]
    Nothing,
    /// It is not believed.
    #[error(transparent)]
    NotBelieved(#[from] MetadataError),
}

impl AuthenticationRequest<'_> {
    /// The address that the person's browser opens.
    pub fn address(&self, endpoint: &AllowedUrl) -> Url {
        let mut scopes = vec![OPENID_SCOPE];
        scopes.extend(self.scopes.iter().filter(|scope| *scope != OPENID_SCOPE));
        let mut url = endpoint.url().clone();
        let mut query = url.query_pairs_mut();
        query
            .append_pair("response_type", "code")
            .append_pair("client_id", self.client)
            .append_pair("redirect_uri", self.redirect)
            .append_pair("scope", &scopes.join(" "))
            .append_pair("state", self.state.as_text().unwrap_or_default())
            .append_pair("nonce", self.nonce.as_text().unwrap_or_default())
            .append_pair("code_challenge", &pkce::s256_challenge(self.verifier))
            .append_pair("code_challenge_method", "S256");
        if self.asks_again {
            query.append_pair("prompt", "login").append_pair("max_age", "0");
        }
        drop(query);
        url
    }
}

/// Fetches what a provider says about itself. The first document that exists decides; if it is not believed, no other is tried.
pub async fn look_up(
    oauth_http: &OauthHttp,
    issuer: &Url,
    text: &str,
) -> Result<AuthServerMetadata, ProviderLookupError> {
    // A provider of OpenID Connect has its own document; an authorization server's comes last.
    for url in well_known::server_urls(issuer).into_iter().rev() {
        let place = oauth_http.trust().follow_url(url).map_err(MetadataError::from)?;
        match oauth_http.fetch(&place).await {
            DocumentFetch::Document(document) => {
                return Ok(AuthServerMetadata::verify(&document, text, oauth_http.trust())?);
            }
            DocumentFetch::Nothing => {}
            DocumentFetch::Unknown => return Err(ProviderLookupError::Unreachable),
        }
    }
    Err(ProviderLookupError::Nothing)
}

/// Whether every client of a provider gets another `sub` for the same person.
pub fn has_pairwise_subjects_only(provider: &AuthServerMetadata) -> bool {
    let types = provider.subject_types.as_ref();
    types.is_some_and(|types| !types.is_empty() && types.iter().all(|kind| kind == PAIRWISE))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::allowed_url::{Network, NetworkTrust};

    fn trust() -> NetworkTrust {
        NetworkTrust::new(Url::parse("https://login.test").unwrap(), Network::Public)
    }

    #[test]
    fn a_person_is_sent_with_everything_that_ties_the_answer_to_this_sign_in() {
        let secret = |text: &str| Secret::from(text.to_owned());
        let (state, nonce) = (secret("st"), secret("no"));
        let verifier = secret("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
        let scopes = OauthScopes::read("groups openid").unwrap();
        let mut request = AuthenticationRequest {
            client: "console",
            redirect: "https://gateway.test/sign-in/oidc/answer",
            scopes: &scopes,
            state: &state,
            nonce: &nonce,
            verifier: &verifier,
            asks_again: false,
        };
        let endpoint = trust().follow("https://login.test/authorize?tenant=1").unwrap();
        let expected = "https://login.test/authorize?tenant=1&response_type=code&client_id=console&\
                        redirect_uri=https%3A%2F%2Fgateway.test%2Fsign-in%2Foidc%2Fanswer&scope=openid+groups&state=st&nonce=no&\
                        code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM&code_challenge_method=S256";
        assert_eq!(request.address(&endpoint).as_str(), expected);
        request.asks_again = true;
        assert_eq!(request.address(&endpoint).as_str(), format!("{expected}&prompt=login&max_age=0"));
    }

    #[test]
    fn a_provider_says_whether_each_client_gets_another_subject() {
        for (types, expected) in [
            (json!(["pairwise"]), true),
            (json!(["public"]), false),
            (json!(["public", "pairwise"]), false),
            (json!([]), false),
            (json!(null), false),
        ] {
            let document = json!({
                "issuer": "https://login.test", "token_endpoint": "https://login.test/t", "subject_types_supported": types,
            });
            let document = document.to_string();
            let provider = AuthServerMetadata::verify(document.as_bytes(), "https://login.test", &trust()).unwrap();
            assert_eq!(has_pairwise_subjects_only(&provider), expected, "{types}");
        }
    }
}
