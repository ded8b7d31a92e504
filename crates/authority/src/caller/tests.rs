//! The caller is checked again before anything is sent.

use super::*;
use crate::testing::{NOW, in_ms, user, user_rights};

#[test]
fn t11_what_was_revoked_or_ran_out_meanwhile_is_refused() {
    let ada = user(user_rights());
    assert!(ada.recheck(NOW, |_| RevocationStatus::Good).is_ok());
    assert_eq!(
        ada.recheck(in_ms(86_400_000), |_| RevocationStatus::Good).unwrap_err(),
        RecheckError::Expired(in_ms(86_400_000))
    );
    assert_eq!(
        ada.recheck(NOW, |_| RevocationStatus::Revoked).unwrap_err(),
        RecheckError::Revoked(ada.credential().clone())
    );
    assert_eq!(
        ada.recheck(NOW, |_| RevocationStatus::Unknown).unwrap_err(),
        RecheckError::Unknown(ada.credential().clone())
    );
}

#[test]
fn local_mode_is_one_principal_with_every_right() {
    let local = AuthenticatedCaller::local();
    assert_eq!((local.tenant(), local.principal()), ("local", "local"));
    assert_eq!(local.rights(), &Rights::unlimited());
    assert_eq!(local.method(), &CredentialMethod::Local);
    assert!(local.recheck(NOW, |_| RevocationStatus::Good).is_ok());
}

/// Asked of the credential or of the caller that it makes, the answer is the same.
#[test]
fn a_credential_knows_its_party_without_making_a_caller() {
    let actor = |name: &str, proven| Actor { name: name.to_owned(), proven };
    let chains = [
        vec![],
        vec![actor("planner", true)],
        vec![actor("planner", false)],
        vec![actor("planner", true), actor("writer", true)],
        vec![actor("writer", true), actor("planner", true)],
    ];
    let names = [("acme", "ada"), ("acme", "bob"), ("globex", "ada")];
    let with = |(tenant, principal): (&str, &str), actors: &[Actor]| AuthenticatedCaller {
        tenant: tenant.to_owned(),
        principal: principal.to_owned(),
        actors: actors.to_vec(),
        ..AuthenticatedCaller::local()
    };
    let all: Vec<AuthenticatedCaller> =
        names.iter().flat_map(|names| chains.iter().map(|chain| with(*names, chain))).collect();
    for (one, first) in all.iter().enumerate() {
        for (other, second) in all.iter().enumerate() {
            assert_eq!(first.is_same_party(&second.caller()), one == other, "{first:?} {second:?}");
            assert_eq!(first.caller().is_same_party(&second.caller()), one == other);
        }
    }
}

#[test]
fn names_are_bounded() {
    assert!(Actor::named("agent/7 of ädä").is_ok());
    for name in ["", "a\nb", &"x".repeat(257)] {
        assert!(Actor::named(name).is_err());
    }
}

#[test]
fn only_ids_of_credentials_are_read_as_such() {
    for id in
        ["key:00112233445566778899", "agent:00112233445566778899aabbccddeeff", "token:00112233445566778899aabbccddeeff"]
    {
        assert_eq!(CredentialId::read(id).unwrap().as_str(), id);
    }
    for text in [
        "",
        "key:",
        "key:00",
        "local",
        "local:00112233445566778899",
        "key:00112233445566778899X",
        "svk_0011_x",
        "agent:..",
        "key:0011223344556677889 ",
    ] {
        assert!(CredentialId::read(text).is_none(), "{text}");
    }
}
