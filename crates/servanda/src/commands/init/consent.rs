//! Shows the servers that `init` would start on this machine or ask over the network to learn their tools, before it does so. Another
//! person may have written the file, and an address may contain a variable of the environment.

use std::path::Path;

use servanda_config::{LoadedConfig, UpstreamConfig};
use servanda_import::ImportedSecrets;

use crate::{
    commands::server_page::{self, ShownValues},
    failure::CommandFailure,
    screen::{
        Screen,
        consent::{self, ConsentQuestion},
        count, plural, spelled_out,
    },
};

/// The servers that the question is about.
#[derive(Debug, Clone, Copy)]
pub(super) struct InitConsentRequest<'a> {
    pub(super) loaded: &'a LoadedConfig,
    /// Servers that are new to an existing configuration; all servers are new if there is none.
    pub(super) added: Option<&'a [String]>,
    pub(super) from: &'a Path,
    pub(super) held: &'a ImportedSecrets,
}

/// Shows every new server, and asks. Servers that are configured already are not asked about again.
pub(super) async fn agree(asked: InitConsentRequest<'_>, yes: bool, screen: Screen) -> Result<(), CommandFailure> {
    let is_new = |id: &String| asked.added.is_none_or(|added| added.contains(id));
    let new = asked.loaded.config.upstreams.iter().filter(|(id, _)| is_new(id));
    let (started, reached): (Vec<_>, Vec<_>) = new.partition(|(_, config)| config.command.is_some());
    if started.is_empty() && reached.is_empty() {
        return Ok(());
    }
    if !screen.json {
        show_all(&started, &reached, asked, consent::is_asked(yes, screen), screen);
    }
    let commands = (!started.is_empty()).then(|| format!("start {}", count(started.len(), "command")));
    let addresses = (!reached.is_empty()).then(|| format!("ask {}", plural(reached.len(), "address", "addresses")));
    let question = ConsentQuestion {
        asked: format!("{}?", [commands, addresses].into_iter().flatten().collect::<Vec<_>>().join(" and ")),
        nothing: "nothing was started or asked, and nothing was written",
        hint: "read what the file starts and asks, then run `servanda init --yes`",
    };
    consent::agree(question, yes, screen).await
}

/// A server of the configuration.
type NamedUpstreamConfig<'a> = (&'a String, &'a UpstreamConfig);

/// Shows the servers. A person who is asked sees every value of the file, because any of them may be code that a command runs. Output
/// without a question may be kept, so secrets are left out of it, and it says where they can be read.
fn show_all(
    started: &[NamedUpstreamConfig<'_>],
    reached: &[NamedUpstreamConfig<'_>],
    asked: InitConsentRequest<'_>,
    is_asked: bool,
    screen: Screen,
) {
    let from = asked.from.display();
    let values = if is_asked { ShownValues::All } else { ShownValues::ButSecrets };
    let commands = format!("to learn their tools, these commands of {from} are started on this machine:");
    show(&commands, started, (asked.held, values), screen);
    let addresses = format!("to learn their tools, these addresses of {from} are asked:");
    show(&addresses, reached, (asked.held, values), screen);
    if is_asked && !asked.held.is_empty() {
        screen.say(format_args!("every value of {from} is shown, secrets too, because a command may run it as code"));
    }
}

fn show(
    heading: &str,
    servers: &[NamedUpstreamConfig<'_>],
    (held, values): (&ImportedSecrets, ShownValues),
    screen: Screen,
) {
    if servers.is_empty() {
        return;
    }
    screen.say(heading);
    for (id, config) in servers {
        let lines = server_page::lines(config, held, values);
        let (first, others) =
            lines.split_first().map_or((String::new(), lines.as_slice()), |(first, others)| (first.clone(), others));
        screen.say(format_args!("  {}: {first}", spelled_out(id)));
        for line in others {
            screen.say(format_args!("      {line}"));
        }
    }
}
