//! What the transaction of a dispatch does beside its effects if calls of it use approvals: it locks the tickets, uses them up, and writes
//! them only if the effects of those calls were written too.

use std::collections::BTreeSet;

use servanda_effects::effect::{AppliedChange, Effect, EffectReply, EffectTarget, LedgerNow};
use tokio_postgres::Client;

use super::{rows::WrittenEffects, statements::PreparedStatements, tickets};
use crate::{LedgerError, codec::key_digest, job::Job, ticket_page::TicketPage};

/// Whether a batch has a job that uses an approval.
pub(super) fn are_used(jobs: &[Job]) -> bool {
    jobs.iter().any(|job| job.consumes().is_some())
}

/// Locks and reads the tickets that the jobs use up. Called after the effects are locked.
pub(super) async fn lock(
    client: &Client,
    statements: &PreparedStatements,
    jobs: &[Job],
) -> Result<TicketPage, LedgerError> {
    if !are_used(jobs) {
        return Ok(TicketPage::default());
    }
    let ids = jobs.iter().filter_map(Job::consumes).map(|usage| usage.ticket.as_str());
    // Text in PostgreSQL cannot hold this character, so no ticket has such an id.
    let ids: Vec<&str> = ids.filter(|id| !id.contains('\0')).collect();
    tickets::lock(client, statements.tickets(client).await?, &ids, &[]).await
}

/// Uses up the approval of a job that dispatches an effect. The error is the reply to the job.
pub(super) fn consume(page: &mut TicketPage, job: &Job, effect: &Effect, now: LedgerNow) -> Result<(), EffectReply> {
    let Some(usage) = job.consumes().filter(|_| !effect.is_only_claimed()) else { return Ok(()) };
    let reply = page.consume(usage, effect.id.as_str(), now);
    if reply.is_consumed() { Ok(()) } else { Err(EffectReply::NotApproved(Box::new(reply))) }
}

/// The keys, among those of refused jobs, that have an effect by now. Another gateway used the approval for it while this transaction
/// waited for the ticket; such a job reads the effect and is judged by it.
pub(super) async fn overtaken(
    client: &Client,
    applied: &[(&Job, &AppliedChange)],
) -> Result<BTreeSet<Vec<u8>>, LedgerError> {
    let refused = applied.iter().filter(|(_, applied)| is_refused(applied) && applied.effect.is_none());
    let digests: Vec<_> = refused.filter_map(|(job, _)| digest_of(job)).collect();
    if digests.is_empty() {
        return Ok(BTreeSet::new());
    }
    let keys: Vec<&[u8]> = digests.iter().map(|digest| &digest.as_bytes()[..]).collect();
    let known = client.query(include_str!("../../sql/postgres/known_keys.sql"), &[&keys]).await?;
    known.iter().map(|row| Ok(row.try_get(0)?)).collect()
}

/// Whether a refused job is about one of these keys.
pub(super) fn is_overtaken(job: &Job, applied: &AppliedChange, keys: &BTreeSet<Vec<u8>>) -> bool {
    is_refused(applied)
        && applied.effect.is_none()
        && digest_of(job).is_some_and(|digest| keys.contains(&digest.as_bytes()[..]))
}

/// Whether every effect that used up an approval was written.
pub(super) fn all_written(applied: &[(&Job, &AppliedChange)], written: &WrittenEffects) -> bool {
    let uses =
        |job: &Job, applied: &AppliedChange| job.consumes().is_some() && matches!(applied.reply, EffectReply::Mine(_));
    applied
        .iter()
        .filter(|(job, applied)| uses(job, applied))
        .all(|(_, applied)| applied.effect.as_ref().is_some_and(|effect| written.effects.contains(effect.id.as_str())))
}

fn is_refused(applied: &AppliedChange) -> bool {
    matches!(applied.reply, EffectReply::NotApproved(_))
}

fn digest_of(job: &Job) -> Option<servanda_contract::Digest> {
    match job {
        Job::Apply { target: EffectTarget::Key(key), .. } => Some(key_digest(key)),
        _ => None,
    }
}
