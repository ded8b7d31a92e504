//! What `init` reports: its decisions about tools, what it wrote, and what remains to be done.

use std::path::PathBuf;

use servanda_clients::{ClientFolders, client_of};
use servanda_config::LoadedConfig;
use servanda_contract::tool::SideEffectClass;

use super::{InitDecision, InitUpstreamOutcome, decisions_page};
use crate::{
    commands::{tools, version_control},
    failure::CommandFailure,
    screen::{Screen, TextStyle, count, lines, paint, paint_stderr, table},
};

/// The contents of the report.
#[derive(Debug)]
pub(super) struct InitReport<'a> {
    pub(super) loaded: &'a LoadedConfig,
    /// The client's file, if it still lists the servers directly.
    pub(super) bypass: Option<PathBuf>,
    /// Servers added to an existing configuration; none if a new one was written.
    pub(super) added: Option<Vec<String>>,
    pub(super) kept: usize,
    pub(super) pinned: usize,
    pub(super) notes: &'a [String],
    pub(super) outcomes: &'a [InitUpstreamOutcome],
    pub(super) decisions: &'a [InitDecision],
}

impl InitReport<'_> {
    pub(super) fn show(&self, screen: Screen) -> Result<(), CommandFailure> {
        if screen.json {
            return screen.json(&serde_json::json!({
                "config": self.loaded.file, "upstreams": self.outcomes, "tools": self.decisions, "notes": self.notes,
                "kept": self.kept, "pinned": self.pinned,
            }));
        }
        self.decided(screen)?;
        for note in self.notes {
            screen.say(format_args!("note: {note}"));
        }
        for outcome in self.outcomes {
            if let Some(error) = &outcome.error {
                screen.say(format_args!(
                    "{} `{}` could not be asked: {error}",
                    paint_stderr("upstream", TextStyle::Bad),
                    outcome.upstream
                ));
            }
        }
        if self.kept > 0 {
            screen.say(format_args!("kept {} as *.bak", count(self.kept, "earlier file")));
        }
        // The rest is about a gateway that can be started; if no server answered, the failure says what to do.
        if self.outcomes.iter().any(|outcome| outcome.error.is_none()) {
            self.what_next(screen);
        }
        Ok(())
    }

    fn decided(&self, screen: Screen) -> Result<(), CommandFailure> {
        if self.decisions.is_empty() {
            return Ok(());
        }
        // A program, or a person who searches for one tool, gets all of it; on a terminal it would be too much.
        if screen.is_read_by_a_person() {
            return screen.page(decisions_page::page(self.decisions));
        }
        let mut shown = table(&["tool", "classed as", "because of"]);
        for decision in self.decisions {
            let class = decision.side_effect_class.unwrap_or("LEFT OUT");
            let doubt = if decision.certain || decision.side_effect_class.is_none() { "" } else { " (uncertain)" };
            let class = format!("{}{doubt}", paint(class, tools::style(class)));
            let because = std::iter::once(&decision.why).chain(&decision.notes).map(String::as_str).collect::<Vec<_>>();
            shown.add_row([decision.tool.clone(), class, because.join("; ")]);
        }
        screen.data(lines(&shown))
    }

    fn what_next(&self, screen: Screen) {
        let written = self.decisions.iter().filter(|decision| decision.file.is_some()).count();
        let (file, folder) = (self.loaded.file.display(), self.loaded.contracts_folder());
        let folder = folder.display();
        match &self.added {
            None => screen.say(format_args!("wrote {file} and {} in {folder}", count(written, "contract"))),
            Some(added) if added.is_empty() && written == 0 => {
                screen.say(format_args!("nothing was written: {file} and its contracts have every server and tool"));
            }
            Some(added) if added.is_empty() => {
                let contracts = count(written, "missing contract");
                screen.say(format_args!("wrote {contracts} in {folder}; {file} and the others stay as they are"));
            }
            Some(added) => {
                let (added, contracts) = (added.join("`, `"), count(written, "missing contract"));
                screen.say(format_args!("added `{added}` to {file} and wrote {contracts} in {folder}"));
            }
        }
        if self.pinned > 0 {
            let (definitions, lock) = (count(self.pinned, "definition"), self.loaded.lock_file());
            screen.say(format_args!(
                "pinned {definitions} in {}: a tool that changes is held back until `servanda pin`",
                lock.display()
            ));
        }
        if written > 0 {
            self.tell_approvals(screen);
        }
        if let Some(client) = &self.bypass {
            let around = ClientFolders::from_environment();
            let known = around.as_ref().and_then(|around| client_of(client, around));
            let connect = match known {
                Some((known, scope)) if known.is_usual(scope) => known.name.word(),
                Some((known, scope)) => format!("{} --scope {}", known.name.word(), scope.word()),
                None => format!("--file {}", client.display()),
            };
            screen.say(format_args!(
                "the agent still reaches the servers in {} past the gateway: `servanda connect {connect} --replace` shows how \
                 to put the gateway in their place, and asks",
                client.display()
            ));
        }
        if let Some(said) = version_control::keep_out(&self.loaded.folder) {
            screen.say(said);
        }
        if written > 0 {
            screen.hint("`servanda review` walks through the tools, the grave and the doubtful first; `servanda contract show TOOL` shows one");
        }
        if self.outcomes.iter().any(|outcome| outcome.error.is_some()) {
            screen.hint(
                "`servanda doctor` says what is wrong with the others, `servanda init` then adds their tools; `servanda serve` runs what there is",
            );
        } else {
            screen.hint("`servanda connect` lists your clients and puts the gateway into one; `servanda serve` runs it by itself");
        }
    }

    /// Says how many tools wait for a person, because that surprises people who did not ask for it.
    fn tell_approvals(&self, screen: Screen) {
        let grave = [SideEffectClass::HighRiskExternal.word(), SideEffectClass::CriticalMutation.word()];
        let is_grave =
            |decision: &&InitDecision| decision.side_effect_class.is_some_and(|class| grave.contains(&class));
        let waiting = self.decisions.iter().filter(is_grave).count();
        if waiting == 0 || !self.loaded.config.approvals.by_class {
            let none = if self.added.is_none() { "no tool waits" } else { "none of the new tools waits" };
            screen.say(format_args!("{none} for a person's approval; `servanda review` can hold one back"));
            return;
        }
        let of = if self.added.is_none() { "" } else { "new " };
        screen.say(format_args!(
            "a person approves each call of {}, in the console of `servanda serve`; `approvals` in servanda.yaml changes that",
            count(waiting, &format!("{of}grave tool"))
        ));
    }
}
