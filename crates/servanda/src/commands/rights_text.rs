//! Reads rights, times and budgets from the command line, and shows rights.

use std::collections::BTreeMap;

use servanda_authority::{
    Narrowing, Rights,
    rights::{ResourcePatterns, RightsDimension, Scopes, ToolPatterns},
};
use servanda_contract::tool::SideEffectClass;

use crate::{cli::RightsArgs, failure::CommandFailure};

const CLASSES: [SideEffectClass; 6] = [
    SideEffectClass::ReadOnly,
    SideEffectClass::EphemeralWrite,
    SideEffectClass::LowRiskInternal,
    SideEffectClass::MediumRiskWrite,
    SideEffectClass::HighRiskExternal,
    SideEffectClass::CriticalMutation,
];
const DIMENSIONS: [(&str, RightsDimension); 5] = [
    ("read", RightsDimension::Read),
    ("write", RightsDimension::Write),
    ("external", RightsDimension::External),
    ("financial_micros", RightsDimension::FinancialMicros),
    ("critical", RightsDimension::Critical),
];

/// The given options as a narrowing of rights.
pub(crate) fn narrowing(args: &RightsArgs) -> Result<Narrowing, CommandFailure> {
    let bad = |option: &str, why: &dyn std::fmt::Display| {
        CommandFailure::bad_input(format!("--{option}: {why}"))
            .hint("servanda keys create --help shows how they are written")
    };
    let scopes = Scopes::from_words(&args.scopes).map_err(|error| bad("scope", &error))?;
    let tools = ToolPatterns::read(&args.tools).map_err(|error| bad("tool", &error))?;
    let resources = ResourcePatterns::read(&args.resources).map_err(|error| bad("resource", &error))?;
    Ok(Narrowing {
        scopes: (!args.scopes.is_empty()).then_some(scopes),
        tools: (!args.tools.is_empty()).then_some(tools),
        resources: (!args.resources.is_empty()).then_some(resources),
        ceiling: args.ceiling.as_deref().map(class).transpose().map_err(|why| bad("ceiling", &why))?,
        budget: args.budget.as_deref().map(budget).transpose().map_err(|why| bad("budget", &why))?.unwrap_or_default(),
        expires_at: None,
        depth_left: None,
    })
}

/// The given options as the rights of a new credential: scopes that are not named are not granted.
pub(crate) fn rights(args: &RightsArgs) -> Result<Rights, CommandFailure> {
    let narrowing = narrowing(args)?;
    let scopes = narrowing.scopes.clone().unwrap_or_else(Scopes::none);
    Ok(Rights { scopes, ..narrowing.as_rights() })
}

/// Reads a span of time: a number and `s`, `m`, `h` or `d`.
pub(crate) fn span_ms(option: &str, text: &str) -> Result<u64, CommandFailure> {
    let unit_ms = match text.trim().chars().last() {
        Some('s') => 1_000,
        Some('m') => 60_000,
        Some('h') => 3_600_000,
        Some('d') => 86_400_000,
        _ => 0,
    };
    let number = text.trim().get(..text.trim().len().saturating_sub(1)).and_then(|number| number.parse::<u64>().ok());
    number.filter(|number| *number > 0 && unit_ms > 0).and_then(|number| number.checked_mul(unit_ms)).ok_or_else(|| {
        CommandFailure::bad_input(format!("--{option} is not a time")).hint("write it like 15m, 12h or 30d")
    })
}

/// Rights in a few words, by kind.
pub(crate) fn shown(rights: &Rights) -> Vec<(&'static str, String)> {
    let list = |patterns: Vec<String>| patterns.join(" ");
    let scopes = rights.scopes.line().filter(|line| !line.is_empty());
    let mut shown = vec![("scopes", scopes.unwrap_or_else(|| "none".to_owned()))];
    if !rights.tools.is_all() {
        shown.push(("tools", list(rights.tools.clone().into())));
    }
    if !rights.resources.is_all() {
        shown.push(("resources", list(rights.resources.clone().into())));
    }
    if rights.ceiling != SideEffectClass::CriticalMutation {
        shown.push(("ceiling", rights.ceiling.word().to_owned()));
    }
    let budget = DIMENSIONS.iter().filter_map(|(name, dimension)| Some((name, rights.budget.get(dimension)?)));
    let budget: Vec<String> = budget.map(|(name, limit)| format!("{name}={limit}")).collect();
    if !budget.is_empty() {
        shown.push(("budget", budget.join(",")));
    }
    shown
}

fn class(text: &str) -> Result<SideEffectClass, String> {
    let word = text.trim().to_ascii_uppercase().replace('-', "_");
    CLASSES.into_iter().find(|class| class.word() == word).ok_or_else(|| {
        let known: Vec<&str> = CLASSES.into_iter().map(SideEffectClass::word).collect();
        format!("known classes are {}", known.join(", "))
    })
}

fn budget(text: &str) -> Result<BTreeMap<RightsDimension, u64>, String> {
    let mut limits = BTreeMap::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (name, limit) = part.split_once('=').ok_or("write it like read=100,write=5")?;
        let dimension = DIMENSIONS.iter().find(|(known, _)| *known == name.trim()).map(|(_, dimension)| *dimension);
        let known = "read, write, external, financial_micros, critical";
        let dimension = dimension.ok_or_else(|| format!("what is counted is one of {known}"))?;
        let limit = limit.trim().parse().map_err(|_| format!("the limit of `{}` is not a number", name.trim()))?;
        if limits.insert(dimension, limit).is_some() {
            return Err(format!("`{}` stands there twice", name.trim()));
        }
    }
    Ok(limits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_budgets_and_classes_are_read_or_refused() {
        for (text, ms) in
            [("15m", Some(900_000)), ("1h", Some(3_600_000)), ("30d", Some(2_592_000_000)), ("90s", Some(90_000))]
        {
            assert_eq!(span_ms("ttl", text).ok(), ms, "{text}");
        }
        for text in ["", "h", "0h", "-1h", "1", "1w", "1.5h", "99999999999999999999d", "ü"] {
            assert!(span_ms("ttl", text).is_err(), "{text}");
        }
        let limits = budget("read=100, write=5").unwrap();
        assert_eq!(limits, BTreeMap::from([(RightsDimension::Read, 100), (RightsDimension::Write, 5)]));
        for text in ["read", "reads=1", "read=x", "read=-1", "read=1,read=2"] {
            assert!(budget(text).is_err(), "{text}");
        }
        assert_eq!(class("read-only"), Ok(SideEffectClass::ReadOnly));
        assert!(class("anything").is_err());
    }
}
