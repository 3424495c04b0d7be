//! A profile's `[layers]` settings: the layers that are required, and those that may be missing.
//! Pure: no I/O.

use crate::{
    ProfileError,
    access::Widening,
    document::Document,
    entries::LayerEntry,
    keys::{Allowing, Restricting, Section as _, section},
};
use palisade_plan::ceiling::Ceiling;

section! {
    /// The layers that are required, and those that may be missing.
    "layers." pub(crate) struct LayerSettings, written as LayersText {
        /// a profile that extends this one can not make these optional
        required: Vec<LayerEntry> = Vec::new(), Restricting;
        /// these may be missing; every result then says so. Never `landlock` or `seccomp`
        optional: Vec<LayerEntry> = Vec::new(), Allowing("is required by");
    }
}

impl LayerSettings {
    /// Returns the section without optional layers that are required.
    fn consistent(mut self) -> Self {
        self.optional.retain(|layer| !self.required.contains(layer));
        self
    }

    /// Returns the layers of two profiles that are combined.
    pub(crate) fn combined(&self, other: &Self) -> Self {
        self.both(other).consistent()
    }

    /// Returns the section of a file that extends a profile with this one.
    pub(crate) fn resolve(
        &self,
        text: &LayersText,
        document: &Document<'_>,
        widening: Widening,
    ) -> Result<Self, ProfileError> {
        let layers = self.over(text, document, widening)?;
        let may_be_missing = Ceiling::default().may_be_missing;
        for said in text.optional.iter().flatten() {
            let (layer, start) = (said.get_ref(), said.span().start);
            let wrong =
                |why, hint: &str| Err(document.wrong_at(start, "layers.optional", why, hint));
            if !may_be_missing.contains(&layer.0) {
                return wrong(format!("{} is never optional", layer.0), "leave it out");
            }
            if layers.required.contains(layer) {
                let why = format!("{} is required by layers.required", layer.0);
                return wrong(why, "leave one of the two out");
            }
        }
        Ok(layers.consistent())
    }
}
