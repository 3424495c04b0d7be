//! Lists the calls that a user can undo. Runs in the broker.

use super::{
    error::UndoError,
    holds::DeletionLoss,
    index::{Index, IndexedRecord, RecordStatus},
    store::{Undos, scan},
};
use crate::stores::moment::Moment;
use palisade_protocol::{CallId, UndoQuery, UndoRecord, UndoRecords, limits::MAX_UNDO_RECORDS};
use std::{collections::HashSet, io};

impl Undos {
    /// Lists a user's records, the newest first.
    pub(crate) async fn list(&self, uid: u32, query: UndoQuery) -> Result<UndoRecords, UndoError> {
        let undos = self.clone();
        let work = move || {
            let (keep, now) = (undos.bounds().keep, Moment::now());
            undos.index(|index| {
                // Another daemon of the user may have written records since.
                if let Some(directory) = &undos.shared.directory {
                    scan(directory, index, keep, now)?;
                }
                Ok(index.list(uid, &query, now))
            })
        };
        tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
    }
}

impl Index {
    fn list(&self, uid: u32, query: &UndoQuery, now: Moment) -> UndoRecords {
        let mut listed = UndoRecords::default();
        let mut undone: HashSet<&CallId> = HashSet::new();
        let of_user =
            |known: &&IndexedRecord| known.head.uid == uid && known.hold != RecordStatus::Held;
        for known in self.records.values().rev().filter(of_user) {
            let head = &known.head;
            let is_undone = undone.contains(&head.call_id);
            // If a call's undo was itself undone, the call is in effect again.
            if !is_undone {
                undone.extend(&head.undoes);
            }
            if !matches(query, known) {
                continue;
            }
            if listed.records.len() == MAX_UNDO_RECORDS {
                listed.more += 1;
                continue;
            }
            listed.records.push(UndoRecord {
                call_id: head.call_id.clone(),
                session: head.session.clone(),
                tool: head.tool.clone(),
                workspace: head.workspace.clone(),
                age_ms: u64::try_from(known.age.at(now).as_millis()).unwrap_or(u64::MAX),
                bytes: known.bytes,
                loss: known.hold != RecordStatus::Free(DeletionLoss::OwnWork),
                undone: is_undone,
            });
        }
        listed
    }
}

fn matches(query: &UndoQuery, known: &IndexedRecord) -> bool {
    let head = &known.head;
    query.workspace.as_ref().is_none_or(|workspace| *workspace == head.workspace)
        && query.session.as_ref().is_none_or(|session| *session == head.session)
        && query
            .prefix
            .as_ref()
            .is_none_or(|prefix| head.call_id.as_str().starts_with(prefix.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stores::{moment::Age, undo::head::Head};
    use palisade_protocol::RawPath;

    fn add(index: &mut Index, call: &str, (uid, session): (u32, &str), undoes: &[&str]) {
        let head = Head {
            uid,
            workspace: RawPath::from(format!("/{session}").as_str()),
            session: session.parse().unwrap(),
            call_id: call.parse().unwrap(),
            tool: if undoes.is_empty() { "edit" } else { "undo" }.parse().unwrap(),
            order: index.records.len() as u64,
            time: 1,
            undoes: undoes.iter().map(|call| call.parse().unwrap()).collect(),
        };
        let holds = if session == "own" { DeletionLoss::OwnWork } else { DeletionLoss::Loss };
        index.insert(head, 4096, (RecordStatus::Free(holds), Age::new(Moment::now())));
    }

    fn listed(index: &Index, query: &UndoQuery) -> Vec<(String, bool)> {
        let found = index.list(7, query, Moment::now()).records;
        found.into_iter().map(|record| (record.call_id.to_string(), record.undone)).collect()
    }

    fn expected(calls: &[(&str, bool)]) -> Vec<(String, bool)> {
        calls.iter().map(|(call, undone)| ((*call).to_owned(), *undone)).collect()
    }

    #[test]
    fn the_newest_come_first_and_anothers_are_not_among_them() {
        let mut index = Index::default();
        for (call, of) in [("a1", (7, "s1")), ("a2", (8, "s1")), ("b1", (7, "own"))] {
            add(&mut index, call, of, &[]);
        }
        let all = UndoQuery::default();
        assert_eq!(listed(&index, &all), expected(&[("b1", false), ("a1", false)]));
        let records = index.list(7, &all, Moment::now()).records;
        assert_eq!((records[0].loss, records[1].loss), (false, true));
        for narrowed in [
            UndoQuery { workspace: Some(RawPath::from("/s1")), ..UndoQuery::default() },
            UndoQuery { session: Some("s1".parse().unwrap()), ..UndoQuery::default() },
            UndoQuery { prefix: Some("a".parse().unwrap()), ..UndoQuery::default() },
        ] {
            assert_eq!(listed(&index, &narrowed), expected(&[("a1", false)]), "{narrowed:?}");
        }
    }

    #[test]
    fn what_is_undone_is_told_and_what_is_done_again_is_not() {
        let mut index = Index::default();
        let all = UndoQuery::default();
        add(&mut index, "c1", (7, "s1"), &[]);
        add(&mut index, "c2", (7, "s1"), &[]);
        add(&mut index, "u1", (7, "s2"), &["c2", "c1"]);
        assert_eq!(listed(&index, &all), expected(&[("u1", false), ("c2", true), ("c1", true)]));
        add(&mut index, "u2", (7, "s3"), &["u1"]);
        let again = [("u2", false), ("u1", true), ("c2", false), ("c1", false)];
        assert_eq!(listed(&index, &all), expected(&again));
    }

    #[test]
    fn more_than_a_reply_has_are_counted() {
        let mut index = Index::default();
        for n in 0..MAX_UNDO_RECORDS + 3 {
            add(&mut index, &format!("c{n}"), (7, "s1"), &[]);
        }
        let listed = index.list(7, &UndoQuery::default(), Moment::now());
        assert_eq!((listed.records.len(), listed.more), (MAX_UNDO_RECORDS, 3));
    }
}
