//! The task of one legacy session. It tells the client what happens outside its requests (changes, server messages,
//! questions that belong to no request), expires what is too old, and unregisters the session from the gateway when it
//! ends.

use std::{sync::Arc, time::Duration};

use servanda_engine::{ChangeEvent, ClientMessage, Gateway};
use servanda_mcp::{LogLevel, RpcError, envelope::code, fields::method};
use tokio::{
    sync::{Notify, broadcast, mpsc},
    time::MissedTickBehavior,
};
use tokio_util::sync::CancellationToken;

use super::{
    replay_buffer::QuestionDelivery,
    session_notes::HttpSessionNotes,
    table::{HttpSession, HttpSessionTable},
};
use crate::{client_messages::ClientMessageRelay, notifications};

/// The shortest and the longest interval between two expiry checks of a session.
const LOOK_EVERY: (Duration, Duration) = (Duration::from_millis(10), Duration::from_mins(1));

/// How long to wait before another attempt to watch a resource that cannot be watched yet: at first, and at most.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));

/// The task of one session.
#[derive(Debug)]
pub(super) struct SessionEvents<G> {
    pub(super) gateway: Arc<G>,
    pub(super) sessions: Arc<HttpSessionTable>,
    pub(super) session: Arc<HttpSession>,
    pub(super) notes: HttpSessionNotes,
    pub(super) news: broadcast::Receiver<ChangeEvent>,
    pub(super) client_messages: mpsc::Receiver<ClientMessage>,
    /// Whether the session was restored after a restart, so that its subscriptions must be made again.
    pub(super) revived: bool,
    /// Cancelled when the door is gone; its sessions stay stored.
    pub(super) closed: CancellationToken,
}

impl<G: Gateway> SessionEvents<G> {
    /// Runs until the session ends or the door is gone.
    pub(super) async fn run(mut self) {
        let mut relay = ClientMessageRelay::for_session(Arc::clone(&self.session.session));
        let mut look = tokio::time::interval(self.expiry_interval());
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let changed = Arc::new(Notify::new());
        let mut resuming = Box::pin(resume(Arc::clone(&self.gateway), Arc::clone(&self.session), Arc::clone(&changed)));
        let mut resumed = !self.revived;
        loop {
            tokio::select! {
                biased;
                () = self.session.ended.cancelled() => {
                    self.notes.erase(&self.session).await;
                    self.sessions.forget(&self.session.id);
                    break;
                }
                () = self.closed.cancelled() => break,
                () = &mut resuming, if !resumed => resumed = true,
                notifications = notifications::next(&mut self.news) => {
                    let Some(notifications) = notifications.visible_to(&self.session.session.requester.caller) else { continue };
                    if notifications.changed_lists().contains(&method::RESOURCES_LIST_CHANGED) {
                        changed.notify_one();
                    }
                    for message in self.session.session.announcements(&notifications) {
                        self.send(message).await;
                    }
                }
                Some(client_message) = self.client_messages.recv() => self.pass_on(&mut relay, client_message).await,
                () = self.session.note_due.notified() => self.notes.write(&self.session).await,
                _ = look.tick() => self.expire(),
            }
        }
        self.gateway.end_session(&self.session.session.requester.affinity);
    }

    async fn pass_on(&self, relay: &mut ClientMessageRelay, client_message: ClientMessage) {
        let ClientMessage::Ask(ask) = client_message else {
            if let Some(message) = relay.render(client_message) {
                self.send(message).await;
            }
            return;
        };
        let Some(question) = relay.ask(ask) else { return };
        let id = question.id.clone();
        match self.session.replay_buffer.ask(question, self.sessions.now_ms()) {
            QuestionDelivery::Sent => {}
            QuestionDelivery::Queued => self.session.stream_wanted.notify_one(),
            QuestionDelivery::NoRoom => {
                tracing::warn!("a question is declined: too many messages wait for a stream of the session");
                self.session.session.questions.withdraw(&id);
            }
        }
    }

    async fn send(&self, message: Vec<u8>) {
        self.session.replay_buffer.wait_for_room(None).await;
        self.session.replay_buffer.send_standalone(message);
    }

    fn expire(&self) {
        if self.sessions.end_if_expired(&self.session) {
            return;
        }
        for question in self.session.replay_buffer.expire(self.sessions.now_ms()) {
            self.session.session.questions.withdraw(&question);
        }
    }

    /// Half of the shortest expiry time, so that nothing outlives it for long.
    fn expiry_interval(&self) -> Duration {
        let (least, most) = LOOK_EVERY;
        Duration::from_millis(self.sessions.limits().shortest_ms() / 2).clamp(least, most)
    }
}

/// Restores a session's log level and resource watches. No request waits for this. What is not available yet is tried
/// again for as long as the session wants it.
async fn resume<G: Gateway>(gateway: Arc<G>, session: Arc<HttpSession>, changed: Arc<Notify>) {
    let session = &session.session;
    if let Some(level) = session.log_level().map(LogLevel::as_str)
        && let Err(error) = gateway.set_log_level(&session.requester, level).await
    {
        tracing::debug!(code = error.code, message = error.message, "a restored session's log level cannot be set");
    }
    let mut pause = PAUSE.0;
    loop {
        for uri in session.unwatched() {
            match gateway.watch(&session.requester, &uri).await {
                Ok(watch) => session.keep_watch(&uri, Some(watch)),
                Err(error) => {
                    tracing::debug!(
                        code = error.code,
                        message = error.message,
                        "a restored session's resource cannot be watched"
                    );
                    if !is_temporary(&error) {
                        session.keep_watch(&uri, None);
                    }
                }
            }
        }
        if session.unwatched().is_empty() {
            return;
        }
        // A server that is back may announce that everything changed; one that announces nothing is asked again from
        // time to time.
        let _ = tokio::time::timeout(pause, changed.notified()).await;
        pause = (pause * 2).min(PAUSE.1);
    }
}

/// Whether a failure says nothing about the resource: its server may be down, and come back.
const fn is_temporary(error: &RpcError) -> bool {
    error.code == code::INTERNAL_ERROR
}
