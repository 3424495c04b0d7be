//! Descriptions of the type of a key's value, for the documentation and suggestions. Pure: no I/O.

use super::AcceptedValues;
use crate::source::WithOrigin;
use std::num::NonZeroU64;
use toml::Spanned;

/// A type of value of a key, as the documentation describes it.
pub(crate) trait Described {
    /// The values that the key takes.
    const TAKES: AcceptedValues = AcceptedValues::Value;

    /// Returns the description of one value, such as `number`.
    fn described() -> String;

    /// Returns the description of a list of such values.
    fn list_described() -> String;
}

/// Describes types by a noun, for one value and for several.
macro_rules! noun {
    ($($type:ty: $one:literal, $several:literal;)+) => {
        $(impl crate::keys::Described for $type {
            fn described() -> String {
                $one.to_owned()
            }

            fn list_described() -> String {
                concat!("list of ", $several).to_owned()
            }
        })+
    };
}
pub(crate) use noun;

noun! {
    String: "text", "text";
    bool: "`true`, `false`", "`true`, `false`";
    i64: "number", "numbers";
    u32: "number", "numbers";
    u64: "number", "numbers";
    NonZeroU64: "number", "numbers";
    crate::size::Size: "size", "sizes";
}

/// Declares an enum whose values are words, from the first that may apply to the last.
macro_rules! words {
    (
        $(#[$of_enum:meta])*
        $visibility:vis enum $type:ident {
            $($(#[$of_variant:meta])* $variant:ident = $word:literal,)+
        }
    ) => {
        $(#[$of_enum])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
        )]
        $visibility enum $type {
            $($(#[$of_variant])* #[serde(rename = $word)] $variant,)+
        }

        impl $type {
            /// Returns the word that profiles have for the value.
            #[must_use]
            $visibility const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }

        $crate::keys::takes_words! { $type: $($word)|+, $type::name }
    };
}
pub(crate) use words;

/// Describes a type by the words that it takes.
macro_rules! takes_words {
    ($type:ty: $($word:literal)|+, $name:expr) => {
        impl $crate::keys::Described for $type {
            const TAKES: $crate::keys::AcceptedValues =
                $crate::keys::AcceptedValues::Words(&[$($word),+]);

            fn described() -> String {
                [$(concat!("`", $word, "`")),+].join(", ")
            }

            fn list_described() -> String {
                format!("list of {}", Self::described())
            }
        }

        impl $crate::keys::Single for $type {
            fn shown(&self) -> String {
                $name(*self).to_owned()
            }
        }
    };
}
pub(crate) use takes_words;

/// Describes a type that only adds something to another one as that one.
macro_rules! like_inner {
    ($($wrapper:ident)+) => {
        $(impl<T: Described> Described for $wrapper<T> {
            const TAKES: AcceptedValues = T::TAKES;

            fn described() -> String {
                T::described()
            }

            fn list_described() -> String {
                T::list_described()
            }
        })+
    };
}
like_inner! { Option Spanned WithOrigin }

impl<T: Described> Described for Vec<T> {
    const TAKES: AcceptedValues = T::TAKES;

    fn described() -> String {
        T::list_described()
    }

    fn list_described() -> String {
        format!("list of {}", T::list_described())
    }
}
