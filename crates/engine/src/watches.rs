//! Who wants to hear of which resource, counted over all guests: a resource is watched at its upstream for as long as
//! anybody here does.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use servanda_mcp::{RpcError, envelope::code};

use crate::{
    core::{Core, within_ms},
    gateway::Guest,
    relay::{self, INQUIRY_MS_MAX},
    scene::Scene,
    watch::Watch,
};

/// Resources watched at once.
const WATCHES_MAX: usize = 10_000;

/// How many watch what.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    counts: Mutex<BTreeMap<Watched, usize>>,
}

/// An upstream and a URI there.
type Watched = (String, String);

/// Begins to watch a resource.
pub(crate) async fn watch(core: &Arc<Core>, guest: &Guest, exposed: &str) -> Result<Watch, RpcError> {
    let scene = core.scene();
    let (member, uri) = scene.by_uri(exposed).ok_or_else(|| relay::no_resource(guest.era, exposed))?;
    let watched = (member.id.to_string(), uri.to_owned());
    if !core.watches.enter(&watched) {
        return Err(RpcError::new(code::INTERNAL_ERROR, "too many resources are watched")
            .with_hint("give up watches that are not needed any more, or try again later"));
    }
    // Counted first, so that nobody else's giving up ends what is just beginning; given up by the drop on every way out.
    let given_up = Arc::downgrade(core);
    let counted = watched.clone();
    let watch = Watch::new(move || {
        if let Some(core) = given_up.upgrade() {
            leave(&core, &counted);
        }
    });
    let deadline = within_ms(INQUIRY_MS_MAX);
    match member.server.watch(uri, deadline).await {
        Ok(()) => Ok(watch),
        Err(failure) => Err(relay::of_read_failure(&failure, member, guest.era, exposed)),
    }
}

/// Watches at the servers of another world what was watched at those of the one before.
pub(crate) fn watch_again(core: &Core, scene: &Arc<Scene>) {
    for (upstream, uri) in core.watches.all() {
        let Some(member) = scene.member(&upstream).cloned() else { continue };
        tokio::spawn(async move {
            if let Err(error) = member.server.watch(&uri, within_ms(INQUIRY_MS_MAX)).await {
                tracing::warn!(upstream = %member.id, %error, "a resource cannot be watched any more");
            }
        });
    }
}

fn leave(core: &Core, watched: &Watched) {
    if core.watches.leave(watched)
        && let Some(member) = core.scene().member(&watched.0)
    {
        member.server.unwatch(&watched.1);
    }
}

impl Watches {
    fn enter(&self, watched: &Watched) -> bool {
        let mut counts = self.counts();
        if counts.len() >= WATCHES_MAX && !counts.contains_key(watched) {
            return false;
        }
        *counts.entry(watched.clone()).or_default() += 1;
        true
    }

    /// Whether that was the last.
    fn leave(&self, watched: &Watched) -> bool {
        let mut counts = self.counts();
        let Some(count) = counts.get_mut(watched) else { return false };
        *count -= 1;
        if *count == 0 {
            counts.remove(watched);
            return true;
        }
        false
    }

    fn all(&self) -> Vec<Watched> {
        self.counts().keys().cloned().collect()
    }

    fn counts(&self) -> MutexGuard<'_, BTreeMap<Watched, usize>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::{WATCHES_MAX, Watches};

    #[test]
    fn the_last_one_ends_it_and_resources_are_bounded_in_number() {
        let watches = Watches::default();
        let resource = |number: usize| ("up".to_owned(), number.to_string());
        assert!(watches.enter(&resource(0)) && watches.enter(&resource(0)));
        assert!(!watches.leave(&resource(0)), "another still watches");
        assert!(watches.leave(&resource(0)));
        assert!(!watches.leave(&resource(0)), "it was over already");
        assert_eq!((0..WATCHES_MAX + 5).filter(|number| watches.enter(&resource(*number))).count(), WATCHES_MAX);
        assert!(watches.enter(&resource(0)), "what is watched already may be watched by more");
    }
}
