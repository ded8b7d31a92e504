//! The streams of one legacy session: which exist, what was sent on each, and what can still be replayed.
//!
//! Every event has an id that names this buffer, its stream and its position there. Sent events are kept for a while,
//! within limits of number and size, so that a client whose connection broke can ask for what came after the last event
//! it saw. A stream outlives its connections: it ends with the answer it is for, or when no client has asked for it for
//! too long. Time is a value here; the session's task (`session_events`) ticks.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use servanda_mcp::{Id, lines::on_one_line};
use uuid::Uuid;

use super::{
    byte_budget::{ByteCharge, SessionByteBudget},
    queue::{self, FrameReceiver, FrameRejected, FrameSender},
};
use crate::questions::SessionQuestion;

/// Frames that a slow connection may be behind. One that is further behind is closed; its client may come back for the
/// rest.
const FRAMES_MAX: usize = 64;
/// How long a connection may read nothing at all while there is something for it.
const STALL_MAX: Duration = Duration::from_secs(30);

/// Limits of what is kept.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReplayLimits {
    /// Events kept for replay.
    pub(super) events_max: usize,
    /// The bytes of those events.
    pub(super) bytes_max: usize,
    /// Streams known at once, not counting those that answer a running request.
    pub(super) streams_max: usize,
    /// How long a stream is known after it ended or its client left.
    pub(super) keep_ms: u64,
    /// Messages that wait for a stream.
    pub(super) backlog_max: usize,
    /// Their bytes, and those of questions that wait for a stream.
    pub(super) backlog_bytes_max: usize,
    /// Bytes that a slow connection may be behind.
    pub(super) queue_bytes_max: usize,
    /// How long a question waits for a stream.
    pub(super) question_wait_ms: u64,
    /// After how long a client whose connection broke should come back.
    pub(super) retry_ms: u64,
}

/// All streams of a session.
#[derive(Debug)]
pub(in crate::http) struct ReplayBuffer {
    /// Part of every event id, because a session and its restored successor must not use the same event id.
    tag: String,
    limits: ReplayLimits,
    /// Whether the client accepts an event without data as the first one.
    primes: bool,
    /// The bytes that all replay buffers keep together.
    budget: Arc<SessionByteBudget>,
    state: Mutex<State>,
}

/// What a stream is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) enum StreamPurpose {
    /// Messages to the session that belong to no request.
    Standalone,
    /// The answer to a request, and the messages before it.
    Answer,
}

/// The connection's end of a stream.
#[derive(Debug)]
pub(in crate::http) struct SessionStreamConnection {
    pub(in crate::http) purpose: StreamPurpose,
    pub(in crate::http) frames: FrameReceiver,
}

/// A stream by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::http) struct StreamNumber(u64);

/// What became of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QuestionDelivery {
    /// It went out.
    Sent,
    /// It waits for a stream.
    Queued,
    /// There is no room for it to wait: it must be declined.
    NoRoom,
}

/// The event is unknown, or so old that something after it is no longer kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) struct EventNotReplayable;

/// How a frame is put onto a connection.
type PushFrame = fn(&FrameSender, Bytes) -> Result<(), FrameRejected>;

#[derive(Debug, Default)]
struct State {
    opened: u64,
    streams: BTreeMap<StreamNumber, SessionStream>,
    /// The events of all streams, oldest first.
    kept: VecDeque<ReplayEvent>,
    kept_bytes: usize,
    /// Messages that found no open stream.
    backlog: VecDeque<BacklogMessage>,
    /// Questions that found no open stream.
    waiting: VecDeque<BacklogQuestion>,
    /// The bytes of both.
    backlog_bytes: usize,
}

#[derive(Debug)]
struct SessionStream {
    purpose: StreamPurpose,
    /// The position of the last event. A stream begins at zero.
    position: u64,
    /// Everything after this position is kept.
    kept_after: u64,
    connection: Option<FrameSender>,
    /// Whether there will be no more events.
    ended: bool,
    /// Since when it has been over, or without a connection.
    left_at_ms: Option<u64>,
}

#[derive(Debug)]
struct ReplayEvent {
    stream: StreamNumber,
    position: u64,
    frame: Bytes,
    _charge: ByteCharge,
}

#[derive(Debug)]
struct BacklogMessage {
    message: Vec<u8>,
    _charge: ByteCharge,
}

#[derive(Debug)]
struct BacklogQuestion {
    question: SessionQuestion,
    since_ms: u64,
    _charge: ByteCharge,
}

impl ReplayBuffer {
    pub(super) fn new(limits: ReplayLimits, primes: bool, budget: Arc<SessionByteBudget>) -> Self {
        Self { tag: Uuid::new_v4().simple().to_string(), limits, primes, budget, state: Mutex::default() }
    }

    /// Opens a stream for an answer. Questions that waited for a stream go out on it.
    pub(in crate::http) fn open_answer(&self) -> (StreamNumber, SessionStreamConnection) {
        let mut state = self.state();
        self.open(&mut state, StreamPurpose::Answer)
    }

    /// Opens a stream for messages that belong to no request. Those that waited for one go out on it.
    pub(in crate::http) fn open_standalone(&self) -> SessionStreamConnection {
        let mut state = self.state();
        self.open(&mut state, StreamPurpose::Standalone).1
    }

    /// Resumes a stream after the event with this id.
    pub(in crate::http) fn resume(&self, event_id: &str) -> Result<SessionStreamConnection, EventNotReplayable> {
        let (number, position) = self.parse(event_id).ok_or(EventNotReplayable)?;
        let mut state = self.state();
        let state = &mut *state;
        let stream = state.streams.get_mut(&number).ok_or(EventNotReplayable)?;
        if position > stream.position || position < stream.kept_after {
            return Err(EventNotReplayable);
        }
        let missed = state.kept.iter().filter(|kept| kept.stream == number && kept.position > position);
        let missed: Vec<Bytes> = missed.map(|kept| kept.frame.clone()).collect();
        let frames_max = missed.len() + FRAMES_MAX + state.backlog.len() + state.waiting.len();
        let (sender, frames) = queue::queue(frames_max, self.limits.queue_bytes_max);
        for frame in missed {
            let _ = sender.push_over_limit(frame);
        }
        let purpose = stream.purpose;
        if stream.ended {
            return Ok(SessionStreamConnection { purpose, frames });
        }
        // A connection that still seems open is replaced: its client says that it broke.
        stream.connection = Some(sender);
        stream.left_at_ms = None;
        self.put_waiting(state, number, purpose);
        Ok(SessionStreamConnection { purpose, frames })
    }

    /// Waits until the connection of a stream, or of the standalone stream, can take another frame. The wait is
    /// bounded: a client that does not read loses its connection and may come back for the rest. Cancel safe.
    pub(in crate::http) async fn wait_for_room(&self, number: Option<StreamNumber>) {
        let connection = {
            let state = self.state();
            let number = number.or_else(|| state.connected(StreamPurpose::Standalone));
            number.and_then(|number| state.streams.get(&number)).and_then(|stream| stream.connection.clone())
        };
        if let Some(connection) = connection {
            let _ = tokio::time::timeout(STALL_MAX, connection.wait_for_room()).await;
        }
    }

    /// Puts a message onto a stream.
    pub(in crate::http) fn send(&self, number: StreamNumber, message: Vec<u8>) {
        self.put(&mut self.state(), number, message, FrameSender::push);
    }

    /// Ends a stream: nothing more is sent on it.
    pub(in crate::http) fn end(&self, number: StreamNumber, now_ms: u64) {
        let mut state = self.state();
        if let Some(stream) = state.streams.get_mut(&number) {
            stream.ended = true;
            stream.connection = None;
            stream.left_at_ms = Some(now_ms);
        }
        self.forget_surplus(&mut state);
    }

    /// Sends a message that belongs to no request, as soon as there is a stream for it. A message equal to one that
    /// already waits is dropped.
    pub(super) fn send_standalone(&self, message: Vec<u8>) {
        let mut state = self.state();
        if let Some(number) = state.connected(StreamPurpose::Standalone) {
            return self.put(&mut state, number, message, FrameSender::push);
        }
        if state.backlog.iter().any(|told| told.message == message) {
            return;
        }
        state.backlog_bytes += message.len();
        let charge = self.budget.charge(message.len());
        state.backlog.push_back(BacklogMessage { message, _charge: charge });
        while state.backlog.len() > self.limits.backlog_max || self.is_over_limit(&state) {
            let Some(oldest) = state.backlog.pop_front() else { break };
            state.backlog_bytes -= oldest.message.len();
        }
    }

    /// Asks the session a question that belongs to no request, now or as soon as there is a stream.
    pub(super) fn ask(&self, question: SessionQuestion, now_ms: u64) -> QuestionDelivery {
        let mut state = self.state();
        let stream = state.connected(StreamPurpose::Standalone).or_else(|| state.connected(StreamPurpose::Answer));
        if let Some(number) = stream {
            self.put(&mut state, number, question.message, FrameSender::push);
            return QuestionDelivery::Sent;
        }
        let bytes = question.message.len();
        let charge = self.budget.charge(bytes);
        state.backlog_bytes += bytes;
        if self.is_over_limit(&state) {
            state.backlog_bytes -= bytes;
            return QuestionDelivery::NoRoom;
        }
        state.waiting.push_back(BacklogQuestion { question, since_ms: now_ms, _charge: charge });
        QuestionDelivery::Queued
    }

    /// Drops what no client came for in time, and returns the questions among it, which must be declined.
    pub(super) fn expire(&self, now_ms: u64) -> Vec<Id> {
        let mut state = self.state();
        let state = &mut *state;
        let waited =
            |waiting: &BacklogQuestion| now_ms.saturating_sub(waiting.since_ms) >= self.limits.question_wait_ms;
        let mut declined = Vec::new();
        while state.waiting.front().is_some_and(waited) {
            let Some(waiting) = state.waiting.pop_front() else { break };
            state.backlog_bytes -= waiting.question.message.len();
            declined.push(waiting.question.id);
        }
        for stream in state.streams.values_mut().filter(|stream| !stream.ended) {
            stream.left_at_ms = match stream.purpose {
                StreamPurpose::Standalone if !stream.is_connected() => stream.left_at_ms.or(Some(now_ms)),
                // A stream that still has to bring an answer is kept, whether or not a client reads it.
                StreamPurpose::Standalone | StreamPurpose::Answer => None,
            };
        }
        let keep_ms = self.limits.keep_ms;
        let over =
            |stream: &SessionStream| stream.left_at_ms.is_some_and(|at_ms| now_ms.saturating_sub(at_ms) >= keep_ms);
        let gone: Vec<StreamNumber> =
            state.streams.iter().filter(|(_, stream)| over(stream)).map(|(number, _)| *number).collect();
        for number in gone {
            state.forget(number);
        }
        declined
    }

    fn open(&self, state: &mut State, purpose: StreamPurpose) -> (StreamNumber, SessionStreamConnection) {
        state.opened += 1;
        let number = StreamNumber(state.opened);
        // Everything that waited is put onto the stream before its client can read from it.
        let frames_max = FRAMES_MAX + state.backlog.len() + state.waiting.len();
        let (sender, frames) = queue::queue(frames_max, self.limits.queue_bytes_max);
        if self.primes {
            let (id, retry_ms) = (self.event_id(number, 0), self.limits.retry_ms);
            let _ = sender.push_over_limit(format!("id: {id}\nretry: {retry_ms}\ndata: \n\n").into());
        }
        let connection = Some(sender);
        let stream = SessionStream { purpose, position: 0, kept_after: 0, connection, ended: false, left_at_ms: None };
        state.streams.insert(number, stream);
        self.forget_surplus(state);
        self.put_waiting(state, number, purpose);
        (number, SessionStreamConnection { purpose, frames })
    }

    fn put_waiting(&self, state: &mut State, number: StreamNumber, purpose: StreamPurpose) {
        if purpose == StreamPurpose::Standalone {
            for told in std::mem::take(&mut state.backlog) {
                state.backlog_bytes -= told.message.len();
                self.put(state, number, told.message, FrameSender::push_over_limit);
            }
        }
        for waiting in std::mem::take(&mut state.waiting) {
            state.backlog_bytes -= waiting.question.message.len();
            self.put(state, number, waiting.question.message, FrameSender::push_over_limit);
        }
    }

    fn put(&self, state: &mut State, number: StreamNumber, message: Vec<u8>, push: PushFrame) {
        let Some(stream) = state.streams.get_mut(&number) else { return };
        stream.position += 1;
        let position = stream.position;
        let id = self.event_id(number, position);
        let frame: Bytes =
            [b"id: ".as_slice(), id.as_bytes(), b"\ndata: ", &on_one_line(message), b"\n\n"].concat().into();
        if let Some(connection) = &stream.connection
            && push(connection, frame.clone()).is_err()
        {
            // The connection is closed, or too slow; its client may come back for the rest.
            stream.connection = None;
        }
        state.kept_bytes += frame.len();
        let charge = self.budget.charge(frame.len());
        state.kept.push_back(ReplayEvent { stream: number, position, frame, _charge: charge });
        let limits = &self.limits;
        while state.kept.len() > limits.events_max || state.kept_bytes > limits.bytes_max || self.budget.is_exceeded() {
            let Some(oldest) = state.kept.pop_front() else { break };
            state.kept_bytes -= oldest.frame.len();
            if let Some(stream) = state.streams.get_mut(&oldest.stream) {
                stream.kept_after = oldest.position;
            }
        }
    }

    /// Drops the oldest unread streams, if there are too many.
    fn forget_surplus(&self, state: &mut State) {
        let idle = |stream: &SessionStream| {
            stream.ended || (stream.purpose == StreamPurpose::Standalone && !stream.is_connected())
        };
        let known: Vec<StreamNumber> =
            state.streams.iter().filter(|(_, stream)| idle(stream)).map(|(number, _)| *number).collect();
        let surplus = known.len().saturating_sub(self.limits.streams_max);
        for number in known.into_iter().take(surplus) {
            state.forget(number);
        }
    }

    /// Whether too many bytes wait for a stream, in this session or in all together.
    fn is_over_limit(&self, state: &State) -> bool {
        state.backlog_bytes > self.limits.backlog_bytes_max || self.budget.is_exceeded()
    }

    fn event_id(&self, StreamNumber(number): StreamNumber, position: u64) -> String {
        format!("{}-{number}-{position}", self.tag)
    }

    fn parse(&self, event_id: &str) -> Option<(StreamNumber, u64)> {
        let (number, position) = event_id.strip_prefix(&self.tag)?.strip_prefix('-')?.split_once('-')?;
        Some((StreamNumber(number.parse().ok()?), position.parse().ok()?))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every critical section leaves a whole state: no panic can leave it half-changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The newest stream of that purpose that a client reads.
    fn connected(&self, purpose: StreamPurpose) -> Option<StreamNumber> {
        let mut streams = self.streams.iter().rev();
        streams.find(|(_, stream)| stream.purpose == purpose && stream.is_connected()).map(|(number, _)| *number)
    }

    fn forget(&mut self, number: StreamNumber) {
        self.streams.remove(&number);
        self.kept.retain(|kept| kept.stream != number);
        self.kept_bytes = self.kept.iter().map(|kept| kept.frame.len()).sum();
    }
}

impl SessionStream {
    fn is_connected(&self) -> bool {
        self.connection.as_ref().is_some_and(|connection| !connection.is_closed())
    }
}

#[cfg(test)]
#[path = "replay_buffer_tests.rs"]
mod tests;
