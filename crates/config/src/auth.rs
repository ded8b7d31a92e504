//! `auth:` of the configuration: which credentials callers at the HTTP door need, and which rights the tokens of an issuer give. Checked
//! before anything starts. An address that other machines can reach is never open without credentials.

use std::{collections::BTreeSet, net::SocketAddr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use servanda_authn::{
    AuthnSettings, IssuerSettings, KEY_CACHE_POLICY, ProviderSettings, RequiredAuthnSettings, fetchable_url,
};
use servanda_authority::{
    Rights,
    caller::{InvalidCallerName, checked_name, checked_tenant},
    challenge::ResourceMetadata,
    rights::{ResourcePatterns, Scope, Scopes, ToolPatterns},
    signature::Algorithm,
    token::{Issuer, LEEWAY_MS_MAX, TenantSource},
};
use servanda_catalog::Catalog;
use servanda_contract::{document::DocumentError, tool::SideEffectClass};

use crate::{Config, ConfigFieldFault, error::ConfigError, listen::ListenError, loaded::LoadedConfig};

/// The most issuers of one configuration.
const ISSUERS_MAX: usize = 32;
const LEEWAY_MS_DEFAULT: u64 = 30_000;

/// Which credentials callers need.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AuthConfig {
    /// Whether callers over HTTP need a credential.
    pub mode: AuthMode,
    /// The URL that clients use for the gateway, and the required audience of their tokens, e.g. `https://gateway.example/mcp`. By default,
    /// the listening address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// Whether API keys are accepted, as `servanda keys create` makes them.
    #[serde(default = "taken", skip_serializing_if = "is_taken")]
    pub keys: bool,
    /// The scopes that a client without a token is told to ask for first. By default, those of the tools that only read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scopes: Option<Vec<String>>,
    /// The authorization servers whose access tokens are accepted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub issuers: Vec<IssuerConfig>,
}

/// Whether callers over HTTP need a credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AuthMode {
    /// No credential: every caller on this machine is the one local principal.
    Local,
    /// Every caller needs one.
    Required,
}

/// An authorization server whose access tokens are accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IssuerConfig {
    /// The exact `iss` of its tokens; its metadata are fetched from there.
    pub issuer: String,
    /// The tenant of its users: one for all, or the value of a claim.
    pub tenant: TenantConfig,
    /// The required `aud` of its tokens; `auth.resource` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audience: Option<String>,
    /// Where its keys are; taken from its metadata by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwks_uri: Option<String>,
    /// The algorithms that are accepted from it: `RS256`, `PS256`, `ES256`, `EdDSA`; all but `PS256` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub algorithms: Option<Vec<String>>,
    /// The claim that names the user; `sub` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal_claim: Option<String>,
    /// A prefix for that name. Needed if two issuers have users in one tenant, because both may have an `ada`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub principal_prefix: String,
    /// The claim that lists the user's groups, for policies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups_claim: Option<String>,
    /// The scopes that its tokens may have; other scopes of a token are ignored. All by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scopes: Option<Vec<String>>,
    /// The tools that its users may call, by patterns of contract names: `company.*`. All by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// The resources that its users' calls may touch, by patterns: `invoice/*`. All by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Vec<String>>,
    /// The gravest class of calls that its users may make.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<SideEffectClass>,
    /// How much its clock may differ from ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 120_000))]
    pub leeway_ms: Option<u64>,
}

/// Where a tenant's name comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum TenantConfig {
    /// All users of the issuer belong to this tenant.
    Fixed(String),
    /// A claim of the token names the tenant.
    Claim(TenantClaim),
}

/// The claim that names a user's tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TenantClaim {
    /// Its name.
    pub claim: String,
    /// The tenants that the issuer may name; any by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenants: Option<BTreeSet<String>>,
}

impl Default for AuthConfig {
    fn default() -> Self {
        Self { mode: AuthMode::Local, resource: None, keys: true, scopes: None, issuers: Vec::new() }
    }
}

impl AuthConfig {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl LoadedConfig {
    /// Refuses an address that other machines can reach if callers need no credential.
    pub fn require_guarded(&self, address: SocketAddr) -> Result<(), ListenError> {
        let auth = &self.config.auth;
        if address.ip().is_loopback() {
            return Ok(());
        }
        if auth.mode != AuthMode::Required {
            return Err(ListenError::Unguarded(address));
        }
        if auth.resource.is_none() {
            return Err(ListenError::NoResource(address));
        }
        Ok(())
    }

    /// The conditions of admission at that address, for the tools of that catalog.
    pub fn admission_terms(&self, address: SocketAddr, catalog: &Catalog) -> Result<AuthnSettings, ConfigError> {
        self.require_guarded(address)?;
        let auth = &self.config.auth;
        if auth.mode == AuthMode::Local {
            return Ok(AuthnSettings::Local);
        }
        let resource = auth.resource.clone().unwrap_or_else(|| format!("http://{address}/mcp"));
        let issuers = auth.issuers.iter().map(|issuer| issuer.terms(&resource)).collect::<Result<_, _>>();
        // Everyone can read these metadata, so scopes of tools for some tenants only are left out: those callers learn at a call which
        // scopes they lack.
        let is_everybodys = |upstream: &str| self.config.upstreams.get(upstream).is_none_or(|it| it.tenants.is_empty());
        let contracts = || {
            let contracts = catalog.entries().map(|(_, entry)| &entry.contract);
            contracts.filter(|contract| is_everybodys(&contract.contract().binding.upstream))
        };
        let reads = |class: SideEffectClass| class == SideEffectClass::ReadOnly;
        let first = contracts().filter(|contract| reads(contract.contract().transactional.side_effect_class));
        let scopes_first = match &auth.scopes {
            Some(scopes) => words("auth.scopes", scopes).map_err(|fault| self.auth_fault(fault))?,
            None => first.flat_map(|contract| contract.scopes().iter().cloned()).collect(),
        };
        Ok(AuthnSettings::Required(Box::new(RequiredAuthnSettings {
            resource,
            keys: auth.keys,
            issuers: issuers.map_err(|fault| self.auth_fault(fault))?,
            provider: self.provider_settings()?,
            scopes_supported: contracts().flat_map(|contract| contract.scopes().iter().cloned()).collect(),
            scopes_first,
        })))
    }

    /// The identity provider that signs people in to the console, if there is one.
    pub fn provider_settings(&self) -> Result<Option<ProviderSettings>, ConfigError> {
        self.config.provider_settings().map_err(|fault| self.auth_fault(fault))
    }

    fn auth_fault(&self, (field, reason): ConfigFieldFault) -> ConfigError {
        DocumentError::new(&self.file.display().to_string(), &field, reason).into()
    }
}

impl IssuerConfig {
    pub(crate) fn terms(&self, resource: &str) -> Result<IssuerSettings, ConfigFieldFault> {
        let field = |name: &str| format!("auth.issuers[{}].{name}", self.issuer);
        let wrong = |name: &str, reason: &dyn std::fmt::Display| (field(name), reason.to_string());
        fetchable_url(&self.issuer).map_err(|reason| wrong("issuer", &reason))?;
        if let Some(address) = &self.jwks_uri {
            fetchable_url(address).map_err(|reason| wrong("jwks_uri", &reason))?;
        }
        let names = |name: &str, listed: &Option<Vec<String>>| match listed {
            Some(listed) => ToolPatterns::read(listed).map_err(|error| wrong(name, &error)),
            None => Ok(ToolPatterns::all()),
        };
        let resources = match &self.resources {
            Some(listed) => ResourcePatterns::read(listed).map_err(|error| wrong("resources", &error))?,
            None => ResourcePatterns::all(),
        };
        let scopes = match &self.scopes {
            Some(scopes) => Scopes::These(words(&field("scopes"), scopes)?),
            None => Scopes::All,
        };
        let top = Rights::unlimited();
        let tools = names("tools", &self.tools)?;
        let ceiling = self.ceiling.unwrap_or(top.ceiling);
        let leeway_ms = self.leeway_ms.unwrap_or(LEEWAY_MS_DEFAULT);
        if leeway_ms > LEEWAY_MS_MAX {
            return Err(wrong("leeway_ms", &format!("at most {LEEWAY_MS_MAX}")));
        }
        let tenant = self.tenant.source().map_err(|reason| wrong("tenant", &reason))?;
        if !self.principal_prefix.is_empty() {
            checked_name(&self.principal_prefix).map_err(|reason| wrong("principal_prefix", &reason))?;
        }
        let issuer = Issuer {
            issuer: self.issuer.clone(),
            audience: self.audience.clone().unwrap_or_else(|| resource.to_owned()),
            algorithms: self.algorithms().map_err(|reason| wrong("algorithms", &reason))?,
            tenant,
            principal_claim: self.principal_claim.clone(),
            principal_prefix: self.principal_prefix.clone(),
            groups_claim: self.groups_claim.clone(),
            rights: Rights { scopes, tools, resources, ceiling, ..top },
            leeway_ms,
        };
        Ok(IssuerSettings { issuer, jwks_uri: self.jwks_uri.clone(), cache: KEY_CACHE_POLICY })
    }

    fn algorithms(&self) -> Result<Vec<Algorithm>, String> {
        let Some(named) = &self.algorithms else {
            return Ok(vec![Algorithm::Rs256, Algorithm::Es256, Algorithm::EdDsa]);
        };
        let known = "name some of RS256, PS256, ES256, EdDSA";
        let read = |name: &String| Algorithm::named(name).ok_or_else(|| format!("`{name}` is not taken; {known}"));
        let algorithms = named.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        if algorithms.is_empty() { Err(format!("there is none; {known}")) } else { Ok(algorithms) }
    }

    /// Whether a user of one issuer may be taken for a user of the other.
    pub(crate) fn may_be_mixed_up_with(&self, other: &Self) -> bool {
        let (one, two) = (&self.principal_prefix, &other.principal_prefix);
        self.tenant.meets(&other.tenant) && (one.starts_with(two.as_str()) || two.starts_with(one.as_str()))
    }
}

impl TenantConfig {
    fn source(&self) -> Result<TenantSource, InvalidCallerName> {
        let tenants = self.listed().unwrap_or_default();
        tenants.iter().try_for_each(|tenant| checked_tenant(tenant).map(drop))?;
        Ok(match self {
            Self::Fixed(tenant) => TenantSource::Fixed(tenant.clone()),
            Self::Claim(TenantClaim { claim, tenants }) => {
                TenantSource::Claim { claim: claim.clone(), tenants: tenants.clone() }
            }
        })
    }

    /// Whether both may name the same tenant.
    fn meets(&self, other: &Self) -> bool {
        match (self.listed(), other.listed()) {
            (Some(one), Some(two)) => !one.is_disjoint(&two),
            _ => true,
        }
    }

    /// The tenants it may name, if they are listed.
    fn listed(&self) -> Option<BTreeSet<String>> {
        match self {
            Self::Fixed(tenant) => Some(BTreeSet::from([tenant.clone()])),
            Self::Claim(claim) => claim.tenants.clone(),
        }
    }
}

/// The first field with an impossible value, and why.
pub(super) fn fault(config: &Config) -> Option<ConfigFieldFault> {
    let auth = &config.auth;
    let wrong = |field: &str, reason: &str| Some((format!("auth.{field}"), reason.to_owned()));
    if auth.mode == AuthMode::Local && (!auth.issuers.is_empty() || auth.resource.is_some()) {
        return wrong(
            "mode",
            "`local` asks callers for no credential; with `issuers` or a `resource`, write `required`",
        );
    }
    if auth.issuers.len() > ISSUERS_MAX {
        return wrong("issuers", &format!("there are more than {ISSUERS_MAX}"));
    }
    if let Some(resource) = &auth.resource {
        if let Err(reason) = fetchable_url(resource) {
            return wrong("resource", reason);
        }
        if ResourceMetadata::address_of(resource).is_none() {
            return wrong("resource", "it is not an address like https://gateway.example/mcp");
        }
    }
    if let Some(Err(fault)) = auth.scopes.as_ref().map(|scopes| words("auth.scopes", scopes)) {
        return Some(fault);
    }
    let resource = auth.resource.as_deref().unwrap_or("http://127.0.0.1/mcp");
    if let Some(fault) = auth.issuers.iter().find_map(|issuer| issuer.terms(resource).err()) {
        return Some(fault);
    }
    for (number, issuer) in auth.issuers.iter().enumerate() {
        let others = || auth.issuers.iter().skip(number + 1);
        if others().any(|other| other.issuer == issuer.issuer) {
            return wrong("issuers", &format!("`{}` stands there twice", issuer.issuer));
        }
        if let Some(other) = others().find(|other| issuer.may_be_mixed_up_with(other)) {
            let (one, two) = (&issuer.issuer, &other.issuer);
            let reason = format!(
                "users of `{one}` and `{two}` may be of one tenant and have one name; give both a `principal_prefix`, \
                 neither of which begins with the other"
            );
            return wrong("issuers", &reason);
        }
    }
    None
}

fn words(field: &str, listed: &[String]) -> Result<BTreeSet<Scope>, ConfigFieldFault> {
    match Scopes::from_words(listed) {
        Ok(Scopes::These(scopes)) => Ok(scopes),
        Ok(Scopes::All) => Ok(BTreeSet::new()),
        Err(error) => Err((field.to_owned(), error.to_string())),
    }
}

fn taken() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks it so")]
fn is_taken(taken: &bool) -> bool {
    *taken
}
