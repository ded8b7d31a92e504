//! Points at which a trial injects a fault: the process dies, it stalls, or an operation fails. Without the feature `faults` a
//! point compiles to nothing. With it, `SERVANDA_FAULTS` says which fault happens where and how often, and
//! `SERVANDA_FAULTS_SEED` makes a run repeatable.
//!
//! `ledger.after_commit=kill@0.01,upstream.before_write=pause:2000@0.05,ledger.before_commit=error` has three rules. A rule is
//! a point, an act, and a probability (always, if none is given). If `SERVANDA_FAULTS_ARMED` names a file, no fault happens
//! until that file exists, so that a trial can start undisturbed.

/// A fault that a rule injected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a trial lets `{0}` fail")]
pub struct InjectedFault(pub &'static str);

/// Passes a point: dies, stalls or fails if a rule says so.
#[cfg(not(feature = "faults"))]
#[inline]
pub const fn at(_point: &'static str) -> Result<(), InjectedFault> {
    Ok(())
}

/// A time limit that trials may shorten with the variable of this name.
#[cfg(not(feature = "faults"))]
#[inline]
pub const fn limit_ms(_variable: &'static str, usual_ms: u64) -> u64 {
    usual_ms
}

#[cfg(feature = "faults")]
pub use injection::{at, limit_ms};

#[cfg(feature = "faults")]
mod injection {
    use std::{
        sync::{
            LazyLock,
            atomic::{AtomicU64, Ordering},
        },
        time::Duration,
    };

    use super::InjectedFault;

    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(super) enum FaultAction {
        Kill,
        Pause(Duration),
        Error,
    }

    #[derive(Debug, Clone, PartialEq)]
    pub(super) struct FaultRule {
        pub(super) point: String,
        pub(super) act: FaultAction,
        pub(super) likelihood: f64,
    }

    // A trial with other faults than the requested ones proves nothing, so rules that cannot be parsed make every point fail.
    static RULES: LazyLock<Result<Vec<FaultRule>, String>> =
        LazyLock::new(|| read(&std::env::var("SERVANDA_FAULTS").unwrap_or_default()));

    static DICE: LazyLock<Option<AtomicU64>> = LazyLock::new(|| {
        let seed = std::env::var("SERVANDA_FAULTS_SEED").unwrap_or_else(|_| "1".to_owned());
        seed.parse().ok().map(AtomicU64::new)
    });

    static ARMED: LazyLock<Option<std::path::PathBuf>> =
        LazyLock::new(|| std::env::var_os("SERVANDA_FAULTS_ARMED").map(Into::into));

    /// A time limit that trials may shorten with the variable of this name.
    pub fn limit_ms(variable: &'static str, usual_ms: u64) -> u64 {
        std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(usual_ms)
    }

    /// Passes a point: dies, stalls or fails if a rule says so.
    pub fn at(point: &'static str) -> Result<(), InjectedFault> {
        let rules = RULES.as_ref().map_err(|_| InjectedFault("everything: SERVANDA_FAULTS is not a list of rules"))?;
        let dice = DICE.as_ref().ok_or(InjectedFault("everything: SERVANDA_FAULTS_SEED is not a number"))?;
        for rule in rules.iter().filter(|rule| rule.point == point) {
            if ARMED.as_ref().is_some_and(|file| !file.exists()) {
                continue;
            }
            if rule.likelihood >= 1.0 || throw(dice) < rule.likelihood {
                match rule.act {
                    FaultAction::Kill => std::process::abort(),
                    FaultAction::Pause(pause) => std::thread::sleep(pause),
                    FaultAction::Error => return Err(InjectedFault(point)),
                }
            }
        }
        Ok(())
    }

    /// A number from 0 to 1 (splitmix64).
    fn throw(dice: &AtomicU64) -> f64 {
        let state = dice.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed).wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        f64::from(u32::try_from((mixed ^ (mixed >> 31)) >> 32).unwrap_or(u32::MAX)) / f64::from(u32::MAX)
    }

    pub(super) fn read(text: &str) -> Result<Vec<FaultRule>, String> {
        let rules = text.split(',').map(str::trim).filter(|rule| !rule.is_empty());
        rules.map(|rule| read_rule(rule).ok_or_else(|| rule.to_owned())).collect()
    }

    fn read_rule(rule: &str) -> Option<FaultRule> {
        let (point, act) = rule.split_once('=')?;
        let (act, likelihood) = match act.split_once('@') {
            Some((act, likelihood)) => (act, likelihood.parse().ok().filter(|odds| (0.0..=1.0).contains(odds))?),
            None => (act, 1.0),
        };
        let act = match act.split_once(':') {
            None if act == "kill" => FaultAction::Kill,
            None if act == "error" => FaultAction::Error,
            Some(("pause", pause_ms)) => FaultAction::Pause(Duration::from_millis(pause_ms.parse().ok()?)),
            _ => return None,
        };
        Some(FaultRule { point: point.to_owned(), act, likelihood })
    }
}

#[cfg(all(test, feature = "faults"))]
mod tests {
    use std::time::Duration;

    use super::injection::{FaultAction, FaultRule, read};

    #[test]
    fn rules_are_read_or_refused() {
        let rule = |act, likelihood| FaultRule { point: "ledger.after_commit".to_owned(), act, likelihood };
        let table = [
            ("ledger.after_commit=kill@0.01", Ok(vec![rule(FaultAction::Kill, 0.01)])),
            ("ledger.after_commit=error", Ok(vec![rule(FaultAction::Error, 1.0)])),
            ("ledger.after_commit=pause:2000@1", Ok(vec![rule(FaultAction::Pause(Duration::from_secs(2)), 1.0)])),
            ("", Ok(Vec::new())),
            ("ledger.after_commit", Err("ledger.after_commit".to_owned())),
            ("a=kill, b=kil", Err("b=kil".to_owned())),
            ("a=kill@1.5", Err("a=kill@1.5".to_owned())),
        ];
        for (text, rules) in table {
            assert_eq!(read(text), rules, "{text}");
        }
    }
}
