//! The command-line options of the trial.

use std::path::PathBuf;

use crate::world::Store;

pub const USAGE: &str =
    "usage: trials/chaos/run --servanda BIN [--matrix] [--trial NAME]... [--long] [--random SECONDS] [--budget SECONDS]
       [--calls N] [--seed N] [--store sqlite|postgres|both] [--only PART_OF_A_CASE] [--class rkqn] [--clients N] [--calm] [--keep]
       [--expect-violations]
  --matrix             every row of the crash-point matrix with every class
  --trial NAME         a named trial: away, late, k_down, full, damage, orphans, clocks, approvals, grants,
                       ends, or `all` of them
  --long               named trials in their long form, with the silence that users' gateways have
  --random SECONDS     random schedules for so long
  --budget SECONDS     random schedules in which every call costs money, of which there is not enough
  --calls N            random schedules for so many keys
  --class LETTERS      the classes random schedules use
  --calm               no faults: what the harness itself costs, and whether it complains without a reason
  --expect-violations  succeed only if effects happened more than once: for a binary without its fence";

/// The options of the trial.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "switches as they are typed")]
pub struct Options {
    pub servanda: PathBuf,
    pub matrix: bool,
    pub trials: Vec<String>,
    pub long: bool,
    pub random: Option<u64>,
    pub budget: Option<u64>,
    pub calls: Option<u64>,
    pub seed: u64,
    pub stores: Vec<Store>,
    pub only: Option<String>,
    pub classes: String,
    pub clients: usize,
    pub calm: bool,
    pub keeps: bool,
    pub expects_violations: bool,
}

impl Options {
    pub fn parse(args: &[String]) -> Result<Self, String> {
        let drawn =
            std::time::UNIX_EPOCH.elapsed().map_or(1, |since| u64::from(since.subsec_nanos()) + since.as_secs());
        let mut options = Self {
            servanda: PathBuf::new(),
            matrix: false,
            trials: Vec::new(),
            long: false,
            random: None,
            budget: None,
            calls: None,
            seed: drawn % 1_000_000_007,
            stores: vec![Store::Sqlite, Store::Postgres],
            only: None,
            classes: "nnnkqr".to_owned(),
            clients: 8,
            calm: false,
            keeps: false,
            expects_violations: false,
        };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value\n{USAGE}"));
            match arg.as_str() {
                "--servanda" => options.servanda = PathBuf::from(value()?),
                "--matrix" => options.matrix = true,
                "--trial" => options.trials.push(trial(value()?)?),
                "--long" => options.long = true,
                "--random" => options.random = Some(number(value()?)?),
                "--budget" => options.budget = Some(number(value()?)?),
                "--calls" => options.calls = Some(number(value()?)?),
                "--seed" => options.seed = number(value()?)?,
                "--store" => options.stores = stores(value()?)?,
                "--only" => options.only = Some(value()?.clone()),
                "--class" => options.classes.clone_from(value()?),
                "--clients" => options.clients = usize::try_from(number(value()?)?).unwrap_or(8),
                "--calm" => options.calm = true,
                "--keep" => options.keeps = true,
                "--expect-violations" => options.expects_violations = true,
                _ => return Err(format!("`{arg}` is not known\n{USAGE}")),
            }
        }
        options.servanda = options.servanda.canonicalize().map_err(|error| format!("--servanda: {error}\n{USAGE}"))?;
        let schedules = options.random.is_some() || options.budget.is_some() || options.calls.is_some();
        options.matrix |= !schedules && options.trials.is_empty();
        Ok(options)
    }
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("`{text}` is not a number\n{USAGE}"))
}

fn trial(text: &str) -> Result<String, String> {
    if text == "all" || crate::trials::names().contains(&text) {
        return Ok(text.to_owned());
    }
    Err(format!("`{text}` is no trial\n{USAGE}"))
}

fn stores(text: &str) -> Result<Vec<Store>, String> {
    match text {
        "sqlite" => Ok(vec![Store::Sqlite]),
        "postgres" => Ok(vec![Store::Postgres]),
        "both" => Ok(vec![Store::Sqlite, Store::Postgres]),
        _ => Err(format!("`{text}` is no store\n{USAGE}")),
    }
}
