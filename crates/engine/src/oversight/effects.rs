//! Effects as people see them.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Map, Value};
use servanda_effects::{
    JournalError,
    effect::{Effect, EffectFilter, EffectId, EffectQuery, EffectState, EffectTarget},
};
use servanda_gates::CompiledContract;

use super::{Oversight, OversightView, inquiries};
use crate::{approvals::Person, long_running::WorkProgress};

/// Effects that are read at once.
const READ_AT_ONCE: usize = 500;
/// Effects that are read for one page before the reader is asked to go on.
const READ_MAX: usize = 2_000;

/// An effect, and what is known beside it.
#[derive(Debug, Clone)]
pub struct EffectOverview {
    /// The effect.
    pub effect: Effect,
    /// Which of its arguments are sensitive.
    pub sensitive: SensitiveArguments,
    /// Calls that would show whether it happened: exposed name and arguments, none of them sensitive.
    pub inquiries: Vec<(String, Map<String, Value>)>,
    /// How far its work was, as its server last said.
    pub progress: Option<WorkProgress>,
}

/// Which arguments of an effect are sensitive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SensitiveArguments {
    /// These: JSON Pointer and sensitivity, by the contract under which the call was made.
    Known(BTreeMap<String, String>),
    /// At least these, by the present contract. The call was made under another one, so that any value may be sensitive.
    Perhaps(BTreeMap<String, String>),
    /// Nobody knows, because there is no contract any more.
    Unknown,
}

/// One page of effects.
#[derive(Debug, Clone, Default)]
pub struct SeenEffects {
    /// The effects, newest first.
    pub effects: Vec<Effect>,
    /// After which effect to go on; none at the end. There may be more although the page is not full.
    pub next: Option<EffectId>,
}

impl Oversight<'_> {
    /// The newest effects in these states (in all, if none is given) that a person sees, after that one: at most `count`. The store finds
    /// those of the tenant; a page reads a bounded number of them for a person who sees only some.
    pub async fn effects(
        &self,
        person: &Person,
        states: Vec<EffectState>,
        after: Option<EffectId>,
        count: usize,
    ) -> Result<SeenEffects, JournalError> {
        let view = self.view(person);
        let mut seen = SeenEffects { effects: Vec::new(), next: after };
        let (mut read, mut limit) = (0_usize, count.saturating_add(1).min(READ_AT_ONCE));
        while read < READ_MAX {
            let query = EffectQuery {
                states: states.clone(),
                after: seen.next.clone(),
                limit: u32::try_from(limit).unwrap_or(u32::MAX),
                filter: EffectFilter { tenant: Some(person.tenant.clone()), ..EffectFilter::default() },
            };
            let listed = self.core.effects.list(query).await?;
            let is_end = listed.len() < limit;
            read += listed.len();
            for effect in listed {
                if seen.effects.len() == count {
                    return Ok(seen);
                }
                seen.next = Some(effect.id.clone());
                if view.sees_effect(&effect) {
                    seen.effects.push(effect);
                }
            }
            if is_end {
                return Ok(SeenEffects { next: None, ..seen });
            }
            limit = READ_AT_ONCE;
        }
        Ok(seen)
    }

    /// One effect, if the person sees it.
    pub async fn effect(&self, person: &Person, id: EffectId) -> Result<Option<EffectOverview>, JournalError> {
        let view = self.view(person);
        let Some(effect) = self.visible_effect(&view, id).await? else { return Ok(None) };
        let progress = WorkProgress::load(self.core.notebook.as_ref(), &effect.id, self.core.clock.now()).await;
        let catalog = &view.snapshot.catalog;
        let named = |name: &str| {
            let mut entries = catalog.entries();
            entries.find(|(_, entry)| entry.contract.contract().identity.name == name)
        };
        let own = named(&effect.key.tool).map(|(_, entry)| &entry.contract);
        let sensitive = sensitive(own, &effect);
        let inquiries = own.map(|own| {
            let contract = |name: &str| named(name).map(|(_, entry)| entry.contract.contract());
            // A value with something sensitive inside is hidden, too.
            let hides = |name: &str, _: &Value| match &sensitive {
                SensitiveArguments::Known(known) => {
                    let at = format!("/{}", name.replace('~', "~0").replace('/', "~1"));
                    known.keys().any(|pointer| at.starts_with(pointer.as_str()) || pointer.starts_with(&at))
                }
                SensitiveArguments::Perhaps(_) | SensitiveArguments::Unknown => true,
            };
            inquiries(own.contract(), &effect, contract, hides)
        });
        let exposed = |tool: &str| named(tool).map_or_else(|| tool.to_owned(), |(exposed, _)| exposed.to_owned());
        let inquiries = inquiries.into_iter().flatten();
        let inquiries = inquiries.map(|inquiry| (exposed(&inquiry.tool.identity.name), inquiry.arguments)).collect();
        Ok(Some(EffectOverview { effect, sensitive, inquiries, progress }))
    }

    pub(super) async fn visible_effect(
        &self,
        view: &OversightView<'_>,
        id: EffectId,
    ) -> Result<Option<Effect>, JournalError> {
        let found = self.core.effects.find(EffectTarget::Id(id)).await?;
        Ok(found.filter(|effect| view.sees_effect(effect)))
    }
}

impl OversightView<'_> {
    fn sees_effect(&self, effect: &Effect) -> bool {
        effect.key.tenant == self.person.tenant && (self.sees_tenant() || effect.key.principal == self.person.principal)
    }
}

fn sensitive(contract: Option<&Arc<CompiledContract>>, effect: &Effect) -> SensitiveArguments {
    let Some(contract) = contract else { return SensitiveArguments::Unknown };
    let found = contract.approval_texts(&effect.order.arguments).sensitive;
    if contract.digest() == effect.order.contract_digest {
        SensitiveArguments::Known(found)
    } else {
        SensitiveArguments::Perhaps(found)
    }
}
