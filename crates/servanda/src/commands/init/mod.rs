//! `servanda init`: finds the servers a client uses, asks each for its tools, and writes a contract for every one of them,
//! with what it decided and why.

use std::path::{Path, PathBuf};

use serde::Serialize;
use servanda_catalog::inference::{Inferred, infer};
use servanda_contract::{ToolContract, document};
use servanda_engine::{Discovered, discover};
use servanda_gates::{Registered, admit};
use servanda_upstream::UpstreamError;

use crate::{
    cli::InitArgs,
    config::{Config, Loaded},
    contracts,
    failure::Failure,
    import::{self, Imported},
    screen::{Mood, Screen, lines, paint, paint_stderr, table},
    wiring,
};

/// Where clients keep their servers when nobody says otherwise.
const CLIENT_FILE: &str = ".mcp.json";

/// What was decided about one tool.
#[derive(Debug, Serialize)]
struct Decision {
    tool: String,
    file: Option<PathBuf>,
    side_effect_class: Option<&'static str>,
    certain: bool,
    why: String,
    notes: Vec<String>,
}

/// What became of one upstream.
#[derive(Debug, Serialize)]
struct Outcome {
    upstream: String,
    error: Option<String>,
    tools: usize,
}

pub(crate) async fn run(config: &Path, args: &InitArgs, screen: Screen) -> Result<(), Failure> {
    let from = args.from.clone().unwrap_or_else(|| PathBuf::from(CLIENT_FILE));
    let Imported { upstreams, mut notes } = import::read(&from)?;
    if config.exists() && !args.force {
        return Err(Failure::bad_input(format!("`{}` is already there", config.display()))
            .hint("`servanda check` looks at it; `servanda init --force` writes it and its contracts anew"));
    }
    let folder = config.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let loaded = Loaded { config: Config::new(upstreams), folder: folder.to_owned(), file: config.to_owned() };
    let asked = ask_all(&loaded, screen)
        .await
        .map_err(|failure| failure.hint(format!("nothing was written; set it, or correct `{}`", from.display())))?;
    write_config(&loaded)?;
    std::fs::create_dir_all(loaded.contracts_folder())?;
    let mut decisions = Vec::new();
    let mut outcomes = Vec::new();
    for (upstream, offered) in asked {
        let (error, tools) = match offered {
            Ok(discovered) => {
                let before = decisions.len();
                write_contracts(&loaded, &upstream, &discovered, &mut decisions)?;
                (None, decisions.len() - before)
            }
            Err(error) => (Some(error.to_string()), 0),
        };
        outcomes.push(Outcome { upstream, error, tools });
    }
    // Contracts of an earlier time stay, because a person may have worked on them; those that stop the gateway are named.
    let (_, problems) = contracts::judge_all(&loaded)?;
    notes.extend(
        problems
            .iter()
            .map(|problem| format!("left from before and not admitted: {}", problem.to_string().trim_start())),
    );
    report(&loaded, &notes, &outcomes, &decisions, screen)?;
    if outcomes.iter().all(|outcome| outcome.error.is_some()) {
        return Err(Failure::failed(
            "no server could be asked for its tools; the configuration was written without contracts",
        )
        .hint("`servanda doctor` says what is wrong with each; then `servanda init --force`"));
    }
    Ok(())
}

type Asked = Vec<(String, Result<Discovered, UpstreamError>)>;

async fn ask_all(loaded: &Loaded, screen: Screen) -> Result<Asked, Failure> {
    let upstreams = wiring::upstreams(loaded)?;
    let names = upstreams.keys().cloned().collect::<Vec<_>>().join(", ");
    let waiting = screen.wait(format!("starting {names} and asking for their tools"));
    let mut asking = tokio::task::JoinSet::new();
    for (id, upstream) in upstreams {
        asking.spawn(async move {
            let offered = discover(&upstream).await;
            upstream.shutdown().await;
            (id, offered)
        });
    }
    let mut asked = asking.join_all().await;
    asked.sort_by(|(one, _), (other, _)| one.cmp(other));
    waiting.finish_and_clear();
    Ok(asked)
}

fn write_config(loaded: &Loaded) -> Result<(), Failure> {
    let text = document::write(&loaded.config).map_err(|error| Failure::failed(error.to_string()))?;
    let head =
        "# Servanda's configuration. `servanda check` reads it, `servanda schema config` says what may stand here.\n";
    std::fs::write(&loaded.file, format!("{head}{text}"))
        .map_err(|error| Failure::failed(format!("cannot write `{}`: {error}", loaded.file.display())))
}

fn write_contracts(
    loaded: &Loaded,
    upstream: &str,
    discovered: &Discovered,
    decisions: &mut Vec<Decision>,
) -> Result<(), Failure> {
    let folder = loaded.contracts_folder().join(upstream);
    std::fs::create_dir_all(&folder)?;
    for rejected in &discovered.rejected {
        decisions.push(left_out(format!("{upstream} (definition {})", rejected.position), rejected.reason.clone()));
    }
    for descriptor in &discovered.tools {
        let Inferred { contract, reading, notes } = infer(upstream, descriptor);
        let tool = loaded.config.naming().expose(upstream, &descriptor.name);
        if let Err(rejection) = admit(contract.clone(), &Registered::new()) {
            decisions.push(left_out(tool, rejection.to_string()));
            continue;
        }
        let file = folder.join(format!("{}.yaml", file_stem(&descriptor.name)));
        write_contract(&file, &contract, &reading.why)?;
        decisions.push(Decision {
            tool,
            file: Some(file),
            side_effect_class: Some(contract.transactional.side_effect_class.word()),
            certain: reading.certain,
            why: reading.why,
            notes,
        });
    }
    Ok(())
}

fn left_out(tool: String, why: String) -> Decision {
    Decision { tool, file: None, side_effect_class: None, certain: false, why, notes: Vec::new() }
}

fn write_contract(file: &Path, contract: &ToolContract, why: &str) -> Result<(), Failure> {
    let text = document::write(contract).map_err(|error| Failure::failed(error.to_string()))?;
    let why: String = why.chars().map(|character| if character.is_control() { ' ' } else { character }).collect();
    let head = format!(
        "# Inferred by `servanda init`: {} ({why}).\n# It is a proposal. Correct what is wrong; `servanda check` judges it.\n",
        contract.transactional.side_effect_class.word()
    );
    std::fs::write(file, format!("{head}{text}"))
        .map_err(|error| Failure::failed(format!("cannot write `{}`: {error}", file.display())))
}

/// A file name for a tool: its own name where that is one, and never a way out of the folder.
fn file_stem(tool: &str) -> String {
    let plain = !tool.is_empty()
        && tool.len() <= 100
        && !tool.starts_with('.')
        && tool.chars().all(|character| character.is_ascii_alphanumeric() || "_-.".contains(character));
    if plain { tool.to_owned() } else { servanda_catalog::names::Naming::Bare.expose("", tool) }
}

fn report(
    loaded: &Loaded,
    notes: &[String],
    outcomes: &[Outcome],
    decisions: &[Decision],
    screen: Screen,
) -> Result<(), Failure> {
    if screen.json {
        return screen.json(&serde_json::json!({
            "config": loaded.file, "upstreams": outcomes, "tools": decisions, "notes": notes
        }));
    }
    if !decisions.is_empty() {
        let mut shown = table(&["tool", "classed as", "because of"]);
        for decision in decisions {
            let class = decision.side_effect_class.unwrap_or("LEFT OUT");
            let doubt = if decision.certain || decision.side_effect_class.is_none() { "" } else { " (uncertain)" };
            let class = format!("{}{doubt}", paint(class, super::tools::mood(class)));
            let because = std::iter::once(&decision.why).chain(&decision.notes).map(String::as_str).collect::<Vec<_>>();
            shown.add_row([decision.tool.clone(), class, because.join("; ")]);
        }
        screen.data(lines(&shown))?;
    }
    for note in notes {
        screen.say(format_args!("note: {note}"));
    }
    for outcome in outcomes {
        if let Some(error) = &outcome.error {
            screen.say(format_args!(
                "{} `{}` could not be asked: {error}",
                paint_stderr("upstream", Mood::Bad),
                outcome.upstream
            ));
        }
    }
    let written = decisions.iter().filter(|decision| decision.file.is_some()).count();
    let contracts = loaded.contracts_folder();
    screen.say(format_args!("wrote {} and {written} contracts in {}", loaded.file.display(), contracts.display()));
    screen.say("no tool waits for a person's approval: set transactional.confirmation_required: true to hold one back");
    screen.hint("servanda serve, then point your agent at the address it prints");
    Ok(())
}
