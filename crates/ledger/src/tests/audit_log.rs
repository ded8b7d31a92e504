//! The verifiable log in every store: what happens has its leaves in the same commit, the tree takes each in once, and the check of the whole
//! log finds nothing.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use servanda_approval::{ApprovalUse, ApprovalVerdict, TicketEvent};
use servanda_audit::{
    AuditLeaf, Checkpoint, LogPolicy, NoteSigner, StatePaths, TreeHash,
    leaf::AuditEvent,
    tile::{BUNDLE_BYTES_MAX, CHECKPOINT_PATH, TILE_LEVELS, TileKind, TilePath, leaves_of_bundle},
    verify_log,
};
use servanda_contract::{CallId, CallRecord, TaxonomyClass, Timestamp, record::Outcome, tool::EffectClass};
use servanda_effects::{
    AuditLog as _, Journal as _, LogHead, LoggedChange, LoggedThing, Note, NoteKind,
    budget::OPEN_MS_MAX,
    effect::{BeginRequest, Claim, DispatchEnd, EffectChange, EffectEvent, EffectReply, EffectState},
};
use tokio::task::JoinSet;

use super::{
    budgets::{pay, settle},
    kept::Kept,
    samples::{HOUR_MS, about, answer, begin, begun, claim_first, digest, mine, read_record, record, settled},
    ticket_samples::{approved, approver, ask, decide, denied, dispatch, happens, request, usage},
    tickets::Case,
};

/// The suite.
pub(super) const CASES: &[(&str, Case)] = &[
    ("what happened is in the log, and the log holds", |kept| Box::pin(holds(kept))),
    ("what did not happen has no leaf", |kept| Box::pin(nothing(kept))),
    ("a call that its gateway gave up ends once", |kept| Box::pin(given_up(kept))),
    ("an effect that a claim sends again has its decision", |kept| Box::pin(sent_again(kept))),
    ("a note tells what changed if it is written", |kept| Box::pin(changes(kept))),
    ("what budgets hold has leaves", |kept| Box::pin(budgets(kept))),
    ("a key that expires has a leaf", |kept| Box::pin(expires(kept))),
    ("three gateways write one log", |kept| Box::pin(one_log(kept))),
    ("a copy of a smaller tree holds while the log grows", |kept| Box::pin(grows(kept))),
    ("a checkpoint of a smaller tree replaces none", |kept| Box::pin(checkpoints(kept))),
    ("a log that is switched off gets no leaf", |kept| Box::pin(off(kept))),
];

const ORIGIN: &str = "servanda/test";

fn signer() -> NoteSigner {
    NoteSigner::from_seed(ORIGIN.parse().unwrap(), &[7; 32]).unwrap()
}

/// Takes every leaf into the tree.
async fn extended(kept: &Kept) -> LogHead {
    loop {
        let head = kept.ledger().extend_tree().await.unwrap();
        if !head.is_behind {
            return head;
        }
    }
}

/// Takes every leaf into the tree and signs it.
async fn signed(kept: &Kept) -> LogHead {
    let head = extended(kept).await;
    let checkpoint = Checkpoint::new(ORIGIN, head.size, TreeHash::new(head.root)).unwrap();
    let note = signer().sign(checkpoint.to_string()).unwrap().to_string();
    kept.ledger().put_checkpoint(head.size, note).await.unwrap();
    head
}

/// The files of the tree that was signed last.
async fn files(kept: &Kept) -> BTreeMap<String, Vec<u8>> {
    let reader = kept.reader().await;
    let note = reader.log_checkpoint().await.unwrap().expect("it is signed");
    let checkpoint: Checkpoint = note.split_once("\n\n").map(|(text, _)| format!("{text}\n")).unwrap().parse().unwrap();
    let mut files = BTreeMap::from([(CHECKPOINT_PATH.to_owned(), note.into_bytes())]);
    let kinds = (0..TILE_LEVELS).map(|level| TileKind::Hashes { level });
    for kind in std::iter::once(TileKind::Entries).chain(kinds) {
        for index in 0.. {
            let Some(path) = TilePath::of_tree(kind, index, checkpoint.size()) else { break };
            let bytes = reader.log_file(&path).await.unwrap().unwrap_or_else(|| panic!("{path} is missing"));
            assert!(bytes.len() <= BUNDLE_BYTES_MAX);
            files.insert(path.to_string(), bytes);
        }
    }
    files
}

/// Verifies everything, with the paths of what happened. Returns the leaves.
async fn verified(kept: &Kept) -> Vec<AuditLeaf> {
    let head = signed(kept).await;
    let files = files(kept).await;
    let policy = LogPolicy::of_log(signer().verifier().clone());
    let trusted = verify_log(&files, &policy, &[], &mut StatePaths::default()).unwrap();
    assert_eq!(trusted.checkpoint().size(), head.size);
    let bundles = (0..).map_while(|index| TilePath::of_tree(TileKind::Entries, index, head.size));
    let leaves = bundles.flat_map(|path| {
        let leaves = leaves_of_bundle(&files[&path.to_string()], path.width()).unwrap();
        leaves.into_iter().map(|leaf| AuditLeaf::from_bytes(leaf).unwrap()).collect::<Vec<_>>()
    });
    leaves.collect()
}

/// The kinds of leaves in their order.
fn kinds(leaves: &[AuditLeaf]) -> Vec<String> {
    let kind = |leaf: &AuditLeaf| match &leaf.event {
        AuditEvent::Decision(decision) => format!("decision {}", decision.call),
        AuditEvent::Outcome(outcome) => format!("outcome {}", outcome.call),
        AuditEvent::Call(call) => format!("call {} {:?}", call.decision.call, call.decision.verdict),
        AuditEvent::Effect(effect) => format!("effect {} {:?}", effect.call, effect.to),
        AuditEvent::Ticket(ticket) => format!("ticket {:?}", ticket.to),
        AuditEvent::Approval(approval) => format!("{} approves: {}", approval.by, approval.approves),
        AuditEvent::Change(change) => format!("{:?} {}", change.thing, change.change),
    };
    leaves.iter().map(kind).collect()
}

/// A dispatch with the record as the engine makes it.
fn dispatched(client_key: &str) -> EffectChange {
    let begin = begin(client_key);
    let effect_id = Some(begin.id.to_string());
    let change = begun(begin);
    let record =
        change.record.map(|record| CallRecord { effect_id, dispatched_at: Some(Timestamp::from_unix_ms(2)), ..record });
    EffectChange { record, ..change }
}

/// The end of a call as the engine records it.
fn completed(claim: &Claim, call_id: &str) -> EffectChange {
    let end = settled(claim, DispatchEnd::Completed(answer("{}")));
    let record = CallRecord {
        effect_id: Some(claim.id.to_string()),
        dispatched_at: Some(Timestamp::from_unix_ms(2)),
        finished_at: Some(Timestamp::from_unix_ms(5)),
        class: Some(TaxonomyClass::Success),
        answer_digest: Some(digest("answer")),
        ..record(call_id, Outcome::Completed, 1)
    };
    EffectChange { record: Some(record), ..end }
}

async fn holds(kept: Kept) {
    let ledger = kept.ledger();
    ledger.record_finished(read_record(1), None, true).await.unwrap();
    let refused = CallRecord { class: Some(TaxonomyClass::PolicyViolation), ..record("call_r", Outcome::Refused, 1) };
    ledger.record_finished(refused.clone(), None, true).await.unwrap();
    let claim = mine(kept.effects.apply(dispatched("k")).await.unwrap().reply);
    kept.effects.apply(completed(&claim, "call_k")).await.unwrap();
    let ticket = approved(&*kept.tickets, "pay").await;
    let approval = EffectChange { consumes: Some(usage(&ticket, "call_a")), ..dispatched("a") };
    let record = approval.record.map(|record| CallRecord { ticket_id: Some(ticket.id.to_string()), ..record });
    mine(kept.effects.apply(EffectChange { record, ..approval }).await.unwrap().reply);
    denied(&*kept.tickets, request("denied")).await;
    // What is on record already is told once.
    ledger.record_finished(refused, None, true).await.unwrap();
    let mut told = kinds(&verified(&kept).await);
    // A dispatch and the use of its approval are one write. The use stands before the dispatch, and the decision anywhere before it.
    let decided = told.iter().position(|leaf| leaf == "decision call_a").unwrap();
    let decision = told.remove(decided);
    told.insert(9, decision);
    assert_eq!(
        told,
        [
            &format!("call {} Allow", read_record_id(&told)),
            "call call_r Deny",
            "decision call_k",
            "effect call_k Dispatching",
            "outcome call_k",
            "effect call_k Completed",
            "ticket Pending",
            "bob approves: true",
            "ticket Approved",
            "decision call_a",
            "ticket Consumed",
            "effect call_a Dispatching",
            "ticket Pending",
            "bob approves: false",
            "ticket Denied",
        ]
    );
}

fn read_record_id(told: &[String]) -> String {
    told[0].split(' ').nth(1).unwrap().to_owned()
}

async fn nothing(kept: Kept) {
    let (_, pending) = ask(&*kept.tickets, request("pending")).await;
    let before = extended(&kept).await.size;
    let refused = kept.effects.apply(dispatch("x", usage(&pending, "call_x"))).await.unwrap();
    assert!(matches!(refused.reply, EffectReply::NotApproved(_)), "{:?}", refused.reply);
    let foreign = ApprovalUse { payload: digest("another"), ..usage(&pending, "call_x") };
    kept.effects.apply(dispatch("y", foreign)).await.unwrap();
    mine(kept.effects.apply(dispatched("k")).await.unwrap().reply);
    let with_one = extended(&kept).await.size;
    assert_eq!(with_one, before + 2, "a decision and a dispatch");
    let again = kept.effects.apply(dispatched("k")).await.unwrap();
    assert!(!matches!(again.reply, EffectReply::Mine(_)), "{:?}", again.reply);
    let late = decide(&pending, approver("ada"), ApprovalVerdict::Approve);
    happens(&*kept.tickets, &pending.id, late).await;
    assert_eq!(extended(&kept).await.size, with_one, "whoever asks may not approve, and nothing happened");
}

/// The store took the dispatch and said so too late: the gateway refused the call, and recovery finds that it was never sent.
async fn given_up(kept: Kept) {
    let claim = mine(kept.effects.apply(dispatched("k")).await.unwrap().reply);
    let refused =
        CallRecord { class: Some(TaxonomyClass::DependencyUnavailable), ..record("call_k", Outcome::Refused, 1) };
    kept.ledger().record_finished(refused, None, true).await.unwrap();
    let never_sent = settled(&claim, DispatchEnd::NotExecuted("nobody sent it".to_owned()));
    kept.effects.apply(never_sent).await.unwrap();
    assert_eq!(
        kinds(&verified(&kept).await),
        ["decision call_k", "effect call_k Dispatching", "call call_k Deny", "effect call_k FailedRetryable"]
    );
}

/// A keyed effect whose outcome is unknown is dispatched again by the claim itself. A claim that sends nothing has no record.
async fn sent_again(kept: Kept) {
    let keyed = |call_id: &str| {
        let begin = BeginRequest { class: EffectClass::K, call_id: CallId::from(call_id.to_owned()), ..begin("k") };
        begun(claim_first(begin))
    };
    let claim = mine(kept.effects.apply(keyed("call_k")).await.unwrap().reply);
    assert!(kept.recorded().await.is_empty(), "nothing is sent for a claim");
    let fence = EffectChange {
        record: Some(record("call_k", Outcome::Dispatching, 1)),
        ..about(&claim, EffectEvent::Fence(claim.clone()))
    };
    mine(kept.effects.apply(fence).await.unwrap().reply);
    let lost = settled(&claim, DispatchEnd::Unknown("the answer was lost".to_owned()));
    let unknown = EffectChange { record: completed(&claim, "call_k").record, ..lost };
    let unknown = EffectChange {
        record: unknown.record.map(|record| CallRecord { outcome: Outcome::Unknown, class: None, ..record }),
        ..unknown
    };
    kept.effects.apply(unknown).await.unwrap();
    let again = kept.effects.apply(keyed("call_again")).await.unwrap();
    assert_eq!(again.effect.unwrap().state, EffectState::Dispatching);
    assert_eq!(kept.recorded().await, ["call_again", "call_k"], "the call under way is on record");
    kept.effects.apply(completed(&mine(again.reply), "call_again")).await.unwrap();
    assert_eq!(
        kinds(&verified(&kept).await),
        [
            "effect call_k Claimed",
            "decision call_k",
            "effect call_k Dispatching",
            "outcome call_k",
            "effect call_k OutcomeUnknown",
            "decision call_again",
            "effect call_again Dispatching",
            "outcome call_again",
            "effect call_again Completed",
        ]
    );
}

async fn changes(kept: Kept) {
    let now = Timestamp::from_unix_ms(1_000);
    let note = |value: &str| Note {
        kind: NoteKind::Quarantine,
        key: "tool".to_owned(),
        value: value.to_owned(),
        expires_at: None,
    };
    let change = |thing, change| LoggedChange {
        thing,
        id: "tool".to_owned(),
        change,
        by: "ada".to_owned(),
        call: None,
        digest: Some(digest("contract")),
        at: now,
    };
    let write = async |value: &str, found: Option<&str>, told: Vec<LoggedChange>| {
        kept.notebook().write_logged(note(value), found.map(str::to_owned), now, told).await.unwrap()
    };
    let held = change(LoggedThing::Quarantine, "held by a person");
    assert!(write("1", None, vec![held.clone(), change(LoggedThing::Contract, "added")]).await);
    assert!(!write("2", None, vec![held.clone()]).await, "another was faster");
    assert!(!write("2", Some("0"), vec![held]).await);
    assert!(write("2", Some("1"), vec![change(LoggedThing::Policies, "in force")]).await);
    assert!(write("3", Some("2"), Vec::new()).await, "and nothing to tell");
    let leaves = verified(&kept).await;
    assert_eq!(kinds(&leaves), ["Quarantine held by a person", "Contract added", "Policy in force"]);
    let AuditEvent::Change(told) = &leaves[0].event else { panic!("{leaves:?}") };
    assert_eq!((&*told.by, &*told.id, told.digest.clone()), ("ada", "tool", Some(digest("contract").to_string())));
}

async fn budgets(kept: Kept) {
    let both = kept.both();
    for entry in [
        pay("call_a", None, 100, 60),
        pay("call_a", None, 100, 60),
        pay("call_b", None, 100, 90),
        settle("call_a", Some(50)),
        settle("call_a", Some(50)),
        pay("call_c", None, 100, 10),
    ] {
        both.book(entry).await.unwrap();
    }
    // What nothing closes, a sweep closes.
    kept.advance(OPEN_MS_MAX + 1_000);
    assert_eq!(both.sweep(10).await.unwrap().settled, 1);
    let leaves = verified(&kept).await;
    assert_eq!(kinds(&leaves), ["Budget reserved", "Budget settled", "Budget reserved", "Budget settled"]);
    let told = leaves.iter().map(|leaf| match &leaf.event {
        AuditEvent::Change(change) => (change.id.clone(), change.call.clone()),
        other => panic!("{other:?}"),
    });
    let ids: Vec<_> = ["call_a", "call_a", "call_c", "call_c"].map(|id| (id.to_owned(), Some(id.to_owned()))).into();
    assert_eq!(told.collect::<Vec<_>>(), ids);
}

async fn expires(kept: Kept) {
    for client_key in ["a", "b"] {
        let claim = mine(kept.effects.apply(dispatched(client_key)).await.unwrap().reply);
        kept.effects.apply(completed(&claim, &format!("call_{client_key}"))).await.unwrap();
    }
    kept.advance(2 * HOUR_MS);
    assert_eq!(kept.effects.expire(10).await.unwrap(), 2);
    let mut last = kinds(&verified(&kept).await).split_off(8);
    last.sort();
    assert_eq!(last, ["effect call_a Expired", "effect call_b Expired"]);
}

async fn one_log(kept: Kept) {
    let gateways = [kept.clone(), kept.replica().await, kept.replica().await];
    let mut tasks = JoinSet::new();
    for (number, gateway) in gateways.iter().cycle().take(60).cloned().enumerate() {
        tasks.spawn(async move {
            let key = format!("k{number}");
            let claim = mine(gateway.effects.apply(dispatched(&key)).await.unwrap().reply);
            let read = u64::try_from(number).unwrap();
            gateway.ledger().record_finished(read_record(read), None, true).await.unwrap();
            gateway.ledger().extend_tree().await.unwrap();
            gateway.effects.apply(completed(&claim, &format!("call_{key}"))).await.unwrap();
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    let leaves = verified(&kept).await;
    assert_eq!(leaves.len(), 60 * 5, "each leaf once");
    for gateway in &gateways[1..] {
        gateway.ledger().close().await;
    }
}

async fn grows(kept: Kept) {
    let mut signed_at = Vec::new();
    for round in 0..4_u64 {
        let records = (0..150).map(|number| read_record(round * 150 + number));
        let written = records.map(|record| kept.ledger().record_finished(record, None, true));
        assert!(join_all(written).await.into_iter().all(|written| written.is_ok()));
        let head = extended(&kept).await;
        if round % 2 == 0 {
            signed(&kept).await;
            signed_at.push(head.size);
        }
        // The checkpoint is of this tree or of the one before.
        let policy = LogPolicy::of_log(signer().verifier().clone());
        let trusted = verify_log(&files(&kept).await, &policy, &[], &mut StatePaths::default()).unwrap();
        assert_eq!(Some(&trusted.checkpoint().size()), signed_at.last());
    }
    assert_eq!(signed_at, [150, 450]);
}

async fn checkpoints(kept: Kept) {
    for number in 0..3 {
        kept.ledger().record_finished(read_record(number), None, true).await.unwrap();
    }
    assert_eq!(extended(&kept).await.signed_size, 0);
    for (size, note) in [(2, "two"), (1, "one"), (4, "four"), (3, "three")] {
        kept.ledger().put_checkpoint(size, note.to_owned()).await.unwrap();
    }
    let head = extended(&kept).await;
    assert_eq!((head.size, head.signed_size), (3, 3), "and none of a tree that there is not");
    assert_eq!(kept.reader().await.log_checkpoint().await.unwrap().as_deref(), Some("three"));
}

async fn off(kept: Kept) {
    kept.ledger().switch_log(false);
    kept.ledger().record_finished(read_record(1), None, true).await.unwrap();
    mine(kept.effects.apply(begun(claim_first(begin("k")))).await.unwrap().reply);
    approved(&*kept.tickets, "pay").await;
    let (_, ticket) = ask(&*kept.tickets, request("next")).await;
    happens(&*kept.tickets, &ticket.id, TicketEvent::Tick).await;
    assert_eq!(extended(&kept).await.size, 0);
}
