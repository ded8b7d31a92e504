//! An identity provider on loopback with real keys: it publishes its document and its keys, issues codes to whoever agrees, and redeems them for
//! ID tokens. A test tells it what to do wrong. The example for browsers has the same one, with a page on which a person chooses who they are.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard},
};

use aws_lc_rs::{
    rand::SystemRandom,
    rsa::KeySize,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Map, Value, json};
use servanda_authn::{IssuerSettings, KEY_CACHE_POLICY, ProviderSettings};
use servanda_authority::{
    Rights,
    signature::Algorithm,
    token::{Issuer, TenantSource},
};
use servanda_contract::time::Clock as _;
use servanda_oauth::scope::OauthScopes;
use sha2::{Digest as _, Sha256};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use crate::fixture::ShiftedClock;

pub const CLIENT: &str = "console";
/// The people that the provider knows, and their groups.
pub const PEOPLE: [(&str, &[&str]); 5] =
    [("ada", &[]), ("ben", &[]), ("vera", &[]), ("fay", &["finance"]), ("otto", &[])];

/// How an answer is changed: its status, its header lines and its body.
pub type AnswerChange = Arc<dyn Fn(&mut ProviderAnswer) + Send + Sync>;

/// An answer of the provider.
#[derive(Debug, Clone)]
pub struct ProviderAnswer {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: String,
}

#[derive(Clone)]
pub struct IdentityProvider {
    pub issuer: String,
    shared: Arc<Mutex<ProviderWorld>>,
    clock: Arc<ShiftedClock>,
}

/// What the provider knows, and what it does wrong.
struct ProviderWorld {
    keys: BTreeMap<&'static str, TestSigningKey>,
    /// The keys that its set has.
    published: Vec<&'static str>,
    codes: BTreeMap<String, IssuedCode>,
    issued: u64,
    asked: Vec<String>,
    /// What the document says instead; null leaves a member out.
    document: Value,
    /// What the ID token says instead.
    claims: Value,
    /// What its header says instead.
    header: Value,
    /// With which key it is signed.
    signs_with: &'static str,
    /// Whether it has no signature.
    is_unsigned: bool,
    /// How answers are changed, by path.
    changes: BTreeMap<&'static str, AnswerChange>,
}

enum TestSigningKey {
    Rsa(RsaKeyPair),
    P256(EcdsaKeyPair),
}

#[derive(Clone)]
struct IssuedCode {
    person: String,
    query: BTreeMap<String, String>,
}

impl IdentityProvider {
    /// A provider that signs with RS256 and has an ES256 key for later.
    pub async fn start(clock: Arc<ShiftedClock>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let issuer = format!("http://{}", listener.local_addr().unwrap());
        let rsa = || TestSigningKey::Rsa(RsaKeyPair::generate(KeySize::Rsa2048).unwrap());
        let p256 = || TestSigningKey::P256(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap());
        let world = ProviderWorld {
            keys: BTreeMap::from([("rsa-1", rsa()), ("ec-2", p256()), ("stolen", p256())]),
            published: vec!["rsa-1"],
            codes: BTreeMap::new(),
            issued: 0,
            asked: Vec::new(),
            document: json!({}),
            claims: json!({}),
            header: json!({}),
            signs_with: "rsa-1",
            is_unsigned: false,
            changes: BTreeMap::new(),
        };
        let provider = Self { issuer, shared: Arc::new(Mutex::new(world)), clock };
        let serving = provider.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let serving = serving.clone();
                tokio::spawn(async move { serving.serve(stream).await });
            }
        });
        provider
    }

    /// The settings of a gateway whose people it signs in.
    pub fn settings(&self) -> ProviderSettings {
        ProviderSettings {
            issuer: self.issuer_settings(CLIENT),
            name: "Acme".to_owned(),
            client_secret: None,
            client_auth: None,
            scopes: OauthScopes::read("groups").unwrap(),
            session_ms_max: 12 * 3_600_000,
            compares_subjects: false,
        }
    }

    /// The same issuer at the doors for agents, for tokens of that audience.
    pub fn issuer_settings(&self, audience: &str) -> IssuerSettings {
        let issuer = Issuer {
            issuer: self.issuer.clone(),
            audience: audience.to_owned(),
            algorithms: vec![Algorithm::Rs256, Algorithm::Es256],
            tenant: TenantSource::Fixed("acme".to_owned()),
            principal_claim: None,
            principal_prefix: String::new(),
            groups_claim: Some("groups".to_owned()),
            rights: Rights::unlimited(),
            leeway_ms: 30_000,
        };
        IssuerSettings { issuer, jwks_uri: None, cache: KEY_CACHE_POLICY }
    }

    /// The answer of a person who agrees at the address to which the gateway sent them: the query that the browser brings back.
    pub fn agree(&self, address: &str, person: &str) -> String {
        let (_, query) = address.split_once('?').unwrap();
        let query: BTreeMap<String, String> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        assert_eq!((query["response_type"].as_str(), query["client_id"].as_str()), ("code", CLIENT));
        assert_eq!(query["code_challenge_method"], "S256");
        let state = query["state"].clone();
        let mut world = self.world();
        world.issued += 1;
        let code = format!("code-{}", world.issued);
        world.codes.insert(code.clone(), IssuedCode { person: person.to_owned(), query });
        drop(world);
        let pairs = [("code", code.as_str()), ("state", state.as_str()), ("iss", self.issuer.as_str())];
        form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish()
    }

    /// An access token for an agent of a person, as the doors take it.
    pub fn access_token(&self, audience: &str, person: &str) -> String {
        let now_s = self.now_s();
        let claims = json!({"iss": self.issuer, "aud": audience, "sub": person, "iat": now_s, "exp": now_s + 300});
        self.world().signed(&json!({"typ": "at+jwt"}), &claims)
    }

    /// Changes what the document says.
    pub fn say(&self, document: Value) {
        self.world().document = document;
    }

    /// Changes what ID tokens say.
    pub fn claim(&self, claims: Value) {
        self.world().claims = claims;
    }

    /// Changes the header of ID tokens.
    pub fn head(&self, header: Value) {
        self.world().header = header;
    }

    /// Signs with another key from now on, without publishing it.
    pub fn sign_with(&self, kid: &'static str) {
        self.world().signs_with = kid;
    }

    /// Leaves the signature out.
    pub fn sign_nothing(&self) {
        self.world().is_unsigned = true;
    }

    /// Publishes these keys and no other.
    pub fn publish(&self, kids: &[&'static str]) {
        self.world().published = kids.to_vec();
    }

    /// Changes the answers at a path.
    pub fn change(&self, path: &'static str, change: impl Fn(&mut ProviderAnswer) + Send + Sync + 'static) {
        self.world().changes.insert(path, Arc::new(change));
    }

    /// How often a path was asked for.
    pub fn asked(&self, path: &str) -> usize {
        self.world().asked.iter().filter(|asked| *asked == path).count()
    }

    fn world(&self) -> MutexGuard<'_, ProviderWorld> {
        self.shared.lock().unwrap()
    }

    fn now_s(&self) -> u64 {
        self.clock.now().unix_ms() / 1000
    }

    async fn serve(&self, mut stream: TcpStream) {
        let mut request = Vec::new();
        let (head, body) = loop {
            let mut chunk = [0; 4096];
            let read = stream.read(&mut chunk).await.unwrap_or(0);
            if read == 0 {
                return;
            }
            request.extend_from_slice(&chunk[..read]);
            let text = String::from_utf8_lossy(&request).into_owned();
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let length =
                head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                break (head.to_owned(), body.to_owned());
            }
        };
        let target = head.split(' ').nth(1).unwrap_or_default();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        self.world().asked.push(path.to_owned());
        let mut answer = self.answer(path, query, &body);
        let change = self.world().changes.get(path).cloned();
        if let Some(change) = change {
            change(&mut answer);
        }
        let headers: Vec<String> = answer.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let headers = headers.concat();
        let head = format!(
            "HTTP/1.1 {} x\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n",
            answer.status,
            answer.body.len()
        );
        let _ = stream.write_all(format!("{head}{}", answer.body).as_bytes()).await;
    }

    fn answer(&self, path: &str, query: &str, body: &str) -> ProviderAnswer {
        let json = |status, document: Value| ProviderAnswer {
            status,
            headers: vec![("content-type", "application/json".to_owned())],
            body: document.to_string(),
        };
        match path {
            "/.well-known/openid-configuration" => json(200, self.document()),
            "/keys" => {
                let world = self.world();
                let keys: Vec<Value> = world.published.iter().map(|kid| world.keys[kid].jwk(kid)).collect();
                json(200, json!({"keys": keys}))
            }
            "/token" => match self.redeem(body) {
                Ok(tokens) => json(200, tokens),
                Err(word) => json(400, json!({"error": word, "error_description": "<b>prose of the provider</b>"})),
            },
            "/authorize" => Self::page(query),
            "/favicon.ico" => ProviderAnswer { status: 204, headers: Vec::new(), body: String::new() },
            "/agree" => {
                let person = query.split('&').find_map(|pair| pair.strip_prefix("person=")).unwrap_or_default();
                let redirect = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "redirect_uri");
                let redirect = redirect.map(|(_, value)| value.into_owned()).unwrap_or_default();
                let location = format!("{redirect}?{}", self.agree(&format!("/authorize?{query}"), person));
                ProviderAnswer { status: 302, headers: vec![("location", location)], body: String::new() }
            }
            _ => json(404, json!({})),
        }
    }

    /// The page on which a person chooses who they are.
    fn page(query: &str) -> ProviderAnswer {
        let query = query.replace('&', "&amp;");
        let link = |(person, _): &(&str, &[&str])| {
            format!("<p><a href=\"/agree?{query}&amp;person={person}\">{person}</a></p>")
        };
        let links = PEOPLE.iter().map(link).collect::<Vec<_>>().concat();
        let body =
            format!("<!doctype html><html lang=\"en\"><title>Provider</title><h1>Who are you?</h1>{links}</html>");
        ProviderAnswer { status: 200, headers: vec![("content-type", "text/html".to_owned())], body }
    }

    fn document(&self) -> Value {
        let issuer = &self.issuer;
        let document = json!({
            "issuer": issuer,
            "authorization_endpoint": format!("{issuer}/authorize"),
            "token_endpoint": format!("{issuer}/token"),
            "jwks_uri": format!("{issuer}/keys"),
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": true,
            "subject_types_supported": ["public"],
            "token_endpoint_auth_methods_supported": ["none", "client_secret_basic"],
        });
        changed(&document, &self.world().document)
    }

    fn redeem(&self, body: &str) -> Result<Value, &'static str> {
        let form: BTreeMap<String, String> = form_urlencoded::parse(body.as_bytes()).into_owned().collect();
        let mut world = self.world();
        let code = form.get("code").and_then(|code| world.codes.remove(code)).ok_or("invalid_grant")?;
        let verifier = form.get("code_verifier").ok_or("invalid_request")?;
        let is_ours = form.get("redirect_uri") == code.query.get("redirect_uri")
            && form.get("client_id").map(String::as_str) == Some(CLIENT)
            && URL_SAFE_NO_PAD.encode(Sha256::digest(verifier)) == code.query["code_challenge"];
        if !is_ours {
            return Err("invalid_grant");
        }
        let access_token = format!("access-{}", world.issued);
        let now_s = self.now_s();
        let groups = PEOPLE.iter().find(|(person, _)| *person == code.person).map_or(&[][..], |(_, groups)| groups);
        let at_hash = URL_SAFE_NO_PAD.encode(&Sha256::digest(&access_token)[..16]);
        let mut claims = json!({
            "iss": self.issuer, "aud": CLIENT, "sub": code.person, "iat": now_s, "exp": now_s + 300,
            "nonce": code.query["nonce"], "groups": groups, "at_hash": at_hash,
        });
        if code.query.contains_key("max_age") {
            claims["auth_time"] = json!(now_s);
        }
        let claims = changed(&claims, &world.claims);
        let header = changed(&json!({"typ": "JWT"}), &world.header);
        Ok(json!({
            "access_token": access_token, "token_type": "Bearer", "expires_in": 300, "id_token": world.signed(&header, &claims),
        }))
    }
}

impl ProviderWorld {
    fn signed(&self, header: &Value, claims: &Value) -> String {
        let key = &self.keys[self.signs_with];
        let header = changed(&json!({"alg": key.algorithm(), "kid": self.signs_with}), header);
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(&header), part(claims));
        let signature = if self.is_unsigned { Vec::new() } else { key.sign(signed.as_bytes()) };
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

impl TestSigningKey {
    fn algorithm(&self) -> &'static str {
        match self {
            Self::Rsa(_) => "RS256",
            Self::P256(_) => "ES256",
        }
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::Rsa(key) => {
                let mut signature = vec![0; key.public_modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature).unwrap();
                signature
            }
            Self::P256(key) => key.sign(&random, message).unwrap().as_ref().to_vec(),
        }
    }

    fn jwk(&self, kid: &str) -> Value {
        let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        match self {
            Self::Rsa(key) => {
                // `SEQUENCE { INTEGER, INTEGER }`, whose lengths are fixed for 2048 bits and 65537.
                let der = key.public_key().as_ref();
                json!({"kty": "RSA", "kid": kid, "use": "sig", "alg": "RS256", "n": encode(&der[9..265]), "e": encode(&der[267..])})
            }
            Self::P256(key) => {
                let point = key.public_key().as_ref();
                json!({"kty": "EC", "crv": "P-256", "kid": kid, "use": "sig", "x": encode(&point[1..33]), "y": encode(&point[33..])})
            }
        }
    }
}

/// A document with other members; null leaves one out.
fn changed(document: &Value, changes: &Value) -> Value {
    let mut members: Map<String, Value> = document.as_object().unwrap().clone();
    for (name, value) in changes.as_object().unwrap() {
        match value {
            Value::Null => members.remove(name),
            value => members.insert(name.clone(), value.clone()),
        };
    }
    Value::Object(members)
}

impl fmt::Debug for IdentityProvider {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("IdentityProvider").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}
