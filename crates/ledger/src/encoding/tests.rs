use std::sync::Arc;

use proptest::{collection::vec, option, prelude::*};
use servanda_contract::{
    CallId, CallRecord, Caller, CallerActor, Digest, FieldError, GateName, Refusal, TaxonomyClass, Timestamp,
    cost::{Cost, Price},
    record::{
        ContractReference, Decision, Outcome, PolicyRecord, QuestionRecord, ShadowDecision, ShadowRecord, Texts,
        Verdict,
    },
    tool::{EffectClass, QuestionKind, SideEffectClass},
};
use servanda_effects::call_history::{HistoryPosition, HistoryQuery};

use super::{
    ENCODING_VERSION, decode,
    dictionary::{Dictionary, DictionaryEntries, ENTRIES_MAX},
    encode, entries_of,
    numbers::StoredAsNumber,
    searched_texts::look,
};
use crate::{
    LedgerError,
    codec::StoredCall,
    tests::samples::{read_record, record},
};

/// The entries of a dictionary after its batch was stored.
fn stored(dictionary: &Dictionary) -> DictionaryEntries {
    let mut entries = DictionaryEntries::default();
    for (id, content) in dictionary.fresh() {
        entries.add(*id, content.to_vec());
    }
    entries
}

fn text() -> BoxedStrategy<String> {
    prop_oneof![
        any::<String>(),
        "[0-9a-f]{0,40}",
        "[0-9a-fA-F]{16,34}",
        "[a-z_]{0,8}_[0-9a-f]{14,40}",
        "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
        "[0-9a-f-]{36}",
    ]
    .boxed()
}

fn digest() -> BoxedStrategy<Digest> {
    any::<[u8; 32]>().prop_map(Digest::from).boxed()
}

fn texts() -> BoxedStrategy<Texts> {
    vec(text(), 0..4).prop_map(Texts::from_iter).boxed()
}

fn chosen<T: Copy + std::fmt::Debug>(all: &'static [T]) -> impl Strategy<Value = T> {
    (0..all.len()).prop_map(|place| all[place])
}

fn caller() -> BoxedStrategy<Caller> {
    let acting = (text(), any::<bool>()).prop_map(|(name, proven)| CallerActor { name, proven });
    let optional = || option::of(text());
    (text(), text(), vec(acting, 0..3), optional(), optional(), optional())
        .prop_map(|(tenant, principal, actors, credential, client, session)| Caller {
            tenant,
            principal,
            actors,
            credential,
            client,
            session,
        })
        .boxed()
}

fn contract() -> BoxedStrategy<ContractReference> {
    let classes = &[EffectClass::R, EffectClass::K, EffectClass::Q, EffectClass::N];
    (text(), text(), digest(), text(), text(), chosen(classes))
        .prop_map(|(name, version, digest, upstream, upstream_tool, effect_class)| ContractReference {
            name,
            version,
            digest,
            upstream,
            upstream_tool,
            effect_class,
        })
        .boxed()
}

fn policy() -> BoxedStrategy<PolicyRecord> {
    let would_have = chosen(&[ShadowDecision::Allowed, ShadowDecision::Approval, ShadowDecision::Refused]);
    let shadow = (would_have, option::of(text()), texts()).prop_map(|(would_have, cause, by)| ShadowRecord {
        would_have,
        cause,
        by,
    });
    let said = (option::of(text()), option::of(text()));
    let class = option::of(chosen(&SideEffectClass::ALL));
    (texts(), texts(), option::of(texts()), said, class, option::of(shadow))
        .prop_map(|(by, scopes, groups, (task, intent), program_class, shadow)| PolicyRecord {
            by,
            scopes,
            groups,
            task,
            intent,
            program_class,
            shadow,
        })
        .boxed()
}

fn refusal() -> BoxedStrategy<Refusal> {
    (text(), chosen(&GateName::ALL), chosen(&TaxonomyClass::ALL), text(), text())
        .prop_map(|(id, gate, class, message, hint)| {
            let error = FieldError {
                field: hint.clone(),
                pointer: "/a".to_owned(),
                expected: "a number".to_owned(),
                actual: "text".to_owned(),
                message: message.clone(),
                did_you_mean: Some(id.clone()),
            };
            Refusal::new(CallId::from(id), gate, class, message, hint).with_field_errors(vec![error])
        })
        .boxed()
}

fn verdict() -> BoxedStrategy<Verdict> {
    let decision = chosen(&[Decision::Passed, Decision::Refused, Decision::Skipped]);
    (chosen(&GateName::ALL), decision, any::<u64>())
        .prop_map(|(gate, decision, took_us)| Verdict { gate, decision, took_us })
        .boxed()
}

fn question() -> BoxedStrategy<QuestionRecord> {
    (option::of(chosen(&QuestionKind::ALL)), digest(), option::of(text()))
        .prop_map(|(kind, digest, refused)| QuestionRecord { kind, digest, refused })
        .boxed()
}

/// Strategies are boxed, because records are large and a strategy holds several of them on the stack.
fn any_record() -> BoxedStrategy<CallRecord> {
    let time = || any::<u64>().prop_map(Timestamp::from_unix_ms);
    let price = any::<u64>().prop_map(|fee| {
        Box::new(Price { currency: "EUR".to_owned(), cost: Cost { external_api_micros: fee, ..Cost::default() } })
    });
    let who = (text(), text(), caller(), text(), option::of(contract())).boxed();
    let digests = (digest(), option::of(digest()), option::of(digest())).boxed();
    let times = (time(), option::of(time()), option::of(time()), option::of(any::<u64>())).boxed();
    let end = (chosen(&Outcome::ALL), option::of(chosen(&TaxonomyClass::ALL)), option::of(refusal())).boxed();
    let links =
        (option::of(text()), option::of(text()), option::of(text()), option::of(any::<u32>()), option::of(text()))
            .boxed();
    let rest =
        (option::of(price), option::of(policy()), vec(question(), 0..3), vec(verdict(), 0..20), any::<bool>()).boxed();
    (who, digests, times, end, links, rest)
        .prop_map(|(who, digests, times, end, links, rest)| CallRecord {
            trace_id: who.1,
            caller: who.2.into(),
            tool: who.3,
            contract: who.4.map(Arc::new),
            arguments_digest: digests.0,
            proposal_digest: digests.1,
            answer_digest: digests.2,
            received_at: times.0,
            dispatched_at: times.1,
            finished_at: times.2,
            deadline_ms: times.3,
            class: end.1,
            refusal: end.2,
            continues: links.0.map(CallId::from),
            task_id: links.1,
            effect_id: links.2,
            attempts: links.3,
            ticket_id: links.4,
            price: rest.0,
            policy: rest.1,
            questions: rest.2,
            verdicts: rest.3,
            by_grant: rest.4,
            ..record(&who.0, end.0, 0)
        })
        .boxed()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn a_record_comes_back_as_it_was(record in any_record(), count in prop_oneof![Just(0), Just(ENTRIES_MAX)]) {
        let mut dictionary = Dictionary::with_stored(count);
        let bytes = encode(&record, &mut dictionary).unwrap();
        let entries = stored(&dictionary);
        prop_assert!(entries.missing(entries_of(&bytes)).is_empty());
        prop_assert_eq!(decode(record.call_id.as_str(), &bytes, &entries).unwrap(), record);
    }

    /// A search that does not decode a record finds the same as one that does.
    #[test]
    fn texts_are_found_without_decoding(
        record in any_record(),
        count in prop_oneof![Just(0), Just(ENTRIES_MAX)],
        (name, cut) in any::<(prop::sample::Index, prop::sample::Index)>(),
        other in prop::option::of("[a-c]{0,3}"),
    ) {
        let mut dictionary = Dictionary::with_stored(count);
        let body = encode(&record, &mut dictionary).unwrap();
        let mut names = vec![record.tool.clone(), record.caller.principal.clone(), record.call_id.to_string()];
        names.extend(record.contract.iter().map(|contract| contract.name.clone()));
        names.extend(record.caller.actors.iter().map(|actor| actor.name.clone()));
        let name: Vec<char> = name.get(&names).chars().collect();
        let part: String = name.iter().skip(cut.index(name.len() + 1)).collect();
        let query = HistoryQuery {
            tenant: record.caller.tenant.clone(),
            text: Some(other.unwrap_or(part)),
            ..HistoryQuery::default()
        };
        let call = StoredCall { call_id: record.call_id.to_string(), record: None, body: Some(body) };
        let place = call.place_without(&query.searched_text().unwrap(), &stored(&dictionary));
        prop_assert_eq!(place, (!query.matches(&record)).then(|| HistoryPosition::of(&record)));
    }

    /// Whatever bytes are stored instead, reading them ends, and never with a panic.
    #[test]
    fn bytes_that_are_no_record_are_refused(mut bytes in vec(any::<u8>(), 0..400), valid_sum in any::<bool>()) {
        if let Some(first) = bytes.first_mut() {
            *first = ENCODING_VERSION;
        }
        if valid_sum {
            let sum = super::bytes::check_sum(&bytes);
            bytes.extend(sum);
        }
        let _ = (entries_of(&bytes), look(&bytes, &DictionaryEntries::default(), |_| false));
        prop_assert!(decode("call_x", &bytes, &DictionaryEntries::default()).is_err());
    }

    /// A changed record whose check sum matches is read or refused, and never causes a panic.
    #[test]
    fn a_record_that_was_changed_on_purpose_does_no_harm(place in 1..400_usize, byte in any::<u8>()) {
        let mut dictionary = Dictionary::default();
        let mut bytes = encode(&read_record(1), &mut dictionary).unwrap();
        bytes.truncate(bytes.len() - 4);
        let place = place % bytes.len();
        if place > 0 {
            bytes[place] = byte;
        }
        let sum = super::bytes::check_sum(&bytes);
        bytes.extend(sum);
        let _ = (entries_of(&bytes), decode("call_x", &bytes, &DictionaryEntries::default()));
        let _ = look(&bytes, &stored(&dictionary), |_| false);
    }
}

#[test]
fn every_cut_and_every_changed_byte_is_noticed() {
    let mut dictionary = Dictionary::with_stored(0);
    let bytes = encode(&read_record(1), &mut dictionary).unwrap();
    let entries = stored(&dictionary);
    assert!(decode("call_x", &bytes, &entries).is_ok());
    for length in 0..bytes.len() {
        assert!(decode("call_x", &bytes[..length], &entries).is_err(), "cut at {length}");
    }
    for place in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[place] ^= 0x10;
        assert!(decode("call_x", &changed, &entries).is_err(), "changed at {place}");
    }
}

#[test]
fn a_newer_encoding_is_refused_with_what_to_do() {
    let mut bytes = encode(&read_record(1), &mut Dictionary::default()).unwrap();
    bytes[0] = ENCODING_VERSION + 1;
    let error = decode("call_x", &bytes, &DictionaryEntries::default()).unwrap_err();
    assert!(matches!(error, LedgerError::RecordNewer { found: 2, known: 1, .. }), "{error}");
    assert!(error.to_string().ends_with("use the newer servanda"), "{error}");
}

#[test]
fn a_missing_entry_is_reported() {
    let bytes = encode(&read_record(1), &mut Dictionary::with_stored(0)).unwrap();
    let error = decode("call_x", &bytes, &DictionaryEntries::default()).unwrap_err();
    assert!(error.to_string().contains("dictionary"), "{error}");
}

/// Stored records stay readable for as long as they are kept: this may only change together with the version.
#[test]
fn the_stored_record_is_golden() {
    let mut dictionary = Dictionary::with_stored(0);
    let hex = servanda_contract::digest::hex;
    let record = hex(&encode(&read_record(1), &mut dictionary).unwrap());
    let entries = dictionary.fresh().iter().map(|(id, content)| format!("entry {} {}\n", hex(&id.0), hex(content)));
    let said = format!("record {record}\n{}", entries.collect::<String>());
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/encoding/record.golden.txt");
    assert_eq!(said, std::fs::read_to_string(path).unwrap_or_default());
}

/// The same for the record of a call that a person approved.
#[test]
fn the_stored_record_of_an_approved_call_is_golden() {
    let ticket_id = Some("apr_0190f4a1b2c37d4e8f90a1b2c3d4e5f6".to_owned());
    let approved = CallRecord { ticket_id, ..record("call_1", Outcome::Completed, 1_800_000_000_000) };
    let bytes = encode(&approved, &mut Dictionary::default()).unwrap();
    let said = format!("record {}\n", servanda_contract::digest::hex(&bytes));
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/encoding/approved_record.golden.txt");
    assert_eq!(said, std::fs::read_to_string(path).unwrap_or_default());
    assert_eq!(decode("call_1", &bytes, &DictionaryEntries::default()).unwrap(), approved);
}

/// The same for the record of a call that a grant covered.
#[test]
fn the_stored_record_of_a_granted_call_is_golden() {
    let ticket_id = Some("apr_0190f4a1b2c37d4e8f90a1b2c3d4e5f6".to_owned());
    let granted = CallRecord { ticket_id, by_grant: true, ..record("call_1", Outcome::Completed, 1_800_000_000_000) };
    let bytes = encode(&granted, &mut Dictionary::default()).unwrap();
    let said = format!("record {}\n", servanda_contract::digest::hex(&bytes));
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/encoding/granted_record.golden.txt");
    assert_eq!(said, std::fs::read_to_string(path).unwrap_or_default());
    assert_eq!(decode("call_1", &bytes, &DictionaryEntries::default()).unwrap(), granted);
}

#[test]
fn names_keep_their_numbers() {
    fn check<T: StoredAsNumber + Copy + PartialEq + std::fmt::Debug>(all: &[T]) {
        for (number, name) in (0..).zip(all) {
            assert_eq!((name.stored_number(), T::from_stored(number)), (number, Some(*name)));
        }
        assert_eq!(T::from_stored(u8::try_from(all.len()).unwrap()), None);
    }
    check(&GateName::ALL);
    check(&Outcome::ALL);
    check(&TaxonomyClass::ALL);
    check(&[Decision::Passed, Decision::Refused, Decision::Skipped]);
    check(&[EffectClass::R, EffectClass::K, EffectClass::Q, EffectClass::N]);
}

#[test]
fn a_client_cannot_add_to_the_dictionary() {
    let mut dictionary = Dictionary::with_stored(0);
    for number in 0..20 {
        let mut refused = record(&format!("call_{number}"), Outcome::Refused, number);
        refused.tool = format!("no_such_tool_{number}");
        Arc::make_mut(&mut refused.caller).client = Some(format!("client {number}"));
        encode(&refused, &mut dictionary).unwrap();
    }
    assert!(dictionary.fresh().is_empty());
}
