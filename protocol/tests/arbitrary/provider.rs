//! Arbitrary requests and events of providers.

use super::{metadata, name, object, text};
use palisade_protocol::*;
use proptest::{collection::vec, option, prelude::*};

fn tool() -> impl Strategy<Value = ProvidedTool> {
    (name(), vec(name(), 0..3), text(), object(), metadata(), any::<bool>()).prop_map(
        |(name, aliases, description, schema, metadata, r#override)| ProvidedTool {
            name,
            aliases,
            description,
            schema,
            metadata,
            r#override,
        },
    )
}

pub(super) fn request() -> impl Strategy<Value = Request> {
    prop_oneof![
        vec(tool(), 0..3).prop_map(|tools| Request::Provide(Provide { tools })),
        vec(name(), 0..3).prop_map(|names| Request::Unprovide(Unprovide { names })),
        (any::<u64>(), text(), any::<u64>(), option::of(any::<u64>())).prop_map(
            |(invocation, message, done, total)| {
                Request::InvokeProgress(InvokeProgress { invocation, message, done, total })
            }
        ),
        (any::<u64>(), text()).prop_map(|(invocation, text)| {
            Request::InvokeOutput(InvokeOutput { invocation, text })
        }),
        (any::<u64>(), text(), option::of(object()), option::of(text())).prop_map(
            |(invocation, output, data, error)| {
                let result = InvokeResult { invocation, output, data, error };
                Request::InvokeResult(Box::new(result))
            }
        ),
    ]
}

pub(super) fn reply() -> impl Strategy<Value = Reply> {
    vec(name(), 0..3).prop_map(|names| Reply::Provided(Provided { names }))
}

pub(super) fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        (any::<[u64; 2]>(), text(), name(), object(), option::of(text())).prop_map(
            |([invocation, deadline_ms], session, tool, arguments, reason)| {
                Event::Invoke(Box::new(Invoke {
                    invocation,
                    session,
                    tool,
                    arguments,
                    reason,
                    deadline_ms,
                }))
            }
        ),
        any::<u64>().prop_map(|invocation| Event::InvokeCancelled(InvokeCancelled { invocation })),
    ]
}
