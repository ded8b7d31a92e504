//! What people get from a running gateway: the console's pages, and a line on the gateway's own terminal when a call waits for them.
//!
//! Where the gateway asks for no credentials, that line has a link that signs in once. It is printed on a terminal only: what is written to a
//! file or to a pipe, an agent on the same machine could read (T31).

use std::{fmt, io::IsTerminal as _, sync::Arc};

use servanda_approval::TicketNoticeKind;
use servanda_console::{Console, ConsoleParts, OneTimeLinks, PersonProvider};
use servanda_contract::legibility;
use servanda_doors::http::Pages;
use servanda_effects::PortFuture;
use servanda_engine::{
    Engine, SystemClock,
    approvals::{ApprovalNotice, ApprovalNotifier},
};
use servanda_upstream::supervisor;

use super::AssembledGateway;
use crate::screen::Screen;

/// How a person gets another link that signs in.
const LINK_HINT: &str = "Each call that waits prints a new link on the terminal of the gateway; `servanda serve` prints one when it starts.";

/// The console of a gateway, and who prints links that sign in.
#[derive(Debug)]
pub(crate) struct PeoplesDoor {
    /// The pages.
    pub(crate) pages: Arc<dyn Pages>,
    terminal: Arc<TerminalNotifier>,
    authenticator: Arc<dyn PersonProvider>,
}

impl PeoplesDoor {
    /// The console of a gateway that people reach at that address.
    pub(crate) fn new(gateway: &AssembledGateway, url: String, screen: Screen) -> Self {
        let links = Arc::new(OneTimeLinks::new(Arc::new(SystemClock)));
        let pages = Console::new(ConsoleParts {
            engine: Arc::clone(&gateway.engine),
            history: gateway.ledger.clone(),
            notebook: gateway.ledger.clone(),
            authenticator: gateway.authenticator.clone(),
            links: Arc::clone(&links),
            clock: Arc::new(SystemClock),
            link_hint: LINK_HINT.to_owned(),
        });
        let terminal = Arc::new(TerminalNotifier { engine: Arc::clone(&gateway.engine), links, url, screen });
        gateway.engine.approvals().notify_by(gateway.measuring(terminal.clone()));
        Self { pages: Arc::new(pages), terminal, authenticator: gateway.authenticator.clone() }
    }

    /// Where people decide, for the announcement that the gateway is ready.
    pub(crate) fn announce(&self) {
        let url = self.terminal.url();
        if let Some(provider) = self.authenticator.provider() {
            let name = legibility::one_line(&provider.name);
            return self
                .terminal
                .screen
                .say(format_args!("people decide at {url}; they sign in with {name}, or with a key"));
        }
        match self.terminal.sign_in() {
            Some(link) => {
                self.terminal
                    .screen
                    .say(format_args!("people decide at {url}; sign in once within 10 minutes: {link}"));
            }
            None if self.terminal.is_single_user() => {
                self.terminal.screen.say(format_args!(
                    "people decide at {url}; to sign in, run `servanda serve` on a terminal, which prints a link"
                ));
            }
            None => self.terminal.screen.say(format_args!(
                "people decide at {url}, with a key that `servanda keys create --scope servanda:console` makes"
            )),
        }
    }
}

/// Tells the person at the gateway's terminal that a call waits.
struct TerminalNotifier {
    engine: Arc<Engine>,
    links: Arc<OneTimeLinks>,
    url: String,
    screen: Screen,
}

impl TerminalNotifier {
    fn is_single_user(&self) -> bool {
        self.engine.authorities().approvals().is_single_user
    }

    /// Where people reach the console: as the configuration says, else the listening address.
    fn url(&self) -> String {
        self.engine.authorities().approvals().console_url.clone().unwrap_or_else(|| self.url.clone())
    }

    /// A link that signs in once. None if there is no terminal that only a person reads, or if people have credentials.
    fn sign_in(&self) -> Option<String> {
        let is_a_persons = std::io::stderr().is_terminal() && !supervisor::is_below_server();
        if !self.is_single_user() || !is_a_persons {
            return None;
        }
        let link = self.links.issue().ok()?;
        Some(format!("{}{}", self.url(), link.path()))
    }
}

impl ApprovalNotifier for TerminalNotifier {
    fn notify(&self, notice: ApprovalNotice) -> PortFuture<'_, ()> {
        let subject = &notice.ticket.subject;
        let call = format!(
            "`{}` for {}/{}",
            legibility::one_line(&subject.contract),
            legibility::one_line(&subject.tenant),
            legibility::one_line(&subject.principal)
        );
        let (id, url) = (&notice.ticket.id, self.url());
        match notice.kind {
            TicketNoticeKind::Opened => {
                let place = self.sign_in().unwrap_or_else(|| format!("{url}/approvals/{id}"));
                self.screen.say(format_args!("{call} waits for approval: {place}"));
            }
            TicketNoticeKind::Escalated | TicketNoticeKind::Reminder => {
                self.screen.say(format_args!("{call} still waits for approval: {url}/approvals/{id}"));
            }
            TicketNoticeKind::Outcome => {
                self.screen.say(format_args!("{call}: {}", notice.ticket.state.describe()));
            }
        }
        Box::pin(std::future::ready(()))
    }
}

impl fmt::Debug for TerminalNotifier {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TerminalNotifier").field("url", &self.url).finish_non_exhaustive()
    }
}
