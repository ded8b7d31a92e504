//! Where what is said to a client goes: a line each, or, for the answers to a batch, one line for all of them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use servanda_mcp::envelope;
use tokio::sync::mpsc;

/// The client stopped reading.
#[derive(Debug)]
pub(super) struct StdioOutputClosed;

/// Where the messages of one request go.
#[derive(Debug, Clone)]
pub(super) struct StdioDoorOutput {
    output: mpsc::Sender<Vec<u8>>,
    batch: Option<Arc<Mutex<StdioBatchAnswers>>>,
}

#[derive(Debug, Default)]
struct StdioBatchAnswers {
    /// Requests that are not answered yet, and the reading of the batch itself.
    open: usize,
    answers: Vec<Vec<u8>>,
}

impl StdioDoorOutput {
    /// A line for every message.
    pub(super) fn single(output: mpsc::Sender<Vec<u8>>) -> Self {
        Self { output, batch: None }
    }

    /// One line for all answers, once [`StdioDoorOutput::settle`] was called for each request and for the batch itself.
    pub(super) fn batch(output: mpsc::Sender<Vec<u8>>) -> Self {
        Self { output, batch: Some(Arc::new(Mutex::new(StdioBatchAnswers { open: 1, answers: Vec::new() }))) }
    }

    /// An answer is owed here.
    pub(super) fn expect_answer(&self) {
        if let Some(batch) = &self.batch {
            lock(batch).open += 1;
        }
    }

    /// Says something that is no answer.
    pub(super) async fn send(&self, message: Vec<u8>) -> Result<(), StdioOutputClosed> {
        self.output.send(message).await.map_err(|_| StdioOutputClosed)
    }

    /// Answers a request that was owed an answer; with nothing if it was cancelled.
    pub(super) async fn answer(&self, answer: Option<Vec<u8>>) -> Result<(), StdioOutputClosed> {
        let Some(batch) = &self.batch else {
            return match answer {
                Some(answer) => self.send(answer).await,
                None => Ok(()),
            };
        };
        let answers = {
            let mut batch = lock(batch);
            batch.answers.extend(answer);
            batch.open = batch.open.saturating_sub(1);
            if batch.open > 0 {
                return Ok(());
            }
            std::mem::take(&mut batch.answers)
        };
        if answers.is_empty() { Ok(()) } else { self.send(envelope::batch(&answers)).await }
    }
}

fn lock(batch: &Mutex<StdioBatchAnswers>) -> MutexGuard<'_, StdioBatchAnswers> {
    // Every critical section leaves a whole batch: no panic can leave it half-changed.
    batch.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_batch_is_answered_when_the_last_of_it_is() {
        let (output, mut lines) = mpsc::channel(4);
        let output = StdioDoorOutput::batch(output);
        for _ in 0..3 {
            output.expect_answer();
        }
        output.answer(Some(b"1".to_vec())).await.unwrap();
        output.answer(None).await.unwrap();
        output.answer(None).await.unwrap();
        output.send(b"note".to_vec()).await.unwrap();
        assert_eq!(lines.recv().await.unwrap(), b"note");
        output.answer(Some(b"2".to_vec())).await.unwrap();
        assert_eq!(lines.recv().await.unwrap(), b"[1,2]");

        let silent = StdioDoorOutput::batch(output.output.clone());
        silent.answer(None).await.unwrap();
        drop((output, silent));
        assert!(lines.recv().await.is_none(), "a batch of notifications is answered with nothing");
    }
}
