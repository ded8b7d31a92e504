//! The world of the model: a store, some gateways, some calls of clients and an upstream. All of it is one value, so that every
//! state can be kept, compared and continued. The answer to every client is part of it.
//!
//! Time is a number that only [`Action::Tick`](crate::Action) and [`Action::Leap`](crate::Action) move. Deliberately not here:
//! what can happen, and what must never happen.

use std::sync::Arc;

use bytes::Bytes;
use servanda_contract::{CallId, Digest, digest::DigestDomain, tool::EffectClass};
use servanda_effects::effect::{
    BeginMode, BeginRequest, Claim, ClientKey, DispatchEnd, DispatchOrder, Effect, EffectContext, EffectEvent,
    EffectId, EffectKey, EffectReply, EffectRules, EffectState, LedgerClock, LedgerNow, OwnerId, StoredAnswer,
    is_blocking, owner_silence_ms_max, step,
};

/// The clock at the beginning.
pub(crate) const START_MS: u64 = 1_000_000;
/// How much time passes at once.
pub(crate) const TICK_MS: u64 = 5_000;
/// How much time passes in a leap, so that a window ends.
pub(crate) const LEAP_MS: u64 = 3_600_000;
/// How long a call may take.
pub(crate) const TIMEOUT_MS: u64 = 15_000;
/// How long the upstream remembers a key, and the ledger an answer.
pub(crate) const WINDOW_MS: u64 = 1_800_000;
/// The longest list of owners and of keys.
pub(crate) const OWNERS_MAX: usize = 3;
pub(crate) const KEYS_MAX: usize = 2;

/// How large the world is, and how often each thing may happen in one history.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// What the tool's contract says.
    pub class: EffectClass,
    /// Gateways.
    pub owners: u8,
    /// Keys; two of them change the same account.
    pub keys: u8,
    /// Calls of clients, over all keys.
    pub calls: u8,
    /// Whether calls claim first and are fenced later.
    pub claims: bool,
    /// Ticks of time; unlimited if `None`.
    pub ticks: Option<u8>,
    /// How often more time passes than any window lasts.
    pub leaps: u8,
    /// How often the store goes away.
    pub outages: u8,
    /// How often a gateway is stopped and goes on later.
    pub pauses: u8,
    /// How often a gateway dies.
    pub deaths: u8,
    /// How often a connection is lost or refused.
    pub losses: u8,
    /// How often the store does something and its answer is lost.
    pub lost_acks: u8,
    /// Which rules are in force.
    pub rules: EffectRules,
}

/// The whole state.
#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) now_ms: u64,
    pub(crate) store: Store,
    pub(crate) owners: [Owner; OWNERS_MAX],
    /// Calls that are running at a gateway or at the upstream.
    pub(crate) calls: Vec<Call>,
    /// The number of the next call.
    pub(crate) next: u8,
    pub(crate) upstream: [Upstream; KEYS_MAX],
    /// What was reported as done.
    pub(crate) told_done: [Option<u8>; KEYS_MAX],
    pub(crate) happened: Happened,
}

/// How often each bounded thing has happened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Happened {
    pub(crate) calls: u8,
    pub(crate) ticks: u8,
    pub(crate) leaps: u8,
    pub(crate) outages: u8,
    pub(crate) pauses: u8,
    pub(crate) deaths: u8,
    pub(crate) losses: u8,
    pub(crate) lost_acks: u8,
}

/// The ledger.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    pub(crate) is_up: bool,
    pub(crate) clock: LedgerClock,
    pub(crate) effects: [Option<Arc<Effect>>; KEYS_MAX],
    /// When each gateway was last heard of, in ledger time.
    pub(crate) heard_ms: [Option<u64>; OWNERS_MAX],
}

/// A gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Owner {
    pub(crate) life: Life,
    /// Ticks since its last beat, counted while it runs and the store is up.
    pub(crate) late: u8,
    /// Whether it has beaten since the store came back.
    pub(crate) beat_since_back: bool,
    /// Until when it knows that the store considers it alive.
    pub(crate) lease_until_ms: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Life {
    Running,
    Paused,
    Dead,
}

/// One call of a client, at one gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Call {
    /// Counts the calls of a history.
    pub(crate) number: u8,
    pub(crate) key: u8,
    pub(crate) owner: u8,
    pub(crate) phase: Phase,
    /// What became of its bytes at the upstream.
    pub(crate) request: Request,
    /// When the store was asked for its lease, and when its bytes left.
    pub(crate) asked_ms: u64,
    pub(crate) sent_ms: u64,
    /// Whether the fence said that an earlier dispatch of its key may have performed it.
    pub(crate) was_sent_before: bool,
    /// Whether its gateway was stopped while the call was under way.
    pub(crate) was_paused: bool,
    pub(crate) told: Option<Told>,
}

/// How far a call has come at its gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    Claimed(u64),
    MaySend(u64),
    Sent(u64),
    /// Its end is known here and must be recorded in the ledger.
    Ended(u64, Known),
    Over,
}

/// What a gateway knows of the end of its own call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Known {
    Done(u8),
    NotExecuted,
    Unknown,
}

/// The bytes of a call at the upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Request {
    NotSent,
    /// It is there, and may run within its time.
    Waiting,
    /// It ran, and this is its answer.
    Ran(u8),
    /// It never runs.
    Gone,
}

/// What the upstream did for a key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Upstream {
    /// How often.
    pub(crate) ran: u8,
    /// When first.
    pub(crate) first_ms: u64,
}

/// What a client was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Told {
    /// It is done, and this is the answer.
    Done(u8),
    /// Nothing was done.
    Nothing,
    /// It happened, without an answer.
    Happened,
    /// It is not known.
    Unknown,
    /// What earlier calls did is not known.
    UnknownBefore,
}

impl World {
    pub(crate) fn new(bounds: &Bounds) -> Self {
        let clock = LedgerClock::starting(START_MS);
        let owner = |index: usize| Owner {
            life: if index < usize::from(bounds.owners) { Life::Running } else { Life::Dead },
            late: 0,
            beat_since_back: true,
            lease_until_ms: START_MS + owner_silence_ms_max(),
        };
        Self {
            now_ms: START_MS,
            store: Store { is_up: true, clock, effects: [None, None], heard_ms: [Some(START_MS); OWNERS_MAX] },
            owners: std::array::from_fn(owner),
            calls: Vec::new(),
            next: 0,
            upstream: [Upstream::default(); KEYS_MAX],
            told_done: [None; KEYS_MAX],
            happened: Happened::default(),
        }
    }

    pub(crate) fn owner(&self, index: u8) -> Option<&Owner> {
        self.owners.get(usize::from(index))
    }

    pub(crate) fn effect(&self, key: u8) -> Option<&Effect> {
        self.store.effects.get(usize::from(key))?.as_deref()
    }

    /// What time it is for the store.
    pub(crate) fn ledger_now(&self, rules: EffectRules) -> LedgerNow {
        self.store.clock.at_with_rules(self.now_ms, rules)
    }

    /// Applies an event in the store, by the real step.
    pub(crate) fn apply(&mut self, bounds: &Bounds, key: u8, event: &EffectEvent) -> EffectReply {
        let now = self.ledger_now(bounds.rules);
        let around = self.around(bounds, key, event, now);
        let after = step(self.effect(key), event, &around);
        if let (Some(changed), Some(place)) = (after.change, self.store.effects.get_mut(usize::from(key))) {
            *place = Some(Arc::new(changed));
        }
        self.store.clock = self.store.clock.clock_to_store(now).unwrap_or(self.store.clock);
        after.reply
    }

    fn around(&self, bounds: &Bounds, key: u8, event: &EffectEvent, now: LedgerNow) -> EffectContext {
        let effect = self.effect(key);
        let owner_is_gone = effect.is_some_and(|effect| now.is_owner_gone(self.heard_ms(&effect.owner)));
        let blocked_by = match event {
            EffectEvent::Begin(begin) => self.in_the_way(bounds, key, begin, now.ledger_ms),
            _ => None,
        };
        EffectContext { owner_is_gone, blocked_by, rules: bounds.rules, ..EffectContext::at(now) }
    }

    fn heard_ms(&self, owner: &OwnerId) -> Option<u64> {
        let index = (0..OWNERS_MAX).find(|index| owner_id(*index) == *owner)?;
        self.store.heard_ms.get(index).copied().flatten()
    }

    fn in_the_way(&self, bounds: &Bounds, key: u8, begin: &BeginRequest, ledger_ms: u64) -> Option<EffectId> {
        let others = (0..bounds.keys).filter(|other| *other != key).filter_map(|other| self.effect(other));
        let mut blocks = others
            .filter(|effect| effect.exclusive_resources().is_some_and(|held| is_blocking(held, begin, ledger_ms)));
        blocks.next().map(|effect| effect.id.clone())
    }
}

pub(crate) fn owner_id(index: usize) -> OwnerId {
    OwnerId::from(["a", "b", "c"].get(index).copied().unwrap_or_default().to_owned())
}

pub(crate) fn effect_id(key: u8) -> EffectId {
    EffectId::from(if key == 0 { "0" } else { "1" }.to_owned())
}

pub(crate) fn claim(key: u8, epoch: u64) -> Claim {
    Claim { id: effect_id(key), epoch }
}

/// The call that wants an effect.
pub(crate) fn begin(bounds: &Bounds, key: u8, owner: u8) -> BeginRequest {
    let go = if bounds.claims { BeginMode::Claim { lease_ms: 2 * TICK_MS } } else { BeginMode::Dispatch };
    let resources = if bounds.keys > 1 { vec!["account".to_owned()] } else { Vec::new() };
    BeginRequest {
        id: effect_id(key),
        key: EffectKey {
            tenant: String::new(),
            principal: String::new(),
            tool: String::new(),
            contract_major: 1,
            client_key: ClientKey::Given(effect_id(key).as_str().to_owned()),
        },
        request: Digest::compute(DigestDomain::Proposal, &[]),
        class: bounds.class,
        owner: owner_id(usize::from(owner)),
        call_id: CallId::from(String::new()),
        order: DispatchOrder {
            exposed_tool: String::new(),
            upstream: String::new(),
            upstream_tool: String::new(),
            contract_version: String::new(),
            contract_digest: Digest::compute(DigestDomain::Contract, &[]),
            upstream_key: String::new(),
            arguments: Bytes::new(),
            timeout_ms: TIMEOUT_MS,
            key_window_ms: Some(WINDOW_MS),
            dedup_window_ms: WINDOW_MS,
            keeps_answer: true,
            resources,
            reads: Vec::new(),
            overlaps: false,
            actors: Vec::new(),
        },
        mode: go,
        continues: None,
    }
}

pub(crate) fn end_of(known: Known) -> DispatchEnd {
    match known {
        Known::Done(answer) => DispatchEnd::Completed(answer_of(answer)),
        Known::NotExecuted => DispatchEnd::NotExecuted(String::new()),
        Known::Unknown => DispatchEnd::Unknown(String::new()),
    }
}

/// The upstream's answers differ by run.
pub(crate) fn answer_of(run: u8) -> StoredAnswer {
    StoredAnswer::Result(Bytes::from_static(match run {
        1 => b"1",
        2 => b"2",
        _ => b"3",
    }))
}

/// The run of a stored answer; `None` if it is not an answer.
pub(crate) fn run_of(answer: &StoredAnswer) -> Option<u8> {
    match answer {
        StoredAnswer::Result(bytes) => bytes.first().map(|digit| digit - b'0'),
        StoredAnswer::Refusal(_) | StoredAnswer::Known(_) => None,
    }
}

/// Whether the ledger holds a key as done.
pub(crate) fn is_done(effect: Option<&Effect>) -> bool {
    effect.is_some_and(|effect| effect.state == EffectState::Completed)
}
