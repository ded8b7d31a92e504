//! The replay buffer, with the time as a value.

use servanda_mcp::Id;

use super::*;

const LIMITS: ReplayLimits = ReplayLimits {
    events_max: 8,
    bytes_max: 10_000,
    streams_max: 2,
    keep_ms: 1000,
    backlog_max: 3,
    backlog_bytes_max: 1000,
    queue_bytes_max: 50_000,
    question_wait_ms: 100,
    retry_ms: 5,
};

fn budget() -> Arc<SessionByteBudget> {
    Arc::new(SessionByteBudget::new(1_000_000))
}

fn replay_buffer() -> ReplayBuffer {
    ReplayBuffer::new(LIMITS, true, budget())
}

fn question(number: i64) -> SessionQuestion {
    SessionQuestion { id: Id::Number(number), message: format!("q{number}").into_bytes() }
}

/// The id and data of all frames that are queued.
fn read(connected: &mut SessionStreamConnection) -> Vec<(String, String)> {
    let mut events = Vec::new();
    while let Ok(frame) = connected.frames.try_recv() {
        let text = String::from_utf8(frame.to_vec()).unwrap();
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
        events.push((field("id: "), field("data: ")));
    }
    events
}

fn data(connected: &mut SessionStreamConnection) -> Vec<String> {
    read(connected).into_iter().map(|(_, data)| data).collect()
}

fn is_over(connected: &mut SessionStreamConnection) -> bool {
    matches!(connected.frames.try_recv(), Err(tokio::sync::mpsc::error::TryRecvError::Disconnected))
}

#[test]
fn a_stream_is_primed_and_every_event_has_an_id_of_its_own() {
    let replay_buffer = replay_buffer();
    let (one, mut first) = replay_buffer.open_answer();
    let (two, mut second) = replay_buffer.open_answer();
    let primed = first.frames.try_recv().unwrap();
    assert_eq!(primed, format!("id: {}-1-0\nretry: 5\ndata: \n\n", replay_buffer.tag));
    replay_buffer.send(one, b"a\nb".to_vec());
    replay_buffer.send(two, b"c".to_vec());
    replay_buffer.send(one, b"d".to_vec());
    assert_eq!(
        read(&mut first),
        [
            (format!("{}-1-1", replay_buffer.tag), "a b".to_owned()),
            (format!("{}-1-2", replay_buffer.tag), "d".to_owned())
        ]
    );
    assert_eq!(data(&mut second), ["", "c"]);

    let old_client = ReplayBuffer::new(LIMITS, false, budget());
    assert!(data(&mut old_client.open_standalone()).is_empty(), "it could not read an event without data");
    assert_ne!(old_client.tag, replay_buffer.tag);
}

#[test]
fn what_came_after_an_event_is_replayed_on_its_stream_only() {
    let replay_buffer = replay_buffer();
    let (one, mut first) = replay_buffer.open_answer();
    let (two, _second) = replay_buffer.open_answer();
    replay_buffer.send(one, b"a".to_vec());
    let seen = read(&mut first).pop().unwrap().0;
    drop(first);
    replay_buffer.send(one, b"b".to_vec());
    replay_buffer.send(two, b"other".to_vec());
    replay_buffer.send(one, b"c".to_vec());
    let mut resumed = replay_buffer.resume(&seen).unwrap();
    assert_eq!(resumed.purpose, StreamPurpose::Answer);
    assert_eq!(data(&mut resumed), ["b", "c"]);
    replay_buffer.send(one, b"d".to_vec());
    assert_eq!(data(&mut resumed), ["d"], "and it goes on");
    replay_buffer.end(one, 0);
    assert!(is_over(&mut resumed));

    let mut again = replay_buffer.resume(&seen).unwrap();
    assert_eq!(data(&mut again), ["b", "c", "d"], "also after the end");
    assert!(is_over(&mut again));
}

#[test]
fn events_that_never_existed_or_are_no_longer_kept_cannot_be_resumed_from() {
    let replay_buffer = replay_buffer();
    let (number, mut connected) = replay_buffer.open_answer();
    let tag = &replay_buffer.tag;
    for text in ["", "1-0", "nonsense", &format!("{tag}-1-1"), &format!("{tag}-2-0"), &format!("{tag}-1"), "x-1-0"] {
        assert_eq!(replay_buffer.resume(text).unwrap_err(), EventNotReplayable, "{text}");
    }
    for index in 0..=LIMITS.events_max {
        replay_buffer.send(number, index.to_string().into_bytes());
    }
    data(&mut connected);
    assert!(replay_buffer.resume(&format!("{tag}-1-0")).is_err(), "the first event is not kept any more");
    let mut rest = replay_buffer.resume(&format!("{tag}-1-1")).unwrap();
    assert_eq!(data(&mut rest).len(), LIMITS.events_max);
}

#[test]
fn bytes_have_a_limit() {
    let replay_buffer = replay_buffer();
    let (number, mut connected) = replay_buffer.open_answer();
    for _ in 0..3 {
        replay_buffer.send(number, vec![b'x'; 4000]);
    }
    assert_eq!(replay_buffer.state().kept.len(), 2);
    assert!(replay_buffer.state().kept_bytes <= LIMITS.bytes_max);
    replay_buffer.send(number, vec![b'x'; 20_000]);
    assert_eq!(replay_buffer.state().kept_bytes, 0);
    assert_eq!(data(&mut connected).len(), 5, "a connected client gets all of it");
}

#[test]
fn a_connection_that_does_not_read_is_closed_and_can_come_back() {
    let replay_buffer = ReplayBuffer::new(ReplayLimits { events_max: 1000, ..LIMITS }, true, budget());
    let (number, mut connected) = replay_buffer.open_answer();
    for index in 0..=FRAMES_MAX {
        replay_buffer.send(number, index.to_string().into_bytes());
    }
    let events = read(&mut connected);
    assert_eq!(events.len(), FRAMES_MAX);
    assert!(is_over(&mut connected));
    let mut resumed = replay_buffer.resume(&events.last().unwrap().0).unwrap();
    assert_eq!(data(&mut resumed), [(FRAMES_MAX - 1).to_string(), FRAMES_MAX.to_string()]);
}

#[test]
fn messages_without_a_stream_wait_and_are_not_sent_twice() {
    let replay_buffer = replay_buffer();
    let (_, mut answer) = replay_buffer.open_answer();
    for text in ["a", "b", "a", "c", "d"] {
        replay_buffer.send_standalone(text.as_bytes().to_vec());
    }
    assert_eq!(data(&mut answer), [""], "an answer's stream is for its answer");
    let mut standing = replay_buffer.open_standalone();
    assert_eq!(data(&mut standing), ["", "b", "c", "d"], "the oldest made room");
    replay_buffer.send_standalone(b"e".to_vec());
    replay_buffer.send_standalone(b"e".to_vec());
    assert_eq!(data(&mut standing), ["e", "e"]);
    let seen = format!("{}-2-0", replay_buffer.tag);
    drop(standing);
    replay_buffer.send_standalone(b"f".to_vec());
    let mut resumed = replay_buffer.resume(&seen).unwrap();
    assert_eq!(data(&mut resumed), ["b", "c", "d", "e", "e", "f"]);
}

#[test]
fn a_message_goes_out_on_the_newest_stream_that_a_client_reads() {
    let replay_buffer = replay_buffer();
    let (mut one, mut two) = (replay_buffer.open_standalone(), replay_buffer.open_standalone());
    replay_buffer.send_standalone(b"a".to_vec());
    drop(two.frames);
    two = replay_buffer.open_standalone();
    replay_buffer.send_standalone(b"b".to_vec());
    drop(two.frames);
    replay_buffer.send_standalone(b"c".to_vec());
    assert_eq!(data(&mut one), ["", "c"]);
}

#[test]
fn a_question_takes_any_stream_or_waits_for_one() {
    let replay_buffer = replay_buffer();
    assert_eq!(replay_buffer.ask(question(1), 0), QuestionDelivery::Queued);
    let (_, mut answer) = replay_buffer.open_answer();
    assert_eq!(data(&mut answer), ["", "q1"]);
    assert_eq!(replay_buffer.ask(question(2), 0), QuestionDelivery::Sent);
    assert_eq!(data(&mut answer), ["q2"]);
    let mut standing = replay_buffer.open_standalone();
    assert_eq!(replay_buffer.ask(question(3), 0), QuestionDelivery::Sent);
    assert_eq!((data(&mut standing), data(&mut answer)), (vec![String::new(), "q3".to_owned()], vec![]));

    drop((standing, answer));
    assert_eq!(replay_buffer.ask(question(4), 0), QuestionDelivery::Queued);
    assert_eq!(replay_buffer.ask(question(5), 50), QuestionDelivery::Queued);
    assert!(replay_buffer.expire(99).is_empty());
    assert_eq!(replay_buffer.expire(100), [Id::Number(4)]);
    assert_eq!(data(&mut replay_buffer.open_standalone()), ["", "q5"], "the other was declined");
}

#[test]
fn streams_are_forgotten_in_time_but_never_one_that_has_to_bring_an_answer() {
    let replay_buffer = replay_buffer();
    let (running, _) = replay_buffer.open_answer();
    let (ended, _) = replay_buffer.open_answer();
    replay_buffer.end(ended, 0);
    drop(replay_buffer.open_standalone());
    replay_buffer.expire(500);
    assert_eq!(replay_buffer.state().streams.len(), 3);
    replay_buffer.expire(1000);
    assert_eq!(replay_buffer.state().streams.keys().collect::<Vec<_>>(), [&running, &StreamNumber(3)]);
    replay_buffer.expire(1500);
    assert_eq!(replay_buffer.state().streams.keys().collect::<Vec<_>>(), [&running]);
}

#[test]
fn the_oldest_unread_streams_are_dropped_for_the_next() {
    let replay_buffer = replay_buffer();
    let open = replay_buffer.open_standalone();
    let (running, _) = replay_buffer.open_answer();
    for _ in 0..4 {
        let (number, _) = replay_buffer.open_answer();
        replay_buffer.send(number, b"x".to_vec());
        replay_buffer.end(number, 0);
    }
    let state = replay_buffer.state();
    assert_eq!(state.streams.len(), 4);
    assert!(state.streams.contains_key(&StreamNumber(1)) && state.streams.contains_key(&running));
    assert_eq!((state.kept.len(), state.kept_bytes), (2, state.kept.iter().map(|kept| kept.frame.len()).sum()));
    drop((state, open));
}

#[test]
fn what_waits_for_a_stream_is_bounded_in_bytes() {
    let replay_buffer = replay_buffer();
    for letter in [b'a', b'b', b'c'] {
        replay_buffer.send_standalone(vec![letter; 400]);
    }
    let large = || SessionQuestion { id: Id::Number(1), message: vec![b'q'; 300] };
    assert_eq!(replay_buffer.state().backlog_bytes, 800, "the oldest made room");
    assert_eq!(replay_buffer.ask(large(), 0), QuestionDelivery::NoRoom);
    assert_eq!(replay_buffer.ask(question(2), 0), QuestionDelivery::Queued);
    replay_buffer.send_standalone(vec![b'd'; 2000]);
    assert!(replay_buffer.state().backlog.is_empty(), "what does not fit at all is lost");
    assert_eq!(replay_buffer.state().backlog_bytes, 2, "the question");
    assert_eq!(replay_buffer.expire(100), [Id::Number(2)]);
    assert_eq!(replay_buffer.ask(large(), 100), QuestionDelivery::Queued);
    drop(replay_buffer.open_standalone());
    assert_eq!(replay_buffer.state().backlog_bytes, 0);
}

#[test]
fn a_connection_may_be_behind_with_so_many_bytes() {
    let replay_buffer = ReplayBuffer::new(ReplayLimits { queue_bytes_max: 1000, ..LIMITS }, true, budget());
    let (number, mut connected) = replay_buffer.open_answer();
    for _ in 0..3 {
        replay_buffer.send(number, vec![b'x'; 800]);
    }
    let events = read(&mut connected);
    assert_eq!(events.len(), 3, "the first event, and two messages");
    assert!(is_over(&mut connected));
    assert_eq!(data(&mut replay_buffer.resume(&events[2].0).unwrap()).len(), 1, "it may come back for the rest");
}

#[test]
fn all_sessions_together_keep_so_many_bytes() {
    let budget = Arc::new(SessionByteBudget::new(2000));
    let replay_buffer = || ReplayBuffer::new(LIMITS, true, Arc::clone(&budget));
    let (replaying, waiting, asking) = (replay_buffer(), replay_buffer(), replay_buffer());
    let (number, mut connected) = replaying.open_answer();
    replaying.send(number, vec![b'x'; 1500]);
    waiting.send_standalone(vec![b'a'; 300]);
    waiting.send_standalone(vec![b'b'; 300]);
    assert_eq!(waiting.state().backlog.len(), 1, "the oldest made room");
    assert_eq!(
        asking.ask(SessionQuestion { id: Id::Number(1), message: vec![b'q'; 300] }, 0),
        QuestionDelivery::NoRoom
    );
    replaying.send(number, vec![b'y'; 300]);
    assert_eq!(replaying.state().kept.len(), 1, "the session that exceeds it drops its own");
    assert_eq!(data(&mut connected).len(), 3, "a connected client gets all of it");
    drop(replaying);
    waiting.send_standalone(vec![b'c'; 300]);
    assert_eq!(waiting.state().backlog.len(), 2);
    drop(waiting);
    assert_eq!(
        asking.ask(SessionQuestion { id: Id::Number(1), message: vec![b'q'; 900] }, 0),
        QuestionDelivery::Queued
    );
}
