//! `servanda check`: reads everything, starts nothing, lists every problem.

use std::path::Path;

use serde_json::json;
use servanda_contract::tool::SideEffectClass;

use crate::{
    config::Loaded,
    contracts,
    failure::Failure,
    screen::{Screen, count},
};

pub(crate) fn run(config: &Path, screen: Screen) -> Result<(), Failure> {
    let loaded = Loaded::read(config)?;
    loaded.listen()?;
    for (id, upstream) in &loaded.config.upstreams {
        loaded.upstream(id, upstream)?;
    }
    let (admitted, problems) = contracts::judge_all(&loaded)?;
    if screen.json {
        let names: Vec<_> = admitted.iter().map(|contract| &contract.contract().identity.name).collect();
        screen.json(&json!({ "admitted": names, "problems": problems }))?;
    }
    if !problems.is_empty() {
        return Err(contracts::load(&loaded)
            .err()
            .unwrap_or_else(|| Failure::bad_input("the contracts changed meanwhile")));
    }
    let admitted_count = admitted.len();
    let grave: Vec<String> = admitted.iter().filter_map(|contract| unconfirmed(contract.contract())).collect();
    servanda_catalog::Catalog::new(admitted, loaded.config.naming())
        .map_err(|error| Failure::bad_input(error.to_string()).hint("rename one of the two, or remove its contract"))?;
    if !screen.json {
        let contracts = count(admitted_count, "contract");
        let upstreams = count(loaded.config.upstreams.len(), "upstream");
        screen.data(format_args!("{} is good: {contracts} for {upstreams}", loaded.file.display()))?;
        if !grave.is_empty() {
            screen.say(format_args!(
                "note: {} without a person's approval: {}",
                match grave.len() {
                    1 => "one grave tool runs".to_owned(),
                    grave => format!("{grave} grave tools run"),
                },
                short_list(&grave)
            ));
            screen.hint("set transactional.confirmation_required: true in a contract to keep its tool from running");
        }
    }
    Ok(())
}

/// The name of a tool that leaves the house or cannot be undone, and that nobody has to approve.
fn unconfirmed(contract: &servanda_contract::ToolContract) -> Option<String> {
    let transactional = &contract.transactional;
    let grave = transactional.side_effect_class >= SideEffectClass::HighRiskExternal;
    (grave && !transactional.confirmation_required).then(|| contract.identity.name.clone())
}

fn short_list(names: &[String]) -> String {
    const SHOWN_MAX: usize = 5;
    let shown = names.iter().take(SHOWN_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().checked_sub(SHOWN_MAX) {
        Some(more) if more > 0 => format!("{shown} and {more} more"),
        _ => shown,
    }
}
