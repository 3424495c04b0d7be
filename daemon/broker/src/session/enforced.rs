//! What is enforced in a session, and of which refusals there are records. Broker.

use super::Session;
use crate::records::{LANDLOCK_RECORDS, Watched};
use palisade_plan::{Found, Layer, Records};
use palisade_protocol::{Degraded, Guard, Receipt};

impl Session {
    /// How `bash` is held; by text where there are no transactions.
    pub(crate) fn guard(&self) -> Guard {
        match self.transactions.none() {
            Some(_) => self.guard.min(Guard::Text),
            None => self.guard,
        }
    }

    /// What is enforced.
    pub(crate) fn receipt(&self) -> Receipt {
        let mut receipt = Receipt { guard: self.guard(), ..self.receipt.clone() };
        if let Some(why) = self.transactions.none().filter(|_| self.guard >= Guard::Auto) {
            let (layer, why) = ("transaction".to_owned(), why.to_owned());
            receipt.degraded.push(Degraded { layer, why });
        }
        if let Some(why) = self.transactions.none() {
            for layer in self.profile.veiling() {
                let layer = layer.to_string();
                if !receipt.degraded.iter().any(|known| known.layer == layer) {
                    receipt.degraded.push(Degraded { layer, why: why.to_owned() });
                }
            }
        }
        receipt.unrecorded = self.unrecorded();
        receipt
    }

    /// Gathers what a program of a runner will be refused, if there are records of that.
    pub(crate) fn watch(&self, audit_session: Option<u32>) -> Option<Watched> {
        let abi = self.receipt.landlock.as_ref().map_or(0, |landlock| landlock.abi);
        self.launcher.records().watch(abi, audit_session)
    }

    /// The layers whose refusals to programs are not told, and why.
    fn unrecorded(&self) -> Vec<Degraded> {
        let layer = |layer: Layer, why: &str| Degraded {
            layer: layer.name().to_owned(),
            why: why.to_owned(),
        };
        if let Some(why) = self.launcher.records().unknown() {
            return vec![layer(Layer::Landlock, &why), layer(Layer::Seccomp, &why)];
        }
        let abi = self.receipt.landlock.as_ref().map_or(0, |landlock| landlock.abi);
        if abi < LANDLOCK_RECORDS {
            let why = "this kernel's Landlock keeps no records: they came with its ABI 7";
            return vec![layer(Layer::Landlock, why), layer(Layer::Seccomp, why)];
        }
        match (self.logged, &self.launcher.facts().audit_session) {
            (Records::Unread, _) => {
                let why =
                    "audit came on after the session was opened, or it notes what programs use";
                vec![layer(Layer::Seccomp, why)]
            }
            (Records::Read, Found::No(why)) => vec![layer(Layer::Seccomp, why)],
            (Records::Read, Found::Yes(_)) => Vec::new(),
        }
    }
}
