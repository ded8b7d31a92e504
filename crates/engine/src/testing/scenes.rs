//! Scenes of scripted servers, in which nobody has written a policy.

use std::{collections::BTreeMap, sync::Arc};

use servanda_catalog::{Catalog, names::Naming};
use servanda_contract::ToolContract;
use servanda_gates::{Registered, admit};

use super::{Scripted, contract};
use crate::{authorities::Authorities, scene::Scene, server::Server};

pub(crate) fn scene(naming: Naming, servers: &[(&str, Arc<Scripted>)]) -> Scene {
    let contracts = servers.iter().flat_map(|(id, _)| [contract(id, "echo", false), contract(id, "write", true)]);
    let catalog = Catalog::new(contracts, naming).unwrap();
    let servers = servers.iter().map(|(id, server)| ((*id).to_owned(), server.clone() as Arc<dyn Server>));
    let authorities = Arc::new(Authorities::of_defaults(&catalog).unwrap());
    Scene::with_servers(Arc::new(catalog), servers.collect(), naming, authorities)
}

/// A scene of one server whose tools have these contracts.
pub(crate) fn scene_of(server: &Arc<Scripted>, contracts: Vec<ToolContract>) -> Scene {
    let contracts = contracts.into_iter().map(|contract| admit(contract, &Registered::new()).unwrap());
    let catalog = Catalog::new(contracts, Naming::Bare).unwrap();
    let servers = BTreeMap::from([("up".to_owned(), server.clone() as Arc<dyn Server>)]);
    let authorities = Arc::new(Authorities::of_defaults(&catalog).unwrap());
    Scene::with_servers(Arc::new(catalog), servers, Naming::Bare, authorities)
}
