//! Declares the keys of the configuration file: each once, with its meaning, type, default and the
//! moment at which it takes effect. The loader, `--dump-config` and the documentation come from the
//! declaration. Pure: no I/O.

/// A key of the configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConfigKey {
    /// The key with its section, for example `metrics.listen`.
    pub(crate) path: &'static str,
    /// The meaning of the key, as the documentation has it.
    #[cfg(test)]
    pub(super) meaning: &'static str,
    /// The default, as the documentation has it.
    #[cfg(test)]
    pub(super) default: &'static str,
    pub(crate) changes: Reloadability,
}

/// The moment at which a new value of a key takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reloadability {
    /// The value takes effect with a reload.
    Live,
    /// The value takes effect with the next start.
    AtStart,
}

#[cfg(test)]
impl ConfigKey {
    /// Returns the row of the key in the documentation.
    pub(super) fn row(&self) -> String {
        let when = match self.changes {
            Reloadability::Live => "reload",
            Reloadability::AtStart => "start",
        };
        let Self { path, meaning, default, .. } = self;
        format!("| `{path}` | {} | {default} | {when} |", meaning.trim())
    }
}

/// The type that a value is parsed as: its own, unless another is given.
macro_rules! parsed_as {
    ($type:ty) => {
        $type
    };
    ($type:ty, $parsed:ty) => {
        $parsed
    };
}
pub(super) use parsed_as;

/// Declares a section of the file. Each key has its meaning, its type (and the type that it is parsed
/// as, if that is another), its default in words, and when it takes effect. The section of the keys
/// at the top has the other sections.
macro_rules! section {
    (
        $(#[$of_section:meta])*
        $prefix:literal $visibility:vis struct $section:ident, written as $text:ident {
            $(
                $(#[doc = $meaning:literal])+
                $key:ident: $type:ty $(as $parsed:ty)?, $default:literal, $changes:ident;
            )+
            $(sections {
                $($inner:ident: $inner_section:ident as $inner_text:ident,)+
            })?
        }
    ) => {
        $(#[$of_section])*
        #[derive(Debug, Default)]
        $visibility struct $section {
            $($(#[doc = $meaning])+ pub(crate) $key: Option<LocatedValue<$type>>,)+
            $($(pub(crate) $inner: $inner_section,)+)?
        }

        #[doc = concat!("The keys `", $prefix, "*` in the form in which they are parsed.")]
        #[derive(Debug, Default, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub(super) struct $text {
            $($key: Option<toml::Spanned<parsed_as!($type $(, $parsed)?)>>,)+
            $($($inner: $inner_text,)+)?
        }

        impl $text {
            /// Adds to each value its place in the file.
            pub(super) fn located(self, document: &Document<'_>) -> $section {
                $section {
                    $($key: document.located(self.$key),)+
                    $($($inner: self.$inner.located(document),)+)?
                }
            }
        }

        impl $section {
            const KEYS: &'static [ConfigKey] = &[$(ConfigKey {
                path: concat!($prefix, stringify!($key)),
                #[cfg(test)]
                meaning: concat!($($meaning),+),
                #[cfg(test)]
                default: $default,
                changes: Reloadability::$changes,
            },)+];
        }
    };
}
pub(super) use section;
