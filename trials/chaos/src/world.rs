//! What a gateway is configured with: the hostile upstream, its contracts, and where effects are kept.

use std::{
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::{
    gateway::{Launch, command},
    people,
    upstream::tools::{
        FILED, GATEWAY_HEADER, KEY_META, MUTATING, WAYS, WITH_ACCOUNT, arguments, business_argument, payment,
    },
};

/// The upstream that every gateway has.
pub const USUAL: &str = "hostile";

/// How long a call of a plain tool may take. Short, because a trial that waits for it to be overdue waits longer than this.
pub const CALL_MS_MAX: u64 = 1_500;
/// How long a call of a slow tool may take: longer than any pause of a case.
pub const SLOW_CALL_MS_MAX: u64 = 5_000;
/// How long a call of a long tool may take, unless a trial says otherwise.
pub const LONG_CALL_MS_MAX: u64 = 30_000;
/// How long an owner may be silent in a trial, unless the trial uses the default of real deployments.
pub const OWNER_SILENCE_MS: u64 = 2_000;
/// How long an owner may be silent in real deployments.
pub const USUAL_SILENCE_MS: u64 = 15_000;
/// For how long the trial's upstream remembers keys.
const KEY_WINDOW_SEC: u64 = 3_600;
/// How long answers are remembered: longer than a clock jumps in row 23, shorter than in row 20.
const TTL_SEC: u64 = 6 * 3_600;

/// How many calls of the one agent may be refused in a minute, where calls wait for people.
const REFUSED_CALLS_MAX: u32 = 1_000_000;

/// Where effects are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Store {
    Sqlite,
    Postgres,
}

/// The effect class of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    R,
    K,
    Q,
    N,
}

/// What every gateway of a run has in common.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The binary under test.
    pub servanda: PathBuf,
    /// Everything of this run.
    pub folder: PathBuf,
    /// The hostile upstream.
    pub upstream: SocketAddr,
    /// Whether the binary serves tools with preconditions.
    pub has_preconditions: bool,
    /// How many calls the budget pays for, if calls cost money.
    pub budget: Option<u64>,
    /// How long an owner may be silent.
    pub silence_ms: u64,
    /// How long a call of a long tool may take.
    pub long_ms_max: u64,
    /// For how long answers are remembered.
    pub ttl_sec: u64,
    /// Further hostile upstreams, by name.
    pub others: Vec<(String, SocketAddr)>,
    /// Further servers over stdio, by name: the program and its arguments.
    pub stdio: Vec<(String, Vec<String>)>,
    /// Whether calls that change something wait for people, and how long an approval lasts; then everybody needs a key.
    pub approvals: Option<ApprovalTimes>,
}

/// How long people may take, in seconds.
#[derive(Debug, Clone, Copy)]
pub struct ApprovalTimes {
    pub decide_within_sec: u64,
    pub use_within_sec: u64,
}

impl Store {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
        }
    }
}

impl Class {
    pub const ALL: [Self; 4] = [Self::R, Self::K, Self::Q, Self::N];

    pub const fn letter(self) -> &'static str {
        match self {
            Self::R => "r",
            Self::K => "k",
            Self::Q => "q",
            Self::N => "n",
        }
    }

    pub const fn mutates(self) -> bool {
        !matches!(self, Self::R)
    }

    /// The class of a tool, by its name.
    pub fn of_tool(tool: &str) -> Self {
        Self::ALL.into_iter().find(|class| tool.ends_with(&format!("_{}", class.letter()))).unwrap_or(Self::R)
    }

    /// The tool of this class that performs its effect in this way.
    pub fn tool(self, way: &str) -> String {
        if self.mutates() { format!("{way}_{}", self.letter()) } else { "read_r".to_owned() }
    }
}

impl Setup {
    /// The setup for a binary, which is asked whether it serves tools with preconditions.
    pub async fn probe(servanda: &Path, folder: &Path, upstream: SocketAddr) -> Result<Self, String> {
        let (servanda, folder) = (servanda.to_owned(), folder.to_owned());
        let mut setup = Self {
            servanda,
            folder,
            upstream,
            has_preconditions: true,
            budget: None,
            silence_ms: OWNER_SILENCE_MS,
            long_ms_max: LONG_CALL_MS_MAX,
            ttl_sec: TTL_SEC,
            others: Vec::new(),
            stdio: Vec::new(),
            approvals: None,
        };
        let probe = setup.folder.join("probe");
        setup.write(&probe, None).map_err(|error| error.to_string())?;
        let checked = command(&setup, &probe, &Launch::default(), Path::new(""))?.arg("check").output().await;
        let checked = checked.map_err(|error| error.to_string())?;
        let said = String::from_utf8_lossy(&checked.stderr).into_owned() + &String::from_utf8_lossy(&checked.stdout);
        if checked.status.success() {
            return Ok(setup);
        }
        if !said.contains("preconditions") {
            return Err(format!("the trial's own contracts are not admitted: {said}"));
        }
        setup.has_preconditions = false;
        Ok(setup)
    }

    /// Writes the configuration of one gateway. `database` is the URL of a PostgreSQL database; without one, effects are in
    /// a file beside the configuration.
    pub fn write(&self, folder: &Path, database: Option<&str>) -> io::Result<()> {
        fs::create_dir_all(folder.join("contracts"))?;
        let mut config = json!({
            "servanda": 1,
            "upstreams": self.upstreams(&gateway_name(folder)),
            "pins": { "missing": "ignore" },
            "limits": { "probe_interval_ms": 600_000 },
            // A caller waits for the end of a long call like any caller.
            "long_work": { "wait_ms_max": null },
            // No person is there to approve anything; trials of approvals say so themselves.
            "approvals": { "by_class": false },
        });
        if let Some(times) = self.approvals {
            config["auth"] = json!({ "mode": "required" });
            // One agent asks for everything, and most of it is held, which counts as refused.
            config["limits"]["refused_calls_per_minute_max"] = json!(REFUSED_CALLS_MAX);
            config["approvals"] = json!({
                "by_class": false,
                // Callers get the ticket at once.
                "wait_ms_max": 0,
                "decide_within_sec": times.decide_within_sec,
                "use_within_sec": times.use_within_sec,
                "roles": { "approver": people::APPROVERS.map(|name| format!("{}/{name}", people::TENANT)) },
                // A receiver that is always down: what it is not told approves nothing.
                "notify": [{ "name": "lost", "format": "slack", "url": "http://127.0.0.1:1/hook" }],
            });
        }
        if let Some(limit) = self.budget {
            let (per, period) = ("tenant", "total");
            let money =
                json!({ "dimension": "financial", "amount": limit, "currency": "USD", "per": per, "period": period });
            config["budgets"] = json!([money]);
        }
        if let Some(database) = database {
            config["ledger"] = json!(database);
        }
        // JSON is YAML.
        fs::write(folder.join("servanda.yaml"), format!("{config:#}\n"))?;
        let served = |contract: &&Value| self.has_preconditions || contract["preconditions"].is_null();
        for contract in self.contracts().iter().filter(served) {
            let name = contract["identity"]["name"].as_str().unwrap_or_default();
            fs::write(folder.join(format!("contracts/{name}.json")), format!("{contract:#}\n"))?;
        }
        Ok(())
    }
}

impl Setup {
    /// How long a gateway waits for the upstream's answer to a call of this tool.
    pub fn limit_ms(&self, tool: &str) -> u64 {
        let tool = tool.rsplit_once('.').map_or(tool, |(_, tool)| tool);
        match tool.split_once('_').map_or("", |(way, _)| way) {
            "slow" | "turn" | FILED => SLOW_CALL_MS_MAX,
            "long" => self.long_ms_max,
            _ => CALL_MS_MAX,
        }
    }

    fn upstreams(&self, gateway: &str) -> Value {
        let http = |address: SocketAddr| json!({ "url": format!("http://{address}/mcp"), "headers": { GATEWAY_HEADER: gateway } });
        let mut upstreams = json!({ USUAL: http(self.upstream) });
        for (name, address) in &self.others {
            upstreams[name] = http(*address);
        }
        for (name, program) in &self.stdio {
            let (command, args) = program
                .split_first()
                .map_or((String::new(), Vec::new()), |(first, rest)| (first.clone(), rest.to_vec()));
            upstreams[name] = json!({ "command": command, "args": args });
        }
        upstreams
    }

    /// Every contract, with what a call costs.
    fn contracts(&self) -> Vec<Value> {
        let names = std::iter::once(USUAL).chain(self.others.iter().map(|(name, _)| name.as_str()));
        let mut contracts: Vec<Value> = names.flat_map(|name| self.contracts_of(name)).collect();
        contracts.extend(self.stdio.iter().map(|(name, _)| of_upstream(reading("read_r", &payment(), &paid()), name)));
        for contract in contracts.iter_mut().filter(|contract| contract["effect"]["class"] != "R") {
            contract["transactional"]["confirmation_required"] = json!(self.approvals.is_some());
            contract["runtime"]["cost_profile"]["cost_per_call"] = json!(u8::from(self.budget.is_some()));
        }
        contracts
    }

    fn contracts_of(&self, upstream: &str) -> Vec<Value> {
        let mut contracts = vec![
            reading("read_r", &payment(), &paid()),
            reading("balance", &json!({ "business_id": text() }), &json!({ "enough": { "type": "boolean" } })),
            reading("status_q", &json!({ "key": text() }), &json!({})),
        ];
        for way in WAYS {
            for class in MUTATING {
                let tool = format!("{way}_{class}");
                let mut contract = paying(way, class);
                contract["runtime"]["timeout_ms"] = json!(self.limit_ms(&tool));
                contract["idempotency"]["ttl_seconds"] = json!(self.ttl_sec);
                contracts.push(contract);
            }
        }
        contracts.into_iter().map(|contract| of_upstream(contract, upstream)).collect()
    }
}

/// The name that a gateway gives itself to its upstreams, by its folder.
pub fn gateway_name(folder: &Path) -> String {
    folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The contract for the same tool of another upstream.
fn of_upstream(mut contract: Value, upstream: &str) -> Value {
    let tool = contract["binding"]["tool"].as_str().unwrap_or_default().to_owned();
    contract["identity"]["name"] = json!(format!("{upstream}.{tool}"));
    contract["binding"]["upstream"] = json!(upstream);
    for (asks, tool) in [("status", "status_q"), ("precondition", "balance")] {
        let asked = json!(format!("{upstream}.{tool}"));
        if asks == "status" && !contract["effect"]["status"].is_null() {
            contract["effect"]["status"]["tool"] = asked;
        } else if asks == "precondition" && !contract["preconditions"].is_null() {
            contract["preconditions"][0]["tool"] = asked;
        }
    }
    contract
}

fn reading(tool: &str, input: &Value, output: &Value) -> Value {
    let mut contract = base(tool, input, output);
    contract["security"]["required_scopes"] = json!([]);
    contract["transactional"]["side_effect_class"] = json!("READ_ONLY");
    contract["transactional"]["semantics"] = json!("read_only");
    contract["effect"] = json!({ "class": "R", "mutation_class": "read_only" });
    contract
}

fn paying(way: &str, class: &str) -> Value {
    let mut contract = base(&format!("{way}_{class}"), &arguments(way), &paid());
    let of_account = WITH_ACCOUNT.contains(&way);
    let resource =
        if of_account { "account/{account}".to_owned() } else { format!("payment/{{{}}}", business_argument(way)) };
    let change = json!({ "resource": resource, "operation": "CREATE", "scope": "tenant" });
    let mut effect = json!({ "mutation_class": "write_irreversible", "manifest": [change] });
    effect["class"] = json!(class.to_uppercase());
    if way == FILED {
        // Otherwise calls wait for each other before they draw on a grant, and only the waiting would be tested.
        effect["overlap"] = json!("allow");
    }
    if class != "n" {
        effect["key"] = json!({ "meta": KEY_META });
    }
    if class == "k" {
        effect["key_window_sec"] = json!(KEY_WINDOW_SEC);
    }
    if class == "q" {
        let status = json!({ "tool": "hostile.status_q", "key_argument": "key", "absence_is_authoritative": true });
        effect["status"] = status;
    }
    contract["effect"] = effect;
    // The gateway itself also retries what may be sent again.
    contract["runtime"]["max_retries"] = json!(if class == "n" { 0 } else { 2 });
    if way == "long" {
        contract["execution"]["timeout_class"] = json!("long_running");
    }
    if way == "checked" {
        contract["preconditions"] = json!([{
            "id": "funds", "tool": "hostile.balance", "arguments": { "business_id": "{business_id}" },
            "expect": { "rule": "result.enough", "message": "there is not enough" },
        }]);
    }
    contract
}

fn text() -> Value {
    json!({ "type": "string" })
}

fn paid() -> Value {
    json!({ "receipt": text(), "amount": { "type": "number" } })
}

fn base(tool: &str, input: &Value, output: &Value) -> Value {
    let required: Vec<&String> = input.as_object().map(|known| known.keys().collect()).unwrap_or_default();
    json!({
        "identity": {
            "name": format!("hostile.{tool}"), "version": "1.0.0", "owner": "trials",
            "lifecycle": { "status": "active", "sunset_date": null, "replacement": null },
        },
        "affordance": {
            "model_description": format!("The trial's {tool}."), "allowed_use_cases": [], "forbidden_use_cases": [],
            "input_schema": { "type": "object", "required": required, "properties": input },
            "output_schema": { "type": "object", "properties": output },
            "examples": [],
        },
        "runtime": {
            "timeout_ms": CALL_MS_MAX,
            "rate_limits": { "window_sec": 1, "max_requests": 1_000_000 },
            "cost_profile": { "currency": "USD", "cost_per_call": 0.0, "cost_unit": "call" },
            "sandbox_isolated": false, "max_retries": 0,
        },
        "security": {
            "required_scopes": ["chaos:pay"], "tenant_scoped": false, "secrets_boundary": "none",
            "data_classification": "internal", "egress_policy": "none",
        },
        "transactional": {
            "side_effect_class": "HIGH_RISK_EXTERNAL", "confirmation_required": false, "semantics": "irreversible_pivot",
            "compensation_tool": null, "post_action_verification_required": false,
        },
        "idempotency": {
            "supported": true, "required": false, "key_header": null, "ttl_seconds": TTL_SEC,
            "payload_hash_required": true,
        },
        "observability": { "trace_attributes": [], "audit_required": true, "error_taxonomy_mapping": {} },
        "error_contract": {
            "repairable_errors": [], "retryable_errors": [], "fail_closed_errors": [], "escalation_errors": [],
        },
        "binding": { "upstream": "hostile", "tool": tool },
        "execution": { "timeout_class": "standard" },
    })
}
