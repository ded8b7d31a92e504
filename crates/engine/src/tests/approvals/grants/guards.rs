//! Guards of grants that are behind others, each met alone.

use servanda_approval::StandingGrant;

use super::*;

/// A store in which somebody copied the grant of one ticket to the row of another, with its signature and as if it was never used.
#[derive(Debug)]
struct MovedGrant {
    inner: Arc<dyn TicketStore>,
    moved: Mutex<Option<(TicketId, StandingGrant)>>,
}

impl TicketStore for MovedGrant {
    fn apply_ticket(
        &self,
        target: TicketTarget,
        event: TicketEvent,
    ) -> PortFuture<'_, Result<AppliedTicket, JournalError>> {
        self.inner.apply_ticket(target, event)
    }

    fn find_ticket(&self, target: TicketTarget) -> PortFuture<'_, Result<Option<Ticket>, JournalError>> {
        Box::pin(async move {
            let mut found = self.inner.find_ticket(target).await?;
            if let (Some((to, grant)), Some(ticket)) = (&*self.moved.lock().unwrap(), &mut found)
                && ticket.id == *to
            {
                ticket.grant = Some(Box::new(grant.clone()));
            }
            Ok(found)
        })
    }

    fn list_tickets(&self, query: TicketQuery) -> PortFuture<'_, Result<Vec<Ticket>, JournalError>> {
        self.inner.list_tickets(query)
    }

    fn count_pending(&self, tenant: Option<String>, limit: u32) -> PortFuture<'_, Result<u32, JournalError>> {
        self.inner.count_pending(tenant, limit)
    }

    fn due_tickets(&self, limit: u32) -> PortFuture<'_, Result<Vec<Ticket>, JournalError>> {
        self.inner.due_tickets(limit)
    }
}

#[tokio::test]
async fn a_grant_in_the_row_of_another_ticket_covers_nothing() {
    let mut office = Office::paying();
    let parts = office.harness.approvals.clone();
    let store = Arc::new(MovedGrant { inner: parts.tickets.clone(), moved: Mutex::new(None) });
    office.harness.approvals = ApprovalParts { tickets: store.clone(), keys: parts.keys };
    let snapshot = world(&office.server, settings(), vec![contract(paying), draft("up", "echo", false)]);
    office.harness = office.harness.restarted(snapshot, office.clock.clone());

    let taken_back = office.granted(&json!({"to": "bob", "amount": 100}), 20).await;
    let other = office.granted(&json!({"to": "kim", "amount": 1}), 20).await;
    let copied = *office.ticket(&taken_back).await.grant.unwrap();
    office.revoke(&person("olga"), &taken_back).await.unwrap();
    let call = json!({"to": "bob", "amount": 1});
    office.asks_about(&call).await;
    *store.moved.lock().unwrap() = Some((other.clone(), copied));
    // Its signature holds, and the row does not say that it was taken back. People are asked all the same.
    office.asks_about(&json!({"to": "bob", "amount": 2})).await;
    assert_eq!((office.sent(), office.ticket(&taken_back).await.grant.unwrap().draws.len()), (0, 0));
}
