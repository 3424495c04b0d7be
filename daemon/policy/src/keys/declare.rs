//! The declaration of profile keys. Every table of keys is declared once, and the loader, the
//! combination and comparison of profiles, suggestions and the documentation come from it. Pure: no
//! I/O.

/// Declares a section whose keys are independent of each other. Each key has its meaning as in the
/// documentation, its type, its default, and the [order](crate::keys::Order) of its values.
macro_rules! section {
    (
        $(#[$of_section:meta])*
        $prefix:literal $visibility:vis struct $settings:ident, written as $text:ident {
            $($(#[doc = $meaning:literal])+ $key:ident: $type:ty = $default:expr, $order:expr;)+
        }
    ) => {
        #[doc = concat!("The keys `", $prefix, "*` as they are written in a profile.")]
        #[derive(Debug, Default, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub(crate) struct $text {
            $(pub(crate) $key: Option<<$type as $crate::keys::KeyValue>::Written>,)+
        }

        $(#[$of_section])*
        #[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
        $visibility struct $settings {
            $($(#[doc = $meaning])+ pub(crate) $key: $type,)+
        }

        impl Default for $settings {
            fn default() -> Self {
                Self { $($key: $default,)+ }
            }
        }

        impl $crate::keys::Section for $settings {
            type Text = $text;

            const KEYS: &'static [$crate::keys::Key] = &[$($crate::keys::Key {
                path: concat!($prefix, stringify!($key)),
                takes: <$type as $crate::keys::Described>::TAKES,
                value: <$type as $crate::keys::Described>::described,
                default: || $crate::keys::KeyValue::documented(&Self::default().$key),
                meaning: concat!($($meaning),+),
            },)+];

            fn both(&self, other: &Self) -> Self {
                use $crate::keys::Order as _;
                Self { $($key: $order.both(&self.$key, &other.$key),)+ }
            }

            fn over(
                &self,
                text: &$text,
                document: &$crate::document::Document<'_>,
                widening: $crate::access::Widening,
            ) -> Result<Self, $crate::ProfileError> {
                use $crate::keys::Order as _;
                Ok(Self { $($key: match &text.$key {
                    None => self.$key.clone(),
                    Some(own) => {
                        let key = concat!($prefix, stringify!($key));
                        let file = $crate::keys::OwnKey { document, key, widening };
                        $order.over(&self.$key, own, file)?
                    }
                },)+ })
            }

            fn differences(&self, other: &Self) -> Vec<$crate::diff::Difference> {
                use $crate::keys::Order as _;
                let mut found = Vec::new();
                $(
                    let key = concat!($prefix, stringify!($key));
                    found.extend($order.differences(key, &self.$key, &other.$key));
                )+
                found
            }
        }
    };
}
pub(crate) use section;

/// Declares a section whose keys depend on each other, as a profile file has it. Each key has its
/// meaning as in the documentation, its type and the text for its default. A text in brackets
/// replaces the description of its type.
macro_rules! text {
    (
        $(#[$of_section:meta])*
        $prefix:literal $visibility:vis struct $text:ident {
            $(
                $(#[doc = $meaning:literal])+
                $(#[serde($($serde:tt)*)])?
                $key:ident $(as $name:literal)?: $type:ty $([$value:literal])?, $default:literal;
            )+
            $(sections {
                $($(#[$of_inner:meta])* $inner:ident: $inner_type:ty,)+
            })?
        }
    ) => {
        $(#[$of_section])*
        $visibility struct $text {
            $(
                $(#[doc = $meaning])+
                $(#[serde($($serde)*)])?
                $(#[serde(rename = $name)])?
                pub(crate) $key: $type,
            )+
            $($($(#[$of_inner])* pub(crate) $inner: $inner_type,)+)?
        }

        impl $text {
            /// The keys of the section.
            pub(crate) const KEYS: &'static [$crate::keys::Key] = &[$($crate::keys::Key {
                path: $crate::keys::text!(@path $prefix, $key $(, $name)?),
                takes: <$type as $crate::keys::Described>::TAKES,
                value: $crate::keys::text!(@value $type $(, $value)?),
                default: || $default.to_owned(),
                meaning: concat!($($meaning),+),
            },)+];
        }
    };
    (@path $prefix:literal, $key:ident) => { concat!($prefix, stringify!($key)) };
    (@path $prefix:literal, $key:ident, $name:literal) => { concat!($prefix, $name) };
    (@value $type:ty) => { <$type as $crate::keys::Described>::described };
    (@value $type:ty, $value:literal) => { || $value.to_owned() };
}
pub(crate) use text;
