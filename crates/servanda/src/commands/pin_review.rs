//! Compares every tool that has a contract with its pin, for `diff`, `pin` and `pins`.
//!
//! The configuration's `pins` policy is not used here: it decides what a gateway does about a change, not what changed.

use std::collections::BTreeSet;

use serde::Serialize;
use servanda_catalog::{
    Catalog, RejectedDefinition,
    negotiation::{SchemaGap, SchemaMatch, fits},
    pins::{Definition, Difference, DifferenceSeverity, ListedKind, LockFile, compare},
};
use servanda_config::LoadedConfig;
use servanda_contract::legibility::reveal;

use crate::{
    commands::next_step::{self, ToolTrouble},
    contracts::{self, lock},
    failure::CommandFailure,
    screen::{Screen, TextStyle},
    wiring::{
        remembered_names,
        survey::{self, UpstreamSurvey},
    },
};

/// One tool, reviewed.
#[derive(Debug, Serialize)]
pub(crate) struct ReviewedTool {
    /// The exposed name.
    pub tool: String,
    /// Its upstream.
    pub upstream: String,
    /// How the served definition compares with the pinned one.
    pub state: PinReviewState,
    /// More details, as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
    /// The pinned definition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pinned: Option<AgreedDefinition>,
    /// The digest of the served definition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live_digest: Option<String>,
    /// What changed, the gravest first.
    pub differences: Vec<Difference>,
    /// Where the tool does not accept what its contract says, so that it would be held back even if it were pinned.
    pub misfits: Vec<SchemaGap>,
    /// The served definition.
    #[serde(skip)]
    pub live: Option<Definition>,
    /// The list that it is an item of, if it is not a tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listed: Option<ListedKind>,
}

/// A pin, as it is shown.
#[derive(Debug, Serialize)]
pub(crate) struct AgreedDefinition {
    /// The digest.
    pub digest: String,
    /// When it was pinned.
    pub at: String,
}

/// How the served definition compares with the pinned one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PinReviewState {
    /// It is the same.
    Identical,
    /// It only adds something.
    Additive,
    /// A caller who kept the old definition may fail.
    Breaking,
    /// A person who agreed to the old definition might not agree to this one.
    Dangerous,
    /// It has no pin.
    NotPinned,
    /// It cannot be used.
    Rejected,
    /// The upstream does not offer the tool.
    Withdrawn,
    /// The upstream could not be asked.
    Unreachable,
    /// The upstream was not asked.
    NotAsked,
}

/// A catalog and its pins.
#[derive(Debug)]
pub(crate) struct PinReview {
    /// The contracts.
    pub catalog: Catalog,
    /// The pins; none if there is no lock file.
    pub lock: Option<LockFile>,
}

impl PinReview {
    /// Reads contracts and pins; asks no upstream.
    pub(crate) async fn open(loaded: &LoadedConfig) -> Result<Self, CommandFailure> {
        let catalog = remembered_names::catalog(loaded, contracts::load(loaded)?).await?;
        Ok(Self { catalog, lock: lock::read(&loaded.lock_file())? })
    }

    /// Asks the upstreams of these tools (of all, if none is named) and reviews them.
    pub(crate) async fn live(
        &self,
        loaded: &LoadedConfig,
        names: &[String],
        screen: Screen,
    ) -> Result<Vec<ReviewedTool>, CommandFailure> {
        let meant = |said: &String| self.catalog.present_name(said);
        let wanted = |name: &str| names.is_empty() || names.iter().any(|said| meant(said) == Some(name));
        if let Some(unknown) = names.iter().find(|name| self.catalog.entry(name).is_none()) {
            let entries = self.catalog.entries();
            let known = entries.map(|(name, entry)| (name, entry.contract.contract().binding.tool.as_str()));
            return Err(CommandFailure::bad_input(format!("there is no tool `{unknown}`"))
                .hint(next_step::nearest(unknown, known)));
        }
        let entries = self.catalog.entries().filter(|(name, _)| wanted(name));
        let upstreams: BTreeSet<String> =
            entries.map(|(_, entry)| entry.contract.contract().binding.upstream.clone()).collect();
        let survey = survey::ask(loaded, Some(&upstreams), screen).await?;
        let mut all: Vec<ReviewedTool> =
            self.reviewed(Some(&survey)).into_iter().filter(|reviewed| wanted(&reviewed.tool)).collect();
        if names.is_empty() {
            all.extend(self.listed(&survey));
        }
        Ok(all)
    }

    /// Reviews what the upstreams that answered list beside their tools. An item that is gone from a list needs no action.
    pub(crate) fn listed(&self, survey: &UpstreamSurvey) -> Vec<ReviewedTool> {
        let mut all = Vec::new();
        for (upstream, inventory) in survey.iter().filter_map(|(upstream, said)| Some((upstream, said.as_ref().ok()?)))
        {
            for (kind, items) in &inventory.listed {
                all.extend(items.iter().map(|live| self.review_listed(upstream, *kind, live)));
            }
        }
        all
    }

    fn review_listed(&self, upstream: &str, kind: ListedKind, live: &Definition) -> ReviewedTool {
        let pins = self.lock.as_ref().and_then(|lock| lock.listed.get(upstream)?.get(&kind));
        let pin = pins.and_then(|pins| pins.get(&live.name));
        let state = match pin {
            None => PinReviewState::NotPinned,
            Some(pin) if pin.digest == live.digest() => PinReviewState::Identical,
            // Dangerous, because every pinned member is text that an agent reads.
            Some(_) => PinReviewState::Dangerous,
        };
        ReviewedTool {
            tool: format!("{} `{}` of {upstream}", kind.word(), reveal(&live.name)),
            upstream: upstream.to_owned(),
            state,
            because: None,
            pinned: pin.map(|pin| AgreedDefinition { digest: pin.digest.to_string(), at: pin.pinned_at.clone() }),
            live_digest: Some(live.digest().to_string()),
            differences: pin.map(|pin| compare(&pin.definition, live)).unwrap_or_default(),
            misfits: Vec::new(),
            live: Some(live.clone()),
            listed: Some(kind),
        }
    }

    /// Reviews every tool by what the upstreams said, if they were asked.
    pub(crate) fn reviewed(&self, survey: Option<&UpstreamSurvey>) -> Vec<ReviewedTool> {
        self.catalog.entries().map(|(name, entry)| self.review(name, entry, survey)).collect()
    }

    fn review(
        &self,
        name: &str,
        entry: &servanda_catalog::CatalogEntry,
        survey: Option<&UpstreamSurvey>,
    ) -> ReviewedTool {
        let contract = entry.contract.contract();
        let binding = &contract.binding;
        let pin = self.lock.as_ref().and_then(|lock| lock.pin(&binding.upstream, &binding.tool));
        let asked = survey.map(|survey| survey.iter().find(|(id, _)| *id == binding.upstream).map(|(_, said)| said));
        let mut reviewed = ReviewedTool {
            tool: name.to_owned(),
            upstream: binding.upstream.clone(),
            state: PinReviewState::NotAsked,
            because: None,
            pinned: pin.map(|pin| AgreedDefinition { digest: pin.digest.to_string(), at: pin.pinned_at.clone() }),
            live_digest: None,
            differences: Vec::new(),
            misfits: Vec::new(),
            live: None,
            listed: None,
        };
        let inventory = match asked.flatten() {
            None if pin.is_none() => {
                reviewed.state = PinReviewState::NotPinned;
                return reviewed;
            }
            None => return reviewed,
            Some(Err(error)) => {
                (reviewed.state, reviewed.because) = (PinReviewState::Unreachable, Some(error.to_string()));
                return reviewed;
            }
            Some(Ok(inventory)) => inventory,
        };
        let Some(live) = inventory.definition(&binding.tool) else {
            reviewed.state = PinReviewState::Withdrawn;
            if let Some(RejectedDefinition { reason, definition, .. }) = inventory.rejection(&binding.tool) {
                (reviewed.state, reviewed.because) = (PinReviewState::Rejected, Some(reason.clone()));
                let changed = pin.zip(definition.as_ref()).map(|(pin, live)| compare(&pin.definition, live));
                reviewed.differences = changed.unwrap_or_default();
            }
            return reviewed;
        };
        if let SchemaMatch::Incompatible { reasons } = fits(contract, &live.input_schema) {
            reviewed.misfits = reasons;
        }
        reviewed.live_digest = Some(live.digest().to_string());
        reviewed.live = Some(live.clone());
        reviewed.differences = pin.map(|pin| compare(&pin.definition, live)).unwrap_or_default();
        reviewed.state = match (pin, reviewed.differences.first().map(|gravest| gravest.severity)) {
            (None, _) => PinReviewState::NotPinned,
            (Some(_), None) => PinReviewState::Identical,
            (Some(_), Some(DifferenceSeverity::Additive)) => PinReviewState::Additive,
            (Some(_), Some(DifferenceSeverity::Breaking)) => PinReviewState::Breaking,
            (Some(_), Some(DifferenceSeverity::Dangerous)) => PinReviewState::Dangerous,
        };
        reviewed
    }
}

impl ReviewedTool {
    /// Whether there is nothing to look at.
    pub(crate) fn is_clean(&self) -> bool {
        self.state == PinReviewState::Identical && self.misfits.is_empty()
    }

    /// Whether it is a resource without a pin. Resources come and go by themselves, so no person has to act.
    pub(crate) fn came_later(&self) -> bool {
        self.listed == Some(ListedKind::Resources) && self.state == PinReviewState::NotPinned
    }

    /// What is wrong, if anything.
    pub(crate) fn trouble(&self) -> Option<(ToolTrouble, &str)> {
        let trouble = match self.state {
            PinReviewState::Additive
            | PinReviewState::Breaking
            | PinReviewState::Dangerous
            | PinReviewState::NotPinned
                if self.listed.is_some() =>
            {
                ToolTrouble::ListNotAgreed
            }
            PinReviewState::Additive
            | PinReviewState::Breaking
            | PinReviewState::Dangerous
            | PinReviewState::NotPinned => ToolTrouble::NotAgreed,
            PinReviewState::Identical | PinReviewState::NotAsked if self.misfits.is_empty() => return None,
            PinReviewState::Identical | PinReviewState::NotAsked => ToolTrouble::Misfit,
            PinReviewState::Rejected => ToolTrouble::Rejected,
            PinReviewState::Withdrawn => ToolTrouble::Withdrawn,
            PinReviewState::Unreachable => ToolTrouble::Unreachable,
        };
        Some((trouble, &self.tool))
    }

    /// Whether a person can agree to what is served.
    pub(crate) fn can_be_pinned(&self) -> bool {
        matches!(
            self.state,
            PinReviewState::Additive | PinReviewState::Breaking | PinReviewState::Dangerous | PinReviewState::NotPinned
        ) && self.live.is_some()
    }
}

impl PinReviewState {
    /// The word for people.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Identical => "identical",
            Self::Additive => "additive",
            Self::Breaking => "breaking",
            Self::Dangerous => "dangerous",
            Self::NotPinned => "not pinned",
            Self::Rejected => "rejected",
            Self::Withdrawn => "withdrawn",
            Self::Unreachable => "unreachable",
            Self::NotAsked => "not asked",
        }
    }

    /// How it is shown.
    pub(crate) const fn style(self) -> TextStyle {
        match self {
            Self::Identical => TextStyle::Good,
            Self::Additive | Self::NotPinned => TextStyle::Careful,
            Self::Breaking | Self::Dangerous | Self::Rejected => TextStyle::Bad,
            Self::Withdrawn | Self::Unreachable | Self::NotAsked => TextStyle::Quiet,
        }
    }
}
