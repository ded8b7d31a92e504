//! Keys authenticate their holders, and no other caller.

use proptest::prelude::*;

use super::*;
use crate::testing::{NOW, golden_json, in_ms, user_rights};

fn terms() -> ApiKeySpec {
    ApiKeySpec {
        tenant: "acme".to_owned(),
        principal: "ada".to_owned(),
        groups: std::collections::BTreeSet::new(),
        label: "laptop".to_owned(),
        rights: user_rights(),
        expires_at: in_ms(1000),
    }
}

fn presented(made: &CreatedApiKey) -> PresentedKey {
    PresentedKey::read(made.text.as_text().unwrap()).unwrap()
}

#[test]
fn a_key_lets_its_principal_in_until_it_ends() {
    let made = make(terms(), NOW).unwrap();
    let who = made.stored.authenticate(&presented(&made), NOW).unwrap();
    assert_eq!((who.tenant(), who.principal()), ("acme", "ada"));
    assert_eq!(who.credential(), &made.stored.credential());
    assert_eq!(who.rights().expires_at, in_ms(1000), "the key's end is the rights' end");
    assert!(who.rights().is_within(&user_rights()));
    assert_eq!(made.stored.authenticate(&presented(&made), in_ms(1000)), Err(KeyError::Expired));
}

#[test]
fn t11_a_revoked_key_authenticates_no_caller() {
    let mut made = make(terms(), NOW).unwrap();
    made.stored.revoked_at = Some(NOW);
    assert_eq!(made.stored.authenticate(&presented(&made), NOW), Err(KeyError::Revoked));
}

#[test]
fn another_key_and_another_secret_look_alike() {
    let (one, two) = (make(terms(), NOW).unwrap(), make(terms(), NOW).unwrap());
    assert_eq!(one.stored.authenticate(&presented(&two), NOW), Err(KeyError::Unknown));
    let forged = PresentedKey { id: one.stored.id.clone(), secret: presented(&two).secret };
    assert_eq!(one.stored.authenticate(&forged, NOW), Err(KeyError::Unknown));
    let mut renamed = one.stored.clone();
    renamed.id.clone_from(&two.stored.id);
    let forged = PresentedKey { id: two.stored.id.clone(), secret: presented(&one).secret };
    assert_eq!(renamed.authenticate(&forged, NOW), Err(KeyError::Unknown), "the hash is bound to the id");
    let mut newer = one.stored.clone();
    newer.version = 2;
    assert_eq!(newer.authenticate(&presented(&one), NOW), Err(KeyError::Version));
}

#[test]
fn no_key_is_made_that_could_do_too_much() {
    let all = ApiKeySpec { rights: Rights::unlimited(), ..terms() };
    assert_eq!(make(all, NOW).unwrap_err(), ApiKeyCreationError::AllScopes);
    for expires_at in [NOW, in_ms(KEY_LIFETIME_MS_MAX + 1)] {
        assert_eq!(make(ApiKeySpec { expires_at, ..terms() }, NOW).unwrap_err(), ApiKeyCreationError::Lifetime);
    }
    let nameless = ApiKeySpec { principal: String::new(), ..terms() };
    assert_eq!(make(nameless, NOW).unwrap_err(), ApiKeyCreationError::Name);
}

#[test]
fn t25_what_is_kept_is_golden_and_has_nothing_of_the_secret_but_its_end() {
    let made = make(terms(), NOW).unwrap();
    let text = made.text.as_text().unwrap();
    let kept = serde_json::to_string(&made.stored).unwrap();
    assert!(!kept.contains(&text[25..37]));
    assert!(text.ends_with(&made.stored.ends_with));
    let round: StoredKey = serde_json::from_str(&kept).unwrap();
    assert_eq!(round, made.stored);

    let secret = [7; SECRET_BYTES];
    let fixed = StoredKey {
        id: "00112233445566778899".to_owned(),
        secret_digest: digest_of("00112233445566778899", &secret),
        ends_with: "BwcH".to_owned(),
        revoked_at: Some(in_ms(5)),
        ..made.stored
    };
    golden_json("stored_key.json", &fixed);
}

/// The operator acts for the holder with the same rights, and the records show it as the operator's word.
#[test]
fn the_operator_acts_for_the_holder_of_a_key_while_it_is_good() {
    let mut stored = make(terms(), NOW).unwrap().stored;
    let acting = stored.authenticate_for_operator(NOW).unwrap();
    assert_eq!((acting.tenant(), acting.principal()), (&*stored.tenant, &*stored.principal));
    assert_eq!(acting.lineage(), [stored.credential()], "what revokes the key revokes this");
    assert_eq!(acting.caller().credential, Some(format!("operator:key:{}", stored.id)));
    assert_eq!(stored.authenticate_for_operator(stored.expires_at).unwrap_err(), KeyError::Expired);
    stored.revoked_at = Some(NOW);
    assert_eq!(stored.authenticate_for_operator(NOW).unwrap_err(), KeyError::Revoked);
}

#[test]
fn text_that_is_no_key_is_malformed() {
    let good = make(terms(), NOW).unwrap();
    let good = good.text.as_text().unwrap();
    let (id, secret) = (&good[4..24], &good[25..]);
    let table = [
        String::new(),
        "svk_".to_owned(),
        good.to_uppercase(),
        good.replacen("svk_", "svk-", 1),
        format!("svk_{id}"),
        format!("svk_{id}_{secret}A"),
        format!("svk_{id}_{secret}="),
        format!("svk_{id}0_{secret}"),
        format!("svk_{}_{secret}", &id[1..]),
        format!(" {good}"),
        format!("{good}\n"),
        format!("svk_{id}_{}+", &secret[1..]),
        // The last character has two unused bits: they must be zero, so that one secret has one text.
        format!("svk_{id}_{}B", "A".repeat(42)),
    ];
    for text in table {
        assert_eq!(PresentedKey::read(&text).unwrap_err(), KeyError::Malformed, "{text}");
    }
}

proptest! {
    #[test]
    fn reading_never_panics(text in "\\PC{0,80}", tail in "(svk_)?[0-9a-f]{0,24}_?[A-Za-z0-9_-]{0,50}") {
        let _ = PresentedKey::read(&text);
        let _ = PresentedKey::read(&tail);
    }
}
