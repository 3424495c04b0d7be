//! Tries each layer once, in a process that ends afterwards, so that the launcher knows what the
//! host supports before it is asked. Runs in the cell.

use crate::{kernel, mounts, namespaces, overlay, records};
use palisade_plan::{Found, KERNEL_RECORDS, Layer, Namespace, OverlayFacts, Step, cell::Report};
use std::os::fd::OwnedFd;

/// Tries every layer and reports what works. The steps say how to try overlays. Also returns a
/// socket with the kernel's audit records, if it could be opened.
pub(crate) fn run(steps: Vec<Step>) -> (Report, Option<OwnedFd>) {
    // Before this process enters another network namespace, where no records arrive.
    let (records, socket) = match records::listen() {
        Ok(socket) => (Found::Yes(KERNEL_RECORDS.into()), Some(socket)),
        Err(error) => (Found::No(format!("listen for audit records: {error}")), None),
    };
    let audit_session = match (&socket, records::begin_session(rustix::process::geteuid().as_raw()))
    {
        (None, _) => Found::No("no records can be listened for".into()),
        (Some(_), Ok(_)) => Found::Yes("one of its own".into()),
        (Some(_), Err(error)) => Found::No(format!(
            "the launcher was started from a login, so that refused system calls can not be told \
             apart: {error}"
        )),
    };
    let mut layers = Vec::new();
    for namespace in
        [Namespace::Network, Namespace::Ipc, Namespace::Uts, Namespace::Cgroup, Namespace::Mount]
    {
        let made = namespaces::make_one(namespace).and_then(|()| match namespace {
            Namespace::Network => namespaces::loopback(),
            Namespace::Mount
            | Namespace::Pid
            | Namespace::Ipc
            | Namespace::Uts
            | Namespace::Cgroup => Ok(()),
        });
        let found = match made {
            Ok(()) => Found::Yes("own namespace".into()),
            Err(error) => Found::No(error.to_string()),
        };
        layers.push((namespace.layer(), found));
    }
    if let Some((_, found)) = layers.iter_mut().find(|(l, f)| *l == Layer::Mount && f.is_yes()) {
        let tmpfs = mounts::new("tmpfs", &[], mounts::NO_SUID);
        if let Err(error) = tmpfs {
            *found = Found::No(format!("mount tmpfs: {error}"));
        }
    }
    let overlay = match layers.iter().find(|(layer, _)| *layer == Layer::Mount) {
        Some((_, Found::Yes(_))) => overlay::attempt(steps),
        Some((_, Found::No(why))) => OverlayFacts::all(Found::No(why.clone())),
        None => OverlayFacts::all(Found::No("no mount namespace is available".into())),
    };
    let abi = kernel::landlock_query(1);
    layers.push((
        Layer::Landlock,
        match &abi {
            Ok(abi) => Found::Yes(format!("ABI {abi}")),
            Err(error) => Found::No(format!("{error}; boot with lsm=landlock,… or a newer kernel")),
        },
    ));
    layers.push((Layer::Seccomp, seccomp()));
    let report = Report::Tried {
        layers,
        landlock_abi: abi.unwrap_or(0),
        landlock_errata: kernel::landlock_query(2).unwrap_or(0),
        overlay,
        records,
        audit_session,
    };
    (report, socket)
}

/// Installs a filter that allows everything, to see whether filters work at all.
fn seccomp() -> Found {
    const ALLOW_ALL: seccompiler::sock_filter =
        seccompiler::sock_filter { code: 0x06, jt: 0, jf: 0, k: 0x7fff_0000 };
    match seccompiler::apply_filter(&[ALLOW_ALL]) {
        Ok(()) => Found::Yes("filters".into()),
        Err(error) => Found::No(error.to_string()),
    }
}
