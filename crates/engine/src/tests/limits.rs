//! How long a call may take: by the class that its contract has, and where nobody has measured it, by the limit alone.

use std::time::Duration;

use servanda_contract::{ToolContract, refusal::EffectKnowledge, tool::TimeoutClass};
use servanda_gates::effect::EffectState;
use servanda_mcp::Era;

use super::{
    conversations::result,
    effects::{Bank, keyed, refusal},
};
use crate::testing::text;

/// A server whose changes take six seconds.
fn six_seconds(class: TimeoutClass) -> Bank {
    let limit = |contract: &mut ToolContract| {
        contract.runtime.timeout_ms = 60_000;
        contract.execution.as_mut().unwrap().timeout_class = class;
    };
    Bank::writing(limit, |_| async {
        tokio::time::sleep(Duration::from_secs(6)).await;
        Ok(text(Era::Modern, "done"))
    })
}

#[tokio::test(start_paused = true)]
async fn a_change_of_six_seconds_ends_done_where_nobody_has_measured_it() {
    let bank = six_seconds(TimeoutClass::Unmeasured);
    assert_eq!(result(bank.call(keyed("a")).await)["content"][0]["text"], "done");
    assert_eq!(bank.states().await, [EffectState::Completed]);
}

/// What a contract promises by its class still holds.
#[tokio::test(start_paused = true)]
async fn a_change_of_six_seconds_is_given_up_where_its_contract_promises_five() {
    let bank = six_seconds(TimeoutClass::Standard);
    assert_eq!(refusal(bank.call(keyed("a")).await).effect, EffectKnowledge::Unknown);
    assert_eq!(bank.states().await, [EffectState::OutcomeUnknown]);
}
