//! The frame of a page: title, navigation, the person, and the addresses of its files.

use servanda_contract::legibility;

use crate::{
    assets::{self, AssetLinks},
    form_token,
    session::SignedIn,
};

/// Where a person signs out.
pub(crate) const SIGN_OUT: &str = "/sign-out";

/// The frame of a page.
pub(crate) struct PageFrame {
    /// The title.
    pub(crate) title: String,
    /// The person; none on pages that anybody may see.
    pub(crate) person: Option<FramePerson>,
    /// The addresses of the files that pages load.
    pub(crate) assets: &'static AssetLinks,
    /// Whether the page changes while it is looked at.
    pub(crate) is_live: bool,
}

/// The person in the frame.
pub(crate) struct FramePerson {
    /// Tenant and name.
    pub(crate) name: String,
    /// The token of the form that signs out.
    pub(crate) sign_out_token: String,
}

/// A filter of a list, as a link.
pub(crate) struct FilterLink {
    /// Its address.
    pub(crate) href: String,
    /// Its name.
    pub(crate) label: &'static str,
    /// Whether the list has this filter.
    pub(crate) is_chosen: bool,
    /// How many there are, if that is known.
    pub(crate) count: Option<String>,
}

/// Something that the person has to know before the rest of the page.
pub(crate) struct PageNotice {
    /// What happened.
    pub(crate) title: String,
    /// What follows, and what to do.
    pub(crate) text: String,
    /// Where to do it: address and words.
    pub(crate) link: Option<(String, &'static str)>,
}

impl PageFrame {
    /// The frame of a page that anybody may see.
    pub(crate) fn open(title: &str) -> Self {
        Self { title: title.to_owned(), person: None, assets: assets::links(), is_live: false }
    }

    /// The frame of a person's page.
    pub(crate) fn of(title: impl Into<String>, signed_in: &SignedIn) -> Self {
        let record = &signed_in.record;
        let name = format!("{}/{}", legibility::one_line(&record.tenant), legibility::one_line(&record.principal));
        let sign_out_token = form_token::make(&signed_in.token, SIGN_OUT);
        let person = Some(FramePerson { name, sign_out_token });
        Self { title: title.into(), person, assets: assets::links(), is_live: false }
    }
}
