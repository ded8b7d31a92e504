//! A gateway whose stores are in memory, with a console and tickets of all kinds. Tests and the example for browsers share it.

#[path = "doubles.rs"]
pub mod doubles;
#[path = "drawing.rs"]
pub mod drawing;
#[path = "operating.rs"]
pub mod operating;
#[path = "planning.rs"]
pub mod planning;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, Mutex},
};

pub use doubles::{AwayNotebook, FixedSeal, ShiftedClock};
use serde_json::{Value, json};
use servanda_approval::{
    ApprovalCause, ApprovalDemand, ApprovalSettings, PersonRole, RoleAssignments, RoleMember, StateBefore, Ticket,
    TicketEvent, TicketId, TicketKey, TicketPreview, TicketRequest, TicketSubject,
};
use servanda_authn::{
    AuthnSettings, CredentialAuthenticator, IssuerSettings, ProviderSettings, RequiredAuthnSettings, keys,
};
use servanda_authority::{Rights, api_key::ApiKeySpec, rights::Scopes};
use servanda_catalog::names::ExposedNaming;
use servanda_console::{Console, ConsoleParts, OneTimeLinks};
use servanda_contract::{
    CallId, CallRecord, Caller, CallerActor, Digest, GateName, TaxonomyClass, Timestamp,
    digest::DigestDomain,
    json as strict_json,
    preview::UpstreamPreview,
    record::{ContractReference, Decision, Outcome, RECORD_VERSION, Verdict},
    time::Clock,
    tool::{ApprovalPattern, EffectClass, Presence, SideEffectClass},
};
use servanda_effects::{
    Journal, Notebook, TicketStore,
    budget::{BudgetStore, InMemoryBudgets},
    call_history::InMemoryCallHistory,
    effect::{EffectStore, InMemoryEffects},
    ticket_store::{InMemoryTickets, TicketTarget},
};
use servanda_engine::{
    Engine, EngineLimits, EngineParts, World,
    approvals::{ApprovalParts, EphemeralAttestationKeys},
};
use servanda_upstream::{Transport, Upstream, UpstreamLimits, UpstreamName, UpstreamSpec};

/// Who uses the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Users {
    /// One person, without credentials.
    One,
    /// Many, with keys.
    Many,
}

/// A gateway with a console.
pub struct Gateway {
    pub engine: Arc<Engine>,
    pub console: Console,
    pub links: Arc<OneTimeLinks>,
    pub authenticator: Arc<CredentialAuthenticator>,
    pub notebook: Arc<AwayNotebook>,
    pub tickets: Arc<InMemoryTickets>,
    pub effects: Arc<InMemoryEffects>,
    pub budgets: Arc<InMemoryBudgets>,
    pub history: Arc<InMemoryCallHistory>,
    pub clock: Arc<ShiftedClock>,
    opened: Mutex<u64>,
}

/// A ticket to be opened.
#[derive(Debug, Clone)]
pub struct Wanted {
    pub tenant: &'static str,
    pub principal: String,
    pub agent: Option<(&'static str, bool)>,
    pub tool: &'static str,
    pub arguments: Value,
    pub consequence: Option<String>,
    pub after: Option<&'static str>,
    pub before: Option<Result<Value, String>>,
    /// The sensitive parts of the state before.
    pub sensitive_in_state: &'static [(&'static str, &'static str)],
    pub preview: Option<UpstreamPreview>,
    pub sensitive_in_preview: &'static [(&'static str, &'static str)],
    pub compensation: Option<&'static str>,
    pub price: Option<&'static str>,
    pub sensitive: &'static [(&'static str, &'static str)],
    pub pattern: ApprovalPattern,
    pub groups: &'static [&'static str],
    pub quorum: u8,
    pub presence: Presence,
    pub class: SideEffectClass,
    pub decide_within_ms: u64,
}

impl Default for Wanted {
    fn default() -> Self {
        Self {
            tenant: "acme",
            principal: "ada".to_owned(),
            agent: Some(("billing-agent", true)),
            tool: "company.void_invoice",
            arguments: json!({"invoice_id": "inv_1007", "reason": "duplicate"}),
            consequence: Some("Invoice inv_1007 becomes void; nobody is charged for it.".to_owned()),
            after: None,
            before: None,
            preview: None,
            sensitive_in_state: &[],
            sensitive_in_preview: &[],
            compensation: None,
            price: None,
            sensitive: &[],
            pattern: ApprovalPattern::Operator,
            groups: &[],
            quorum: 1,
            presence: Presence::Session,
            class: SideEffectClass::MediumRiskWrite,
            decide_within_ms: 24 * 3_600_000,
        }
    }
}

impl Gateway {
    /// A gateway without tickets.
    pub fn new(users: Users) -> Self {
        Self::at(users, None)
    }

    /// The same for people who reach its console at a configured address.
    pub fn at(users: Users, console_url: Option<String>) -> Self {
        let clock = Arc::new(ShiftedClock::default());
        let notebook = Arc::new(AwayNotebook::default());
        let tickets = Arc::new(InMemoryTickets::new(clock.clone()));
        let history: Arc<InMemoryCallHistory> = Arc::default();
        let effects = Arc::new(InMemoryEffects::new(clock.clone()).with_tickets(tickets.clone()));
        let budgets = Arc::new(InMemoryBudgets::new(clock.clone(), effects.clone()));
        let stores = FixtureStores {
            tickets: tickets.clone(),
            budgets: budgets.clone(),
            effects: effects.clone(),
            journal: history.clone(),
            notebook: notebook.clone(),
        };
        let engine = Arc::new(engine(users, console_url, stores, clock.clone()));
        let settings = match users {
            Users::One => AuthnSettings::Local,
            Users::Many => many(None, Vec::new()),
        };
        let authenticator =
            CredentialAuthenticator::new(notebook.clone(), clock.clone(), Arc::new(FixedSeal), settings).unwrap();
        let authenticator = Arc::new(authenticator);
        let links = Arc::new(OneTimeLinks::new(clock.clone()));
        let console = Console::new(ConsoleParts {
            engine: engine.clone(),
            history: history.clone(),
            notebook: notebook.clone(),
            authenticator: authenticator.clone(),
            links: links.clone(),
            clock: clock.clone(),
            link_hint: "Start the gateway again to get another link.".to_owned(),
        });
        Self {
            engine,
            console,
            links,
            authenticator,
            notebook,
            tickets,
            effects,
            budgets,
            history,
            clock,
            opened: Mutex::default(),
        }
    }

    /// Makes a key of a person or an agent.
    pub async fn key(&self, principal: &str, groups: &[&str], scopes: &[&str]) -> (String, String) {
        let now = self.clock.now();
        let (tenant, principal) = principal.split_once('/').unwrap_or(("acme", principal));
        let spec = ApiKeySpec {
            tenant: tenant.to_owned(),
            principal: principal.to_owned(),
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
            label: "test".to_owned(),
            rights: Rights { scopes: Scopes::from_words(scopes).unwrap(), ..Rights::unlimited() },
            expires_at: Timestamp::from_unix_ms(now.unix_ms() + 86_400_000),
        };
        let made = keys::make(self.notebook.as_ref(), spec, now).await.unwrap();
        (made.stored.id.clone(), made.text.as_text().unwrap().to_owned())
    }

    /// Opens a ticket as a call does.
    pub async fn open(&self, wanted: Wanted) -> Ticket {
        let request = self.request(wanted);
        let applied =
            self.tickets.apply_ticket(TicketTarget::Key(request.key), TicketEvent::Request(Box::new(request)));
        (*applied.await.unwrap().ticket.unwrap()).clone()
    }

    /// The request for a ticket.
    pub fn request(&self, wanted: Wanted) -> TicketRequest {
        let number = {
            let mut opened = self.opened.lock().unwrap();
            *opened += 1;
            *opened
        };
        let arguments = strict_json::canonicalize(&wanted.arguments).unwrap().bytes().clone();
        let contract_digest = Digest::compute(DigestDomain::Contract, &[wanted.tool.as_bytes()]);
        let parts: [&[u8]; 4] =
            [wanted.tenant.as_bytes(), wanted.tool.as_bytes(), contract_digest.as_bytes(), &arguments];
        let payload = Digest::compute(DigestDomain::Proposal, &parts);
        let actors = wanted.agent.map(|(name, proven)| CallerActor { name: name.to_owned(), proven });
        let caller = Caller { actors: actors.into_iter().collect(), ..Caller::named(wanted.tenant, &wanted.principal) };
        TicketRequest {
            id: TicketId::new(),
            key: TicketKey::new(&caller, &payload),
            demand: ApprovalDemand {
                pattern: wanted.pattern,
                groups: wanted.groups.iter().map(|group| (*group).to_owned()).collect(),
                quorum: wanted.quorum,
                presence: wanted.presence,
                decide_within_ms: wanted.decide_within_ms,
                use_within_ms: 600_000,
                escalation: Vec::new(),
                causes: vec![ApprovalCause::Contract],
                class: wanted.class,
            },
            subject: TicketSubject {
                tenant: caller.tenant.clone(),
                principal: caller.principal.clone(),
                actors: caller.actors.clone(),
                credential: None,
                client: Some("claude-code 3.1".to_owned()),
                run: format!("run-{number}"),
                call_id: CallId::new(),
                trace_id: format!("{number:032x}"),
                tool: wanted.tool.replace('.', "__"),
                contract: wanted.tool.to_owned(),
                contract_version: "1.0.0".to_owned(),
                contract_digest,
                upstream: "company".to_owned(),
                payload,
                arguments,
                consequence: wanted.consequence,
                after: wanted.after.map(str::to_owned),
                before: wanted.before.map(|state| StateBefore {
                    tool: "company.get_invoice".to_owned(),
                    at_ms: self.clock.now().unix_ms(),
                    state,
                    sensitive: listed(wanted.sensitive_in_state),
                }),
                upstream_preview: wanted.preview.map(|preview| TicketPreview {
                    at_ms: self.clock.now().unix_ms(),
                    preview,
                    sensitive: listed(wanted.sensitive_in_preview),
                }),
                compensation: wanted.compensation.map(str::to_owned),
                plan: Vec::new(),
                operation: None,
                price: wanted.price.map(str::to_owned),
                sensitive: listed(wanted.sensitive),
            },
        }
    }

    /// The time, in milliseconds since the epoch.
    pub fn clock_ms(&self) -> u64 {
        self.clock.now().unix_ms()
    }

    /// Records a call as the engine does: a read of the tenant's user through every gate, with what a test changes.
    pub async fn record(&self, tenant: &str, principal: &str, change: impl FnOnce(&mut CallRecord)) -> CallRecord {
        let received_ms = self.clock.now().unix_ms();
        let at = |ms: u64| Some(Timestamp::from_unix_ms(received_ms + ms));
        let verdicts = (0..).zip(GateName::ALL).map(|(number, gate)| Verdict {
            gate,
            decision: Decision::Passed,
            took_us: if gate == GateName::Perform { 11_200 } else { 20 + number * 7 },
        });
        let digest = Digest::compute(DigestDomain::Arguments, &[b"{}"]);
        let contract = ContractReference {
            name: "company.get_invoice".to_owned(),
            version: "1.4.2".to_owned(),
            digest,
            upstream: "company".to_owned(),
            upstream_tool: "get_invoice".to_owned(),
            effect_class: EffectClass::R,
        };
        let mut record = CallRecord {
            record_version: RECORD_VERSION,
            call_id: CallId::new(),
            trace_id: "0af7651916cd43dd8448eb211c80319c".to_owned(),
            caller: Caller::named(tenant, principal).into(),
            tool: "company__get_invoice".to_owned(),
            contract: Some(contract.into()),
            arguments_digest: digest,
            proposal_digest: Some(digest),
            received_at: Timestamp::from_unix_ms(received_ms),
            dispatched_at: at(1),
            finished_at: at(12),
            deadline_ms: Some(10_000),
            verdicts: verdicts.collect(),
            outcome: Outcome::Completed,
            class: Some(TaxonomyClass::Success),
            refusal: None,
            answer_digest: Some(digest),
            continues: None,
            task_id: None,
            effect_id: None,
            attempts: None,
            price: None,
            policy: None,
            questions: Vec::new(),
            ticket_id: None,
            by_grant: false,
            trace: servanda_contract::trace::TraceStanding::default(),
        };
        change(&mut record);
        self.history.record_finished(record.clone(), None, true).await.unwrap();
        record
    }

    /// A ticket as it is now.
    pub async fn ticket(&self, id: &TicketId) -> Ticket {
        self.tickets.find_ticket(TicketTarget::Id(id.clone())).await.unwrap().unwrap()
    }
}

impl fmt::Debug for Gateway {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Gateway")
    }
}

/// Who may do what where many use the gateway. `otto` has no role, `vera` looks, `ben`, `cleo` and members of `finance` approve.
fn roles() -> RoleAssignments {
    let members = |texts: &[&str]| -> Vec<RoleMember> {
        texts.iter().map(|text| RoleMember::try_from((*text).to_owned()).unwrap()).collect()
    };
    RoleAssignments::default()
        .with(PersonRole::Viewer, members(&["acme/vera"]))
        .with(PersonRole::Approver, members(&["acme/ada", "acme/ben", "acme/cleo", "group:acme/finance", "globex/gus"]))
        .with(PersonRole::Admin, members(&["acme/cleo"]))
        .with(PersonRole::BreakGlass, members(&["acme/bree"]))
}

/// Where an engine keeps what it has to keep.
#[derive(Debug)]
pub struct FixtureStores {
    pub tickets: Arc<dyn TicketStore>,
    pub effects: Arc<dyn EffectStore>,
    pub budgets: Arc<dyn BudgetStore>,
    pub journal: Arc<dyn Journal>,
    pub notebook: Arc<dyn Notebook>,
}

/// How many people and agents authenticate: with keys, through a provider, and with tokens of issuers.
pub fn many(provider: Option<ProviderSettings>, issuers: Vec<IssuerSettings>) -> AuthnSettings {
    AuthnSettings::Required(Box::new(RequiredAuthnSettings {
        resource: RESOURCE.to_owned(),
        keys: true,
        issuers,
        provider,
        scopes_supported: BTreeSet::new(),
        scopes_first: BTreeSet::new(),
    }))
}

/// The resource of the gateway, for which agents' tokens are.
pub const RESOURCE: &str = "http://127.0.0.1/mcp";

/// An engine with a tool whose contract asks for an approval and those of [`operating`], on servers that do not exist.
pub fn engine(users: Users, console_url: Option<String>, stores: FixtureStores, clock: Arc<ShiftedClock>) -> Engine {
    let FixtureStores { tickets, effects, budgets, journal, notebook } = stores;
    let nowhere = Transport::Stdio {
        command: "no-such-program-anywhere".to_owned(),
        args: Vec::new(),
        env: BTreeMap::new(),
        env_pass: Vec::new(),
        cwd: None,
    };
    let spec =
        UpstreamSpec { id: UpstreamName("company".to_owned()), transport: nowhere, limits: UpstreamLimits::default() };
    let catalog = Arc::new(operating::catalog(&clock));
    let settings = ApprovalSettings {
        is_single_user: users == Users::One,
        console_url,
        roles: if users == Users::One { RoleAssignments::default() } else { operating::operators(roles()) },
        ..ApprovalSettings::default()
    };
    Engine::new(EngineParts {
        approvals: ApprovalParts { tickets, keys: Arc::new(EphemeralAttestationKeys::new()) },
        world: World {
            authorities: Arc::new(operating::authorities(users, &catalog, settings)),
            catalog,
            upstreams: BTreeMap::from([("company".to_owned(), Upstream::new(spec, notebook.clone()))]),
            naming: ExposedNaming::Prefixed,
            expectations: servanda_contract::expectation::Expectations::default(),
            callbacks: Arc::default(),
            allowances: if users == Users::One { Arc::default() } else { operating::allowances() },
        },
        budgets,
        journal,
        notebook,
        effects,
        clock,
        limits: EngineLimits::default(),
    })
}

/// Sensitive parts, as tickets have them.
fn listed(parts: &[(&str, &str)]) -> BTreeMap<String, String> {
    parts.iter().map(|(at, kind)| ((*at).to_owned(), (*kind).to_owned())).collect()
}
