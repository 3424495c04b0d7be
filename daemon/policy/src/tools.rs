//! A profile's `[tools]` settings: the tools that a session may use. Pure: no I/O.

use crate::{
    ProfileError,
    access::Widening,
    document::Document,
    entries::ToolEntry,
    keys::{Allowing, Restricting, Section as _, section},
};

section! {
    /// The tools that a session may use.
    "tools." pub(crate) struct ToolSettings, written as ToolsText {
        /// only these tools may be called
        allow: Option<Vec<ToolEntry>> = None, Allowing("is not allowed in");
        /// these tools may not be called
        deny: Vec<ToolEntry> = Vec::new(), Restricting;
        /// calls of these tools must include their reverse thinking
        reverse_thinking: Vec<ToolEntry> = Vec::new(), Restricting;
        /// tools of a provider whose own description of themselves is believed; all others are
        /// treated as the most dangerous kind
        trust_provided: Vec<ToolEntry> = Vec::new(), Allowing("is not trusted in");
    }
}

impl ToolSettings {
    /// Returns the section of a file that extends a profile with this one.
    pub(crate) fn resolve(
        &self,
        text: &ToolsText,
        document: &Document<'_>,
        widening: Widening,
    ) -> Result<Self, ProfileError> {
        let tools = self.over(text, document, widening)?;
        let key = "tools.allow";
        if text.allow.as_ref().is_some_and(Vec::is_empty) {
            return Err(document.wrong(key, "is empty", "leave it out to allow every tool"));
        }
        let mut allowed = text.allow.iter().flatten();
        match allowed.find(|said| tools.deny.contains(said.get_ref())) {
            None => Ok(tools),
            Some(said) => {
                let why = format!("{} is denied by tools.deny", said.get_ref().0);
                let start = said.span().start;
                Err(document.wrong_at(start, key, why, "leave one of the two out"))
            }
        }
    }
}
