//! A gateway whose stores are in memory, with a console and tickets of all kinds. Tests and the example for browsers share it.

#[path = "operating.rs"]
pub mod operating;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use serde_json::{Value, json};
use servanda_approval::{
    ApprovalCause, ApprovalDemand, ApprovalSettings, PersonRole, RoleAssignments, RoleMember, StateBefore, Ticket,
    TicketEvent, TicketId, TicketKey, TicketRequest, TicketSubject,
};
use servanda_authn::{
    AuthnSettings, CredentialAuthenticator, RequiredAuthnSettings,
    attestation_keys::ATTESTATION_PURPOSE,
    keys,
    root_keys::{ROOTS_PURPOSE, SealingKeySource},
};
use servanda_authority::{Rights, Secret, api_key::ApiKeySpec, rights::Scopes, sealing::SealingKey};
use servanda_catalog::names::ExposedNaming;
use servanda_console::{Console, ConsoleParts, OneTimeLinks};
use servanda_contract::{
    CallId, CallRecord, Caller, CallerActor, Digest, Timestamp,
    digest::DigestDomain,
    json as strict_json,
    time::Clock,
    tool::{ApprovalPattern, Presence, SideEffectClass},
};
use servanda_effects::{
    InMemoryNotebook, Journal, JournalError, Note, NoteKind, Notebook, PortFuture, TicketStore,
    budget::InMemoryBudgets,
    effect::InMemoryEffects,
    ticket_store::{InMemoryTickets, TicketTarget},
};
use servanda_engine::{
    Engine, EngineLimits, EngineParts, SystemClock, World,
    approvals::{ApprovalParts, EphemeralAttestationKeys},
};
use servanda_upstream::{Transport, Upstream, UpstreamLimits, UpstreamName, UpstreamSpec};

/// The machine's clock, and what a test adds to it.
#[derive(Debug, Default)]
pub struct ShiftedClock(AtomicU64);

impl ShiftedClock {
    pub fn pass_ms(&self, ms: u64) {
        self.0.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Clock for ShiftedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix_ms(SystemClock.now().unix_ms() + self.0.load(Ordering::SeqCst))
    }
}

/// A journal that keeps nothing.
#[derive(Debug)]
struct NoJournal;

impl Journal for NoJournal {
    fn record_finished(&self, _: CallRecord, _: Option<Bytes>, _: bool) -> PortFuture<'_, Result<(), JournalError>> {
        Box::pin(async { Ok(()) })
    }

    fn find_record<'a>(&'a self, _: &'a str) -> PortFuture<'a, Result<Option<CallRecord>, JournalError>> {
        Box::pin(async { Ok(None) })
    }
}

/// A notebook that can be away.
#[derive(Debug, Default)]
pub struct AwayNotebook {
    notes: InMemoryNotebook,
    pub is_away: AtomicBool,
}

impl AwayNotebook {
    fn here(&self) -> Result<(), JournalError> {
        if self.is_away.load(Ordering::SeqCst) { Err(JournalError::new("away")) } else { Ok(()) }
    }
}

impl Notebook for AwayNotebook {
    fn write(&self, note: Note) -> PortFuture<'_, Result<(), JournalError>> {
        Box::pin(async move {
            self.here()?;
            self.notes.write(note).await
        })
    }

    fn write_first(&self, note: Note) -> PortFuture<'_, Result<Note, JournalError>> {
        Box::pin(async move {
            self.here()?;
            self.notes.write_first(note).await
        })
    }

    fn read(&self, kind: NoteKind, key: &str, now: Timestamp) -> PortFuture<'_, Result<Option<Note>, JournalError>> {
        let key = key.to_owned();
        Box::pin(async move {
            self.here()?;
            self.notes.read(kind, &key, now).await
        })
    }

    fn list(
        &self,
        kind: NoteKind,
        after: &str,
        limit: u32,
        now: Timestamp,
    ) -> PortFuture<'_, Result<Vec<Note>, JournalError>> {
        self.notes.list(kind, after, limit, now)
    }

    fn erase(&self, kind: NoteKind, key: &str) -> PortFuture<'_, Result<(), JournalError>> {
        self.notes.erase(kind, key)
    }
}

#[derive(Debug)]
struct FixedSeal;

impl SealingKeySource for FixedSeal {
    fn roots_key(&self) -> Result<SealingKey, String> {
        SealingKey::new(ROOTS_PURPOSE, &Secret::new([7; 32])).map_err(|error| error.to_string())
    }

    fn attestation_key(&self) -> Result<SealingKey, String> {
        SealingKey::new(ATTESTATION_PURPOSE, &Secret::new([7; 32])).map_err(|error| error.to_string())
    }
}

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
        let clock = Arc::new(ShiftedClock::default());
        let notebook = Arc::new(AwayNotebook::default());
        let tickets = Arc::new(InMemoryTickets::new(clock.clone()));
        let effects = Arc::new(InMemoryEffects::new(clock.clone()).with_tickets(tickets.clone()));
        let budgets = Arc::new(InMemoryBudgets::new(clock.clone(), effects.clone()));
        let engine = Arc::new(engine(users, &tickets, (&effects, &budgets), &notebook, &clock));
        let settings = match users {
            Users::One => AuthnSettings::Local,
            Users::Many => AuthnSettings::Required(Box::new(RequiredAuthnSettings {
                resource: "http://127.0.0.1/mcp".to_owned(),
                keys: true,
                issuers: Vec::new(),
                scopes_supported: BTreeSet::new(),
                scopes_first: BTreeSet::new(),
            })),
        };
        let authenticator =
            CredentialAuthenticator::new(notebook.clone(), clock.clone(), Arc::new(FixedSeal), settings).unwrap();
        let authenticator = Arc::new(authenticator);
        let links = Arc::new(OneTimeLinks::new(clock.clone()));
        let console = Console::new(ConsoleParts {
            engine: engine.clone(),
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
        let request = TicketRequest {
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
                }),
                compensation: wanted.compensation.map(str::to_owned),
                operation: None,
                price: wanted.price.map(str::to_owned),
                sensitive: wanted.sensitive.iter().map(|(at, how)| ((*at).to_owned(), (*how).to_owned())).collect(),
            },
        };
        let applied =
            self.tickets.apply_ticket(TicketTarget::Key(request.key), TicketEvent::Request(Box::new(request)));
        (*applied.await.unwrap().ticket.unwrap()).clone()
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

/// An engine with a tool whose contract asks for an approval and those of [`operating`], on servers that do not exist.
fn engine(
    users: Users,
    tickets: &Arc<InMemoryTickets>,
    (effects, budgets): (&Arc<InMemoryEffects>, &Arc<InMemoryBudgets>),
    notebook: &Arc<AwayNotebook>,
    clock: &Arc<ShiftedClock>,
) -> Engine {
    let nowhere = Transport::Stdio {
        command: "no-such-program-anywhere".to_owned(),
        args: Vec::new(),
        env: BTreeMap::new(),
        env_pass: Vec::new(),
        cwd: None,
    };
    let spec =
        UpstreamSpec { id: UpstreamName("company".to_owned()), transport: nowhere, limits: UpstreamLimits::default() };
    let catalog = Arc::new(operating::catalog(clock));
    let settings = ApprovalSettings {
        is_single_user: users == Users::One,
        roles: if users == Users::One { RoleAssignments::default() } else { operating::operators(roles()) },
        ..ApprovalSettings::default()
    };
    let journal: Arc<dyn Journal> = Arc::new(NoJournal);
    let notes: Arc<dyn Notebook> = notebook.clone();
    Engine::new(EngineParts {
        approvals: ApprovalParts { tickets: tickets.clone(), keys: Arc::new(EphemeralAttestationKeys::new()) },
        world: World {
            authorities: Arc::new(operating::authorities(users, &catalog, settings)),
            catalog,
            upstreams: BTreeMap::from([("company".to_owned(), Upstream::new(spec, notes.clone()))]),
            naming: ExposedNaming::Prefixed,
            expectations: servanda_contract::expectation::Expectations::default(),
            callbacks: Arc::default(),
            allowances: if users == Users::One { Arc::default() } else { operating::allowances() },
        },
        budgets: budgets.clone(),
        journal,
        notebook: notes,
        effects: effects.clone(),
        clock: clock.clone(),
        limits: EngineLimits::default(),
    })
}
