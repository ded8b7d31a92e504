//! The wording of gate 11's refusals: what is left, when there is more, and what to do meanwhile.

use servanda_contract::{
    CallId, GateName, Refusal, TaxonomyClass, Timestamp, refusal::BudgetLeft, refusal::EffectKnowledge,
};
use servanda_effects::budget::ExhaustedAccount;
use servanda_gates::budget::{DrawError, FundingError, NotClearedReason, Rate, ToolRateExceeded};

/// Where operators see the state of budgets.
const REVIEW: &str = "`servanda budgets` shows how they stand";

/// The refusal for a call that does not pass gate 11.
pub(crate) fn refuse(call_id: CallId, tool: &str, why: &NotClearedReason, now: Timestamp) -> Box<Refusal> {
    let refusal = match why {
        NotClearedReason::TooOften(denied, rate) => too_often(call_id, tool, *denied, *rate, now),
        NotClearedReason::Undrawable(DrawError::Exhausted(exhausted)) => never_allowed(call_id, tool, exhausted),
        NotClearedReason::Undrawable(why) => undrawable(call_id, why),
        NotClearedReason::Unfunded(FundingError::Exhausted(exhausted)) => exhausted_now(call_id, exhausted, now),
        NotClearedReason::Unfunded(FundingError::InDoubt(error)) => {
            let message =
                format!("the charge of this call could not be put on record, so the call was not sent: {error}");
            let hint = "try again when the gateway's store is writable";
            refusal(call_id, TaxonomyClass::DependencyUnavailable, message, hint.to_owned())
                .for_operators("`servanda doctor` looks at the store")
        }
    };
    Box::new(refusal)
}

fn refusal(call_id: CallId, class: TaxonomyClass, message: String, hint: String) -> Refusal {
    Refusal::new(call_id, GateName::Budget, class, message, hint).with_effect(EffectKnowledge::None)
}

fn exhausted_now(call_id: CallId, exhausted: &ExhaustedAccount, now: Timestamp) -> Refusal {
    let ExhaustedAccount { account, left, renews_at_ms } = exhausted;
    let message = match left {
        0 => format!("budget used up: {account}"),
        left => format!("not enough for this call: {} left of the budget of {account}", account.in_words(*left)),
    };
    let hint = match renews_at_ms {
        Some(at_ms) => {
            let at: String = Timestamp::from_unix_ms(*at_ms).to_string().replace('T', " ").chars().take(16).collect();
            format!("it renews at {at} UTC")
        }
        None => "tell the user what is done and what is not; it does not renew".to_owned(),
    };
    let mut refusal = refusal(call_id, TaxonomyClass::BudgetExhausted, message, hint).for_operators(REVIEW);
    refusal.retry_after_ms = renews_at_ms.map(|at_ms| at_ms.saturating_sub(now.unix_ms()));
    refusal.budget = Some(Box::new(what_is_left(exhausted)));
    refusal
}

/// The tool makes critical changes, and no budget allows any.
fn never_allowed(call_id: CallId, tool: &str, exhausted: &ExhaustedAccount) -> Refusal {
    let message = format!("`{tool}` makes critical changes, and none are allowed: the budget for them is zero");
    let hint = "tell the user: only an operator can allow some".to_owned();
    let mut refusal = refusal(call_id, TaxonomyClass::BudgetExhausted, message, hint).for_operators(
        "allow some in servanda.yaml, for example `budgets: [{ dimension: critical, amount: 5, per: caller, period: day }]`, \
         and reload",
    );
    refusal.budget = Some(Box::new(what_is_left(exhausted)));
    refusal
}

fn undrawable(call_id: CallId, why: &DrawError) -> Refusal {
    let hint = "tell the user: only an operator can change this".to_owned();
    refusal(call_id, TaxonomyClass::BudgetExhausted, why.to_string(), hint)
        .for_operators("the contract's `runtime.cost_profile` and `budgets` in servanda.yaml do not fit")
}

fn too_often(call_id: CallId, tool: &str, denied: ToolRateExceeded, rate: Rate, now: Timestamp) -> Refusal {
    let ToolRateExceeded { retry_after_ms, left } = denied;
    let message = format!("`{tool}` is called too often: its contract allows {rate}");
    let hint = format!("wait {retry_after_ms} ms and send the same call again, one at a time");
    let mut refusal = refusal(call_id, TaxonomyClass::RateLimited, message, hint);
    refusal.retry_after_ms = Some(retry_after_ms);
    let renews_at = Timestamp::from_unix_ms(now.unix_ms().saturating_add(retry_after_ms));
    refusal.budget = Some(Box::new(BudgetLeft {
        account: format!("tool `{tool}`, {rate}"),
        dimension: "rate".to_owned(),
        currency: None,
        left,
        renews_at: Some(renews_at.to_string()),
    }));
    refusal
}

fn what_is_left(exhausted: &ExhaustedAccount) -> BudgetLeft {
    let ExhaustedAccount { account, left, renews_at_ms } = exhausted;
    BudgetLeft {
        account: account.to_string(),
        dimension: account.dimension.name().to_owned(),
        currency: account.currency.clone(),
        left: *left,
        renews_at: renews_at_ms.map(|at_ms| Timestamp::from_unix_ms(at_ms).to_string()),
    }
}
