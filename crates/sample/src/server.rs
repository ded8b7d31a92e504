//! The server: reads messages one by one, finds the method, and answers.
//!
//! Responsible for the life of a connection: the handshake, the list of tools, calls, and the
//! notifications that follow from them. What differs between eras is asked of `dialect`; what a
//! tool does is the tool's own business.

use std::io::BufRead;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::call::Call;
use crate::catalogue::{self, Listed};
use crate::company::Company;
use crate::dialect::{self, Dialect};
use crate::session::Session;
use crate::tool::Run;
use crate::wire::{INTERNAL_ERROR, Incoming, METHOD_NOT_FOUND, Notification, Outlet, Request, RpcError, read_line};
use crate::workers::Workers;
use crate::{Options, SampleError};

pub(crate) struct Server {
    options: Options,
    session: Arc<Session>,
}

/// Why a request was not served: its own fault, or the end of the connection.
enum Unserved {
    Refused(RpcError),
    Broken(SampleError),
}

impl Server {
    pub(crate) fn new(options: Options, company: Company, outlet: Outlet) -> Self {
        Self { options, session: Arc::new(Session::new(company, outlet)) }
    }

    pub(crate) fn run(self, mut input: impl BufRead) -> Result<(), SampleError> {
        let mut workers = Workers::default();
        while let Some(line) = read_line(&mut input)? {
            workers.collect_finished()?;
            match Incoming::parse(&line) {
                Incoming::Request(request) => self.answer_request(request, &mut workers)?,
                Incoming::Notification(notification) => self.hear(&notification),
                Incoming::Malformed(id, error) => self.session.outlet.refuse(id.as_ref(), error)?,
                Incoming::Ignored => {}
            }
        }
        workers.finish()?;
        let subscriptions = std::mem::take(&mut self.session.remembered().subscriptions);
        subscriptions.close(&self.session.outlet)
    }

    fn listed(&self) -> Listed {
        Listed { misbehaviour: self.options.misbehaviour, beta: self.session.remembered().beta_tools }
    }

    fn hear(&self, notification: &Notification) {
        // Calls are never cancelled; a subscription is, or the client would keep hearing of it.
        if notification.method == "notifications/cancelled"
            && let Some(id) = notification.params.get("requestId")
        {
            self.session.remembered().subscriptions.cancel(id);
        }
    }

    fn answer_request(&self, request: Request, workers: &mut Workers) -> Result<(), SampleError> {
        let id = request.id.clone();
        match self.serve_request(request, workers) {
            Ok(()) => Ok(()),
            Err(Unserved::Refused(error)) => self.session.outlet.refuse(Some(&id), error),
            Err(Unserved::Broken(error)) => Err(error),
        }
    }

    fn serve_request(&self, request: Request, workers: &mut Workers) -> Result<(), Unserved> {
        let initialised = self.session.remembered().initialised;
        let dialect = Dialect::of(self.options.era, initialised, &request)?;
        let result = match (dialect, request.method.as_str()) {
            (_, "tools/call") => return self.serve_call(request, dialect, workers),
            (Dialect::Modern, "subscriptions/listen") => return self.subscribe(&request),
            (Dialect::Legacy, "initialize") => {
                let result = dialect::initialize(&self.options, &request.params)?;
                self.session.remembered().initialised = true;
                result
            }
            (Dialect::Legacy, "ping") => json!({}),
            (Dialect::Modern, "server/discover") => dialect.complete_cacheable(dialect::discover(&self.options)),
            (_, "tools/list") => {
                let page = catalogue::page(self.listed(), request.params.get("cursor"))?;
                dialect.complete_cacheable(page)
            }
            (_, method) => {
                let text = format!("unknown method: `{method}`");
                return Err(RpcError::new(METHOD_NOT_FOUND, text).into());
            }
        };
        Ok(self.session.outlet.answer(&request.id, &result)?)
    }

    fn subscribe(&self, request: &Request) -> Result<(), Unserved> {
        let mut remembered = self.session.remembered();
        let params = remembered.subscriptions.open(request, self.options.misbehaviour)?;
        Ok(self.session.outlet.notify("notifications/subscriptions/acknowledged", &params)?)
    }

    fn serve_call(&self, request: Request, dialect: Dialect, workers: &mut Workers) -> Result<(), Unserved> {
        let (run, mut call) = self.prepare_call(request, dialect)?;
        match run {
            Run::AtOnce(work) => {
                let outcome = work(&self.session.company, std::mem::take(&mut call.arguments));
                self.session.answer_call(&call, outcome)?;
            }
            Run::Inline(script) => script(&self.session, &call)?,
            Run::Background(script) if workers.has_room() => {
                let session = Arc::clone(&self.session);
                workers.start(move || script(&session, &call))?;
            }
            Run::Background(_) => {
                return Err(RpcError::new(INTERNAL_ERROR, "too many calls are running").into());
            }
        }
        Ok(())
    }

    fn prepare_call(&self, mut request: Request, dialect: Dialect) -> Result<(Run, Call), RpcError> {
        let Some(name) = request.params.get("name").and_then(Value::as_str) else {
            return Err(RpcError::invalid_params("`name` must be a string"));
        };
        let Some(tool) = catalogue::find(self.listed(), name) else {
            return Err(RpcError::invalid_params(format!("unknown tool: `{name}`")));
        };
        let arguments = match request.params.remove("arguments") {
            None => Map::new(),
            Some(Value::Object(arguments)) => arguments,
            Some(_) => return Err(RpcError::invalid_params("`arguments` must be an object")),
        };
        let meta = request.params.get("_meta");
        let progress_token = meta.and_then(|meta| meta.get("progressToken")).cloned();
        let call = Call { id: request.id, dialect, arguments, progress_token };
        Ok((tool.run, call))
    }
}

impl From<RpcError> for Unserved {
    fn from(error: RpcError) -> Self {
        Self::Refused(error)
    }
}

impl From<SampleError> for Unserved {
    fn from(error: SampleError) -> Self {
        Self::Broken(error)
    }
}
