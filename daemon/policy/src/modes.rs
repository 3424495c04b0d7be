//! A profile's modes: the keys at its top that decide for every call. Pure: no I/O.

use crate::{
    judge::guard_name,
    keys::{LaterWord, section, takes_words},
};
use palisade_protocol::{Ask, Guard};

section! {
    /// The modes of a profile.
    "" pub(crate) struct ModeSettings, written as ModesText {
        /// when approval is needed: for nothing; for what destroys, for hidden code, and for tools
        /// that want it; for everything that is not read-only; for every call. Rules come first
        ask: Ask = Ask::Destructive, LaterWord("asks for approval less often");
        /// how a `bash` command is kept from destroying without approval: not at all; by its text;
        /// by its effects, unless its text tells; always by its effects, and no session where that
        /// is impossible. See [transactions](transactions.md)
        guard: Guard = Guard::Auto, LaterWord("guards less");
    }
}

takes_words! { Ask: "never" | "destructive" | "sensitive" | "always", ask_name }
takes_words! { Guard: "off" | "text" | "auto" | "transaction", guard_name }

const fn ask_name(ask: Ask) -> &'static str {
    match ask {
        Ask::Never => "never",
        Ask::Destructive => "destructive",
        Ask::Sensitive => "sensitive",
        Ask::Always => "always",
    }
}
