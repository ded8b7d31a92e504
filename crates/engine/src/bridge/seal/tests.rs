//! Only what was sealed here, for this bearer and this request, within its time, is opened.

use proptest::prelude::*;
use servanda_contract::{CallId, Caller, CallerActor, Digest, Timestamp, digest::DigestDomain};
use servanda_effects::{InMemoryNotebook, NoteKind, Notebook as _};

use super::{InvalidRequestState, RequestStatePayload, Seal, StateAudience, StatePurpose};
use crate::secrets::NotebookSecret;

const NOW: Timestamp = Timestamp::from_unix_ms(1_000);
const LATER: Timestamp = Timestamp::from_unix_ms(2_000);

fn request(name: &str) -> Digest {
    Digest::compute(DigestDomain::Request, &[b"tools/call", name.as_bytes(), b"{}"])
}

fn round(state: Option<&str>) -> StatePurpose {
    StatePurpose::Round { upstream: "up".to_owned(), nonce: "n".to_owned(), state: state.map(str::to_owned), key: None }
}

fn carried(caller: &Caller, purpose: StatePurpose) -> RequestStatePayload {
    RequestStatePayload::new(
        StateAudience { caller, request: request("a") },
        LATER,
        Some(CallId::from("call_1".to_owned())),
        purpose,
    )
}

async fn seal() -> Seal {
    Seal::load(&InMemoryNotebook::default()).await.unwrap()
}

#[tokio::test]
async fn what_was_sealed_comes_back() {
    let (seal, caller) = (seal().await, Caller::local());
    for purpose in
        [round(None), round(Some("")), round(Some("über \"x\"")), StatePurpose::Parked { id: "p".to_owned() }]
    {
        let carried = carried(&caller, purpose);
        let text = seal.sign(&carried);
        assert_eq!(seal.verify(&text, StateAudience { caller: &caller, request: request("a") }, NOW), Ok(carried));
    }
}

#[tokio::test]
async fn it_is_good_for_one_bearer_one_request_and_a_while() {
    let (seal, caller) = (seal().await, Caller::local());
    let text = seal.sign(&carried(&caller, round(None)));
    let other = Caller { principal: "other".to_owned(), ..Caller::local() };
    let elsewhere = Caller { tenant: "other".to_owned(), ..Caller::local() };
    let client = Caller { client: Some("inspector".to_owned()), session: Some("s".to_owned()), ..Caller::local() };
    let agent = acting(&["agent"]);
    let table = [
        (&caller, request("a"), NOW, true),
        (&agent, request("a"), NOW, false),
        (&client, request("a"), NOW, true),
        (&other, request("a"), NOW, false),
        (&elsewhere, request("a"), NOW, false),
        (&caller, request("b"), NOW, false),
        (&caller, request("a"), LATER, false),
    ];
    for (caller, request, now, taken) in table {
        let opened = seal.verify(&text, StateAudience { caller, request }, now);
        assert_eq!(opened.is_ok(), taken, "{caller:?} {request} {now}");
    }
    assert!(
        Seal::load(&InMemoryNotebook::default())
            .await
            .unwrap()
            .verify(&text, StateAudience { caller: &caller, request: request("a") }, NOW)
            .is_err(),
        "another key"
    );
}

fn acting(names: &[&str]) -> Caller {
    let actors = names.iter().map(|&name| CallerActor { name: name.to_owned(), proven: false }).collect();
    Caller { actors, ..Caller::local() }
}

/// A state is valid only for the actors that it was made for, although all of them act for the same user.
#[tokio::test]
async fn it_is_good_for_one_agent() {
    let seal = seal().await;
    let parties = [acting(&[]), acting(&["one"]), acting(&["two"]), acting(&["two", "one"])];
    for carrier in &parties {
        let text = seal.sign(&carried(carrier, StatePurpose::Parked { id: "p".to_owned() }));
        for bearer in &parties {
            let opened = seal.verify(&text, StateAudience { caller: bearer, request: request("a") }, NOW);
            assert_eq!(opened.is_ok(), carrier == bearer, "{carrier:?} {bearer:?}");
        }
    }
}

#[tokio::test]
async fn processes_that_share_a_notebook_share_the_key() {
    let (notebook, caller) = (InMemoryNotebook::default(), Caller::local());
    let (one, other) = (Seal::load(&notebook).await.unwrap(), Seal::load(&notebook).await.unwrap());
    let text = one.sign(&carried(&caller, round(None)));
    assert!(other.verify(&text, StateAudience { caller: &caller, request: request("a") }, NOW).is_ok());
    let note = notebook.read(NoteKind::Secret, super::KEY_NOTE, NOW).await.unwrap().unwrap();
    assert_eq!(note.expires_at, None);
    notebook.write(servanda_effects::Note { value: "\"c2hvcnQ\"".to_owned(), ..note }).await.unwrap();
    assert!(Seal::load(&notebook).await.is_err(), "a key that is not one is not used");
}

/// A valid state with one byte replaced, dropped or added somewhere.
fn changed(text: &str, place: usize, byte: u8, how: u8) -> Option<String> {
    let mut bytes = text.as_bytes().to_vec();
    let place = place % bytes.len();
    match how % 3 {
        0 => bytes[place] = byte,
        1 => drop(bytes.remove(place)),
        _ => bytes.insert(place, byte),
    }
    String::from_utf8(bytes).ok().filter(|changed| changed != text)
}

proptest! {
    #[test]
    fn any_changed_byte_is_refused(state: Option<String>, place: usize, byte: u8, how: u8) {
        let seal = Seal { key: NotebookSecret::for_tests() };
        let caller = Caller::local();
        let bearer = StateAudience { caller: &caller, request: request("a") };
        let text = seal.sign(&carried(&caller, round(state.as_deref())));
        prop_assert!(seal.verify(&text, bearer, NOW).is_ok());
        if let Some(changed) = changed(&text, place, byte, how) {
            prop_assert_eq!(seal.verify(&changed, bearer, NOW), Err(InvalidRequestState(())));
        }
    }

    #[test]
    fn what_is_no_state_is_refused(text: String) {
        let caller = Caller::local();
        let bearer = StateAudience { caller: &caller, request: request("a") };
        let seal = Seal { key: NotebookSecret::for_tests() };
        prop_assert!(seal.verify(&text, bearer, NOW).is_err());
    }
}
