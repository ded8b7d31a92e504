//! The table of sessions, with the time as a value.

use servanda_authority::{
    Rights,
    api_key::{self, ApiKeySpec, CreatedApiKey, PresentedKey},
    rights::Scopes,
};
use servanda_contract::Timestamp;
use servanda_engine::Requester;
use servanda_mcp::ProtocolVersion;
use uuid::Uuid;

use super::*;
use crate::ServerIdentity;

/// A table in which a session makes room as soon as it is idle.
fn table(sessions_max: usize, session_idle_ms_max: u64) -> HttpSessionTable {
    table_sparing(sessions_max, session_idle_ms_max, 0)
}

/// A table in which a session makes room once it was idle for `session_room_idle_ms_min`.
fn table_sparing(sessions_max: usize, session_idle_ms_max: u64, session_room_idle_ms_min: u64) -> HttpSessionTable {
    let server = ServerIdentity { name: "test".to_owned(), version: "1".to_owned(), instructions: None };
    HttpSessionTable::new(&HttpOptions {
        sessions_max,
        session_idle_ms_max,
        session_room_idle_ms_min,
        ..HttpOptions::new(server)
    })
}

fn session() -> LegacyClientSession {
    let limits = SessionLimits { questions_max: 1, watches_max: 1 };
    LegacyClientSession::new(Requester::local(), ProtocolVersion::NEWEST_LEGACY, Arc::default(), limits)
}

fn begin(sessions: &HttpSessionTable, now_ms: u64) -> Result<String, HttpSessionAddError> {
    let id = Uuid::new_v4().to_string();
    let (lease, added) = sessions.add_at(now_ms, &id, session())?;
    assert!(added);
    drop(lease);
    sessions.table().sessions.get(&id).unwrap().last_used_ms.store(now_ms, Ordering::Relaxed);
    Ok(id)
}

fn lease(sessions: &HttpSessionTable, now_ms: u64, id: &str) -> Option<HttpSessionLease> {
    lease_as(sessions, now_ms, id, &Caller::local())
}

fn lease_as(sessions: &HttpSessionTable, now_ms: u64, id: &str, caller: &Caller) -> Option<HttpSessionLease> {
    match sessions.lease_at(now_ms, id, |owner| owner.is_same_party(caller)) {
        HttpSessionLookup::Active(lease) => Some(lease),
        HttpSessionLookup::Nothing | HttpSessionLookup::Ended => None,
    }
}

#[test]
fn an_idle_session_expires_and_a_used_one_does_not() {
    let sessions = table(10, 1000);
    let id = begin(&sessions, 0).unwrap();
    assert!(lease(&sessions, 999, &id).is_some());

    let id = begin(&sessions, 0).unwrap();
    let used = lease(&sessions, 0, &id).unwrap();
    let again = used.clone_lease();
    drop(used);
    assert!(lease(&sessions, 5000, &id).is_some(), "in use");
    drop(again);
    let session = Arc::clone(sessions.table().sessions.get(&id).unwrap());
    assert!(lease(&sessions, 500_000, &id).is_none(), "idle for too long");
    assert!(session.ended.is_cancelled());
    assert!(lease(&sessions, 0, &id).is_none(), "gone for good");
}

#[test]
fn a_request_whose_client_went_away_is_a_use() {
    let sessions = table(10, 1000);
    let id = begin(&sessions, 0).unwrap();
    let there = lease(&sessions, 0, &id).unwrap();
    let in_flight = Arc::clone(&there.session().session.in_flight);
    let entry = in_flight.enter(&servanda_mcp::Id::Number(1), &CancellationToken::new());
    drop(there);
    assert!(lease(&sessions, 500_000, &id).is_some());
    drop(entry);
    assert!(lease(&sessions, 500_000, &id).is_none());
}

#[test]
fn a_session_is_its_principals() {
    let sessions = table(10, 1000);
    let id = begin(&sessions, 0).unwrap();
    let stranger = |principal: &str, tenant: &str| Caller {
        principal: principal.to_owned(),
        tenant: tenant.to_owned(),
        ..Caller::local()
    };
    assert!(lease_as(&sessions, 0, &id, &stranger("other", "local")).is_none());
    assert!(lease_as(&sessions, 0, &id, &stranger("local", "other")).is_none());
    assert!(lease_as(&sessions, 0, &id, &stranger("local", "local")).is_some());
}

#[test]
fn the_longest_idle_makes_room() {
    let sessions = table(2, 1_000_000);
    let oldest = begin(&sessions, 1).unwrap();
    let newer = begin(&sessions, 2).unwrap();
    let newest = begin(&sessions, 3).unwrap();
    assert!(lease(&sessions, 3, &oldest).is_none());
    assert!(lease(&sessions, 3, &newer).is_some());
    assert!(lease(&sessions, 3, &newest).is_some());
}

/// However many new sessions come, a client between two requests keeps its session.
#[test]
fn a_session_used_a_moment_ago_makes_no_room() {
    let sessions = table_sparing(2, 1_000_000, 60_000);
    let older = begin(&sessions, 1).unwrap();
    let newer = begin(&sessions, 2).unwrap();
    assert_eq!(begin(&sessions, 60_000).unwrap_err(), HttpSessionAddError::AllInUse);
    assert!(lease(&sessions, 60_000, &older).is_some() && lease(&sessions, 60_000, &newer).is_some());
    for (id, used_ms) in [(&older, 1), (&newer, 2)] {
        sessions.table().sessions.get(id).unwrap().last_used_ms.store(used_ms, Ordering::Relaxed);
    }
    begin(&sessions, 60_001).unwrap();
    assert!(lease(&sessions, 60_001, &older).is_none(), "unused for long enough");
    assert!(lease(&sessions, 60_001, &newer).is_some());
}

#[test]
fn a_session_in_use_never_makes_room() {
    let sessions = table(2, 1_000_000);
    let used = begin(&sessions, 1).unwrap();
    let first = lease(&sessions, 1, &used).unwrap();
    let idle = begin(&sessions, 2).unwrap();
    let newcomer = begin(&sessions, 3).unwrap();
    assert!(lease(&sessions, 3, &idle).is_none(), "idle, though used later");
    let other = lease(&sessions, 3, &newcomer).unwrap();
    assert_eq!(begin(&sessions, 4).unwrap_err(), HttpSessionAddError::AllInUse);
    drop((first, other));
    assert!(begin(&sessions, 5).is_ok());
}

/// A requester with an API key, in a tenant.
fn keyed(tenant: &str, principal: &str) -> Requester {
    let now = Timestamp::from_unix_ms(1_000);
    let terms = ApiKeySpec {
        tenant: tenant.to_owned(),
        principal: principal.to_owned(),
        groups: std::collections::BTreeSet::new(),
        label: "test".to_owned(),
        rights: Rights { scopes: Scopes::none(), ..Rights::unlimited() },
        expires_at: Timestamp::from_unix_ms(2_000),
    };
    let CreatedApiKey { stored, text } = api_key::make(terms, now).unwrap();
    let authority = stored.authenticate(&PresentedKey::read(text.as_text().unwrap()).unwrap(), now).unwrap();
    Requester { caller: authority.caller().into(), authority: Arc::new(authority), ..Requester::local() }
}

fn begin_as(
    sessions: &HttpSessionTable,
    now_ms: u64,
    requester: &Requester,
) -> Result<HttpSessionLease, HttpSessionAddError> {
    let limits = SessionLimits { questions_max: 1, watches_max: 1 };
    let session = LegacyClientSession::new(requester.clone(), ProtocolVersion::NEWEST_LEGACY, Arc::default(), limits);
    let id = Uuid::new_v4().to_string();
    let (lease, _) = sessions.add_at(now_ms, &id, session)?;
    Ok(lease)
}

fn is_there(sessions: &HttpSessionTable, id: &str) -> bool {
    sessions.table().sessions.contains_key(id)
}

#[test]
fn one_principal_has_a_share_and_ends_only_its_own() {
    let sessions = table(8, 1_000_000);
    let (ada, mallory) = (keyed("acme", "ada"), keyed("rival", "mallory"));
    let others = begin_as(&sessions, 1, &ada).unwrap().session().id.clone();
    for now_ms in 2..50 {
        drop(begin_as(&sessions, now_ms, &mallory).unwrap());
    }
    assert!(is_there(&sessions, &others), "an idle session of another, and older than all of them");
    assert_eq!(sessions.table().sessions.len(), 3, "one and a quarter of eight");
    let held = [begin_as(&sessions, 50, &mallory).unwrap(), begin_as(&sessions, 50, &mallory).unwrap()];
    assert_eq!(begin_as(&sessions, 51, &mallory).unwrap_err(), HttpSessionAddError::OwnInUse);
    assert!(begin_as(&sessions, 51, &keyed("acme", "mallory")).is_ok(), "the name is another's in another tenant");
    drop(held);
    assert!(begin_as(&sessions, 52, &mallory).is_ok());
}

#[test]
fn one_tenant_leaves_a_quarter_to_others() {
    let sessions = table(8, 1_000_000);
    let held: Vec<_> =
        (0..6_u64).map(|number| begin_as(&sessions, 1, &keyed("acme", &number.to_string())).unwrap()).collect();
    assert_eq!(begin_as(&sessions, 2, &keyed("acme", "one more")).unwrap_err(), HttpSessionAddError::OwnInUse);
    assert!(begin_as(&sessions, 2, &keyed("rival", "ada")).is_ok());
    drop(held);
    assert!(begin_as(&sessions, 3, &keyed("acme", "one more")).is_ok(), "an idle session of its tenant makes room");
}

#[test]
fn a_principals_own_idle_session_ends_before_those_of_others() {
    let sessions = table(4, 1_000_000);
    let idle = |now_ms: u64, name: &str| {
        let id = begin_as(&sessions, now_ms, &keyed(name, name)).unwrap().session().id.clone();
        sessions.table().sessions.get(&id).unwrap().last_used_ms.store(now_ms, Ordering::Relaxed);
        id
    };
    let begun = [idle(1, "ada"), idle(2, "bob"), idle(3, "eve"), idle(4, "mallory")];
    let there = || begun.iter().map(|id| is_there(&sessions, id)).collect::<Vec<_>>();
    idle(5, "mallory");
    assert_eq!(there(), [true, true, true, false]);
    idle(6, "dan");
    assert_eq!(there(), [false, true, true, false], "who has none takes the oldest of all");
}

#[test]
fn a_session_that_is_there_is_not_added_again() {
    let sessions = table(2, 1_000_000);
    let (one, added) = sessions.add("id", session()).unwrap();
    let (two, again) = sessions.add("id", session()).unwrap();
    assert!(added && !again && Arc::ptr_eq(one.session(), two.session()));
}

/// Until its note is deleted, the session could be restored from it.
#[test]
fn a_session_that_has_ended_is_not_restored() {
    let sessions = table(2, 1000);
    let id = begin(&sessions, 0).unwrap();
    assert!(matches!(sessions.lease_at(500_000, &id, |_| true), HttpSessionLookup::Ended));
    assert!(matches!(sessions.lease_at(500_000, &id, |_| true), HttpSessionLookup::Ended));
    assert_eq!(sessions.add(&id, session()).unwrap_err(), HttpSessionAddError::Ended);
    sessions.forget(&id);
    assert!(matches!(sessions.lease_at(500_000, &id, |_| true), HttpSessionLookup::Nothing));
}

#[test]
fn ending_a_session_cancels_its_requests() {
    let sessions = table(2, 1000);
    let id = begin(&sessions, 0).unwrap();
    let there = lease(&sessions, 0, &id).unwrap();
    let cancel = CancellationToken::new();
    let entry = there.session().session.in_flight.enter(&servanda_mcp::Id::Number(1), &cancel);
    sessions.end(&id);
    assert!(cancel.is_cancelled());
    assert!(there.session().ended.is_cancelled());
    assert!(lease(&sessions, 0, &id).is_none());
    drop(entry);
}

#[tokio::test]
async fn the_stored_note_is_renewed_once_in_a_while() {
    let sessions = table(2, u64::MAX);
    let id = begin(&sessions, 0).unwrap();
    let there = lease(&sessions, NOTE_EVERY_MS - 1, &id).unwrap();
    let due =
        async || tokio::time::timeout(std::time::Duration::ZERO, there.session().note_due.notified()).await.is_ok();
    assert!(!due().await);
    drop(lease(&sessions, NOTE_EVERY_MS, &id));
    assert!(due().await);
    drop(lease(&sessions, NOTE_EVERY_MS + 1, &id));
    assert!(!due().await);
}
