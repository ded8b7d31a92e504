//! Reads with and without a key: a read is no effect unless its client gave it a key.

use super::*;

#[tokio::test]
async fn a_read_without_a_key_is_no_effect_and_one_with_a_key_is_answered_again() {
    let server = ScriptedServer::new(Era::Modern, &json!({}), |_| async { Ok(text(Era::Modern, "read")) });
    let bank = Bank::new(server, vec![draft("up", "echo", false)]);
    let read = |key: Option<&str>| {
        let keys = OperationKeys { idempotency_key: key.map(str::to_owned), ..OperationKeys::default() };
        CallRequest { keys, ..call(&Requester::local(), "echo", RequestTerms::default()) }
    };
    result(bank.call(read(None)).await);
    assert!(bank.effects().await.is_empty());
    result(bank.call(read(Some("k"))).await);
    result(bank.call(read(Some("k"))).await);
    assert_eq!((bank.calls(), bank.effects().await.len()), (2, 1));
}

#[tokio::test]
async fn a_read_with_a_key_that_waits_for_input_goes_on() {
    let server = ScriptedServer::new(Era::Modern, &json!({}), |heard| {
        let answer = asks_once(&heard);
        async { Ok(answer) }
    });
    let bank = Bank::new(server, vec![draft("up", "echo", false)]);
    let modern = requester(Era::Modern, &json!({"elicitation": {}}));
    let keys = || OperationKeys { idempotency_key: Some("k".to_owned()), ..OperationKeys::default() };
    let asked = input(bank.call(CallRequest { keys: keys(), ..call(&modern, "echo", RequestTerms::default()) }).await);
    let terms = again(&asked["requestState"], &json!({"who": {"action": "accept", "content": {}}}));
    let done = result(bank.call(CallRequest { keys: keys(), ..call(&modern, "echo", terms) }).await);
    assert_eq!((&done["content"][0]["text"], bank.states().await), (&json!("done"), vec![EffectState::Completed]));
}
