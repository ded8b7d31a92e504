//! Effects that last as long as the process, for one-off commands and for tests. They follow the same rules as
//! any store.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use servanda_approval::TicketReply;
use servanda_contract::{CallRecord, time::Clock};

use super::{
    AppliedChange, BeginRequest, Effect, EffectChange, EffectContext, EffectEvent, EffectId, EffectKey, EffectQuery,
    EffectReply, EffectState, EffectStore, EffectTarget, EffectTransition, LedgerNow, OrphanQuery, OwnerId,
    is_blocking, is_orphaned, notes_due, orphan_query::limit_per_upstream, step,
};
use crate::{InMemoryNotebook, JournalError, PortFuture, ticket_store::InMemoryTickets};

/// Effects in memory.
#[derive(Debug)]
pub struct InMemoryEffects {
    clock: Arc<dyn Clock>,
    kept: Mutex<State>,
    applied: AtomicU64,
    notebook: Option<Arc<InMemoryNotebook>>,
    tickets: Option<Arc<InMemoryTickets>>,
}

#[derive(Debug, Default)]
struct State {
    effects: BTreeMap<EffectKey, Effect>,
    beats: BTreeMap<OwnerId, u64>,
    records: Vec<CallRecord>,
}

impl InMemoryEffects {
    /// A store without effects.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, kept: Mutex::default(), applied: AtomicU64::new(0), notebook: None, tickets: None }
    }

    /// The same, with a notebook for the notices about ended effects.
    #[must_use]
    pub fn with_notebook(self, notebook: Arc<InMemoryNotebook>) -> Self {
        Self { notebook: Some(notebook), ..self }
    }

    /// The same, with the tickets whose approvals are used up by dispatches.
    #[must_use]
    pub fn with_tickets(self, tickets: Arc<InMemoryTickets>) -> Self {
        Self { tickets: Some(tickets), ..self }
    }

    /// Uses up the approval of a change that dispatches an effect. Without tickets there is no approval.
    fn consume(&self, change: &EffectChange, effect: &Effect) -> Result<(), EffectReply> {
        let Some(usage) = change.consumes.clone().filter(|_| !effect.is_only_claimed()) else { return Ok(()) };
        let Some(tickets) = &self.tickets else {
            return Err(EffectReply::NotApproved(Box::new(TicketReply::NotFound)));
        };
        let reply = tickets.consume(usage, effect.id.to_string());
        if reply.is_consumed() { Ok(()) } else { Err(EffectReply::NotApproved(Box::new(reply))) }
    }

    /// How many events were applied.
    pub fn applied_count(&self) -> u64 {
        self.applied.load(Ordering::Relaxed)
    }

    /// The records that were written with changes, in order.
    pub fn records(&self) -> Vec<CallRecord> {
        self.kept().records.clone()
    }

    /// The process's own clock is the store's: nothing outlives the process, so a jump can harm nothing.
    fn now(&self) -> LedgerNow {
        LedgerNow::plain(self.clock.now().unix_ms())
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, State> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn find(&self, target: &EffectTarget) -> Option<Effect> {
        match target {
            EffectTarget::Key(key) => self.effects.get(key).cloned(),
            EffectTarget::Id(id) => self.effects.values().find(|effect| effect.id == *id).cloned(),
        }
    }

    fn is_gone(&self, owner: &OwnerId, now: LedgerNow) -> bool {
        now.is_owner_gone(self.beats.get(owner).copied())
    }

    fn around(&self, effect: Option<&Effect>, event: &EffectEvent, now: LedgerNow) -> EffectContext {
        let owner_is_gone = effect.is_some_and(|effect| self.is_gone(&effect.owner, now));
        let twin = match (effect, event) {
            (None, EffectEvent::Begin(begin)) => self.twin(begin),
            _ => None,
        };
        let blocked_by = match event {
            EffectEvent::Begin(begin) => self.in_the_way(begin, now.ledger_ms),
            _ => None,
        };
        EffectContext { owner_is_gone, twin, blocked_by, ..EffectContext::at(now) }
    }

    fn in_the_way(&self, begin: &BeginRequest, ledger_ms: u64) -> Option<EffectId> {
        let blocks = |effect: &&Effect| {
            effect.key.tenant == begin.key.tenant
                && effect.key != begin.key
                && effect.exclusive_resources().is_some_and(|held| is_blocking(held, begin, ledger_ms))
        };
        self.effects.values().find(blocks).map(|effect| effect.id.clone())
    }

    fn twin(&self, begin: &BeginRequest) -> Option<EffectId> {
        if begin.key.client_key.can_come_again() {
            return None;
        }
        let same = |effect: &&Effect| {
            effect.state == EffectState::OutcomeUnknown
                && effect.request == begin.request
                && (&effect.key.tenant, &effect.key.principal) == (&begin.key.tenant, &begin.key.principal)
        };
        self.effects.values().find(same).map(|effect| effect.id.clone())
    }
}

impl EffectStore for InMemoryEffects {
    fn apply(&self, change: EffectChange) -> PortFuture<'_, Result<AppliedChange, JournalError>> {
        let now = self.now();
        let mut kept = self.kept();
        self.applied.fetch_add(1, Ordering::Relaxed);
        let before = kept.find(&change.target);
        let around = kept.around(before.as_ref(), &change.event, now);
        let EffectTransition { change: changed, reply } = step(before.as_ref(), &change.event, &around);
        if let (Some(effect), EffectReply::Mine(_)) = (&changed, &reply)
            && let Err(reply) = self.consume(&change, effect)
        {
            let applied = AppliedChange { reply, effect: before.map(Arc::new) };
            return Box::pin(std::future::ready(Ok(applied)));
        }
        if let Some(effect) = &changed {
            kept.effects.insert(effect.key.clone(), effect.clone());
            kept.records.extend(change.record.filter(|_| !effect.is_only_claimed()));
            if let Some(notebook) = &self.notebook {
                notes_due(&change.notices, effect).for_each(|note| drop(notebook.put_first(note.clone())));
            }
        }
        let applied = AppliedChange { reply, effect: changed.or(before).map(Arc::new) };
        Box::pin(std::future::ready(Ok(applied)))
    }

    fn find(&self, target: EffectTarget) -> PortFuture<'_, Result<Option<Effect>, JournalError>> {
        let found = self.kept().find(&target);
        Box::pin(std::future::ready(Ok(found)))
    }

    fn list(&self, query: EffectQuery) -> PortFuture<'_, Result<Vec<Effect>, JournalError>> {
        let kept = self.kept();
        let wanted = |effect: &&Effect| {
            (query.states.is_empty() || query.states.contains(&effect.state))
                && query.after.as_ref().is_none_or(|after| effect.id < *after)
                && query.filter.matches(effect)
        };
        let mut effects: Vec<Effect> = kept.effects.values().filter(wanted).cloned().collect();
        effects.sort_by(|one, other| other.id.cmp(&one.id));
        effects.truncate(usize::try_from(query.limit).unwrap_or(usize::MAX));
        Box::pin(std::future::ready(Ok(effects)))
    }

    fn orphans(&self, query: OrphanQuery) -> PortFuture<'_, Result<Vec<Effect>, JournalError>> {
        let (kept, now) = (self.kept(), self.now());
        let orphaned = |effect: &&Effect| {
            let owner_is_gone = kept.is_gone(&effect.owner, now);
            let is_own = effect.state == EffectState::Dispatching && effect.owner == query.owner;
            (is_own && effect.due_ms() <= now.ledger_ms)
                || is_orphaned(effect, &EffectContext { owner_is_gone, ..EffectContext::at(now) })
        };
        let orphans = limit_per_upstream(kept.effects.values().filter(orphaned).cloned(), &query);
        Box::pin(std::future::ready(Ok(orphans)))
    }

    fn heartbeat(&self, owner: OwnerId) -> PortFuture<'_, Result<(), JournalError>> {
        let now = self.now();
        self.kept().beats.insert(owner, now.ledger_ms);
        Box::pin(std::future::ready(Ok(())))
    }

    fn expire(&self, limit: u32) -> PortFuture<'_, Result<u64, JournalError>> {
        let around = EffectContext::at(self.now());
        let mut kept = self.kept();
        let over = |effect: &Effect| step(Some(effect), &EffectEvent::Expire, &around).change;
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let tombstones: Vec<Effect> = kept.effects.values().filter_map(over).take(limit).collect();
        let count = tombstones.len() as u64;
        for tombstone in tombstones {
            if tombstone.key.client_key.can_come_again() {
                kept.effects.insert(tombstone.key.clone(), tombstone);
            } else {
                kept.effects.remove(&tombstone.key);
            }
        }
        Box::pin(std::future::ready(Ok(count)))
    }
}
