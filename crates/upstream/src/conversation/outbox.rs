//! Sends a server messages that are not requests: answers to its own requests, cancellations, a client's notifications. Each is one line.
//! The transport writes the lines.

use servanda_mcp::{
    Id, RpcError,
    envelope::{failure, response},
    lines::on_one_line,
};
use tokio::sync::mpsc;

use super::loss::ConnectionLoss;
use crate::request::parcel::Parcel;

/// Sends messages to a server without asking anything. It does not keep the connection alive.
#[derive(Debug, Clone)]
pub(crate) struct Outbox {
    pub(crate) outbox: mpsc::WeakSender<Parcel>,
    pub(crate) loss: ConnectionLoss,
}

impl Outbox {
    /// Answers at once. An answer that does not fit is dropped, because a server that does not read cannot be told anything.
    pub(crate) fn respond(&self, id: &Id, result: &str) {
        self.send_if_room(response(id, result));
    }

    /// Declines at once.
    pub(crate) fn refuse(&self, id: &Id, code: i64, why: &str) {
        self.send_if_room(failure(Some(id), &RpcError::new(code, why)));
    }

    /// Sends a message if there is room for it now.
    pub(crate) fn send_if_room(&self, body: Vec<u8>) {
        if let Some(outbox) = self.outbox.upgrade() {
            let _ = outbox.try_send(line(body));
        }
    }

    /// Sends a message as soon as there is room, unless the connection is lost first.
    pub(crate) async fn send(&self, body: Vec<u8>) {
        let Some(outbox) = self.outbox.upgrade() else { return };
        tokio::select! {
            biased;
            _ = self.loss.reported() => {}
            sent = outbox.send(line(body)) => drop(sent),
        }
    }
}

/// A message as one line. HTTP treats the line end as whitespace.
fn line(body: Vec<u8>) -> Parcel {
    let mut body = on_one_line(body);
    body.push(b'\n');
    Parcel::new(body)
}
