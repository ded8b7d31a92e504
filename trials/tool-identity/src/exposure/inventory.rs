//! Everything an agent is offered: tools of servers, then its own, then its handoffs, with shared names settled.

use std::collections::BTreeSet;

use super::batch::{ListedServer, prefixed, unprefixed};
use crate::{CollisionPolicy, Handoff, IdentityError, PublicName, Tool, ToolIdentity, ToolKind, collisions};

/// How tools of servers are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exposure {
    /// With their server's name.
    Prefixed,
    /// As they are.
    Unprefixed,
}

/// The origin of an offered tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin<T> {
    /// A server of the batch, by the tool's name there.
    Server {
        /// Which server.
        index: usize,
        /// The tool's name on its server.
        tool: String,
    },
    /// The agent's own.
    Local(T),
}

/// What is offered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inventory<T, H> {
    /// Tools, those of servers first.
    pub tools: Vec<Tool<Origin<T>>>,
    /// Handoffs.
    pub handoffs: Vec<Handoff<H>>,
}

/// The tools and handoffs that an agent is offered. `disabled` are local tools that are not offered, but keep their names.
pub fn expose<T: Clone, H: Clone>(
    servers: &[ListedServer<'_>],
    local: &[Tool<T>],
    disabled: &[Tool<T>],
    handoffs: &[Handoff<H>],
    (exposure, policy): (Exposure, CollisionPolicy),
) -> Result<Inventory<T, H>, IdentityError> {
    let of_servers = match exposure {
        Exposure::Prefixed => {
            let own = local.iter().chain(disabled).filter_map(|tool| tool.identity.public_name());
            let taken: BTreeSet<&str> =
                own.chain(handoffs.iter().map(|handoff| &handoff.name)).map(PublicName::as_str).collect();
            prefixed(servers, &taken)
        }
        Exposure::Unprefixed => unprefixed(servers)?,
    };
    let of_servers = of_servers.into_iter().map(|tool| Tool {
        identity: ToolIdentity { name: PublicName::new(tool.exposed), ..unnamed() },
        target: Origin::Server { index: tool.server_index, tool: tool.tool.to_owned() },
    });
    let own = local.iter().cloned();
    let own = own.map(|tool| Tool { identity: tool.identity, target: Origin::Local(tool.target) });
    let tools: Vec<Tool<Origin<T>>> = of_servers.chain(own).collect();
    let survivors =
        collisions::resolve(&tools.iter().collect::<Vec<_>>(), &handoffs.iter().collect::<Vec<_>>(), policy)?;
    Ok(Inventory {
        tools: survivors.tools.into_iter().cloned().collect(),
        handoffs: survivors.handoffs.into_iter().cloned().collect(),
    })
}

fn unnamed() -> ToolIdentity {
    ToolIdentity {
        kind: ToolKind::Function,
        name: None,
        namespace: None,
        loading: crate::Loading::Eager,
        label: None,
        source: crate::NameSource::Chosen,
    }
}
