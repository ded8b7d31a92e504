//! Who may decide, when more people may, and who has which role.

use std::collections::BTreeSet;

use servanda_contract::tool::{ApprovalPattern, Presence};

use super::samples::{HOUR_MS, START_MS, approved_by, approver, demanding, groups, opened, request};
use crate::{
    Approver, EscalationTier, Ineligible, PersonRole, RoleAssignments, RoleMember, Ticket, check_eligible,
    escalation_level, responsible_groups,
};

fn with(name: &str, roles: &[PersonRole], of: &[&str]) -> Approver {
    Approver { roles: roles.iter().copied().collect(), groups: groups(of), ..approver(name) }
}

#[test]
fn who_may_decide() {
    use PersonRole::{Admin, Approver as Decides, BreakGlass, Operator, Viewer};
    let operator = opened(request());
    let consent = opened(demanding(ApprovalPattern::Consent, 1));
    let of_finance = |pattern| {
        let mut ticket = opened(demanding(pattern, 1));
        ticket.demand.groups = groups(&["finance"]);
        ticket
    };
    let (finance, finance_consent) = (of_finance(ApprovalPattern::Operator), of_finance(ApprovalPattern::Consent));
    let stranger = |name: &str| Approver { tenant: "umbrella".to_owned(), ..with(name, &[Decides], &[]) };
    let all = [Viewer, Decides, Operator, Admin, BreakGlass];
    let table: [(&Ticket, Approver, Result<bool, Ineligible>); 22] = [
        (&operator, with("bob", &[Decides], &[]), Ok(false)),
        (&operator, with("bob", &[Viewer, Operator, Admin], &[]), Err(Ineligible::NoRole)),
        (&operator, with("bob", &[], &["finance"]), Err(Ineligible::NoRole)),
        (&operator, stranger("bob"), Err(Ineligible::OtherTenant)),
        (&operator, stranger("ada"), Err(Ineligible::OtherTenant)),
        (&operator, with("ada", &all, &[]), Err(Ineligible::OwnRequest)),
        (&operator, with("bot", &all, &[]), Err(Ineligible::OwnRequest)),
        (&operator, with("bob", &[BreakGlass], &[]), Ok(true)),
        (&operator, with("bob", &[BreakGlass, Decides], &[]), Ok(false)),
        (&consent, with("ada", &[], &[]), Ok(false)),
        (&consent, with("bot", &[], &[]), Err(Ineligible::OwnRequest)),
        (&consent, with("bot", &all, &[]), Err(Ineligible::OwnRequest)),
        (&consent, with("bob", &[], &[]), Err(Ineligible::NoRole)),
        (&consent, with("bob", &[Decides], &[]), Ok(false)),
        (&finance, with("bob", &[Decides], &["finance"]), Ok(false)),
        (&finance, with("bob", &[Decides], &["sales"]), Err(Ineligible::OtherGroup)),
        (&finance, with("bob", &[Decides], &[]), Err(Ineligible::OtherGroup)),
        (&finance, with("bob", &[Decides, BreakGlass], &["sales"]), Ok(true)),
        (&finance, with("ada", &all, &["finance"]), Err(Ineligible::OwnRequest)),
        (&finance_consent, with("ada", &[], &[]), Ok(false)),
        (&finance_consent, with("bob", &[Decides], &["sales"]), Err(Ineligible::OtherGroup)),
        (&finance_consent, with("bob", &[Decides], &["finance", "sales"]), Ok(false)),
    ];
    for (number, (ticket, person, expected)) in table.into_iter().enumerate() {
        assert_eq!(check_eligible(ticket, &person, START_MS), expected, "{number}: {person:?}");
    }
}

#[test]
fn a_person_decides_once() {
    let once = approved_by(demanding(ApprovalPattern::Dual, 2), &["bob"]);
    assert_eq!(check_eligible(&once, &approver("bob"), START_MS), Err(Ineligible::DecidedAlready));
    assert_eq!(check_eligible(&once, &approver("Bob"), START_MS), Ok(false), "another name is another person");
}

#[test]
fn a_person_has_to_be_as_present_as_the_ticket_needs() {
    for needed in Presence::ALL {
        for presence in Presence::ALL {
            let mut ticket = opened(request());
            ticket.demand.presence = needed;
            let person = Approver { presence, ..approver("bob") };
            let expected = if presence >= needed { Ok(false) } else { Err(Ineligible::Presence { needed }) };
            assert_eq!(check_eligible(&ticket, &person, START_MS), expected, "{presence:?} for {needed:?}");
        }
    }
}

/// A ticket of finance; managers may decide too after half of the hour, directors after nine tenths.
fn escalating() -> Ticket {
    let tier = |after_percent, name| EscalationTier { after_percent, groups: groups(&[name]) };
    let mut request = request();
    request.demand.groups = groups(&["finance"]);
    request.demand.escalation = vec![tier(50, "managers"), tier(90, "directors")];
    opened(request)
}

#[test]
fn escalation_adds_people() {
    let ticket = escalating();
    let minute = |minutes: u64| START_MS + minutes * 60_000;
    let table: [(u64, u8, &[&str]); 6] = [
        (minute(0), 0, &["finance"]),
        (minute(30) - 1, 0, &["finance"]),
        (minute(30), 1, &["finance", "managers"]),
        (minute(54), 2, &["directors", "finance", "managers"]),
        (minute(60), 2, &["directors", "finance", "managers"]),
        (0, 0, &["finance"]),
    ];
    for (now_ms, level, of) in table {
        assert_eq!(escalation_level(&ticket, now_ms), level);
        assert_eq!(responsible_groups(&ticket, now_ms), groups(of));
        let manager = with("bob", &[PersonRole::Approver], &["managers"]);
        let expected = if level > 0 { Ok(false) } else { Err(Ineligible::OtherGroup) };
        assert_eq!(check_eligible(&ticket, &manager, now_ms), expected);
    }
    // Where every approver decides, there is nobody to add.
    let everybody =
        Ticket { demand: crate::ApprovalDemand { groups: BTreeSet::new(), ..ticket.demand.clone() }, ..ticket };
    assert_eq!(responsible_groups(&everybody, START_MS + HOUR_MS), BTreeSet::new());
}

#[test]
fn members_are_read_as_they_are_written() {
    for text in ["acme/ada", "group:acme/finance", "acme/a/b", "group:acme/group:x"] {
        let member = RoleMember::try_from(text.to_owned()).unwrap();
        assert_eq!(String::from(member), text);
    }
    for text in ["", "ada", "/ada", "acme/", "group:", "group:finance", "group:/finance", "group:acme/"] {
        assert!(RoleMember::try_from(text.to_owned()).is_err(), "{text}");
    }
}

#[test]
fn roles_are_given_to_people_and_groups_of_a_tenant() {
    let member = |text: &str| RoleMember::try_from(text.to_owned()).unwrap();
    let roles = RoleAssignments::default()
        .with(PersonRole::Approver, [member("acme/bob"), member("group:acme/finance")])
        .with(PersonRole::Admin, [member("acme/eve"), member("acme/kim"), member("umbrella/max")]);
    let of =
        |tenant: &str, name: &str, of: &[&str]| roles.of(tenant, name, &groups(of)).into_iter().collect::<Vec<_>>();
    assert_eq!(of("acme", "bob", &[]), [PersonRole::Approver]);
    assert_eq!(of("acme", "eve", &["finance"]), [PersonRole::Approver, PersonRole::Admin]);
    assert_eq!(of("umbrella", "bob", &["finance"]), []);
    assert_eq!(of("acme", "finance", &[]), [], "a group is no person");
    assert_eq!(roles.people_count(PersonRole::Admin, "acme"), Some(2));
    assert_eq!(roles.people_count(PersonRole::Approver, "acme"), None, "the members of a group are not known");
    assert_eq!(roles.people_count(PersonRole::Approver, "umbrella"), Some(0));
}
