//! How grave a change is, by families of verbs and objects. Money, rights, deployed code, deletion and programs are critical.
//! Messages to the outside, shared histories and power switches are visible outside. Marks are minor. Anything that ends with a
//! session is temporary. This module does not decide whether there is a change at all.

mod nouns;
mod outside;
#[cfg(test)]
mod tests;

use servanda_contract::tool::Action;

use super::{
    action::ActionJudgement,
    caution::{Caution, CautionRule},
    lexicon::{self, Verb, VerbClass},
    reading::{DescriptorReading, SentenceReading, singular},
    words,
};

/// How grave a change is, least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gravity {
    /// It changes its own temporary state.
    Temporary,
    /// It changes something small.
    Minor,
    /// It changes what people work with.
    Ordinary,
    /// Its change is visible outside, or others depend on it.
    Outside,
    /// It moves money, rights or code, deletes, or runs a given program.
    Critical,
}

/// How many sentences are searched for the one that says what a tool does.
const SENTENCES_MAX: usize = 4;
/// How many words after a verb count as its object.
const OBJECT_WORDS_MAX: usize = 12;

/// How grave a change by this tool is, and the reason if one family of words decided.
pub(super) fn assess(
    reading: &DescriptorReading,
    action_judgement: &ActionJudgement,
    cautions: &[Caution],
) -> (Gravity, Option<String>) {
    let about = ChangeDescription::new(reading, action_judgement);
    let found = [
        (Gravity::Critical, about.program(cautions)),
        (Gravity::Critical, about.any_request()),
        (Gravity::Temporary, about.own_session(cautions)),
        (Gravity::Critical, about.money()),
        (Gravity::Critical, about.rights()),
        (Gravity::Critical, about.deploys()),
        (Gravity::Critical, about.restores()),
    ];
    let decided = found.into_iter().find_map(|(gravity, why)| why.map(|why| (gravity, Some(why))));
    let (gravity, why) = decided.or_else(|| about.deletes(action_judgement)).unwrap_or_else(|| about.lesser(cautions));
    about.choices().filter(|(chosen, _)| *chosen > gravity).unwrap_or((gravity, why))
}

/// Whether the tool does nothing beside running the program in its argument: it runs the program, and no other family of words
/// applies.
pub(super) fn acts_only_through_program(
    reading: &DescriptorReading,
    action_judgement: &ActionJudgement,
    cautions: &[Caution],
) -> bool {
    let about = ChangeDescription::new(reading, action_judgement);
    let runs = about.verb(nouns::RUNS).or_else(|| about.verb("query write read")).is_some();
    let more = about.money().or_else(|| about.rights()).or_else(|| about.deploys()).is_some();
    runs && !more && about.program(cautions).is_some() && about.verb(nouns::OUTSIDE).is_none()
}

/// What is done, and to what.
struct ChangeDescription<'a> {
    reading: &'a DescriptorReading,
    verbs: Vec<Verb>,
    /// The words of the name, and of the object of the sentence's verb.
    object: Vec<String>,
    name: Vec<String>,
    /// The words of name, title, first sentences and arguments.
    all: Vec<String>,
}

impl<'a> ChangeDescription<'a> {
    fn new(reading: &'a DescriptorReading, action_judgement: &ActionJudgement) -> Self {
        let nothing = SentenceReading::default();
        let mut first = reading.sentences.iter().take(SENTENCES_MAX);
        let main = first.find(|sentence| sentence.verb.is_some()).or(reading.sentences.first()).unwrap_or(&nothing);
        let named = action_judgement.verb.and_then(|(_, infinitive)| lexicon::verb(infinitive));
        // `API-post-page`, "Create a page": the name says how the request is sent, the sentence says what is done.
        let method = |verb: &Verb| matches!(verb.infinitive, "post" | "put" | "patch");
        let named = named.filter(|verb| !(method(verb) && main.verb.is_some()));
        let verbs = named.into_iter().chain(main.verb).chain(main.also.iter().copied()).collect();
        let plain = |words: &[String]| -> Vec<String> {
            let parts = words.iter().flat_map(|word| word.split(['-', '_', '\'']));
            parts.map(|word| singular(word).to_owned()).filter(|word| !word.is_empty()).collect()
        };
        let name = reading.name.as_ref().map(|name| plain(&name.words)).unwrap_or_default();
        let thing = name.iter().cloned().chain(plain(object(main))).collect();
        let told = reading.sentences.iter().take(2).chain(&reading.title).flat_map(|sentence| plain(&sentence.words));
        let taken = reading.parameters.iter().flat_map(|parameter| plain(&parameter.words));
        let all = name.iter().cloned().chain(told).chain(taken).collect();
        Self { reading, verbs, object: thing, name, all }
    }

    fn verb(&self, list: &str) -> Option<&'static str> {
        self.verbs.iter().map(|verb| verb.infinitive).find(|verb| words::is_listed(list, verb))
    }

    fn thing(&self, list: &str) -> Option<&str> {
        self.object.iter().map(String::as_str).find(|word| words::is_listed(list, word))
    }

    fn in_name(&self, list: &str) -> Option<&str> {
        self.name.iter().map(String::as_str).find(|word| words::is_listed(list, word))
    }

    fn speaks_of(&self, list: &str) -> bool {
        self.all.iter().any(|word| words::is_listed(list, word))
    }

    /// Whether two words are adjacent where the object is named.
    fn pair(&self, first: &str, second: &str) -> bool {
        let mut pairs = self.object.iter().zip(self.object.iter().skip(1));
        pairs.any(|(one, other)| words::is_listed(first, one) && words::is_listed(second, other))
    }

    fn program(&self, cautions: &[Caution]) -> Option<String> {
        let runs = self.verb(nouns::RUNS);
        let caution = cautions.iter().find(|caution| caution.rule == CautionRule::Program);
        // A script that may accompany a move of the view is not the tool's purpose.
        let given = caution.filter(|caution| {
            let mut parameters = self.reading.parameters.iter();
            let required = parameters.any(|parameter| parameter.required && parameter.name == caution.word);
            runs.is_some() || required || self.verb(nouns::MOVES).is_none()
        });
        if let Some(caution) = given {
            return Some(format!("its `{}` argument is a program, and what the program does is unknown", caution.word));
        }
        if let Some(verb) = runs.filter(|_| self.object.len() <= 1) {
            return Some(format!("`{verb}` runs what it is given"));
        }
        let reads = self.reading.says("read-only") || self.reading.says("only select");
        let code = self.thing(nouns::CODE).filter(|_| !reads);
        runs.zip(code).map(|(verb, thing)| format!("it can {verb} any {thing}"))
    }

    fn any_request(&self) -> Option<String> {
        let methods = |values: &[String]| {
            values.iter().any(|value| matches!(value.to_uppercase().as_str(), "DELETE" | "PUT" | "POST"))
        };
        let mut parameters = self.reading.parameters.iter().filter(|parameter| !parameter.nested);
        let method = parameters.any(|parameter| {
            parameter.words.last().is_some_and(|word| word == "method")
                && (parameter.values.is_empty() || methods(&parameter.values))
        });
        let to = |word: &str| matches!(word, "path" | "url" | "endpoint" | "uri");
        let anywhere = self.reading.parameters.iter().any(|parameter| parameter.words.iter().any(|word| to(word)));
        if method && anywhere {
            return Some("its `method` argument chooses any request".to_owned());
        }
        let changing = self.verbs.iter().any(|verb| verb.class == VerbClass::Run || verb.class == VerbClass::Send)
            || self.verb("make perform request manage provide").is_some();
        let any = self.thing(nouns::ANY).zip(self.thing(nouns::ANYTHING)).filter(|_| changing);
        // A tool that manages everything of a kind also deletes it, if it says so.
        let manages = || self.verb("manage").is_some() && self.speaks_of("delete destroy drop crud");
        any.map(|(any, thing)| format!("it takes {any} {thing}s"))
            .or_else(|| manages().then(|| "what it manages it also deletes".to_owned()))
    }

    /// State that ends with a session, a browser or a practice machine.
    fn own_session(&self, cautions: &[Caution]) -> Option<String> {
        let rights = self.thing(nouns::RIGHTS).is_some();
        if let Some(verb) = self.verb(nouns::CONNECTS).filter(|_| !rights || self.verb("login logout").is_some()) {
            return Some(format!("`{verb}` is about a session"));
        }
        let browser = self.speaks_of(nouns::BROWSERS);
        if let Some(verb) = self.verb(nouns::MOVES).filter(|_| browser) {
            return Some(format!("`{verb}` moves a view"));
        }
        let of_browser = self.name.iter().find(|word| words::is_listed(nouns::OF_BROWSERS, word)).filter(|_| browser);
        if let Some(state) = of_browser.filter(|state| state.as_str() != "dialog") {
            return Some(format!("`{state}` is state of a browser"));
        }
        let chosen = self.pair("active current default", nouns::CHOSEN) && self.pair("active current", nouns::CHOSEN)
            || self.thing(nouns::FOR_A_WHILE).is_some();
        if let Some(verb) = self.verb(nouns::CHOOSES).filter(|_| chosen) {
            return Some(format!("`{verb}` chooses what later calls are about"));
        }
        let begun = self.verb("start begin stop end").is_some().then(|| self.thing(nouns::WATCHED)).flatten();
        if let Some(work) = begun.filter(|_| !self.speaks_of(nouns::ABOUT_MONEY)) {
            return Some(format!("`{work}` is gone when it ends"));
        }
        let practice = self
            .thing(nouns::PRACTICE)
            .filter(|_| !cautions.iter().any(|caution| caution.rule == CautionRule::Program));
        practice.map(|machine| format!("`{machine}` is a machine to try things on"))
    }

    fn money(&self) -> Option<String> {
        let near = self.thing(nouns::NEAR_MONEY).is_some();
        if let Some(verb) = self.verb(nouns::PAYS) {
            return Some(format!("`{verb}` moves money"));
        }
        let about = self.speaks_of(nouns::ABOUT_MONEY);
        let noun = self.name.iter().map(String::as_str);
        let sure = noun.clone().find(|word| words::is_listed(nouns::MONEY, word)).filter(|_| !near);
        let perhaps = noun.clone().find(|word| words::is_listed(nouns::PERHAPS_MONEY, word)).filter(|_| about && !near);
        let careless = self.verb("preview simulate validate tag label note comment archive").is_some();
        let plain_update = self.verb("update").is_some() && self.thing("order").is_some();
        let traded = self
            .verb("place cancel replace exercise close modify")
            .and(noun.clone().find(|word| words::is_listed("order position", word)));
        let lived = self
            .verb("cancel pause resume activate renew upgrade downgrade update")
            .and(noun.clone().find(|word| *word == "subscription"));
        let lived = lived.filter(|_| !self.speaks_of("topic queue notification event webhook stream watch"));
        sure.or(perhaps)
            .or(traded)
            .or(lived)
            .filter(|_| !careless && !plain_update)
            .map(|noun| format!("`{noun}` is about money"))
    }

    fn rights(&self) -> Option<String> {
        if let Some(verb) = self.verb(nouns::GRANTS) {
            return Some(format!("`{verb}` changes who may do what"));
        }
        if let Some(noun) = self.thing(nouns::RIGHTS) {
            return Some(format!("`{noun}` says who may do what"));
        }
        // At the beginning of a name it only names the part of the server.
        if self.name.iter().skip(1).any(|word| word == "admin") {
            return Some("`admin` says who may do what".to_owned());
        }
        let listed = |words: &[String]| {
            words.windows(2).any(|pair| matches!(pair, [one, other] if one == "access" && other == "control"))
        };
        if self.reading.parameters.iter().any(|parameter| listed(&parameter.words)) {
            return Some("an argument names who has access".to_owned());
        }
        if self.pair("security", "group rule list setting policy posture") {
            return Some("it changes what is guarded".to_owned());
        }
        if self.pair(nouns::OPENS, "key") || self.pair("access", "list control key policy rule level right request") {
            return Some("it changes what opens something".to_owned());
        }
        if self.thing("policy").is_some() && self.speaks_of(nouns::RIGHTS_POLICY) {
            return Some("`policy` says who may do what".to_owned());
        }
        let off = self.verb("disable deactivate pause stop activate enable toggle").zip(self.thing(nouns::GUARDS));
        if let Some((verb, guard)) = off {
            return Some(format!("`{verb}` with `{guard}` changes what is guarded"));
        }
        let people = self.name.iter().find(|word| words::is_listed(nouns::PEOPLE, word));
        let group = || {
            self.name.iter().find(|word| *word == "group").filter(|_| self.speaks_of("user iam permission directory"))
        };
        let work = self.name.iter().chain(&self.object).any(|word| words::is_listed(nouns::WORK, word));
        let admitted = people.or_else(group).filter(|_| !work).zip(self.verb(nouns::ADMITS));
        admitted.map(|(who, verb)| format!("`{verb}` with `{who}` changes who may do what"))
    }

    fn deploys(&self) -> Option<String> {
        let in_name = self.name.iter().map(String::as_str).find(|word| words::is_listed(nouns::DEPLOYS, word));
        if let Some(verb) = self.verb(nouns::DEPLOYS).or(in_name) {
            return Some(format!("`{verb}` changes what runs"));
        }
        let applied = self.verb("apply install uninstall upgrade manage merge execute activate").is_some();
        let thing = self.thing(nouns::DEPLOYED).filter(|_| applied);
        let made = || self.thing(nouns::DEPLOYMENTS).filter(|_| self.verb("create complete finalize start").is_some());
        let merged = || (self.verb("merge").is_some() && self.speaks_of("production")).then_some("production");
        let live = || (self.verb("activate").is_some()).then(|| self.thing("configuration config")).flatten();
        let desired =
            || (self.verb("create update patch replace").is_some() && self.speaks_of("manifest")).then_some("manifest");
        thing
            .or_else(made)
            .or_else(desired)
            .or_else(merged)
            .or_else(live)
            .map(|thing| format!("`{thing}` changes what runs"))
    }

    fn restores(&self) -> Option<String> {
        let anew = self.verb("create").is_some();
        let kept = self.thing("database backup snapshot instance cluster volume vm table site zone");
        let rebuilt = self.verb("rebuild recreate reinstall reimage").zip(self.thing(nouns::RENTED));
        let rebuilt = rebuilt.map(|(verb, machine)| format!("`{verb}` replaces a whole {machine}"));
        let restored = self.verb("restore").filter(|_| !anew).and(kept);
        rebuilt.or_else(|| restored.map(|kept| format!("`restore` replaces a whole {kept}")))
    }

    fn deletes(&self, action_judgement: &ActionJudgement) -> Option<(Gravity, Option<String>)> {
        let verb = self.verbs.iter().find(|verb| verb.class == VerbClass::Delete);
        if verb.is_none() && action_judgement.action != Action::Delete {
            return None;
        }
        let word = verb.map_or("delete", |verb| verb.infinitive);
        let gravity = if words::is_listed(nouns::TAKES_BACK, word) {
            Gravity::Minor
        } else if self.thing("cache").is_some() && words::is_listed("invalidate clear", word) {
            Gravity::Ordinary
        } else if self.thing("reaction star like favorite bookmark").is_some() {
            Gravity::Minor
        } else if word == "remove" && self.name.iter().any(|word| word == "from") {
            Gravity::Ordinary
        } else if words::is_listed(nouns::ENDS, word)
            || self.name.iter().any(|word| words::is_listed(nouns::LIGHT, word))
        {
            Gravity::Outside
        } else {
            Gravity::Critical
        };
        Some((gravity, None))
    }

    fn lesser(&self, cautions: &[Caution]) -> (Gravity, Option<String>) {
        if let Some(verb) = self.verb(nouns::INPUTS).filter(|_| self.speaks_of(nouns::BROWSERS)) {
            return (Gravity::Ordinary, Some(format!("`{verb}` gives input to a page")));
        }
        if let Some(why) = self.outside() {
            return (Gravity::Outside, Some(why));
        }
        // Of several verbs the first one is the tool's purpose.
        let first = self.verbs.first().map(|verb| verb.infinitive);
        let marked = first.filter(|verb| words::is_listed(nouns::MARKS, verb)).or_else(|| {
            let made = self.verb("create add update edit set modify write get new").is_some();
            self.name
                .last()
                .filter(|_| made)
                .filter(|word| words::is_listed(nouns::MARKS_MADE, word))
                .map(String::as_str)
        });
        let read = (self.verb("mark").is_some() && self.speaks_of("read unread done seen")).then_some("mark");
        if let Some(verb) = marked.or(read) {
            return (Gravity::Minor, Some(format!("`{verb}` is a small change")));
        }
        let changes =
            |caution: &Caution| caution.rule != CautionRule::Destination && caution.rule != CautionRule::Silent;
        let only_file =
            !cautions.iter().any(changes) && cautions.iter().any(|caution| caution.rule == CautionRule::Destination);
        let of_machine = self.thing(nouns::RENTED).is_some() || self.thing("database volume").is_some();
        if let Some(verb) = self.verb(nouns::LEAVES_A_FILE).filter(|_| !of_machine).or(only_file.then_some("save")) {
            return (Gravity::Temporary, Some(format!("`{verb}` leaves a file")));
        }
        (Gravity::Ordinary, None)
    }

    /// The gravest of the actions that an argument chooses among.
    fn choices(&self) -> Option<(Gravity, Option<String>)> {
        let weigh = |value: &String| {
            let verb = words::split_identifier(value).first().and_then(|word| lexicon::verb_of_name(word))?;
            let is = |list: &str| words::is_listed(list, verb.infinitive);
            if verb.class == VerbClass::Delete && !is(nouns::TAKES_BACK) {
                let light = self.name.iter().any(|word| words::is_listed(nouns::LIGHT, word));
                return Some(if light || is(nouns::ENDS) { Gravity::Outside } else { Gravity::Critical });
            }
            if is(nouns::DEPLOYS) || is(nouns::GRANTS) || is(nouns::PAYS) && self.speaks_of(nouns::ABOUT_MONEY) {
                return Some(Gravity::Critical);
            }
            let switches =
                is(nouns::SWITCHES) || is("start stop pause resume suspend") && self.thing(nouns::MACHINES).is_some();
            switches.then_some(Gravity::Outside)
        };
        let chooses = |parameter: &&super::schema::Parameter| {
            !parameter.nested
                && parameter.words.last().is_some_and(|last| super::caution::CHOICES.contains(&last.as_str()))
        };
        let found = self.reading.parameters.iter().filter(chooses).find_map(|parameter| {
            let gravest = parameter.values.iter().filter_map(weigh).max()?;
            Some((gravest, parameter.name.as_str()))
        });
        found.map(|(gravity, name)| (gravity, Some(format!("its `{name}` argument chooses among actions"))))
    }
}

/// The object of a sentence's verb: the words after it, up to one that leads elsewhere.
fn object(sentence: &SentenceReading) -> &[String] {
    let Some((lead, _)) = &sentence.lead else { return &[] };
    let from = if sentence.verb.is_some() { lead + 1 } else { *lead };
    let rest = sentence.words.get(from..).unwrap_or_default();
    let leads_elsewhere = |word: &String| {
        matches!(
            word.as_str(),
            "to" | "for"
                | "from"
                | "in"
                | "on"
                | "with"
                | "by"
                | "that"
                | "which"
                | "using"
                | "via"
                | "("
                | "so"
                | "when"
                | "into"
        )
    };
    let end = rest.iter().position(leads_elsewhere).unwrap_or(rest.len()).min(OBJECT_WORDS_MAX);
    rest.get(..end).unwrap_or_default()
}
