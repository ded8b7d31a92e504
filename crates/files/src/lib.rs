//! Reads and writes files where others could have planted something: a repository, another user, an attacker.
//!
//! Reading takes regular files only, and a limited number of bytes: a pipe would block a command for ever, and a device would fill its
//! memory. Writing never follows a link out of the folder it is meant for. The gateway's own files are opened through no link at all, and
//! only their owner may read them.
//!
//! Deliberately absent: the meaning of the files, and messages to a person about them.

mod links;
mod private;
mod reading;
mod writing;

pub use links::{refuse_link, require_inside, require_unlinked};
pub use private::{ModeRepair, open_to_others, restrict_to_owner};
pub use reading::{TEXT_BYTES_MAX, open, open_for_update, open_own, open_own_or_new, read, read_text};
pub use writing::{unguessable, write_inside, write_new};
