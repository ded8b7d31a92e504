//! Lists by conditions, page by page.

use servanda_contract::tool::EffectClass;
use servanda_effects::effect::{DispatchEnd, EffectFilter, EffectQuery, EffectState, EffectTarget};

use super::{
    kept::Kept,
    samples::{begin, begun, mine, settled},
};

/// Every condition by itself, all together, and page by page. Effects that do not match do not count towards a
/// page.
pub(super) async fn filters(kept: Kept) {
    let effects = &*kept.effects;
    let mut all = Vec::new();
    for number in 0..40_u32 {
        let mut wanted = begin(&format!("k{number}"));
        let nth = |names: [&str; 2]| names[usize::try_from(number % 2).unwrap()].to_owned();
        wanted.key.tenant = nth(["acme", "globex"]);
        wanted.key.principal = if number % 4 == 0 { "ada" } else { "bob" }.to_owned();
        wanted.order.upstream = nth(["bank", "shop"]);
        (wanted.key.tool, wanted.order.exposed_tool) = (nth(["bank.pay", "shop.buy"]), nth(["bank__pay", "shop__buy"]));
        wanted.class = if number % 8 == 0 { EffectClass::N } else { EffectClass::K };
        let claim = mine(effects.apply(begun(wanted)).await.unwrap().reply);
        effects.apply(settled(&claim, DispatchEnd::Unknown("reset".to_owned()))).await.unwrap();
        all.push(effects.find(EffectTarget::Id(claim.id)).await.unwrap().unwrap());
        kept.advance(1_000);
    }
    all.reverse();
    let text = |text: &str| Some(text.to_owned());
    let none = EffectFilter::default();
    let (since_ms, until_ms) = (Some(all[30].created_ms), Some(all[10].created_ms));
    let table = [
        (none.clone(), 40),
        (EffectFilter { tool: text("bank__pay"), ..none.clone() }, 20),
        (EffectFilter { tool: text("bank.pay"), ..none.clone() }, 20),
        (EffectFilter { tool: text("pay"), ..none.clone() }, 0),
        (EffectFilter { upstream: text("shop"), ..none.clone() }, 20),
        (EffectFilter { tenant: text("acme"), ..none.clone() }, 20),
        (EffectFilter { principal: text("ada"), ..none.clone() }, 10),
        (EffectFilter { class: Some(EffectClass::N), ..none.clone() }, 5),
        (EffectFilter { since_ms, ..none.clone() }, 31),
        (EffectFilter { until_ms, ..none.clone() }, 29),
        (EffectFilter { since_ms, until_ms, tenant: text("acme"), class: Some(EffectClass::K), ..none }, 8),
    ];
    for (filter, count) in table {
        let expected: Vec<_> = all.iter().filter(|effect| filter.matches(effect)).map(|effect| &effect.id).collect();
        assert_eq!(expected.len(), count, "{filter:?}");
        let mut paged = Vec::new();
        loop {
            let after = paged.last().cloned();
            let states = vec![EffectState::OutcomeUnknown];
            let page = effects.list(EffectQuery { states, filter: filter.clone(), after, limit: 7 }).await.unwrap();
            let is_last = page.len() < 7;
            paged.extend(page.into_iter().map(|effect| effect.id));
            if is_last {
                break;
            }
        }
        assert_eq!(paged.iter().collect::<Vec<_>>(), expected, "{filter:?}");
    }
}
