//! The console as the door sees it: every request is checked, led to its page, and answered with the headers that every answer has.

use std::sync::Arc;

use http::{Method, header::SET_COOKIE};
use servanda_contract::time::Clock;
use servanda_doors::http::{PageRequest, PageResponse, Pages};
use servanda_effects::{CallHistory, Notebook, PortFuture};
use servanda_engine::Engine;

use crate::{
    assets,
    context::ConsoleContext,
    cookie,
    fault::PageFault,
    origin_check::{self, RequestOrigin},
    pages,
    passkey::PasskeyChallenges,
    reply::ConsoleReply,
    routing::ConsoleRoute,
    session::Sessions,
    sign_in::{OneTimeLinks, PersonAuthenticator, SignInAttempts},
};

/// What a console is built from.
#[derive(Debug)]
pub struct ConsoleParts {
    /// Decides, and has the tickets.
    pub engine: Arc<Engine>,
    /// Has the records of calls.
    pub history: Arc<dyn CallHistory>,
    /// Where sessions are kept.
    pub notebook: Arc<dyn Notebook>,
    /// Checks people's credentials.
    pub authenticator: Arc<dyn PersonAuthenticator>,
    /// The one-time links that the binary prints.
    pub links: Arc<OneTimeLinks>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// How a person gets another one-time link, as a sentence.
    pub link_hint: String,
}

/// The pages for people.
#[derive(Debug, Clone)]
pub struct Console(Arc<ConsoleContext>);

impl Console {
    /// Builds the console.
    pub fn new(parts: ConsoleParts) -> Self {
        let ConsoleParts { engine, history, notebook, authenticator, links, clock, link_hint } = parts;
        let attempts = SignInAttempts::new(Arc::clone(&notebook), Arc::clone(&clock));
        let sessions = Sessions::new(notebook, Arc::clone(&clock));
        let challenges = PasskeyChallenges::new(Arc::clone(&authenticator));
        Self(Arc::new(ConsoleContext {
            engine,
            history,
            sessions,
            authenticator,
            challenges,
            attempts,
            links,
            clock,
            link_hint,
        }))
    }

    async fn reply(&self, request: &PageRequest) -> Result<ConsoleReply, PageFault> {
        let route = ConsoleRoute::read(&request.method, request.uri.path())?;
        match origin_check::judge(&request.method, &request.headers) {
            RequestOrigin::Foreign => return Err(PageFault::Foreign),
            // The provider's answer comes from another site, and its page makes the same step itself.
            RequestOrigin::ForeignLink if route == ConsoleRoute::ProviderAnswer => {}
            // The browser kept the cookie back; a step from our own page brings it.
            RequestOrigin::ForeignLink if cookie::read(&request.headers).is_none() => {
                return Ok(pages::arrival(request));
            }
            RequestOrigin::Own | RequestOrigin::ForeignLink => {}
        }
        let context = &self.0;
        match route {
            ConsoleRoute::Home => pages::overview::page::page(context, request).await,
            ConsoleRoute::Calls => pages::calls::list::page(context, request).await,
            ConsoleRoute::CallEvents => pages::calls::tail::open(context, request).await,
            ConsoleRoute::Call(id) => pages::calls::call::page(context, request, &id).await,
            ConsoleRoute::Asset(path) => {
                let file = assets::find(&path).ok_or(PageFault::NotFound)?;
                Ok(ConsoleReply::file(file.kind, file.bytes))
            }
            ConsoleRoute::SignInPage => pages::sign_in::page(context, request).await,
            ConsoleRoute::SignIn => pages::sign_in::with_key(context, request).await,
            ConsoleRoute::LinkPage(token) => Ok(pages::sign_in::link_page(context, request, &token).await),
            ConsoleRoute::UseLink(token) => pages::sign_in::with_link(context, request, &token).await,
            ConsoleRoute::SignInWithPasskey => pages::sign_in::with_passkey(context, request).await,
            ConsoleRoute::SignInWithProvider => pages::provider::begin(context, request).await,
            ConsoleRoute::ProviderAnswer => pages::provider::answer(context, request).await,
            ConsoleRoute::Passkeys => pages::passkeys::page(context, request).await,
            ConsoleRoute::RegisterPasskey => pages::passkeys::register(context, request).await,
            ConsoleRoute::RemovePasskey => pages::passkeys::remove(context, request).await,
            ConsoleRoute::SignOut => pages::sign_in::sign_out(context, request).await,
            ConsoleRoute::Inbox => pages::inbox::page(context, request).await,
            ConsoleRoute::InboxEvents => pages::events::open(context, request).await,
            ConsoleRoute::Review => pages::review::page(context, request).await,
            ConsoleRoute::DecideTogether => pages::review::decide(context, request).await,
            ConsoleRoute::Ticket(id) => pages::ticket::page(context, request, &id).await,
            ConsoleRoute::Grants => pages::grants::list::page(context, request).await,
            ConsoleRoute::Grant(id) => pages::grants::one::page(context, request, &id).await,
            ConsoleRoute::ChangeGrant(id) => pages::grants::change::change(context, request, &id).await,
            ConsoleRoute::Effects => pages::effects::list::page(context, request).await,
            ConsoleRoute::Effect(id) => pages::effects::one::page(context, request, &id).await,
            ConsoleRoute::SettleEffect(id) => pages::effects::settle::settle(context, request, &id).await,
            ConsoleRoute::Tools => pages::tools::list::page(context, request).await,
            ConsoleRoute::Tool(name) => pages::tools::one::page(context, request, &name).await,
            ConsoleRoute::ChangeHold(name) => pages::tools::hold::change(context, request, &name).await,
            ConsoleRoute::Policies => pages::policies::page(context, request).await,
            ConsoleRoute::Budgets => pages::budgets::page(context, request).await,
            ConsoleRoute::Decide(id) => pages::decide::decide(context, request, &id).await,
        }
    }
}

impl Pages for Console {
    fn answer(&self, request: PageRequest) -> PortFuture<'_, PageResponse> {
        Box::pin(async move {
            let reply = match self.reply(&request).await {
                Ok(reply) => reply,
                Err(fault) => {
                    let shows_cookie = cookie::read(&request.headers).is_some();
                    let ends = matches!(fault, PageFault::SignedOut) && shows_cookie && request.method != Method::HEAD;
                    let reply = pages::fault::reply(&fault, &request);
                    if ends { reply.with(SET_COOKIE, cookie::clear()) } else { reply }
                }
            };
            reply.into_response()
        })
    }
}
