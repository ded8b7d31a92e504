//! A company that requires credentials, and how credentials are obtained on the command line.

use serde_json::{Value, json};

use crate::{
    agent::Agent,
    contract::{Contract, count_effects, get_invoice, pay_invoice},
    gateway::Gateway,
    http::Question,
    issuer::Issuer,
    world::World,
};

/// The scope of tools that read.
pub(crate) const READ: &str = "company:read";
/// The scope that a payment needs besides that of reading.
pub(crate) const WRITE: &str = "company:write";

impl Contract {
    /// Requires these scopes.
    pub(crate) fn scopes(mut self, scopes: &[&str]) -> Self {
        self.0["security"]["required_scopes"] = json!(scopes);
        self
    }
}

/// What the company offers: a read, a payment that needs both scopes, and a count that needs none.
pub(crate) fn contracts() -> [Contract; 3] {
    [get_invoice().scopes(&[READ]), pay_invoice().scopes(&[READ, WRITE]), count_effects()]
}

impl World {
    /// The sample company, where every caller needs a credential: a key, or a token of these issuers.
    pub(crate) fn guarded(issuers: &[&Issuer]) -> Self {
        Self::company(contracts()).unpinned().guarding(issuers)
    }

    /// The same world with `auth` in its configuration.
    pub(crate) fn guarding(self, issuers: &[&Issuer]) -> Self {
        let issuers: Vec<Value> = issuers.iter().map(|issuer| issuer.config()).collect();
        self.change_config(|config| config["auth"] = json!({ "mode": "required", "issuers": issuers }));
        self
    }

    /// Creates a key with these scopes for a principal; returns the key and its id.
    pub(crate) fn key(&self, tenant: &str, principal: &str, scopes: &[&str], more: &[&str]) -> (String, String) {
        let mut args =
            vec!["keys", "create", "--json", "--tenant", tenant, "--principal", principal, "--label", "test"];
        args.extend(scopes.iter().flat_map(|scope| ["--scope", scope]));
        args.extend(more);
        let made = self.run(&args).ended(0).json();
        (made["key"].as_str().unwrap().to_owned(), made["credential"].as_str().unwrap().to_owned())
    }

    /// The output of `servanda delegate` for a credential.
    pub(crate) fn delegated(&self, credential: &str, more: &[&str]) -> Value {
        let mut args = vec!["delegate", "--json"];
        args.extend(more);
        self.run_with_env(&args, &[("SERVANDA_CREDENTIAL", credential)]).ended(0).json()
    }
}

impl Gateway {
    /// The audience that its tokens must have.
    pub(crate) fn resource(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// A modern client with a credential.
    pub(crate) fn bearing(&self, credential: &str) -> Agent {
        Agent::bearing(self.address, credential)
    }

    /// The status and the challenge of a list request with that credential.
    pub(crate) fn knock(&self, credential: &str) -> (u16, String) {
        let agent = self.bearing(credential);
        let answer = agent.begin(1, "tools/list", json!({}));
        let challenge = answer.headers.get("www-authenticate").cloned().unwrap_or_default();
        (answer.status, challenge)
    }

    /// Exchanges a token; returns the status and the answer.
    pub(crate) fn exchange(&self, parameters: &[(&str, &str)]) -> (u16, Value) {
        let fixed = [
            ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
            ("subject_token_type", "urn:ietf:params:oauth:token-type:access_token"),
        ];
        let answer = Question::form("/oauth/token", &[&fixed, parameters].concat()).ask(self.address);
        let (status, store) = (answer.status, answer.headers.get("cache-control").cloned());
        assert_eq!(store.as_deref(), Some("no-store"));
        (status, serde_json::from_str(&answer.text()).unwrap())
    }
}

pub(crate) fn payment(amount_cents: u64) -> Value {
    json!({ "invoice_id": "inv_1003", "amount_cents": amount_cents, "currency": "CHF" })
}
