//! What annotations mean, and what they cannot mean.

use super::*;

fn read(annotations: &[(&'static str, &'static str)]) -> Result<Option<PolicyApproval>, PolicyApprovalFault> {
    PolicyApproval::read("p", |wanted| annotations.iter().find(|(name, _)| *name == wanted).map(|(_, value)| *value))
}

#[test]
fn annotations_in_words() {
    for (annotations, words) in [
        (&[("approval", "required")][..], "asks for approval as for the class of the call"),
        (&[("approval", "")], "asks for approval as for the class of the call"),
        (&[("approval", "none")], "lifts the approval that the class alone asks for"),
        (&[("approval", "consent")], "asks for approval by the user or an approver"),
        (&[("approval", "operator")], "asks for approval by an approver"),
        (&[("approval", "dual")], "asks for approval by 2 approvers"),
        (
            &[("approval", "operator"), ("approvers", "finance"), ("quorum", "2")],
            "asks for approval by 2 approvers of finance",
        ),
        (
            &[("approval", "required"), ("approvers", "finance, board")],
            "asks for approval by an approver of board or finance",
        ),
        (&[("approval", "required"), ("presence", "passkey")], "asks for approval by an approver, with a passkey"),
        (
            &[("approval", "consent"), ("presence", "fresh")],
            "asks for approval by the user or an approver, signed in just now",
        ),
    ] {
        assert_eq!(read(annotations).unwrap().unwrap().describe(), words);
    }
    assert_eq!(read(&[]), Ok(None));
}

#[test]
fn times_to_decide() {
    let within = |text| read(&[("approval", "required"), ("decide_within", text)]);
    for (text, ms) in [("90s", 90_000), ("30m", 1_800_000), ("4h", 14_400_000), ("30d", DECIDE_WITHIN_MS_MAX)] {
        assert_eq!(within(text).unwrap().unwrap().decide_within_ms, Some(ms), "{text}");
    }
    for text in
        ["5x", "", "s", "0s", "31d", "1.5h", "-1h", "99999999999999999999d", "18446744073709551615d", "5 h", "5ü"]
    {
        assert_eq!(within(text).unwrap_err().annotation, "decide_within", "{text}");
    }
}

#[test]
fn annotations_that_mean_nothing() {
    let required = ("approval", "required");
    for (annotations, at) in [
        (&[("approval", "boss")][..], "approval"),
        (&[("approval", "Operator")], "approval"),
        (&[("quorum", "2")], "quorum"),
        (&[("approvers", "finance")], "approvers"),
        (&[("presence", "passkey")], "presence"),
        (&[("decide_within", "4h")], "decide_within"),
        (&[("approval", "none"), ("approvers", "finance")], "approval"),
        (&[("approval", "none"), ("quorum", "1")], "approval"),
        (&[("approval", "none"), ("presence", "fresh")], "approval"),
        (&[("approval", "none"), ("decide_within", "4h")], "approval"),
        (&[required, ("approvers", "")], "approvers"),
        (&[required, ("approvers", "finance,,board")], "approvers"),
        (&[required, ("quorum", "0")], "quorum"),
        (&[required, ("quorum", "10")], "quorum"),
        (&[required, ("quorum", "two")], "quorum"),
        (&[("approval", "dual"), ("quorum", "1")], "quorum"),
        (&[required, ("presence", "password")], "presence"),
    ] {
        let fault = read(annotations).unwrap_err();
        assert_eq!(fault.annotation, at, "{annotations:?}");
        assert!(!fault.hint.is_empty() && !fault.message.is_empty(), "{annotations:?}");
    }
}
