//! The table of sessions, with the time as a value.

use super::*;
use crate::ServerIdentity;

fn table(sessions_max: usize, session_idle_ms_max: u64) -> Sessions {
    let server = ServerIdentity { name: "test".to_owned(), version: "1".to_owned(), instructions: None };
    Sessions::new(&HttpOptions { sessions_max, session_idle_ms_max, ..HttpOptions::new(server) })
}

fn begin(sessions: &Sessions, now_ms: u64) -> Result<String, AllInUse> {
    sessions.begin_at(now_ms, None, watch::channel(0).1)
}

#[test]
fn ids_are_random_uuids() {
    let sessions = table(10, 1000);
    let (one, two) = (begin(&sessions, 0).unwrap(), begin(&sessions, 0).unwrap());
    assert_ne!(one, two);
    assert_eq!(Uuid::parse_str(&one).unwrap().get_version_num(), 4);
}

#[test]
fn an_idle_session_expires_and_a_used_one_does_not() {
    let sessions = table(10, 1000);
    let id = begin(&sessions, 0).unwrap();
    assert!(sessions.lease_at(999, &id).is_some());

    let id = begin(&sessions, 0).unwrap();
    let lease = sessions.lease_at(0, &id).unwrap();
    assert!(sessions.lease_at(5000, &id).is_some(), "in use");
    drop(lease);
    let session = Arc::clone(sessions.sessions().get(&id).unwrap());
    assert!(sessions.lease_at(500_000, &id).is_none(), "idle for too long");
    assert!(session.ended.is_cancelled());
    assert!(sessions.lease_at(0, &id).is_none(), "gone for good");
}

#[test]
fn the_longest_idle_makes_room() {
    let sessions = table(2, 1_000_000);
    let oldest = begin(&sessions, 1).unwrap();
    let newer = begin(&sessions, 2).unwrap();
    let newest = begin(&sessions, 3).unwrap();
    assert!(sessions.lease_at(3, &oldest).is_none());
    assert!(sessions.lease_at(3, &newer).is_some());
    assert!(sessions.lease_at(3, &newest).is_some());
}

#[test]
fn a_session_in_use_never_makes_room() {
    let sessions = table(2, 1_000_000);
    let used = begin(&sessions, 1).unwrap();
    let lease = sessions.lease_at(1, &used).unwrap();
    let idle = begin(&sessions, 2).unwrap();
    let newcomer = begin(&sessions, 3).unwrap();
    assert!(sessions.lease_at(3, &idle).is_none(), "idle, though used later");
    let other = sessions.lease_at(3, &newcomer).unwrap();
    assert_eq!(begin(&sessions, 4).unwrap_err(), AllInUse);
    drop((lease, other));
    assert!(begin(&sessions, 5).is_ok());
}

#[test]
fn ending_a_session_cancels_its_requests() {
    let sessions = table(2, 1000);
    let id = begin(&sessions, 0).unwrap();
    let lease = sessions.lease_at(0, &id).unwrap();
    let cancel = CancellationToken::new();
    let entry = lease.session().peer().in_flight.unwrap().enter(&servanda_mcp::Id::Number(1), &cancel);
    sessions.end(&id);
    assert!(cancel.is_cancelled());
    assert!(lease.session().ended.is_cancelled());
    assert!(sessions.lease_at(0, &id).is_none());
    drop(entry);
}
