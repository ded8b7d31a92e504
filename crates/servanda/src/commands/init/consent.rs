//! Shows the servers that `init` would start on this machine or ask over the network to learn their tools, before it does so. Another
//! person may have written the file, and an address may contain a variable of the environment.

use std::path::Path;

use crate::{
    config::{Loaded, UpstreamConfig},
    consent::{self, Question},
    failure::Failure,
    import::Held,
    screen::{Screen, count, plural, spelled_out},
    server_page,
};

/// The servers that the question is about.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) loaded: &'a Loaded,
    /// Servers that are new to an existing configuration; all servers are new if there is none.
    pub(super) added: Option<&'a [String]>,
    pub(super) from: &'a Path,
    pub(super) held: &'a Held,
}

/// Shows every new server, and asks. Servers that are configured already are not asked about again.
pub(super) async fn agree(asked: Asked<'_>, yes: bool, screen: Screen) -> Result<(), Failure> {
    let is_new = |id: &String| asked.added.is_none_or(|added| added.contains(id));
    let new = asked.loaded.config.upstreams.iter().filter(|(id, _)| is_new(id));
    let (started, reached): (Vec<_>, Vec<_>) = new.partition(|(_, config)| config.command.is_some());
    if started.is_empty() && reached.is_empty() {
        return Ok(());
    }
    if !screen.json {
        let from = asked.from.display();
        show(
            &format!("to learn their tools, these commands of {from} are started on this machine:"),
            &started,
            asked,
            screen,
        );
        show(&format!("to learn their tools, these addresses of {from} are asked:"), &reached, asked, screen);
    }
    let commands = (!started.is_empty()).then(|| format!("start {}", count(started.len(), "command")));
    let addresses = (!reached.is_empty()).then(|| format!("ask {}", plural(reached.len(), "address", "addresses")));
    let question = Question {
        asked: format!("{}?", [commands, addresses].into_iter().flatten().collect::<Vec<_>>().join(" and ")),
        nothing: "nothing was started or asked, and nothing was written",
        hint: "read what the file starts and asks, then run `servanda init --yes`",
    };
    consent::agree(question, yes, screen).await
}

fn show(heading: &str, servers: &[(&String, &UpstreamConfig)], asked: Asked<'_>, screen: Screen) {
    if servers.is_empty() {
        return;
    }
    screen.say(heading);
    for (id, config) in servers {
        let lines = server_page::lines(config, asked.held);
        let (first, others) =
            lines.split_first().map_or((String::new(), lines.as_slice()), |(first, others)| (first.clone(), others));
        screen.say(format_args!("  {}: {first}", spelled_out(id)));
        for line in others {
            screen.say(format_args!("      {line}"));
        }
    }
}
