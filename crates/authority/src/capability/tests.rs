//! Whatever a holder does to a credential, it gets narrower or is refused.

use proptest::prelude::*;

use super::*;
use crate::{
    CredentialBudget,
    caller::RevocationStatus,
    rights::{ResourcePatterns, RightsDimension, Scopes, ToolPatterns},
    testing::{NOW, any_narrowing, any_rights, golden_json, in_ms, user, user_rights},
};

fn keys() -> RootKeys {
    RootKeys::new("2027-01", [("2027-01".to_owned(), Secret::new([7; 32]))].into()).unwrap()
}

fn delegation(name: &str) -> Delegation {
    Delegation {
        actor: Actor::named(name).unwrap(),
        actor_lineage: Vec::new(),
        actor_budgets: Vec::new(),
        narrowing: Narrowing::default(),
        lifetime_ms: 600_000,
    }
}

fn credential() -> String {
    let made = keys().delegate(&user(user_rights()), delegation("planner"), NOW).unwrap();
    made.text.as_text().unwrap().to_owned()
}

fn caveat(actor: Option<&str>, narrowing: Narrowing) -> Caveat {
    Caveat { actor: actor.map(str::to_owned), narrowing }
}

fn narrower(text: &str, caveat: &Caveat) -> String {
    attenuate(text, caveat).unwrap().as_text().unwrap().to_owned()
}

#[test]
fn an_agent_acts_for_the_user_with_less_and_shorter() {
    let ada = user(user_rights());
    let narrowing = Narrowing {
        scopes: Some(Scopes::from_words(["billing:read", "hr:read"]).unwrap()),
        tools: Some(ToolPatterns::read(&["billing.invoices.*", "hr.*"]).unwrap()),
        budget: [(RightsDimension::Write, 5), (RightsDimension::Read, 100)].into(),
        ..Narrowing::default()
    };
    let made = keys().delegate(&ada, Delegation { narrowing, ..delegation("planner") }, NOW).unwrap();
    let agent = keys().verify(made.text.as_text().unwrap(), NOW).unwrap();
    assert_eq!((agent.tenant(), agent.principal()), ("acme", "ada"));
    assert_eq!(agent.actors(), [Actor::named("planner").unwrap()]);
    assert_eq!(agent.method(), &CredentialMethod::AgentCredential);
    let rights = agent.rights();
    assert_eq!(rights, &made.rights);
    assert!(rights.is_within(ada.rights()));
    assert_eq!(rights.scopes, Scopes::from_words(["billing:read"]).unwrap());
    assert_eq!(rights.tools, ToolPatterns::read(&["billing.invoices.*"]).unwrap());
    assert_eq!(rights.budget[&RightsDimension::Write], 5);
    assert_eq!((rights.expires_at, rights.depth_left), (in_ms(600_000), 2));
    assert_eq!(keys().verify(made.text.as_text().unwrap(), in_ms(600_000)), Err(CapabilityError::Expired));
}

#[test]
fn t11_revoking_what_it_comes_from_revokes_it() {
    let ada = user(user_rights());
    let bot = user(user_rights());
    let with_actor = Delegation { actor_lineage: bot.lineage().to_vec(), ..delegation("bot") };
    let made = keys().delegate(&ada, with_actor, NOW).unwrap();
    let agent = keys().verify(made.text.as_text().unwrap(), NOW).unwrap();
    let expected = [&made.credential, ada.credential(), bot.credential()];
    assert!(agent.lineage().iter().eq(expected));
    for revoked in expected {
        let standing =
            |id: &CredentialId| if id == revoked { RevocationStatus::Revoked } else { RevocationStatus::Good };
        assert!(agent.recheck(NOW, standing).is_err(), "{revoked}");
    }
    assert!(agent.recheck(NOW, |_| RevocationStatus::Good).is_ok());
}

#[test]
fn a_holder_narrows_it_offline_and_names_the_next() {
    let narrowing =
        Narrowing { resources: Some(ResourcePatterns::read(&["invoice/7"]).unwrap()), ..Narrowing::default() };
    let text = narrower(&credential(), &caveat(Some("worker"), narrowing));
    let text = narrower(&text, &caveat(None, Narrowing { expires_at: Some(in_ms(5)), ..Narrowing::default() }));
    let worker = keys().verify(&text, NOW).unwrap();
    assert_eq!(worker.principal(), "ada");
    assert_eq!(worker.actors().iter().map(Actor::name).collect::<Vec<_>>(), ["worker", "planner"]);
    assert!(worker.actors().iter().all(|actor| !actor.is_proven()), "only their holders say so");
    assert_eq!(worker.rights().resources, ResourcePatterns::read(&["invoice/7"]).unwrap());
    assert_eq!((worker.rights().expires_at, worker.rights().depth_left), (in_ms(5), 1));
    assert_eq!(keys().verify(&text, in_ms(5)), Err(CapabilityError::Expired));
}

#[test]
fn t9_depth_is_counted_online_and_offline() {
    let mut who = user(user_rights());
    for (depth_left, name) in [(2, "a"), (1, "b"), (0, "c")] {
        let made = keys().delegate(&who, delegation(name), NOW).unwrap();
        who = keys().verify(made.text.as_text().unwrap(), NOW).unwrap();
        assert_eq!(who.rights().depth_left, depth_left);
    }
    assert_eq!(keys().delegate(&who, delegation("d"), NOW).unwrap_err(), DelegationError::Depth(DepthExhausted(())));

    let mut text = credential();
    for name in ["a", "b"] {
        text = narrower(&text, &caveat(Some(name), Narrowing::default()));
        assert!(keys().verify(&text, NOW).is_ok());
    }
    let too_far = narrower(&text, &caveat(Some("c"), Narrowing::default()));
    assert_eq!(keys().verify(&too_far, NOW), Err(CapabilityError::Depth));
    let claimed = Narrowing { depth_left: Some(200), ..Narrowing::default() };
    let too_far = narrower(&narrower(&text, &caveat(None, claimed)), &caveat(Some("c"), Narrowing::default()));
    assert_eq!(keys().verify(&too_far, NOW), Err(CapabilityError::Depth), "a caveat gives nothing back");
}

#[test]
fn keys_are_rotated_by_their_id() {
    let old = credential();
    let both = [("2027-01".to_owned(), Secret::new([7; 32])), ("2027-02".to_owned(), Secret::new([8; 32]))];
    let rotated = RootKeys::new("2027-02", both.into()).unwrap();
    assert!(rotated.verify(&old, NOW).is_ok());
    let made = rotated.delegate(&user(user_rights()), delegation("planner"), NOW).unwrap();
    assert_eq!(keys().verify(made.text.as_text().unwrap(), NOW), Err(CapabilityError::UnknownKey));
    let retired = RootKeys::new("2027-02", [("2027-02".to_owned(), Secret::new([8; 32]))].into()).unwrap();
    assert_eq!(retired.verify(&old, NOW), Err(CapabilityError::UnknownKey));
    let other = RootKeys::new("2027-01", [("2027-01".to_owned(), Secret::new([9; 32]))].into()).unwrap();
    assert_eq!(other.verify(&old, NOW), Err(CapabilityError::Forged));
    assert!(RootKeys::new("a", [("b".to_owned(), Secret::new([7; 32]))].into()).is_err());
    assert!(RootKeys::new("a", [("a".to_owned(), Secret::new([7; 31]))].into()).is_err());
}

#[test]
fn t28_caveats_cannot_be_taken_out_changed_or_put_in_order() {
    let first = caveat(None, Narrowing { depth_left: Some(1), ..Narrowing::default() });
    let second = caveat(Some("worker"), Narrowing::default());
    let text = narrower(&narrower(&credential(), &first), &second);
    let parts: Vec<&str> = text.split('.').collect();
    let [prefix, root, one, two, tag] = parts[..] else { panic!("five parts") };
    assert!(keys().verify(&text, NOW).is_ok());
    let without_tag = credential();
    let root_tag = without_tag.rsplit_once('.').unwrap().1;
    let table = [
        [prefix, root, two, one, tag].join("."),
        [prefix, root, one, tag].join("."),
        [prefix, root, two, tag].join("."),
        [prefix, root, tag].join("."),
        [prefix, root, one, one, two, tag].join("."),
        [prefix, root, one, two, root_tag].join("."),
        [prefix, one, two, tag].join("."),
        [prefix, root, one, two, ""].join("."),
        [prefix, root, one, two, &tag[..10]].join("."),
        [prefix, root, one, "", two, tag].join("."),
    ];
    for forged in table {
        let refused = keys().verify(&forged, NOW).unwrap_err();
        assert!(matches!(refused, CapabilityError::Forged | CapabilityError::Malformed), "{refused}");
    }
}

#[test]
fn t28_a_caveat_is_strict_json_of_what_is_known() {
    let text = credential();
    let tag = CredentialParts::parse(&text).unwrap().tag;
    let stem = text.rsplit_once('.').unwrap().0;
    let table = [
        r#"{"narrowing":{"depth_left":1,"depth_left":9}}"#,
        r#"{"narrowing":{"widen":true}}"#,
        r#"{"actor":""}"#,
        r#"{"actor":"a\nb"}"#,
        r#"{"narrowing":{"ceiling":"ANYTHING"}}"#,
        "{",
        "",
    ];
    for caveat in table {
        let caveat = URL_SAFE_NO_PAD.encode(caveat);
        let tag = URL_SAFE_NO_PAD.encode(keyed(&tag).chain_update(caveat.as_bytes()).finalize().into_bytes());
        assert_eq!(keys().verify(&format!("{stem}.{caveat}.{tag}"), NOW), Err(CapabilityError::Malformed), "{caveat}");
    }
}

#[test]
fn codes_are_those_of_hmac() {
    for length in [0, 1, 32, 63, 64, 65, 200] {
        let key = vec![length; usize::from(length)];
        let theirs = Hmac::<Sha256>::new_from_slice(&key).unwrap().chain_update(b"x").finalize().into_bytes();
        assert_eq!(keyed(&key).chain_update(b"x").finalize().into_bytes(), theirs, "{length}");
    }
}

#[test]
fn everything_about_a_credential_is_bounded() {
    let mut text = credential();
    for _ in 0..CAVEATS_MAX {
        text = narrower(&text, &Caveat::default());
    }
    assert!(keys().verify(&text, NOW).is_ok());
    assert_eq!(attenuate(&text, &Caveat::default()).unwrap_err(), CapabilityError::TooLong);
    let long = format!("{PREFIX}{}", "A".repeat(CREDENTIAL_BYTES_MAX));
    assert_eq!(keys().verify(&long, NOW), Err(CapabilityError::TooLong));
    let patterns: Vec<String> = (0..256).map(|number| format!("{}.{number}", "x".repeat(200))).collect();
    let wide = Rights { tools: ToolPatterns::read(&patterns).unwrap(), ..user_rights() };
    assert_eq!(keys().delegate(&user(wide), delegation("a"), NOW).unwrap_err(), DelegationError::TooLarge);
    let long_life = Delegation { lifetime_ms: u64::MAX, ..delegation("a") };
    let longest = Rights { expires_at: in_ms(10 * AGENT_LIFETIME_MS_MAX), ..user_rights() };
    let made = keys().delegate(&user(longest), long_life, NOW).unwrap();
    assert_eq!(made.rights.expires_at, in_ms(AGENT_LIFETIME_MS_MAX));
    let none = Delegation { lifetime_ms: 0, ..delegation("a") };
    assert_eq!(keys().delegate(&user(user_rights()), none, NOW).unwrap_err(), DelegationError::Lifetime);
}

#[test]
fn what_is_in_it_is_golden() {
    let root = CredentialRoot {
        id: "00112233445566778899aabbccddeeff".to_owned(),
        key_id: "2027-01".to_owned(),
        tenant: "acme".to_owned(),
        principal: "ada".to_owned(),
        groups: BTreeSet::new(),
        actors: vec![Actor::named("planner").unwrap()],
        lineage: vec![CredentialId::new("key", "00112233445566778899")],
        issued_at: NOW,
        rights: Rights { expires_at: in_ms(600_000), ..user_rights() },
        budgets: Vec::new(),
    };
    golden_json("agent_root.json", &root);
    let narrowing = Narrowing { tools: Some(ToolPatterns::read(&["billing.pay"]).unwrap()), ..Narrowing::default() };
    golden_json("agent_caveat.json", &caveat(Some("worker"), narrowing));
    // The codes are part of the format: a credential of an older version must still be read.
    let text = keys().seal(&root).unwrap();
    let text = narrower(&text, &caveat(Some("worker"), Narrowing::default()));
    crate::testing::golden("agent_credential.txt", &format!("{text}\n"));
    assert!(keys().verify(&text, NOW).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn t9_any_sequence_of_narrowings_is_within_the_parent(
        parent in any_rights(),
        first in any_narrowing(),
        caveats in prop::collection::vec((any::<bool>(), any_narrowing()), 0..6),
    ) {
        // A caller with these rights, delegated from local mode, which has all.
        let parent = Rights { expires_at: in_ms(parent.expires_at.since_ms(NOW) + 1), ..parent };
        let everything = AuthenticatedCaller::local();
        let narrowing = Narrowing {
            scopes: Some(parent.scopes.clone()),
            tools: Some(parent.tools.clone()),
            resources: Some(parent.resources.clone()),
            ceiling: Some(parent.ceiling),
            budget: parent.budget.clone(),
            expires_at: Some(parent.expires_at),
            depth_left: Some(parent.depth_left),
        };
        let made = keys().delegate(&everything, Delegation { narrowing, ..delegation("parent") }, NOW).unwrap();
        let holder = keys().verify(made.text.as_text().unwrap(), NOW).unwrap();
        prop_assert_eq!(holder.rights(), &parent);

        if let Ok(child) = keys().delegate(&holder, Delegation { narrowing: first, ..delegation("child") }, NOW) {
            prop_assert!(child.rights.is_within(&parent));
            let mut text = child.text.as_text().unwrap().to_owned();
            let mut before = child.rights;
            for (named, narrowing) in caveats {
                text = narrower(&text, &caveat(named.then_some("next"), narrowing.clone()));
                let Ok(next) = keys().verify(&text, NOW) else { break };
                prop_assert!(next.rights().is_within(&before));
                prop_assert!(next.rights().is_within(&narrowing.as_rights()));
                prop_assert_eq!((next.tenant(), next.principal()), (holder.tenant(), holder.principal()));
                before = next.rights().clone();
            }
        }
    }

    #[test]
    fn t28_a_credential_with_any_byte_changed_is_refused(at in any::<prop::sample::Index>(), to in 33u8..127) {
        let text = narrower(&credential(), &caveat(Some("worker"), Narrowing::default()));
        let mut bytes = text.into_bytes();
        let at = at.index(bytes.len());
        prop_assume!(bytes[at] != to);
        bytes[at] = to;
        prop_assert!(keys().verify(std::str::from_utf8(&bytes).unwrap(), NOW).is_err());
    }

    #[test]
    fn t28_a_credential_cut_or_lengthened_is_refused(length in 0usize..1500, tail in "[A-Za-z0-9_.-]{1,40}") {
        let text = narrower(&credential(), &caveat(Some("worker"), Narrowing::default()));
        if length < text.len() {
            prop_assert!(keys().verify(&text[..length], NOW).is_err());
        }
        let longer = text + &tail;
        prop_assert!(keys().verify(&longer, NOW).is_err());
    }
}

#[test]
fn an_operator_gives_an_agent_what_a_user_may_and_not_everything() {
    let terms = |rights: Rights| DelegatingUser {
        tenant: "acme".to_owned(),
        principal: "ada".to_owned(),
        groups: ["staff".to_owned()].into(),
        rights,
    };
    let made = keys().grant(&terms(user_rights()), delegation("planner"), NOW).unwrap();
    let who = keys().verify(made.text.as_text().unwrap(), NOW).unwrap();
    assert_eq!((who.tenant(), who.principal(), who.actors()[0].name()), ("acme", "ada", "planner"));
    assert!(who.groups().contains("staff") && who.rights().is_within(&user_rights()));
    assert_eq!(who.lineage(), [made.credential], "it comes from nothing else");
    let handed_on = keys().delegate(&who, delegation("worker"), NOW).unwrap();
    let who = keys().verify(handed_on.text.as_text().unwrap(), NOW).unwrap();
    assert!(who.groups().contains("staff"), "the user's groups, even though an agent acts");
    let all = terms(Rights::unlimited());
    assert_eq!(keys().grant(&all, delegation("planner"), NOW).unwrap_err(), DelegationError::AllScopes);
    let nobody = DelegatingUser { principal: String::new(), ..terms(user_rights()) };
    assert_eq!(keys().grant(&nobody, delegation("planner"), NOW).unwrap_err(), DelegationError::Name);
}

/// What a child spends is charged to every ancestor that has a budget: delegating often does not multiply it.
#[test]
fn t9_every_credential_with_a_budget_of_its_own_is_drawn_on() {
    let writes = |limit| Narrowing { budget: [(RightsDimension::Write, limit)].into(), ..Narrowing::default() };
    let hand_on = |who: &AuthenticatedCaller, narrowing| {
        let made = keys().delegate(who, Delegation { narrowing, ..delegation("next") }, NOW).unwrap();
        (keys().verify(made.text.as_text().unwrap(), NOW).unwrap(), made)
    };
    let limits = |who: &AuthenticatedCaller| -> Vec<(CredentialId, u64)> {
        let limit = |budget: &CredentialBudget| (budget.credential.clone(), budget.limits[&RightsDimension::Write]);
        who.budgets().iter().map(limit).collect()
    };
    let ada = user(Rights { budget: BTreeMap::new(), ..user_rights() });
    assert_eq!(limits(&ada), []);
    let (first, made) = hand_on(&ada, writes(10));
    let (one, other) = (hand_on(&first, writes(6)).0, hand_on(&first, writes(6)).0);
    let root = (made.credential.clone(), 10);
    assert_eq!(limits(&first), std::slice::from_ref(&root));
    assert_eq!(limits(&one), [(one.credential().clone(), 6), root.clone()]);
    assert_ne!(limits(&one)[0], limits(&other)[0]);
    assert_eq!(limits(&other)[1], root);
    // A credential that is not narrowed has no budget of its own, and no more than the parent's budget can be
    // delegated.
    assert_eq!(limits(&hand_on(&one, writes(9)).0), limits(&one));
    // Offline there is no new id to charge: it is the same account with a lower limit.
    let text = narrower(made.text.as_text().unwrap(), &caveat(Some("worker"), writes(4)));
    assert_eq!(limits(&keys().verify(&text, NOW).unwrap()), [(made.credential, 4)]);
}
