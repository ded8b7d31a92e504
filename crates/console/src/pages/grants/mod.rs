//! What people allow from now on: the list, one grant with its uses, and the form that makes one from a ticket. The engine decides whether a
//! grant is made or taken back.

pub(crate) mod change;
mod form_fields;
pub(crate) mod list;
pub(crate) mod one;
mod plan_fields;
mod standing_view;
