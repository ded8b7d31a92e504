//! The conversation of one request as a state machine that emits actions: which questions the client is asked, and when the request is
//! over.
//!
//! There are four cases. A legacy server asks while the request runs, a modern one with its answer; a legacy client is asked while its
//! request runs, a modern one with the answer that it gets. If both sides are of the same era, a question is passed on; if not, this
//! machine keeps what the other side cannot. It does no I/O and knows no time: `conversation` brings events and performs actions.

use serde_json::value::RawValue;
use servanda_mcp::{ClientCapabilities, Era, RawObject, envelope::to_json};
use servanda_upstream::{Continuation, QuestionReply};

use crate::questions::{ClientQuestion, MissingInput, QUESTIONS_MAX, input_requests};

/// How often a request is made again for a legacy client, which does not see the rounds.
pub(crate) const ROUNDS_MAX: u32 = 16;

/// The client that may be asked questions.
#[derive(Debug, Clone)]
pub(crate) struct QuestionTarget {
    pub(crate) era: Era,
    pub(crate) capabilities: ClientCapabilities,
    /// Whether there is a way to ask: somewhere to send questions (legacy), or a place to wait for answers (modern).
    pub(crate) can_be_asked: bool,
}

impl QuestionTarget {
    /// A legacy client is asked on the stream of its request. A modern client comes back with answers to its parked request.
    pub(crate) fn new(era: Era, capabilities: ClientCapabilities, has_stream: bool, is_parked: bool) -> Self {
        let can_be_asked = match era {
            Era::Legacy => has_stream,
            Era::Modern => is_parked,
        };
        Self { era, capabilities, can_be_asked }
    }
}

/// The state of a conversation.
#[derive(Debug)]
pub(crate) struct ConversationState {
    question_target: QuestionTarget,
    /// How often the request was made again.
    rounds: u32,
    /// Questions of a legacy server so far; the next gets the next number.
    numbered: u32,
    /// Questions that the modern client has not answered, in order.
    open: Vec<(String, ClientQuestion)>,
    /// Whether the machine waits for more questions before it tells the client of the first.
    gathering: bool,
    /// Whether the client waits for what happens next. A modern client that was told a question does not.
    attended: bool,
    /// Whether the client stayed away for too long.
    lapsed: bool,
    /// What a legacy client is being asked for a modern server.
    asked: Vec<PendingInput>,
    /// What the modern server wants back.
    state: Option<String>,
}

/// One thing a legacy client is being asked, and its answer once it is there.
#[derive(Debug)]
struct PendingInput {
    key: String,
    method: String,
    answer: Option<Box<RawValue>>,
}

/// Something that happens.
#[derive(Debug)]
pub(crate) enum ConversationEvent {
    /// A legacy server asks something on the way.
    Asked(ClientQuestion),
    /// The short time is over in which questions arrive that belong together.
    Gathered,
    /// There is no place left to park a request.
    NoRoom,
    /// The modern client comes back, with answers by key.
    ClientReturned(Vec<(String, Box<RawValue>)>),
    /// The client did not come back or answer in time.
    Lapsed,
    /// The server's answer is its last one.
    Concluded,
    /// The server's answer asks for input.
    WantsInput { requests: Vec<(String, ClientQuestion)>, state: Option<String> },
    /// The legacy client answered what it was asked.
    Replied { key: String, reply: QuestionReply },
}

/// Something to do, in order.
#[derive(Debug)]
pub(crate) enum ConversationAction {
    /// Passes the current question on to the legacy client.
    PassOn(ClientQuestion),
    /// Keeps the current question under a key.
    Keep(String),
    /// Declines the current question.
    Refuse,
    /// Waits a short moment for more questions.
    Gather,
    /// Tells the waiting client which questions are open, as `inputRequests`, and lets it go.
    Tell { input_requests: String },
    /// Tells a client that comes back that another request still waits.
    TurnAway,
    /// Gives the server the client's answer.
    Give { key: String, answer: Box<RawValue> },
    /// Declines a kept question.
    Decline(String),
    /// Asks the legacy client.
    Ask { key: String, asking: ClientQuestion },
    /// Makes the request again.
    SendAgain(Continuation),
    /// The request is over.
    End(ConversationOutcome),
}

/// How a request is over.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ConversationOutcome {
    /// With the server's answer, whatever it says.
    Answer,
    /// With the server's questions, for a modern client.
    Input,
    /// The server asks for something that the modern client never declared. Holds what the client would have to declare, as JSON.
    Undeclared(String),
    /// The server did not get what it asked for.
    NotGiven(MissingInput),
}

impl ConversationState {
    /// The state of a request that is about to be made, with its client waiting.
    pub(crate) fn new(question_target: QuestionTarget) -> Self {
        Self {
            question_target,
            rounds: 0,
            numbered: 0,
            open: Vec::new(),
            gathering: false,
            attended: true,
            lapsed: false,
            asked: Vec::new(),
            state: None,
        }
    }

    /// Takes one event, and returns the next state and what to do.
    pub(crate) fn step(mut self, event: ConversationEvent) -> (Self, Vec<ConversationAction>) {
        let actions = match (event, self.question_target.era) {
            (ConversationEvent::Asked(asking), Era::Legacy) => self.pass_on(asking),
            (ConversationEvent::Asked(asking), Era::Modern) => self.keep(asking),
            (ConversationEvent::Gathered, _) => self.tell(),
            (ConversationEvent::NoRoom, _) => {
                self.attended = true;
                self.decline_open()
            }
            (ConversationEvent::ClientReturned(answers), _) => self.take(answers),
            (ConversationEvent::Lapsed, Era::Modern) => {
                self.lapsed = true;
                self.decline_open()
            }
            (ConversationEvent::Lapsed, Era::Legacy) => not_given("input", "the client did not answer in time"),
            (ConversationEvent::Concluded, _) => vec![ConversationAction::End(ConversationOutcome::Answer)],
            (ConversationEvent::WantsInput { requests, .. }, _) if requests.len() > QUESTIONS_MAX => {
                not_given("input", &format!("the upstream asked more than {QUESTIONS_MAX} things at once"))
            }
            (ConversationEvent::WantsInput { requests, .. }, Era::Modern) => {
                vec![ConversationAction::End(self.declared(&requests))]
            }
            (ConversationEvent::WantsInput { requests, state }, Era::Legacy) => self.ask(requests, state),
            (ConversationEvent::Replied { key, reply }, _) => self.collect(&key, reply),
        };
        (self, actions)
    }

    fn may_be_asked(&self, asking: &ClientQuestion) -> bool {
        self.question_target.can_be_asked && self.question_target.capabilities.answers(asking.method(), asking.params())
    }

    /// Legacy server, legacy client: the question is passed on.
    fn pass_on(&self, asking: ClientQuestion) -> Vec<ConversationAction> {
        vec![if self.may_be_asked(&asking) { ConversationAction::PassOn(asking) } else { ConversationAction::Refuse }]
    }

    /// Legacy server, modern client: the question waits here.
    fn keep(&mut self, asking: ClientQuestion) -> Vec<ConversationAction> {
        let nobody_comes = self.lapsed && !self.attended;
        if nobody_comes || !self.may_be_asked(&asking) || self.open.len() >= QUESTIONS_MAX {
            return vec![ConversationAction::Refuse];
        }
        self.numbered += 1;
        let key = format!("ask-{}", self.numbered);
        let mut actions = vec![ConversationAction::Keep(key.clone())];
        self.open.push((key, asking));
        // A client that is away is told when it comes back.
        if self.attended && !self.gathering {
            self.gathering = true;
            actions.push(ConversationAction::Gather);
        }
        actions
    }

    fn tell(&mut self) -> Vec<ConversationAction> {
        self.gathering = false;
        if !self.attended || self.open.is_empty() {
            return Vec::new();
        }
        self.attended = false;
        vec![ConversationAction::Tell { input_requests: input_requests(&self.open) }]
    }

    fn take(&mut self, answers: Vec<(String, Box<RawValue>)>) -> Vec<ConversationAction> {
        if self.attended {
            return vec![ConversationAction::TurnAway];
        }
        self.attended = true;
        let mut actions = Vec::new();
        for (key, answer) in answers {
            // Answers to questions that were not asked, or are already answered, are ignored.
            if let Some(place) = self.open.iter().position(|(open, _)| *open == key) {
                self.open.remove(place);
                actions.push(ConversationAction::Give { key, answer });
            }
        }
        actions.extend(self.tell());
        actions
    }

    fn decline_open(&mut self) -> Vec<ConversationAction> {
        self.open.drain(..).map(|(key, _)| ConversationAction::Decline(key)).collect()
    }

    /// Modern server, modern client: the questions are passed on if the client declared that it can be asked them.
    fn declared(&self, requests: &[(String, ClientQuestion)]) -> ConversationOutcome {
        let undeclared =
            |asking: &&ClientQuestion| !self.question_target.capabilities.answers(asking.method(), asking.params());
        match requests.iter().map(|(_, asking)| asking).find(undeclared) {
            None => ConversationOutcome::Input,
            Some(asking) => {
                let required = ClientCapabilities::required_for(asking.method(), asking.params());
                ConversationOutcome::Undeclared(required.unwrap_or("{}").to_owned())
            }
        }
    }

    /// Modern server, legacy client: the client is asked everything at once.
    fn ask(&mut self, requests: Vec<(String, ClientQuestion)>, state: Option<String>) -> Vec<ConversationAction> {
        self.rounds += 1;
        if self.rounds > ROUNDS_MAX {
            return not_given("input", &format!("the upstream asked for input more than {ROUNDS_MAX} times"));
        }
        if let Some((_, asking)) = requests.iter().find(|(_, asking)| !self.may_be_asked(asking)) {
            return not_given(asking.method(), "the client does not take this kind of question");
        }
        self.state = state;
        let asked = requests.iter().map(|(key, asking)| (key.clone(), asking.method().to_owned()));
        self.asked = asked.map(|(key, method)| PendingInput { key, method, answer: None }).collect();
        if requests.is_empty() {
            return self.send_again();
        }
        requests.into_iter().map(|(key, asking)| ConversationAction::Ask { key, asking }).collect()
    }

    fn collect(&mut self, key: &str, reply: QuestionReply) -> Vec<ConversationAction> {
        let Some(asked) = self.asked.iter_mut().find(|asked| asked.key == key) else { return Vec::new() };
        match reply {
            Ok(answer) => asked.answer = Some(answer),
            // A modern server cannot be told of an error: there is no place for one among the answers.
            Err(error) => return not_given(&asked.method, &error.message),
        }
        if self.asked.iter().all(|asked| asked.answer.is_some()) { self.send_again() } else { Vec::new() }
    }

    fn send_again(&mut self) -> Vec<ConversationAction> {
        let members: Vec<String> = self
            .asked
            .drain(..)
            .filter_map(|asked| Some(format!("{}:{}", to_json(&asked.key), asked.answer?.get())))
            .collect();
        let input_responses =
            (!members.is_empty()).then(|| RawValue::from_string(format!("{{{}}}", members.join(","))).ok()).flatten();
        vec![ConversationAction::SendAgain(Continuation { input_responses, request_state: self.state.take() })]
    }
}

fn not_given(method: &str, why: &str) -> Vec<ConversationAction> {
    vec![ConversationAction::End(ConversationOutcome::NotGiven(MissingInput {
        method: method.to_owned(),
        why: why.to_owned(),
    }))]
}

/// The answers of an `inputResponses` object, in order; none if it is not one.
pub(crate) fn read_input_responses(raw: &RawValue) -> Option<Vec<(String, Box<RawValue>)>> {
    let responses: RawObject<'_> = serde_json::from_str(raw.get()).ok()?;
    Some(responses.iter().map(|(key, answer)| (key.to_owned(), answer.to_owned())).collect())
}

#[cfg(test)]
mod tests;
