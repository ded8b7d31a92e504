//! A call that a grant covered says so: to its agent, on record and in lists. No other call does.

use servanda_contract::record::CallSummary;

use super::*;
use crate::AnswerDetail;

fn told(answered: &Value) -> &Value {
    &answered["_meta"]["servanda/call"]
}

#[tokio::test]
async fn the_answer_and_the_record_of_a_covered_call_name_the_grant() {
    let office = Office::paying();
    let approved = json!({"to": "bob", "amount": 100});
    let id = office.granted(&approved, 20).await;
    let covered = office.pay(&json!({"to": "bob", "amount": 1}));
    let answered = content(office.harness.engine.call(covered).await);
    assert_eq!(told(&answered)["grant"], json!(id));
    let record = office.harness.last_record();
    assert_eq!((record.grant(), record.ticket_id.as_deref()), (Some(id.as_str()), Some(id.as_str())));
    assert_eq!(CallSummary::from_record(&record).grant.as_deref(), Some(id.as_str()));

    // The whole observation is the specification's object; the grant is beside it.
    let mut in_full = office.pay(&json!({"to": "bob", "amount": 2}));
    in_full.terms.detail = AnswerDetail::Full;
    let answered = content(office.harness.engine.call(in_full).await);
    assert_eq!(told(&answered)["grant"], json!(id));
    assert!(answered["_meta"]["servanda/observation"].get("grant").is_none(), "{answered}");

    // This call has the same ticket, but used its approval and not the grant.
    let answered = content(office.harness.engine.call(office.pay(&approved)).await);
    let record = office.harness.last_record();
    assert_eq!((record.grant(), record.ticket_id.as_deref()), (None, Some(id.as_str())));
    assert!(told(&answered).get("grant").is_none(), "{answered}");
}
