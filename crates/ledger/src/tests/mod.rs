//! The suite that every store has to pass, run against each of them.

mod audit_log;
mod budgets;
mod call_history;
mod call_lists;
mod calls;
mod cluster;
mod dispatches;
mod effects;
#[cfg(feature = "faults")]
mod faulty;
mod file;
mod filters;
mod gathered;
mod grants;
mod kept;
mod leaves;
mod leftovers;
mod liveness;
mod notes;
mod notices;
mod open;
mod plain;
mod plans;
mod retention;
mod room;
pub(crate) mod samples;
mod server;
mod settlements;
mod stored_tickets;
mod ticket_samples;
mod ticket_time;
mod tickets;
mod tls;
mod turns;

use bytes::Bytes;
use servanda_effects::{
    budget::{
        Account, AccountBalance, AccountEntry, BudgetDimension, BudgetHold, BudgetHoldId, BudgetScope, ClosedBy, Draw,
        Period, Reservation,
    },
    effect::{
        BeginRequest, DispatchEnd, Effect, EffectContext, EffectEvent, EffectId, EffectReply, LedgerNow, Settlement,
        step,
    },
};

use crate::{
    budget_rows::{BalanceRow, BudgetHoldRow, BudgetPage, decode_balance, decode_hold},
    codec::{EffectRow, StoredEffect, key_digest},
};
use kept::Kept;
use samples::{answer, begin};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn effects_in_memory() {
    for (name, case) in effects::CASES.iter().chain(turns::CASES).chain(liveness::CASES) {
        println!("{name}");
        case(Kept::in_memory()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn effects_in_a_file() {
    let cases = effects::CASES.iter().chain(turns::CASES).chain(liveness::CASES).chain(liveness::DURABLE_CASES);
    for (name, case) in cases {
        println!("{name}");
        case(Kept::in_file()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn calls_and_notes_in_a_file() {
    let cases = calls::CASES.iter().chain(call_history::CASES).chain(open::CASES).chain(retention::CASES);
    for (name, case) in cases.chain(audit_log::CASES) {
        println!("{name}");
        case(Kept::in_file()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn budgets_in_memory() {
    for (name, case) in budgets::CASES.iter().chain(leftovers::CASES) {
        println!("{name}");
        case(Kept::in_memory()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn budgets_in_a_file() {
    for (name, case) in budgets::CASES.iter().chain(leftovers::CASES).chain(leftovers::DURABLE_CASES) {
        println!("{name}");
        case(Kept::in_file()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn tickets_in_memory() {
    for (name, case) in tickets::CASES.iter().chain(dispatches::CASES).chain(grants::CASES) {
        println!("{name}");
        case(Kept::in_memory()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn tickets_in_a_file() {
    for (name, case) in
        tickets::CASES.iter().chain(dispatches::CASES).chain(grants::CASES).chain(ticket_time::DURABLE_CASES)
    {
        println!("{name}");
        case(Kept::in_file()).await;
    }
}

#[tokio::test]
async fn notes_in_memory() {
    calls::keeps_notes(&servanda_effects::InMemoryNotebook::default()).await;
    notes::in_memory().await;
}

/// Later versions read what is on disk, so it must not change silently.
#[test]
fn the_stored_shape_is_golden() {
    let first = BeginRequest { id: EffectId::from("eff_1".to_owned()), ..begin("k-1") };
    let around = EffectContext::at(LedgerNow::plain(1_000));
    let begun = step(None, &EffectEvent::Begin(Box::new(first)), &around);
    let EffectReply::Mine(claim) = begun.reply else { panic!("{begun:?}") };
    let settle = EffectEvent::Settle(claim, DispatchEnd::Completed(answer("{}")));
    let settled: Effect = step(begun.change.as_ref(), &settle, &around).change.unwrap();
    let settlement = Settlement { by: "ada".to_owned(), evidence: "the list".to_owned(), at_ms: 1_000 };
    let effect = Effect { settlement: Some(settlement), ..settled };
    let row = EffectRow::new(&effect).unwrap();
    let columns = format!(
        "effect_id {}\nkey_digest {}\nrequest {}\nstate {}\nepoch {}\nowner {}\nneeds_owner {}\ndue_ms {}\nexpires_ms {}\nholds_until_ms {:?}\narguments {:?}\nanswer {:?}\nbody {}\n",
        row.effect_id,
        key_digest(row.key),
        row.request,
        row.state,
        row.epoch,
        row.owner,
        row.needs_owner,
        row.due_ms,
        row.expires_ms,
        row.holds_until_ms,
        Bytes::copy_from_slice(row.arguments),
        row.answer.map(Bytes::copy_from_slice),
        row.body,
    );
    assert_eq!(columns, include_str!("stored_effect.golden.txt"));
    let stored = StoredEffect {
        effect_id: row.effect_id.to_owned(),
        state: row.state.to_owned(),
        epoch: row.epoch,
        body: row.body,
        arguments: row.arguments.to_vec(),
        answer: row.answer.map(<[u8]>::to_vec),
    };
    assert_eq!(stored.decode().unwrap(), effect);
}

/// A reservation that cost more than was reserved, with its account, as they are on disk.
fn stored_books() -> (BudgetHold, AccountBalance) {
    let scope = BudgetScope::Caller { tenant: "acme".to_owned(), principal: "ada".to_owned() };
    let (dimension, currency) = (BudgetDimension::Financial, Some("EUR".to_owned()));
    let account = Account { scope, dimension, currency, period: Period::Month, tool: None, principal: None };
    let id = BudgetHoldId::from("call_1".to_owned());
    let reservation = Reservation {
        id: id.clone(),
        effect: Some(EffectId::from("eff_1".to_owned())),
        draws: vec![Draw { account: account.clone(), limit: 5_000_000, amount: 250_000 }],
    };
    let mut page = BudgetPage::default();
    page.apply_entry(&AccountEntry::Reserve(reservation), 1_794_735_332_007);
    page.apply_entry(&AccountEntry::Settle { id, cost_micros: Some(300_000), by: ClosedBy::Caller }, 1_794_735_332_107);
    let hold = page.changed_holds().unwrap().remove(0);
    let standing = page.changed_balances().unwrap().remove(0);
    let hold = decode_hold(hold.hold_id, hold.stage, &hold.body).unwrap();
    (hold, decode_balance(standing.account.as_bytes(), &standing.body).unwrap())
}

#[test]
fn the_stored_shape_of_budgets_is_golden() {
    let (hold, standing) = stored_books();
    let (row, account) = (BudgetHoldRow::new(&hold).unwrap(), BalanceRow::new(&standing).unwrap());
    let columns = format!(
        "hold_id {}\nkind {}\neffect_id {:?}\nstage {}\nopened_ms {}\nexpires_ms {:?}\nbody {}\n\naccount {}\ntenant {}\nchanged_ms {}\nexpires_ms {:?}\nbody {}\n",
        row.hold_id,
        row.kind,
        row.effect_id,
        row.stage,
        row.opened_ms,
        row.expires_ms,
        row.body,
        account.account,
        account.tenant,
        account.changed_ms,
        account.expires_ms,
        account.body,
    );
    assert_eq!(columns, include_str!("stored_budget.golden.txt"));
}

#[test]
fn books_that_contradict_themselves_are_refused() {
    let (hold, standing) = stored_books();
    let (row, account) = (BudgetHoldRow::new(&hold).unwrap(), BalanceRow::new(&standing).unwrap());
    assert!(decode_hold("call_2", row.stage, &row.body).is_err());
    assert!(decode_hold(row.hold_id, "open", &row.body).is_err());
    assert!(decode_hold(row.hold_id, row.stage, "{}").is_err());
    assert!(decode_balance(key_digest(&begin("k").key).as_bytes(), &account.body).is_err());
    assert!(decode_balance(account.account.as_bytes(), &row.body).is_err());
}

/// Columns and body are written together. If they do not agree, something other than servanda wrote one of
/// them.
#[test]
fn a_row_that_contradicts_itself_is_refused() {
    let around = EffectContext::at(LedgerNow::plain(1_000));
    let event = EffectEvent::Begin(Box::new(begin("k-1")));
    let effect = step(None, &event, &around).change.unwrap();
    let row = || EffectRow::new(&effect).unwrap();
    let stored = |row: EffectRow<'_>| StoredEffect {
        effect_id: row.effect_id.to_owned(),
        state: row.state.to_owned(),
        epoch: row.epoch,
        body: row.body,
        arguments: Vec::new(),
        answer: None,
    };
    assert!(stored(row()).decode().is_ok());
    let contradictions = [
        StoredEffect { state: "completed".to_owned(), ..stored(row()) },
        StoredEffect { epoch: 7, ..stored(row()) },
        StoredEffect { effect_id: "eff_other".to_owned(), ..stored(row()) },
        StoredEffect { body: "{}".to_owned(), ..stored(row()) },
    ];
    for stored in contradictions {
        assert!(stored.decode().is_err());
    }
}
