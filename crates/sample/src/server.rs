//! The server: reads messages one by one, finds the method, and answers.
//!
//! Responsible for the life of a connection: the handshake, the list of tools, calls, and the notifications that follow
//! from them. `dialect` knows what differs between eras; the tools themselves decide what they do.

use std::io::BufRead;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::call::SampleCall;
use crate::catalogue::{self, ListedToolGroups};
use crate::company::Company;
use crate::dialect::{self, ProtocolDialect};
use crate::session::SampleSession;
use crate::tool::ToolRunner;
use crate::wire::{
    INTERNAL_ERROR, IncomingLine, METHOD_NOT_FOUND, SampleNotification, SampleOutput, SampleRequest, SampleRpcError,
    read_line,
};
use crate::workers::Workers;
use crate::{SampleError, SampleOptions};

pub(crate) struct SampleServer {
    options: SampleOptions,
    session: Arc<SampleSession>,
}

/// Why a request was not served: it was refused, or the connection is broken.
enum SampleRequestError {
    Refused(SampleRpcError),
    Broken(SampleError),
}

impl SampleServer {
    pub(crate) fn new(options: SampleOptions, company: Company, output: SampleOutput) -> Self {
        Self { options, session: Arc::new(SampleSession::new(company, output)) }
    }

    pub(crate) fn run(self, mut input: impl BufRead) -> Result<(), SampleError> {
        let mut workers = Workers::default();
        while let Some(line) = read_line(&mut input)? {
            workers.collect_finished()?;
            match IncomingLine::parse(&line) {
                IncomingLine::Request(request) => self.answer_request(request, &mut workers)?,
                IncomingLine::Notification(notification) => self.handle_notification(&notification),
                IncomingLine::Malformed(id, error) => self.session.output.refuse(id.as_ref(), error)?,
                IncomingLine::Ignored => {}
            }
        }
        workers.finish()?;
        let subscriptions = std::mem::take(&mut self.session.state().subscriptions);
        subscriptions.close(&self.session.output)
    }

    fn listed_groups(&self) -> ListedToolGroups {
        ListedToolGroups { misbehaviour: self.options.misbehaviour, beta: self.session.state().beta_tools }
    }

    fn handle_notification(&self, notification: &SampleNotification) {
        // Calls are never cancelled; a subscription is, or the client would keep getting its notifications.
        if notification.method == "notifications/cancelled"
            && let Some(id) = notification.params.get("requestId")
        {
            self.session.state().subscriptions.cancel(id);
        }
    }

    fn answer_request(&self, request: SampleRequest, workers: &mut Workers) -> Result<(), SampleError> {
        let id = request.id.clone();
        match self.serve_request(request, workers) {
            Ok(()) => Ok(()),
            Err(SampleRequestError::Refused(error)) => self.session.output.refuse(Some(&id), error),
            Err(SampleRequestError::Broken(error)) => Err(error),
        }
    }

    fn serve_request(&self, request: SampleRequest, workers: &mut Workers) -> Result<(), SampleRequestError> {
        let initialised = self.session.state().initialised;
        let dialect = ProtocolDialect::for_request(self.options.era, initialised, &request)?;
        let result = match (dialect, request.method.as_str()) {
            (_, "tools/call") => return self.serve_call(request, dialect, workers),
            (ProtocolDialect::Modern, "subscriptions/listen") => return self.subscribe(&request),
            (ProtocolDialect::Legacy, "initialize") => {
                let result = dialect::initialize(&self.options, &request.params)?;
                self.session.state().initialised = true;
                result
            }
            (ProtocolDialect::Legacy, "ping") => json!({}),
            (ProtocolDialect::Modern, "server/discover") => {
                dialect.complete_cacheable(dialect::discover(&self.options))
            }
            (_, "tools/list") => {
                let page = catalogue::page(self.listed_groups(), request.params.get("cursor"))?;
                dialect.complete_cacheable(page)
            }
            (_, method) => {
                let text = format!("unknown method: `{method}`");
                return Err(SampleRpcError::new(METHOD_NOT_FOUND, text).into());
            }
        };
        Ok(self.session.output.answer(&request.id, &result)?)
    }

    fn subscribe(&self, request: &SampleRequest) -> Result<(), SampleRequestError> {
        let mut remembered = self.session.state();
        let params = remembered.subscriptions.open(request, self.options.misbehaviour)?;
        Ok(self.session.output.notify("notifications/subscriptions/acknowledged", &params)?)
    }

    fn serve_call(
        &self,
        request: SampleRequest,
        dialect: ProtocolDialect,
        workers: &mut Workers,
    ) -> Result<(), SampleRequestError> {
        let (run, mut call) = self.prepare_call(request, dialect)?;
        match run {
            ToolRunner::AtOnce(work) => {
                let outcome = work(&self.session.company, std::mem::take(&mut call.arguments));
                self.session.answer_call(&call, outcome)?;
            }
            ToolRunner::Inline(script) => script(&self.session, &call)?,
            ToolRunner::Background(script) if workers.has_room() => {
                let session = Arc::clone(&self.session);
                workers.start(move || script(&session, &call))?;
            }
            ToolRunner::Background(_) => {
                return Err(SampleRpcError::new(INTERNAL_ERROR, "too many calls are running").into());
            }
        }
        Ok(())
    }

    fn prepare_call(
        &self,
        mut request: SampleRequest,
        dialect: ProtocolDialect,
    ) -> Result<(ToolRunner, SampleCall), SampleRpcError> {
        let Some(name) = request.params.get("name").and_then(Value::as_str) else {
            return Err(SampleRpcError::invalid_params("`name` must be a string"));
        };
        let Some(tool) = catalogue::find(self.listed_groups(), name) else {
            return Err(SampleRpcError::invalid_params(format!("unknown tool: `{name}`")));
        };
        let arguments = match request.params.remove("arguments") {
            None => Map::new(),
            Some(Value::Object(arguments)) => arguments,
            Some(_) => return Err(SampleRpcError::invalid_params("`arguments` must be an object")),
        };
        let meta = request.params.get("_meta");
        let progress_token = meta.and_then(|meta| meta.get("progressToken")).cloned();
        let call = SampleCall { id: request.id, dialect, arguments, progress_token };
        Ok((tool.run, call))
    }
}

impl From<SampleRpcError> for SampleRequestError {
    fn from(error: SampleRpcError) -> Self {
        Self::Refused(error)
    }
}

impl From<SampleError> for SampleRequestError {
    fn from(error: SampleError) -> Self {
        Self::Broken(error)
    }
}
