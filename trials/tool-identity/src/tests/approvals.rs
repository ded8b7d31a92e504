//! Approvals.

use proptest::prelude::*;
use serde_json::json;

use super::{call_of, named, pairs, tool};
use crate::{
    IdentityError, Loading, Tool, ToolIdentity,
    approval::{Approvals, Lasting, Owner, PendingApproval, Verdict},
    call::CallId,
};

fn owner() -> Owner {
    Owner("someone".to_owned())
}

fn pending(identity: &ToolIdentity, visible: &[Tool<()>], id: &str) -> Option<PendingApproval> {
    PendingApproval::new(&tool(identity.clone()), visible, &call_of(identity, id))
        .filter(|_| identity.public_name().is_some())
}

proptest! {
    /// A lasting approval of one tool does not apply to another, however similar their texts are.
    #[test]
    fn equal_texts_never_authorise_across_identities((one, other) in pairs()) {
        let visible = [tool(one.clone()), tool(other.clone())];
        let (Some(first), Some(second)) = (pending(&one, &visible, "c1"), pending(&other, &visible, "c2")) else {
            return Ok(());
        };
        let mut approvals = Approvals::new(8);
        approvals.decide(&owner(), &first, Lasting::Always, Verdict::Approved, None).unwrap();
        let same = one.lookup_key() == other.lookup_key();
        prop_assert_eq!(approvals.status(&owner(), &second).unwrap(), same.then_some(Verdict::Approved));
        prop_assert_eq!(approvals.status(&Owner("else".to_owned()), &second).unwrap(), None);
    }

    /// Nor does an approval of one call, even if the other call has its id.
    #[test]
    fn an_approved_call_is_no_other_call((one, other) in pairs()) {
        let visible = [tool(one.clone()), tool(other.clone())];
        let (Some(first), Some(second)) = (pending(&one, &visible, "c"), pending(&other, &visible, "c")) else {
            return Ok(());
        };
        let mut approvals = Approvals::new(8);
        approvals.decide(&owner(), &first, Lasting::ThisCall, Verdict::Approved, None).unwrap();
        let expected = if one.lookup_key() == other.lookup_key() {
            Ok(Some(Verdict::Approved))
        } else {
            Err(IdentityError::CallIdReused)
        };
        prop_assert_eq!(approvals.status(&owner(), &second), expected);
    }
}

#[test]
fn a_lasting_decision_is_never_filed_under_an_alias() {
    let mut lazy = named("search");
    lazy.loading = Loading::Deferred;
    let first = pending(&lazy, &[], "c1").unwrap();
    assert_eq!(first.keys.iter().count(), 2, "alone, it may be approved by its name");
    let eager = [tool(named("search"))];
    assert_eq!(pending(&lazy, &eager, "c1").unwrap().keys.iter().count(), 1, "but not beside one that has the name");
    let mut approvals = Approvals::new(8);
    approvals.decide(&owner(), &first, Lasting::Always, Verdict::Approved, None).unwrap();
    let id = CallId::new("c1").unwrap();
    assert_eq!(approvals.inspect("search", &id), None);
    assert_eq!(approvals.inspect("deferred_top_level:search", &id), Some(Verdict::Approved));
}

#[test]
fn a_decision_about_one_call_stands_beside_a_lasting_one_until_the_next_lasting_one() {
    let search = named("search");
    let asked = |id: &str| pending(&search, &[], id).unwrap();
    let mut approvals = Approvals::new(8);
    let decide = |approvals: &mut Approvals, id: &str, lasting, verdict, message| {
        approvals.decide(&owner(), &asked(id), lasting, verdict, message).unwrap();
    };
    decide(&mut approvals, "c1", Lasting::Always, Verdict::Approved, None);
    decide(&mut approvals, "c2", Lasting::ThisCall, Verdict::Rejected, Some("not this one"));
    assert_eq!(approvals.status(&owner(), &asked("c2")), Ok(Some(Verdict::Rejected)));
    assert_eq!(approvals.rejection_message(&owner(), &asked("c2")), Some("not this one"));
    assert_eq!(approvals.status(&owner(), &asked("c3")), Ok(Some(Verdict::Approved)));
    assert_eq!(approvals.rejection_message(&owner(), &asked("c3")), None);
    decide(&mut approvals, "c4", Lasting::Always, Verdict::Approved, None);
    assert_eq!(approvals.status(&owner(), &asked("c2")), Ok(Some(Verdict::Approved)));
    assert_eq!(approvals.rejection_message(&owner(), &asked("c2")), None);
}

#[test]
fn a_hosted_tool_is_its_server_and_its_name() {
    let asked = |server: &str, id: &str| json!({ "type": "mcp_approval_request", "id": id, "server_label": server, "name": "search", "arguments": "{}" });
    let mut approvals = Approvals::new(8);
    approvals.decide_hosted(&asked("docs", "r1"), Lasting::Always, Verdict::Approved, None).unwrap();
    assert_eq!(approvals.hosted_status(&asked("docs", "r2")), Ok(Some(Verdict::Approved)));
    assert_eq!(approvals.hosted_status(&asked("evil", "r3")), Ok(None), "the name does not carry it to another server");
    assert_eq!(approvals.status(&owner(), &pending(&named("search"), &[], "c").unwrap()), Ok(None));
    let refused = approvals.decide_hosted(&asked("", "r4"), Lasting::Always, Verdict::Approved, None);
    assert_eq!(refused, Err(IdentityError::HostedStickyRequiresServerAndTool));
}

#[test]
fn decisions_need_an_id_and_room() {
    let search = named("search");
    let mut approvals = Approvals::new(1);
    let nameless = PendingApproval::new(&tool(search.clone()), [], &json!({ "name": "search", "call_id": 7 })).unwrap();
    for lasting in [Lasting::ThisCall, Lasting::Always] {
        let refused = approvals.decide(&owner(), &nameless, lasting, Verdict::Approved, None);
        assert_eq!(refused, Err(IdentityError::ApprovalRequiresCallId));
    }
    let first = pending(&search, &[], "c1").unwrap();
    approvals.decide(&owner(), &first, Lasting::ThisCall, Verdict::Approved, None).unwrap();
    let full = approvals.decide(&owner(), &first, Lasting::ThisCall, Verdict::Approved, None);
    assert!(matches!(full, Err(IdentityError::Full { .. })), "{full:?}");
}
