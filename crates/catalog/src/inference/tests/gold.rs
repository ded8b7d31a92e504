//! Compares inferred classes with a reviewer's: a list of tools of popular servers, split by family of servers into a half that
//! the rules were developed with and a half that they were not.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Value, json};
use servanda_contract::{Digest, digest::DigestDomain, tool::SideEffectClass};

use super::super::{ToolReach, infer};
use crate::{pins::Definition, testing::shared};

/// One line of the list.
struct Judged {
    id: &'static str,
    /// The classes that a reviewer would accept, the best first.
    classes: Vec<SideEffectClass>,
    half: Half,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Half {
    Development,
    HeldOut,
}

impl Half {
    /// Servers of one vendor and versions of one server are one family and stay in the same half.
    fn for_family(family: &str) -> Self {
        let hash = Digest::compute(DigestDomain::Definition, &[family.as_bytes()]).hex_prefix(1);
        if hash.as_str() < "8" { Self::Development } else { Self::HeldOut }
    }
}

fn gold() -> Vec<Judged> {
    let class = |word: &str| SideEffectClass::ALL.into_iter().find(|class| class.word() == word).unwrap();
    let lines = include_str!("../gold.tsv").lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let columns: Vec<&str> = line.split('\t').collect();
            let classes = columns[2].split(' ').map(class).collect();
            Judged { id: columns[1], classes, half: Half::for_family(columns[0]) }
        })
        .collect()
}

/// The tools of the corpus, by id; `None` if the corpus is not installed.
fn corpus() -> Option<HashMap<String, Value>> {
    let lines = std::fs::read_to_string(shared("corpora/tools/tools.jsonl")?).unwrap();
    let tools = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    Some(tools.map(|tool| (tool["id"].as_str().unwrap().to_owned(), tool)).collect())
}

fn definition(tool: &Value) -> Definition {
    let definition = json!({
        "name": tool["name"],
        "title": tool["title"],
        "description": tool["description"],
        "inputSchema": tool["input_schema"].as_object().cloned().unwrap_or_default(),
        "annotations": tool["annotations"].as_object().cloned().unwrap_or_default(),
    });
    serde_json::from_value(definition).unwrap()
}

/// The results for one half of the list.
#[derive(Default)]
struct Score {
    tools: usize,
    exact: usize,
    acceptable: usize,
    matrix: BTreeMap<(SideEffectClass, SideEffectClass), usize>,
    changes_called_read_only: Vec<&'static str>,
    critical_called_medium: Vec<&'static str>,
    others: Vec<String>,
}

impl Score {
    fn measure(half: Half, tools: &HashMap<String, Value>) -> Self {
        let mut score = Self::default();
        for judged in gold().into_iter().filter(|judged| judged.half == half) {
            let inferred = infer("up", &definition(&tools[judged.id])).unwrap();
            let (best, found) = (judged.classes[0], inferred.contract.transactional.side_effect_class);
            score.tools += 1;
            score.exact += usize::from(best == found);
            score.acceptable += usize::from(judged.classes.contains(&found));
            *score.matrix.entry((best, found)).or_default() += 1;
            if found == SideEffectClass::ReadOnly && !judged.classes.contains(&found) {
                score.changes_called_read_only.push(judged.id);
            }
            if best == SideEffectClass::CriticalMutation && found <= SideEffectClass::MediumRiskWrite {
                score.critical_called_medium.push(judged.id);
            }
            if best != found {
                let mark = if judged.classes.contains(&found) { "~" } else { "x" };
                score.others.push(format!(
                    "{mark} {} {} not {}: {}",
                    judged.id,
                    found.word(),
                    best.word(),
                    inferred.reading.why
                ));
            }
        }
        score
    }

    fn percent(&self, part: usize) -> f64 {
        let count = |number: usize| f64::from(u32::try_from(number).unwrap());
        100.0 * count(part) / count(self.tools)
    }

    fn print(&self, half: Half) {
        let short = ["READ", "EPHEMERAL", "LOW", "MEDIUM", "HIGH", "CRITICAL"];
        println!(
            "{half:?}: {} tools, exact {:.1} %, acceptable {:.1} %",
            self.tools,
            self.percent(self.exact),
            self.percent(self.acceptable)
        );
        println!("changes called READ_ONLY: {}", self.changes_called_read_only.len());
        println!("critical ones called MEDIUM or less: {}", self.critical_called_medium.len());
        println!("| judged \\ inferred | {} |", short.join(" | "));
        for (row, name) in SideEffectClass::ALL.into_iter().zip(short) {
            let cell = |column| self.matrix.get(&(row, column)).map_or("·".to_owned(), usize::to_string);
            println!("| {name} | {} |", SideEffectClass::ALL.map(cell).join(" | "));
        }
    }
}

#[test]
fn inference_agrees_with_a_reviewer() {
    let Some(tools) = corpus() else { return };
    for half in [Half::Development, Half::HeldOut] {
        let score = Score::measure(half, &tools);
        score.print(half);
        // Prints inexact results, only for the half that may be inspected.
        if half == Half::Development {
            println!("{:?} {:?}", score.changes_called_read_only, score.critical_called_medium);
            score.others.iter().for_each(|line| println!("{line}"));
        }
        assert!(score.percent(score.exact) >= 75.0, "{half:?}");
        assert!(score.percent(score.acceptable) >= 90.0, "{half:?}");
        assert_eq!(score.changes_called_read_only, Vec::<&str>::new(), "{half:?}");
        assert_eq!(score.critical_called_medium, Vec::<&str>::new(), "{half:?}");
    }
}

/// Over the whole corpus: an author's `readOnlyHint` is contradicted only with a reason, and a tool whose author says that it
/// changes something is never proposed as a read without one.
#[test]
fn an_authors_hint_is_contradicted_only_with_a_reason() {
    let Some(tools) = corpus() else { return };
    let (mut contradicted, mut read_only, mut warned, mut silent) = (0, 0, 0, Vec::new());
    // A tool without annotations cannot be contradicted.
    for (id, tool) in tools.iter().filter(|(_, tool)| !tool["annotations"].is_null()) {
        let definition = definition(tool);
        let inferred = infer("up", &definition).unwrap();
        let looks = inferred.reading.reach == ToolReach::ReadOnly;
        let hint = |name: &str| definition.hint(name);
        let says_change = hint("readOnlyHint") == Some(false)
            || hint("readOnlyHint").is_none() && hint("destructiveHint") == Some(true);
        read_only += usize::from(hint("readOnlyHint") == Some(true));
        let against_author = hint("readOnlyHint") == Some(true) && !looks;
        contradicted += usize::from(against_author);
        warned += usize::from(says_change && looks);
        if (against_author || says_change && looks) && inferred.reading.disagreements.is_empty() {
            silent.push(id.clone());
        }
    }
    println!(
        "readOnlyHint: true contradicted: {contradicted} of {read_only}; says it changes, proposed as a look: {warned}; without a reason: {}",
        silent.len()
    );
    assert_eq!(silent, Vec::<String>::new());
    assert_eq!(warned, 0);
}

/// A browser tool is not grave because it reaches the world. One that runs code or gives files away is; one that moves a view
/// is not.
#[test]
fn few_tools_of_a_browser_are_grave() {
    let Some(tools) = corpus() else { return };
    let mut of_browser: Vec<(&str, SideEffectClass, bool)> = tools
        .values()
        .filter(|tool| tool["server"] == "npm:@playwright/mcp")
        .map(|tool| {
            let inferred = infer("up", &definition(tool)).unwrap();
            let contradicted =
                tool["annotations"]["readOnlyHint"] == true && inferred.reading.reach != ToolReach::ReadOnly;
            let silent = contradicted && inferred.reading.disagreements.is_empty();
            (tool["name"].as_str().unwrap(), inferred.contract.transactional.side_effect_class, silent)
        })
        .collect();
    of_browser.sort_unstable();
    let grave: Vec<&str> = of_browser
        .iter()
        .filter(|(_, class, _)| *class >= SideEffectClass::HighRiskExternal)
        .map(|(name, ..)| *name)
        .collect();
    println!("{} tools, grave: {grave:?}", of_browser.len());
    let expected = ["browser_evaluate", "browser_file_upload", "browser_run_code_unsafe"];
    assert!(expected.iter().all(|name| grave.contains(name)), "{grave:?}");
    assert!(grave.len() * 10 <= of_browser.len(), "{grave:?}");
    assert!(of_browser.iter().all(|(_, _, silent)| !silent));
    let class = |wanted: &str| of_browser.iter().find(|(name, ..)| *name == wanted).unwrap().1;
    // It can be told to write a file: that is the printed reason, and not a grave one.
    assert_eq!(class("browser_snapshot"), SideEffectClass::EphemeralWrite);
    assert_eq!(class("browser_hover"), SideEffectClass::EphemeralWrite);
}
