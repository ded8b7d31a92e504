//! How a server is told something that is not a request: answers to its own requests, cancellations, a client's notifications. Each is
//! a line of its own. Who writes the lines out is the transport's business.

use servanda_mcp::{
    Id, RpcError,
    envelope::{failure, response},
    lines::on_one_line,
};
use tokio::sync::mpsc;

use super::loss::ConnectionLoss;
use crate::request::parcel::Parcel;

/// How a server is spoken to without being asked anything. It does not keep the connection alive.
#[derive(Debug, Clone)]
pub(crate) struct Outbox {
    pub(crate) outbox: mpsc::WeakSender<Parcel>,
    pub(crate) loss: ConnectionLoss,
}

impl Outbox {
    /// Answers at once; what does not fit is dropped, because a server that does not read cannot be told anything.
    pub(crate) fn respond(&self, id: &Id, result: &str) {
        self.send_if_room(response(id, result));
    }

    /// Declines at once.
    pub(crate) fn refuse(&self, id: &Id, code: i64, why: &str) {
        self.send_if_room(failure(Some(id), &RpcError::new(code, why)));
    }

    /// Says something if there is room for it now.
    pub(crate) fn send_if_room(&self, body: Vec<u8>) {
        if let Some(outbox) = self.outbox.upgrade() {
            let _ = outbox.try_send(line(body));
        }
    }

    /// Says something as soon as there is room, unless the connection goes first.
    pub(crate) async fn send(&self, body: Vec<u8>) {
        let Some(outbox) = self.outbox.upgrade() else { return };
        tokio::select! {
            biased;
            _ = self.loss.reported() => {}
            sent = outbox.send(line(body)) => drop(sent),
        }
    }
}

/// A message as a line; to HTTP the line end is mere space.
fn line(body: Vec<u8>) -> Parcel {
    let mut body = on_one_line(body);
    body.push(b'\n');
    Parcel::new(body)
}
