//! The memory of a session's calls: replies that may have to be sent again, and the idempotency
//! keys of calls that must not be made twice. Runs in the broker.

use palisade_audit::Hash;
use palisade_protocol::{Call, CallResult, ErrorCode, Reply, RequestId, WireError};
use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::watch;

/// The most replies that are stored.
const MOST_REPLIES: usize = 64;
/// The most bytes of stored replies.
const MOST_BYTES: usize = 8 * 1024 * 1024;
/// The most idempotency keys that are remembered.
const MOST_KEYS: usize = 1024;

/// A stored reply.
#[derive(Debug)]
struct StoredReply {
    id: RequestId,
    /// The idempotency keys of the calls that it answers.
    keys: Vec<String>,
    reply: Arc<Reply>,
    size: usize,
}

#[derive(Debug)]
struct KeyedCall {
    /// The digest of the tool and its arguments.
    digest: Hash,
    /// The result of the call; `None` while it is under way.
    result: watch::Sender<Option<KeyedResult>>,
}

/// The result of a call with an idempotency key.
#[derive(Debug, Clone)]
enum KeyedResult {
    Kept(Arc<CallResult>),
    /// The call was made, and its result is not stored any more.
    Forgotten,
}

#[derive(Debug, Default)]
struct ReplyStoreState {
    replies: VecDeque<StoredReply>,
    bytes: usize,
    keys: HashMap<String, KeyedCall>,
    /// The keys, oldest first.
    order: VecDeque<String>,
}

/// The stored replies and idempotency keys of a session.
#[derive(Debug, Default)]
pub(crate) struct ReplyStore(Mutex<ReplyStoreState>);

/// The result of comparing a call's idempotency key with those of earlier calls.
#[derive(Debug)]
pub(crate) enum IdempotencyCheck {
    /// The call is the first with its key, or has none.
    First,
    /// The call was made already; its result will be available here.
    Again(RepeatedResult),
}

/// The result of an earlier call with the same key.
#[derive(Debug)]
pub(crate) struct RepeatedResult(watch::Receiver<Option<KeyedResult>>);

impl RepeatedResult {
    /// Waits for the result.
    pub(crate) async fn result(mut self) -> Result<Arc<CallResult>, WireError> {
        let forgotten = || {
            WireError::new(
                ErrorCode::NotFound,
                "the call with this key was made, but its result is no longer stored",
                "check what it did; a new key would run it again",
            )
        };
        let ended = self.0.wait_for(Option::is_some).await.map_err(|_| forgotten())?;
        match ended.as_ref() {
            Some(KeyedResult::Kept(result)) => Ok(Arc::clone(result)),
            Some(KeyedResult::Forgotten) | None => Err(forgotten()),
        }
    }
}

impl ReplyStore {
    fn state(&self) -> MutexGuard<'_, ReplyStoreState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decides whether a call is to be made, or repeats an earlier one.
    pub(crate) fn begin(&self, call: &Call) -> Result<IdempotencyCheck, WireError> {
        let Some(key) = &call.options.idempotency_key else { return Ok(IdempotencyCheck::First) };
        let digest = Hash::of(format!("{}\0{}", call.tool, call.arguments.as_str()).as_bytes());
        let mut state = self.state();
        if let Some(keyed) = state.keys.get(key) {
            if keyed.digest != digest {
                return Err(WireError::new(
                    ErrorCode::InvalidRequest,
                    "`options.idempotency_key`: a different call was made with it",
                    "use a new key for each call, and the same key only to repeat a call",
                ));
            }
            return Ok(IdempotencyCheck::Again(RepeatedResult(keyed.result.subscribe())));
        }
        if state.order.len() >= MOST_KEYS {
            state.forget_key();
        }
        state.order.push_back(key.clone());
        state.keys.insert(key.clone(), KeyedCall { digest, result: watch::Sender::new(None) });
        Ok(IdempotencyCheck::First)
    }

    /// Passes the result of a call to those that repeat it.
    pub(crate) fn settle(&self, key: &str, result: &CallResult) {
        self.state().tell(key, KeyedResult::Kept(Arc::new(result.clone())));
    }

    /// Stores a reply, with the keys of its calls. Of one that is too large, only the keys are
    /// remembered.
    pub(crate) fn keep(&self, id: RequestId, keys: Vec<String>, reply: &Reply) {
        let size = size(reply) * (1 + keys.len().min(1));
        let mut state = self.state();
        if size > MOST_BYTES {
            keys.iter().for_each(|key| state.tell(key, KeyedResult::Forgotten));
            return;
        }
        state.bytes += size;
        state.replies.push_back(StoredReply { id, keys, reply: Arc::new(reply.clone()), size });
        while state.bytes > MOST_BYTES || state.replies.len() > MOST_REPLIES {
            let Some(oldest) = state.replies.pop_front() else { break };
            state.bytes -= oldest.size;
            oldest.keys.iter().for_each(|key| state.tell(key, KeyedResult::Forgotten));
        }
    }

    /// Removes a key whose call ended without a result: the call may be made again.
    pub(crate) fn abandon(&self, key: &str) {
        let mut state = self.state();
        state.keys.remove(key);
        state.order.retain(|other| other != key);
    }

    /// The last replies to these requests, or to all if `wanted` is `None`.
    pub(crate) fn replies(&self, wanted: Option<&[RequestId]>) -> Vec<(RequestId, Arc<Reply>)> {
        let state = self.state();
        let mut found: Vec<(RequestId, Arc<Reply>)> = Vec::new();
        for StoredReply { id, reply, .. } in &state.replies {
            if wanted.is_none_or(|wanted| wanted.contains(id)) {
                found.retain(|(other, _)| other != id);
                found.push((*id, Arc::clone(reply)));
            }
        }
        found
    }
}

impl ReplyStoreState {
    fn tell(&self, key: &str, ended: KeyedResult) {
        if let Some(keyed) = self.keys.get(key) {
            keyed.result.send_replace(Some(ended));
        }
    }

    /// Removes the oldest key whose call has ended; if all are under way, the oldest.
    fn forget_key(&mut self) {
        let over =
            |key: &String| self.keys.get(key).is_none_or(|keyed| keyed.result.borrow().is_some());
        let place = self.order.iter().position(over).unwrap_or(0);
        if let Some(key) = self.order.remove(place) {
            self.keys.remove(&key);
        }
    }
}

/// The approximate size of a result in bytes.
pub(crate) fn weight(result: &CallResult) -> usize {
    let data = result.data.as_ref().map_or(0, |data| data.as_str().len());
    4096 + result.output.len() + result.stdout.len() + result.stderr.len() + data
}

/// The bytes that a reply to a call or a batch takes, about.
pub(crate) fn size(reply: &Reply) -> usize {
    if let Reply::Result(result) = reply {
        return weight(result);
    }
    if let Reply::Batch(batch) = reply {
        return batch.results.iter().map(weight).sum();
    }
    // No other replies are stored.
    4096
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_protocol::{CallOptions, JsonText, Receipt};

    fn call(key: Option<&str>, arguments: &str) -> Call {
        Call {
            tool: "bash".parse().unwrap(),
            arguments: JsonText::parse(arguments.to_owned()).unwrap(),
            reason: None,
            options: CallOptions {
                idempotency_key: key.map(str::to_owned),
                ..CallOptions::default()
            },
        }
    }

    fn result(output: String) -> CallResult {
        let outcome = crate::base::outcome::Outcome { output, ..Default::default() };
        let slip = crate::base::outcome::ResultHeader {
            call_id: "c".parse().unwrap(),
            tool: "bash".parse().unwrap(),
            receipt: Receipt::default(),
            started: std::time::Instant::now(),
            fault: crate::base::outcome::Fault::default(),
        };
        slip.reply(outcome)
    }

    #[tokio::test]
    async fn a_key_is_for_one_call() {
        let kept = ReplyStore::default();
        let first = call(Some("k"), r#"{"command":"a"}"#);
        assert!(matches!(kept.begin(&first), Ok(IdempotencyCheck::First)));
        let Ok(IdempotencyCheck::Again(repeat)) = kept.begin(&first) else { panic!("again") };
        kept.settle("k", &result("done".into()));
        assert_eq!(repeat.result().await.unwrap().output, "done");
        let other = call(Some("k"), r#"{"command":"b"}"#);
        assert_eq!(kept.begin(&other).unwrap_err().code, ErrorCode::InvalidRequest);
        for _ in 0..2 {
            assert!(matches!(kept.begin(&call(None, "{}")), Ok(IdempotencyCheck::First)));
        }
        kept.abandon("k");
        assert!(matches!(kept.begin(&other), Ok(IdempotencyCheck::First)));
    }

    #[tokio::test]
    async fn what_is_kept_is_bounded_and_nothing_is_done_twice() {
        let kept = ReplyStore::default();
        let first = call(Some("k"), "{}");
        assert!(matches!(kept.begin(&first), Ok(IdempotencyCheck::First)));
        let reply = |size| Reply::Result(Box::new(result("x".repeat(size))));
        kept.settle("k", &result(String::new()));
        kept.keep(1, vec!["k".into()], &reply(1 << 20));
        assert_eq!((kept.replies(Some(&[1])).len(), kept.replies(Some(&[])).len()), (1, 0));
        for id in 2..100 {
            kept.keep(id, Vec::new(), &reply(1 << 20));
            let state = kept.state();
            assert!(state.bytes <= MOST_BYTES && state.replies.len() <= MOST_REPLIES);
        }
        assert_eq!(kept.replies(None).last().map(|(id, _)| *id), Some(99));
        assert!(kept.replies(Some(&[1])).is_empty());
        let Ok(IdempotencyCheck::Again(repeat)) = kept.begin(&first) else { panic!("again") };
        assert_eq!(repeat.result().await.unwrap_err().code, ErrorCode::NotFound);
        kept.keep(100, Vec::new(), &reply(MOST_BYTES));
        assert!(kept.replies(Some(&[100])).is_empty());
        for number in 0..2 * MOST_KEYS {
            kept.begin(&call(Some(&format!("n{number}")), "{}")).unwrap();
        }
        let state = kept.state();
        assert_eq!((state.keys.len(), state.order.len()), (MOST_KEYS, MOST_KEYS));
    }
}
