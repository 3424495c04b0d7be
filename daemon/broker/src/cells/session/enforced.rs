//! The receipt of a session, and the layers whose denials are recorded. Runs in the broker.

use super::Session;
use crate::cells::records::{CallWatch, LANDLOCK_RECORDS};
use palisade_plan::{Found, Layer, Records};
use palisade_protocol::{CallResult, Degraded, Guard, Receipt};
use sha2::{Digest as _, Sha256};

impl Session {
    /// Returns how `bash` is guarded; by text analysis where transactions are unavailable.
    pub(crate) fn guard(&self) -> Guard {
        match self.cell.transactions.unavailable_reason() {
            Some(_) => self.guard.min(Guard::Text),
            None => self.guard,
        }
    }

    /// Returns `true` if programs can run where the workspace is mounted read-only.
    pub(crate) const fn has_reading_view(&self) -> bool {
        self.cell.has_reading_view
    }

    /// Returns the session's receipt: what is enforced.
    pub(crate) fn receipt(&self) -> Receipt {
        let mut receipt = Receipt { guard: self.guard(), ..self.receipt.made.clone() };
        if let Some(why) =
            self.cell.transactions.unavailable_reason().filter(|_| self.guard >= Guard::Auto)
        {
            let (layer, why) = ("transaction".to_owned(), why.to_owned());
            receipt.degraded.push(Degraded { layer, why });
        }
        if let Some(why) = self.cell.transactions.unavailable_reason() {
            for layer in self.profile.name_layers() {
                let layer = layer.to_string();
                if !receipt.degraded.iter().any(|known| known.layer == layer) {
                    receipt.degraded.push(Degraded { layer, why: why.to_owned() });
                }
            }
        }
        receipt.unrecorded = self.unrecorded();
        receipt
    }

    /// Returns the receipt that the client was told when the session was opened, and its digest.
    pub(crate) fn opening_receipt(&self) -> &(Receipt, String) {
        self.receipt.opening.get_or_init(|| {
            let receipt = self.receipt();
            let digest = digest(&receipt);
            (receipt, digest)
        })
    }

    /// Names a result's receipt by its digest. Leaves the receipt out if the client knows it and
    /// has not asked for it.
    pub(crate) fn shorten_receipt(&self, result: &mut CallResult, is_wanted: bool) {
        let (known, known_digest) = self.opening_receipt();
        match &result.receipt {
            Some(receipt) if **receipt != *known => result.receipt_digest = digest(receipt),
            Some(_) | None => {
                result.receipt_digest.clone_from(known_digest);
                result.receipt.take_if(|_| !is_wanted);
            }
        }
    }

    /// Starts to collect the denials of a runner's program, if they are recorded.
    pub(crate) fn watch(&self, audit_session: Option<u32>) -> Option<CallWatch> {
        let abi = self.receipt.made.landlock.as_ref().map_or(0, |landlock| landlock.abi);
        self.cell.launcher.records().watch(abi, audit_session)
    }

    /// Returns the layers whose denials to programs are not reported, and why.
    fn unrecorded(&self) -> Vec<Degraded> {
        let layer = |layer: Layer, why: &str| Degraded {
            layer: layer.name().to_owned(),
            why: why.to_owned(),
        };
        if let Some(why) = self.cell.launcher.records().unavailable_reason() {
            return vec![layer(Layer::Landlock, &why), layer(Layer::Seccomp, &why)];
        }
        let abi = self.receipt.made.landlock.as_ref().map_or(0, |landlock| landlock.abi);
        if abi < LANDLOCK_RECORDS {
            let why = "this kernel's Landlock does not record denials, which needs its ABI 7";
            return vec![layer(Layer::Landlock, why), layer(Layer::Seccomp, why)];
        }
        match (self.receipt.records, &self.cell.launcher.facts().audit_session) {
            (Records::Unread, _) => {
                let why = "kernel audit was turned on after the session was opened, or the session \
                           records what programs access";
                vec![layer(Layer::Seccomp, why)]
            }
            (Records::Read, Found::No(why)) => vec![layer(Layer::Seccomp, why)],
            (Records::Read, Found::Yes(_)) => Vec::new(),
        }
    }
}

/// Returns the digest by which results refer to a receipt; empty if the receipt has no JSON form.
pub(crate) fn digest(receipt: &Receipt) -> String {
    let Ok(text) = serde_json::to_vec(receipt) else { return String::new() };
    palisade_text::hex(&Sha256::digest(text)[..DIGEST_BYTES])
}

/// The bytes of a receipt's digest: it only tells the receipts of one session apart.
const DIGEST_BYTES: usize = 8;
