//! Changes that are visible outside, or that others depend on: switches, messages, records that users see, shared histories,
//! work that runs elsewhere. This module gives the reason; its caller gives the gravity.

use super::{ChangeDescription, nouns};
use crate::classifier::{lexicon::VerbClass, words};

/// Verbs that change something in place.
const EDITS: &str = "update modify edit set change configure patch";

impl ChangeDescription<'_> {
    /// Why a change has effects beyond the place where it is made.
    pub(super) fn outside(&self) -> Option<String> {
        self.switches()
            .or_else(|| self.reaches())
            .or_else(|| self.touches_what_is_seen())
            .or_else(|| self.touches_what_runs())
            .or_else(|| self.enters_history())
            .or_else(|| self.is_warned_of())
    }

    fn switches(&self) -> Option<String> {
        if let Some(verb) = self.verb(nouns::SWITCHES) {
            return Some(format!("`{verb}` switches something that others depend on"));
        }
        let machine = self.verb(nouns::PERHAPS_SWITCHES).zip(self.thing(nouns::MACHINES));
        machine.map(|(verb, machine)| format!("`{verb}` with `{machine}` switches something that others depend on"))
    }

    fn is_draft(&self) -> bool {
        self.in_name("draft compose").is_some()
    }

    fn reaches(&self) -> Option<String> {
        // "Send a card to the archive": the name says what is changed, the sentence only how.
        let changes = |verb: &&crate::classifier::lexicon::Verb| {
            verb.class == VerbClass::Update && !words::is_listed(nouns::OUTSIDE, verb.infinitive)
        };
        let named = self.verbs.first().filter(changes);
        let verb = self.verb(nouns::OUTSIDE).filter(|_| !self.is_draft() && named.is_none())?;
        Some(format!("`{verb}` reaches outside"))
    }

    fn touches_what_is_seen(&self) -> Option<String> {
        let changed = self.verbs.iter().find(|verb| verb.class.changes()).map(|verb| verb.infinitive);
        let letter = self.verb("create add make update register enable").zip(self.thing(nouns::LETTERS));
        let letter = letter.filter(|_| !self.is_draft());
        let record = || self.verb(EDITS).zip(self.in_name(nouns::SEEN));
        let paper = || changed.zip(self.thing(nouns::PAPERS)).filter(|_| !self.is_draft());
        let physical = || changed.zip(self.thing(nouns::PHYSICAL));
        let (verb, thing) = letter.or_else(record).or_else(paper).or_else(physical)?;
        let with = if verb == thing { String::new() } else { format!(" with `{thing}`") };
        Some(format!("`{verb}`{with} is seen outside"))
    }

    fn touches_what_runs(&self) -> Option<String> {
        let rented =
            self.verb("create launch provision update modify configure patch resize").zip(self.in_name(nouns::RENTED));
        let setting = || self.verb("set save put update write").zip(self.thing(nouns::SETTINGS));
        let flag = || self.verb(EDITS).or(self.verb("toggle enable disable create")).zip(self.thing("flag"));
        let flag = || flag().filter(|_| self.pair("feature", "flag"));
        let begun = || self.verb("create").zip(self.in_name("run build execution"));
        let imported = || self.verb("import load").zip(self.in_name("database dump backup"));
        let starts = "run execute trigger invoke start rerun retry test call perform build";
        let work = || self.verb(starts).zip(self.thing(nouns::WORKLOADS));
        let found = rented.or_else(setting).or_else(flag).or_else(begun).or_else(imported).or_else(work);
        found.map(|(verb, thing)| format!("`{verb}` with `{thing}` changes what runs elsewhere"))
    }

    fn enters_history(&self) -> Option<String> {
        if let Some((verb, thing)) = self.verb("merge push").zip(self.thing(nouns::HISTORIES)) {
            return Some(format!("`{verb}` with `{thing}` enters a history that others share"));
        }
        let takes = |word: &str| {
            let mut parameters = self.reading.parameters.iter();
            parameters.any(|parameter| parameter.words.iter().any(|one| one == word))
        };
        let commits = takes("branch") && takes("message") && takes("content");
        let writes = self.verb(EDITS).or(self.verb("create add make manage write")).filter(|_| commits);
        writes.map(|_| "it commits to a history that others share".to_owned())
    }

    fn is_warned_of(&self) -> Option<String> {
        let changes = self.verb(EDITS).or(self.verb("create add make manage"));
        if self.speaks_of(nouns::LOGS_IN) && changes.is_some() {
            return Some("it changes what people log in with".to_owned());
        }
        let uploads = self.verb("upload").filter(|_| self.speaks_of("browser"));
        let reset = self.verb("reset").filter(|_| !self.speaks_of("unstage unstages"));
        if let Some(verb) = uploads.or(reset) {
            return Some(format!("`{verb}` is seen outside"));
        }
        let warned = self.reading.says("careful") || self.speaks_of("unsafe dangerously");
        warned.then(|| "its description warns of it".to_owned())
    }
}
