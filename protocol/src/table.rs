//! The tables of requests, replies and error codes: each has one row, from which its type, both
//! codecs, its place in the order of requests and its row in PROTOCOL.md come.

/// Declares [`Request`](crate::Request). A row has the request's meaning, its fields, its method,
/// its senders, its phase, and the function that checks its fields, if any.
macro_rules! requests {
    (
        $(#[$of_enum:meta])*
        pub enum $request:ident {
            $(
                $(#[$doc:meta])*
                $variant:ident $(($fields:ty))? = $method:literal,
                $senders:expr, $phase:ident $(, $check:path)?;
            )+
        }
    ) => {
        $(#[$of_enum])*
        #[derive(Debug, Clone, PartialEq, Eq, bincode::Encode, bincode::Decode)]
        pub enum $request {
            $($(#[$doc])* $variant $(($fields))?,)+
        }

        /// Every request, in the order of [`Request`](crate::Request)'s variants.
        pub const REQUESTS: &[RequestRow] = {
            use Senders::{Agents, Approvers, Everybody, Observers, Operators, Providers};
            &[$(RequestRow { method: $method, senders: $senders },)+]
        };

        impl $request {
            /// Returns the request's method in JSON.
            #[must_use]
            pub const fn method(&self) -> &'static str {
                match self {
                    $(Self::$variant { .. } => $method,)+
                }
            }

            /// Returns the peers that may send the request.
            #[must_use]
            pub const fn senders(&self) -> Senders {
                use Senders::{Agents, Approvers, Everybody, Observers, Operators, Providers};
                match self {
                    $(Self::$variant { .. } => $senders,)+
                }
            }

            /// Returns the part of a connection that the request belongs to.
            #[must_use]
            pub const fn phase(&self) -> Phase {
                match self {
                    $(Self::$variant { .. } => Phase::$phase,)+
                }
            }

            /// Refuses contents that are over the protocol's limits or that make no sense.
            ///
            /// # Errors
            /// `invalid_request`, `invalid_arguments` or `workspace_refused`, naming the field.
            pub fn check(&self) -> Result<(), $crate::WireError> {
                $($(
                    if let Self::$variant(fields) = self {
                        return $check(fields);
                    }
                )?)+
                Ok(())
            }

            /// Reads a request from the fields of its JSON form; `None` if there is no such method.
            pub(crate) fn from_json(method: &str, fields: &str) -> Option<Result<Self, String>> {
                use $crate::{object::parse, table::NoFields};
                Some(match method {
                    $($method => $crate::table::read!(fields, Self::$variant $(, $fields)?),)+
                    _ => return None,
                })
            }

            /// Writes the request as a JSON line.
            pub(crate) fn to_json(
                &self,
                id: Option<RequestId>,
            ) -> Result<Vec<u8>, serde_json::Error> {
                match self {
                    $(Self::$variant $(($crate::table::bound!(fields, $fields)))? => {
                        $crate::json::request_line(
                            id,
                            $method,
                            $crate::table::some!($(fields, $fields)?),
                        )
                    })+
                }
            }
        }
    };
}
pub(crate) use requests;

/// Declares the replies. A row has the reply's meaning, its fields, and its kind in JSON.
macro_rules! replies {
    (
        $(#[$of_enum:meta])*
        pub enum $reply:ident {
            $($(#[$doc:meta])* $variant:ident $(($fields:ty))? = $kind:literal;)+
        }
    ) => {
        $(#[$of_enum])*
        #[derive(Debug, Clone, PartialEq, bincode::Encode, bincode::Decode)]
        pub enum $reply {
            $($(#[$doc])* $variant $(($fields))?,)+
        }

        /// The kinds of all replies, in the order of [`Reply`](crate::Reply)'s variants.
        pub const KINDS: &[&str] = &[$($kind),+];

        impl $reply {
            /// Returns the reply's kind in JSON.
            #[must_use]
            pub const fn kind(&self) -> &'static str {
                match self {
                    $(Self::$variant { .. } => $kind,)+
                }
            }

            /// Reads a reply from the fields of its JSON form; `None` if there is no such kind.
            pub(crate) fn from_json(kind: &str, fields: &str) -> Option<Result<Self, String>> {
                use $crate::{object::parse, table::NoFields};
                Some(match kind {
                    $($kind => $crate::table::read!(fields, Self::$variant $(, $fields)?),)+
                    _ => return None,
                })
            }

            /// Writes the reply as a JSON line.
            pub(crate) fn to_json(
                &self,
                id: Option<RequestId>,
            ) -> Result<Vec<u8>, serde_json::Error> {
                match self {
                    $(Self::$variant $(($crate::table::bound!(fields, $fields)))? => {
                        let fields = $crate::table::some!($(fields, $fields)?);
                        $crate::json::reply_line(id, $kind, fields)
                    })+
                }
            }
        }
    };
}
pub(crate) use replies;

/// Declares the error codes. A row has the code's meaning as in PROTOCOL.md, its name, its number in
/// JSON-RPC, and the part that the failure is attributed to.
macro_rules! error_codes {
    (
        $(#[$of_enum:meta])*
        pub enum $code:ident {
            $($(#[doc = $meaning:literal])+ $variant:ident = $name:literal, $rpc:ident, $class:ident;)+
        }
    ) => {
        $(#[$of_enum])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, Hash, bincode::Encode, bincode::Decode,
            serde::Serialize, serde::Deserialize,
        )]
        #[non_exhaustive]
        pub enum $code {
            $($(#[doc = $meaning])+ #[serde(rename = $name)] $variant,)+
        }

        impl $code {
            /// Every code, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Returns the code's name in JSON.
            #[must_use]
            pub fn name(self) -> String {
                match self {
                    $(Self::$variant => $name.to_owned(),)+
                }
            }

            /// Returns the number for a JSON-RPC error: a standard one if one fits, otherwise
            /// -32000 minus the code's position in the enum.
            #[must_use]
            pub const fn rpc(self) -> i32 {
                let standard = match self {
                    $(Self::$variant => $rpc,)+
                };
                if standard == OWN { -32000 - self as i32 } else { standard }
            }

            /// Returns the part that the failure is attributed to.
            #[must_use]
            pub const fn class(self) -> ErrorClass {
                match self {
                    $(Self::$variant => ErrorClass::$class,)+
                }
            }

            /// Returns the code's row in the table of PROTOCOL.md.
            #[must_use]
            pub fn row(self) -> String {
                let meaning = match self {
                    $(Self::$variant => concat!($($meaning),+),)+
                };
                let (number, name, rpc) = (self as i32, self.name(), self.rpc());
                format!("| {number} | `{name}` | {rpc} | {} |", meaning.trim())
            }
        }
    };
}
pub(crate) use error_codes;

/// The fields of a request or reply that has none.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoFields {}

/// Reads the fields of a variant from JSON.
macro_rules! read {
    ($text:ident, $variant:path) => {
        parse($text).map(|NoFields {}| $variant)
    };
    ($text:ident, $variant:path, $fields:ty) => {
        parse::<$fields>($text).map($variant)
    };
}
pub(crate) use read;

/// Binds the fields of a variant to a name.
macro_rules! bound {
    ($name:ident, $fields:ty) => {
        $name
    };
}
pub(crate) use bound;

/// Returns the fields of a variant, if it has any.
macro_rules! some {
    () => {
        None::<&$crate::table::NoFields>
    };
    ($name:ident, $fields:ty) => {
        Some($name)
    };
}
pub(crate) use some;
