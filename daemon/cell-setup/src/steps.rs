//! Takes the steps in order. The launcher makes the list (with `palisade_plan::steps`). Each step
//! is independent, so that a test can take any of them by itself. Runs in the cell.

use crate::{
    descriptors, detach,
    failure::StepFailure,
    git_configuration::{self, GitConfiguration},
    kernel, landlock, listeners, mapping, namespaces, outer_repository,
    overlay::{self, MountedOverlays, OverlayInputs},
    own_mounts, privilege,
    recording::{self, RecordingRules},
    records, root, seccomp, store,
};
use palisade_plan::{
    Access, Grant, HeldLimit, MissingPath, MountsBelow, Namespace, Path, Step, TreePlace,
};
use palisade_workspace::{Layers, MainRepository, OuterRepository, View};
use std::os::fd::{AsFd as _, OwnedFd, RawFd};

/// The results of the steps, for the process to use and to report.
#[derive(Debug, Default)]
pub struct StepResults {
    /// The namespaces that were created, to be sent to the launcher.
    pub made: Vec<OwnedFd>,
    /// The namespaces that this process does not share with the host.
    pub namespaces: Vec<Namespace>,
    /// True if the loopback interface was brought up.
    pub loopback: bool,
    /// The listeners of an egress room, until they are sent to the broker.
    pub listeners: Vec<OwnedFd>,
    /// The rulesets for the Landlock domain of each call.
    pub landlock: Option<landlock::LandlockRestrictions>,
    /// The installed filter.
    pub seccomp: Option<seccomp::InstalledFilter>,
    /// The resource limits of each process.
    pub limits: Vec<HeldLimit>,
    /// The user namespace that maps the session's files, until its root is built.
    pub(crate) users: Option<OwnedFd>,
    /// The main repository of a workspace that is a linked worktree of git.
    pub(crate) main: Option<MainRepository>,
    /// The repository in whose working tree the workspace is a directory.
    pub(crate) outer: Option<OuterRepository>,
    /// The user's configuration of git, until its author is written into the session's home.
    pub git: Option<GitConfiguration>,
    /// The workspace, once it has been resolved.
    pub workspace: Option<Path>,
    /// The places on the host of the trees that commits change.
    pub trees: Vec<TreePlace>,
    /// A directory on the disk for an overlay, until that is mounted.
    pub store: Option<OwnedFd>,
    /// The rules for recording what programs use.
    pub recording: Option<RecordingRules>,
    /// The names in the workspace that are hidden and protected.
    pub view: View,
    /// The reason why hidden and protected names can not be enforced on programs.
    pub uncovered: Option<String>,
    /// The layers of a transaction's overlay.
    pub layers: Option<Layers>,
    /// The mounts of a transaction's overlays, until they are sent to the launcher.
    pub(crate) overlays: Vec<OwnedFd>,
    /// The sockets for connections into the session's network.
    pub(crate) inward: Vec<OwnedFd>,
    /// The number of this process's audit session, if it has one of its own.
    pub audit_session: Option<u32>,
}

impl StepResults {
    /// Returns the workspace as the tools see it.
    #[must_use]
    pub fn workspace_view(&self) -> View {
        let workspace = self.workspace.clone().unwrap_or_default();
        let (main, outer) = (self.main.clone(), self.outer.clone());
        View { workspace: workspace.as_path().to_owned(), main, outer, ..self.view.clone() }
    }
}

/// The descriptors that steps use.
#[derive(Debug, Default)]
pub struct StepInputs {
    /// The namespaces to enter.
    pub namespaces: Vec<OwnedFd>,
    /// The user namespace in which overlays are mounted. It is received after those to enter.
    pub overlay_users: Option<OwnedFd>,
    /// The hidden names that a scan found.
    pub scanned: Option<OwnedFd>,
    /// The descriptors that must stay open.
    pub keep: Vec<RawFd>,
}

/// Takes one step.
///
/// # Errors
/// Whatever went wrong. The process must then end, because it is confined only in part.
pub fn take(
    step: Step,
    given: &mut StepInputs,
    taken: &mut StepResults,
) -> Result<(), StepFailure> {
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
        Step::Listeners(ports) => {
            if !taken.namespaces.contains(&Namespace::Network) || !taken.loopback {
                // Elsewhere they would be the host's, for all of its programs.
                let why = "the session has no loopback of its own for its listeners";
                return Err(StepFailure::Setup(why.to_owned()));
            }
            taken.listeners = listeners::make(&ports)?;
            Ok(())
        }
        Step::Inward(count) => {
            if taken.listeners.is_empty() {
                // Elsewhere they would be sockets of the host's network.
                let why = "the session has no listeners in a network of its own";
                return Err(StepFailure::Setup(why.to_owned()));
            }
            taken.inward = listeners::make_inward(count)?;
            Ok(())
        }
        Step::AuditSession(identity) => {
            // Without an audit session, denials can not be attributed to a call, and the broker
            // says so.
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
        Step::GitConfiguration { home, user } => {
            taken.git = Some(git_configuration::read(home, user)?);
            Ok(())
        }
        Step::Root(root) => {
            let users = taken.users.take();
            let made = root::make(&root, users.as_ref().map(|users| users.as_fd()))?;
            (taken.main, taken.trees, taken.outer) = (made.main, made.trees, made.outer);
            taken.workspace = Some(root.workspace.path);
            Ok(())
        }
        Step::Proc { repository } => {
            taken.main = own_mounts::own_mounts(repository)?;
            Ok(())
        }
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
                .map_err(|error| StepFailure::Setup(error.to_string()))?;
            Ok(())
        }
        Step::ReadOnly(binds) => own_mounts::read_only(&binds),
        Step::Overlay(overlay) => {
            let ground = OverlayInputs {
                store: taken.store.take(),
                users: given.overlay_users.take(),
                view: &taken.view,
                scanned: given.scanned.take(),
                main: taken.main.as_ref(),
            };
            let MountedOverlays { layers, mounts } = overlay::lay(&overlay, ground)?;
            (taken.layers, taken.overlays) = (Some(layers), mounts);
            taken.workspace = Some(overlay.workspace);
            Ok(())
        }
        Step::OuterRepository(peer) => {
            taken.outer = outer_repository::recorded(peer)?;
            Ok(())
        }
        Step::Workspace(workspace) => {
            root::find_workspace(&workspace)?;
            taken.outer = outer_repository::find(&workspace.path);
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
        Step::CloseDescriptors => descriptors::close_others(given, taken),
        Step::Landlock { mut grants, tcp } => {
            let layers = taken.layers.as_ref();
            grants.extend(taken.main.as_ref().map(|main| Grant {
                path: main.path.clone(),
                access: Access::Write,
                missing: MissingPath::Refuse,
            }));
            taken.landlock = Some(landlock::enforce(&grants, tcp, layers)?);
            Ok(())
        }
        Step::Seccomp { rules, sockets, bits } => {
            let logged = match taken.audit_session {
                Some(_) => kernel::DenialLogging::All,
                None => kernel::DenialLogging::Usual,
            };
            taken.seccomp = Some(seccomp::install(&rules, (sockets, bits), logged)?);
            Ok(())
        }
        Step::SeccompRecording { rules, sockets, bits, own, bound } => {
            taken.recording = Some(RecordingRules::new(&rules, (sockets, bits), own, bound)?);
            taken.seccomp = Some(seccomp::install(
                &recording::runner_rules(&rules),
                (sockets, bits),
                kernel::DenialLogging::Usual,
            )?);
            Ok(())
        }
    }
}
