//! Takes the steps, in order. The list is the launcher's (made by `palisade_plan::steps`); each
//! step stands alone, so that a test can take any of them by itself. Room: the cell.

use crate::{
    detach,
    failure::StepFailure,
    kernel, landlock, mapping, namespaces,
    overlay::{self, Ground, Layers},
    privilege,
    record::{self, Recorder},
    records, root, seccomp, store,
    view::View,
};
use palisade_plan::{HeldLimit, MountsBelow, Namespace, Path, Step};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd};

/// What the steps leave behind for the process to use and to report.
#[derive(Debug, Default)]
pub struct Taken {
    /// The namespaces that were made, to be handed to the launcher.
    pub made: Vec<OwnedFd>,
    /// The namespaces that are this process's own.
    pub namespaces: Vec<Namespace>,
    /// The loopback was brought up.
    pub loopback: bool,
    /// The Landlock domain of each call is made of this.
    pub landlock: Option<landlock::Enforced>,
    /// The filter as installed.
    pub seccomp: Option<seccomp::Installed>,
    /// Limits of each process.
    pub limits: Vec<HeldLimit>,
    /// Whose files are the session's, until its root is made.
    pub(crate) users: Option<OwnedFd>,
    /// The workspace, once it was found.
    pub workspace: Option<Path>,
    /// A directory on the disk for a layer, until it is laid.
    pub store: Option<OwnedFd>,
    /// Notes what programs use.
    pub(crate) recorder: Option<Recorder>,
    /// What of it is hidden and protected.
    pub view: View,
    /// Why that can not be held against programs.
    pub uncovered: Option<String>,
    /// What is below the workspace as a transaction's program sees it.
    pub layers: Option<Layers>,
    /// The number of its audit session, if it has one of its own.
    pub audit_session: Option<u32>,
}

impl Taken {
    /// The workspace as the tools see it.
    pub(crate) fn seen(&self) -> View {
        let workspace = self.workspace.clone().unwrap_or_default();
        View { workspace: workspace.as_path().to_owned(), ..self.view.clone() }
    }
}

/// Descriptors that steps use.
#[derive(Debug, Default)]
pub struct Given {
    /// Namespaces to enter.
    pub namespaces: Vec<OwnedFd>,
    /// The user namespace in which overlays are mounted, which comes after those to enter.
    pub overlay_users: Option<OwnedFd>,
    /// What was found of hidden names.
    pub scanned: Option<OwnedFd>,
    /// Descriptors that must stay open.
    pub keep: Vec<RawFd>,
}

/// Takes one step.
///
/// # Errors
/// Whatever went wrong; the process must then end, since it is confined only in part.
pub fn take(step: Step, given: &mut Given, taken: &mut Taken) -> Result<(), StepFailure> {
    match step {
        Step::Detach => detach::detach(),
        Step::Namespaces(kinds) => {
            taken.made = namespaces::make(&kinds)?;
            taken.namespaces.extend(kinds);
            Ok(())
        }
        Step::EnterNamespaces(kinds) => {
            let more = given.namespaces.split_off(kinds.len().min(given.namespaces.len()));
            given.overlay_users = more.into_iter().next();
            namespaces::join(&kinds, std::mem::take(&mut given.namespaces))?;
            taken.namespaces.extend(kinds);
            Ok(())
        }
        Step::Loopback => {
            namespaces::loopback()?;
            taken.loopback = true;
            Ok(())
        }
        Step::AuditSession(identity) => {
            // Without one it is known of no refusal whose it is, and the broker says so.
            taken.audit_session = records::begin_session(identity.uid).ok();
            Ok(())
        }
        Step::Mapping(runs) => {
            taken.users = Some(mapping::make(&runs)?);
            Ok(())
        }
        Step::OverlayUsers(identity) => {
            taken.made.push(mapping::of_user(identity)?);
            Ok(())
        }
        Step::Root(root) => {
            let users = taken.users.take();
            root::make(&root, users.as_ref().map(|users| users.as_fd()))?;
            taken.workspace = Some(root.workspace.path);
            Ok(())
        }
        Step::Proc => root::own_proc(),
        Step::Store(wanted) => {
            taken.store = Some(store::make(&wanted)?);
            Ok(())
        }
        Step::Sweep { directory, name, rights } => store::sweep(&directory, &name, rights),
        Step::Names { names, workspace, mounts } => {
            match (overlay::refuse_mounts_below(&workspace), mounts) {
                (Ok(()), _) => {}
                (Err(why), MountsBelow::Leave) => taken.uncovered = Some(why.to_string()),
                (Err(why), MountsBelow::Refuse) => return Err(why),
            }
            taken.view = View::new(workspace.as_path(), names)
                .map_err(|error| StepFailure::NotInForce(error.to_string()))?;
            Ok(())
        }
        Step::ReadOnly(binds) => root::read_only(&binds),
        Step::Overlay(overlay) => {
            let ground = Ground {
                store: taken.store.take(),
                users: given.overlay_users.take(),
                view: &taken.view,
                scanned: given.scanned.take(),
            };
            taken.layers = Some(overlay::lay(&overlay, ground)?);
            taken.workspace = Some(overlay.workspace);
            Ok(())
        }
        Step::Workspace(workspace) => {
            root::find_workspace(&workspace)?;
            taken.workspace = Some(workspace.path);
            Ok(())
        }
        Step::Rlimits(limits) => {
            taken.limits = privilege::rlimits(&limits)?;
            Ok(())
        }
        Step::Identity(identity) => privilege::identity(identity),
        Step::Capabilities => privilege::drop_capabilities(),
        Step::NoNewPrivileges => privilege::no_new_privileges(),
        Step::Undumpable => privilege::undumpable(),
        Step::CloseDescriptors => {
            given.overlay_users = None;
            let made = taken.made.iter().map(|fd| fd.as_raw_fd());
            let entered = given.namespaces.iter().map(|fd| fd.as_raw_fd());
            let layers = taken.layers.iter().flat_map(|layers| [&layers.lower, &layers.upper]);
            let layers = layers.map(|fd| fd.as_raw_fd());
            let kept = given.keep.iter().copied();
            let keep: Vec<_> = kept.chain(made).chain(entered).chain(layers).collect();
            detach::standard_streams()?;
            kernel::close_all_but(&[&[0, 1, 2], keep.as_slice()].concat())
                .map_err(StepFailure::kernel("close_range"))
        }
        Step::Landlock { grants, tcp } => {
            let layers = taken.layers.as_ref();
            taken.landlock = Some(landlock::enforce(&grants, tcp, layers)?);
            Ok(())
        }
        Step::Seccomp(rules) => {
            let logged = match taken.audit_session {
                Some(_) => kernel::Logged::All,
                None => kernel::Logged::Usual,
            };
            taken.seccomp = Some(seccomp::install(&rules, logged)?);
            Ok(())
        }
        Step::SeccompRecording { rules, own, bound } => {
            taken.recorder = Some(Recorder::new(&rules, own, bound)?);
            taken.seccomp =
                Some(seccomp::install(&record::runner_rules(&rules), kernel::Logged::Usual)?);
            Ok(())
        }
    }
}
