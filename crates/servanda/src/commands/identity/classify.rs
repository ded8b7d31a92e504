//! `servanda identity classify`: says what tools do, judged by their definitions, with the evidence. If asked, it adds what language models
//! think of the same definitions.

use std::{
    collections::BTreeMap,
    io::{self, Write as _},
    path::Path,
    sync::Arc,
};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use servanda_contract::tool::Mutability;
use servanda_identity::classifier::{Classification, ClassifierOptions, Descriptor, classify};
use tokio::task::JoinHandle;

use super::{
    lines::{self, LineAnswer},
    model_config,
    models::ModelPanel,
    opinion::{COMPARED, ModelAgreement, Opinion, OpinionTally, OpinionWords, agreement},
};
use crate::{
    failure::CommandFailure,
    screen::{Screen, count, lines as table_lines, table},
};

/// A tool's definition; other members are ignored.
#[derive(Deserialize)]
struct ClassifierInput {
    #[serde(default)]
    id: Option<Value>,
    #[serde(flatten)]
    descriptor: Descriptor,
}

pub(super) async fn run(
    file: &Path,
    options: ClassifierOptions,
    models: Option<&Path>,
    screen: Screen,
) -> Result<(), CommandFailure> {
    match models {
        None => lines::answer_each(file, screen, |line| answer(line, options)),
        Some(models) => second_opinions(file, options, models, screen).await,
    }
}

fn answer(line: &[u8], options: ClassifierOptions) -> LineAnswer {
    match read(line) {
        Ok(tool) => LineAnswer { line: classified(tool, options).0, fault: None },
        Err(fault) => LineAnswer { line: unread(&fault), fault: Some(fault) },
    }
}

fn read(line: &[u8]) -> Result<ClassifierInput, String> {
    serde_json::from_slice(line).map_err(|error| format!("it is no tool's definition: {}", lines::reason(&error)))
}

/// The line for a tool that could not be read. It says so and keeps the order.
fn unread(fault: &str) -> Value {
    json!({ "id": null, "error": format!("the line could not be read: {fault}") })
}

fn classified(tool: ClassifierInput, options: ClassifierOptions) -> (Value, OpinionWords) {
    let Classification { behaviour, confidence, evidence, .. } = classify(&tool.descriptor, options);
    let line = json!({
        "id": tool.id.unwrap_or_else(|| tool.descriptor.name.into()),
        "mutability": behaviour.mutability,
        "action": behaviour.action,
        "output_domain": behaviour.output_domain,
        "content_type": behaviour.content_type,
        "confidence": confidence,
        "evidence": evidence,
    });
    (line, OpinionWords::from_behaviour(&behaviour))
}

/// Reads the whole file before anything is sent, so that the amount is known.
async fn second_opinions(
    file: &Path,
    options: ClassifierOptions,
    models: &Path,
    screen: Screen,
) -> Result<(), CommandFailure> {
    let (models, limits) = model_config::read(models)?;
    let mut tools: Vec<Result<ClassifierInput, String>> = Vec::new();
    let mut left_out = 0_usize;
    let faults = lines::take_each(file, screen, |line| {
        if tools.len() >= limits.tools_max {
            left_out += 1;
            return None;
        }
        let tool = read(line);
        let fault = tool.as_ref().err().cloned();
        tools.push(tool);
        fault
    })?;
    if left_out > 0 {
        let sent = tools.len() + left_out;
        return Err(CommandFailure::bad_input(format!(
            "{} to be sent, and at most {}",
            count(sent, "tool"),
            limits.tools_max
        ))
        .hint("nothing was sent; cut the file, or raise `limits.tools_max` in the file that names the models"));
    }
    let panel = Arc::new(ModelPanel::new(models, limits)?);
    let tally = ask_all(&panel, tools, options, screen).await?;
    summarise(&tally, screen);
    match (faults, tally.opinions) {
        (0, 0) => Ok(()),
        (0, opinions) if tally.unanswered == opinions => Err(CommandFailure::failed("no model answered")
            .hint("`opinions` in the output says why; check `url`, `model` and `key_env`")),
        (0, _) => Ok(()),
        (faults, _) => Err(lines::unread(faults)),
    }
}

/// A tool, and the models' pending opinions about it.
struct PendingOpinions {
    tool: ClassifierInput,
    opinions: JoinHandle<Vec<Opinion>>,
}

async fn ask_all(
    panel: &Arc<ModelPanel>,
    tools: Vec<Result<ClassifierInput, String>>,
    options: ClassifierOptions,
    screen: Screen,
) -> Result<OpinionTally, CommandFailure> {
    let waiting = screen.wait(format!("asking about {}", count(tools.len(), "tool")));
    let mut tally = OpinionTally::default();
    let asked: Vec<Result<PendingOpinions, String>> = tools
        .into_iter()
        .map(|tool| {
            let tool = tool?;
            let (panel, descriptor) = (panel.clone(), tool.descriptor.clone());
            let opinions = tokio::spawn(async move { panel.ask(&descriptor, options).await });
            Ok(PendingOpinions { tool, opinions })
        })
        .collect();
    for asked in asked {
        let line = match asked {
            Err(fault) => unread(&fault).to_string(),
            Ok(PendingOpinions { tool, opinions }) => {
                let opinions = opinions.await.map_err(|error| CommandFailure::failed(error.to_string()))?;
                let (line, found) = classified(tool, options);
                tally.add(&opinions, found);
                with_opinions(line, found, &opinions, panel)
                    .map_err(|error| CommandFailure::failed(error.to_string()))?
            }
        };
        match writeln!(io::stdout(), "{}", crate::screen::escaped_json(&line)) {
            // The reader of the output is gone: nothing more is sent.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => break,
            written => written?,
        }
    }
    waiting.finish_and_clear();
    Ok(tally)
}

/// The line of a tool with the models' opinions.
#[derive(Serialize)]
struct ToolWithOpinions<'a> {
    #[serde(flatten)]
    classified: Value,
    opinions: Vec<LabelledOpinion<'a>>,
    agreement: BTreeMap<&'static str, ModelAgreement>,
    /// Models that say that the tool changes something, where the classifier finds that it only reads. An opinion can only add danger: it
    /// never changes the classifier's result.
    more_dangerous: Vec<&'a str>,
}

#[derive(Serialize)]
struct LabelledOpinion<'a> {
    model: &'a str,
    #[serde(flatten)]
    opinion: &'a Opinion,
}

fn with_opinions(
    classified: Value,
    found: OpinionWords,
    opinions: &[Opinion],
    panel: &ModelPanel,
) -> serde_json::Result<String> {
    let opinions_by = || panel.labels().zip(opinions);
    let warns = |opinion: &Opinion| {
        matches!(opinion, Opinion::Given(judged) if judged.mutability == Mutability::Mutates)
            && found.mutability == Mutability::Pure
    };
    serde_json::to_string(&ToolWithOpinions {
        classified,
        opinions: opinions_by().map(|(model, opinion)| LabelledOpinion { model, opinion }).collect(),
        agreement: COMPARED.iter().map(|compared| (*compared, agreement(opinions, compared))).collect(),
        more_dangerous: opinions_by().filter(|(_, opinion)| warns(opinion)).map(|(model, _)| model).collect(),
    })
}

fn summarise(tally: &OpinionTally, screen: Screen) {
    let share = |part: usize, whole: usize| match (part * 200 + whole).checked_div(whole * 2) {
        Some(percent) => format!("{part}/{whole} ({percent}%)"),
        None => "-".to_owned(),
    };
    let mut shown = table(&["", "strict", "majority", "majority as found offline"]);
    for compared in COMPARED {
        let counts = tally.counts(compared);
        shown.add_row([
            compared.to_owned(),
            share(counts.strict, tally.tools),
            share(counts.majority, tally.tools),
            share(counts.offline, counts.majority),
        ]);
    }
    screen.say(table_lines(&shown));
    screen.say(format_args!(
        "{} of {}: {} unparsable, {} unanswered",
        count(tally.opinions, "opinion"),
        count(tally.tools, "tool"),
        share(tally.unparsable, tally.opinions),
        share(tally.unanswered, tally.opinions)
    ));
}
