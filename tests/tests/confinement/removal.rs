//! No step is there for show: with any one of them left out of a whole session, something that the
//! session must refuse goes through, or the session refuses to start. What catches each removal
//! is the same attempt that passes with all steps in place.

use palisade_plan::{Access, Bind, Grant, LaunchPlan, MissingPath, Namespace, Role, Step};
use palisade_tests::{Cell, Mode, Pids, World, own, plan};
use std::fs;

/// A plan with one thing added that only Landlock keeps from being run.
fn plan_of(world: &World) -> LaunchPlan {
    let mut plan = plan(&world.workspace());
    let path = palisade_plan::Path::from(world.outside());
    let missing = MissingPath::Refuse;
    // The tests' world is below a private directory, whose rule would cover it, and below which what
    // may only be read is mounted noexec.
    let private: Vec<_> = plan.tmpfs.iter().map(|tmpfs| tmpfs.path.clone()).collect();
    let over = |above: &palisade_plan::Path| {
        private.contains(above) && path.as_path().starts_with(above.as_path())
    };
    plan.grants.retain(|grant| !over(&grant.path));
    plan.tmpfs.retain(|tmpfs| !over(&tmpfs.path));
    plan.binds.push(Bind { path: path.clone(), access: Access::Read, missing });
    plan.grants.push(Grant { path, access: Access::Read, missing });
    plan
}

/// Returns what must hold in a whole session; one step alone brings about each line.
fn attempts(world: &World) -> Vec<(&'static str, String, &'static str)> {
    let program = world.outside().join("program");
    let mut attempts = vec![
        ("network", "tcp:127.0.0.1:9".to_owned(), "ECONNREFUSED"),
        ("network", "line:/proc/net/dev:eth".to_owned(), "EINVAL"),
        ("uts", "hostname:palisade".to_owned(), "ok"),
        ("root", "stat:/etc/shadow".to_owned(), "ENOENT"),
        ("rlimits", "descriptors:5000".to_owned(), "EMFILE"),
        ("capabilities", "no_capabilities".to_owned(), "ok"),
        ("landlock", format!("exec:{}", program.display()), "EACCES"),
        ("seccomp", "sys:keyctl:0:-3:0:0:0".to_owned(), "EPERM"),
    ];
    if rustix::process::geteuid().is_root() {
        attempts.push(("identity", format!("uid:{}", own().uid), "ok"));
    }
    attempts
}

fn world() -> World {
    let world = World::new(Mode::User);
    fs::copy(world.workspace().join("probe"), world.outside().join("program")).unwrap();
    world
}

/// Returns the attempts whose answer is not the expected one.
fn broken(world: &World, change: impl Fn(Role, Vec<Step>) -> Vec<Step>) -> Vec<&'static str> {
    let cell = match Cell::session(&plan_of(world), Pids::Own, change) {
        Ok(cell) => cell,
        // It refused to start: nothing ran with less.
        Err(_) => return vec!["refused"],
    };
    let attempts = attempts(world);
    let words: Vec<_> = attempts.iter().map(|(_, attempt, _)| attempt.as_str()).collect();
    let answers = cell.probe(&world.workspace(), &words);
    let mut broken: Vec<_> = attempts
        .iter()
        .zip(&answers)
        .filter(|((_, attempt, expected), answer)| **answer != format!("{attempt}={expected}"))
        .map(|((step, _, _), _)| *step)
        .collect();
    let signals = cell.run(&["grep", "SigIgn", "/proc/self/status"], &world.workspace()).1;
    if signals != "SigIgn:\t0000000000000000\n" {
        broken.push("detach");
    }
    if !cell.run(&["cat", "/proc/1/comm"], &world.workspace()).1.starts_with("cell 1 run") {
        broken.push("proc");
    }
    broken
}

fn without(name: &'static str) -> impl Fn(Role, Vec<Step>) -> Vec<Step> {
    move |_, steps| steps.into_iter().filter(|step| step.name() != name).collect()
}

fn without_namespace(gone: Namespace) -> impl Fn(Role, Vec<Step>) -> Vec<Step> {
    move |_, steps| {
        steps
            .into_iter()
            .filter(|step| *step != Step::Loopback || gone != Namespace::Network)
            .map(|mut step| {
                if let Step::Namespaces(list) | Step::EnterNamespaces(list) = &mut step {
                    list.retain(|namespace| *namespace != gone);
                }
                step
            })
            .collect()
    }
}

#[test]
fn with_every_step_in_place_everything_holds() {
    assert_eq!(broken(&world(), |_, steps| steps), Vec::<&str>::new());
}

#[test]
fn without_a_step_what_it_holds_breaks() {
    let world = world();
    let mut steps = vec!["detach", "root", "rlimits", "capabilities", "landlock", "seccomp"];
    if rustix::process::geteuid().is_root() {
        steps.push("identity");
    }
    for step in steps {
        let found = broken(&world, without(step));
        assert!(found.contains(&step) || found == ["refused"], "without {step}: {found:?}");
    }
}

#[test]
fn without_its_own_proc_or_no_new_privs_a_runner_refuses_to_start() {
    let world = world();
    for step in ["proc", "no_new_privs", "enter namespaces"] {
        assert_eq!(broken(&world, without(step)), ["refused"], "without {step}");
    }
}

#[test]
fn without_a_namespace_what_it_hides_shows() {
    let world = world();
    for (namespace, step) in [(Namespace::Network, "network"), (Namespace::Uts, "uts")] {
        let found = broken(&world, without_namespace(namespace));
        assert!(found.contains(&step), "without {namespace:?}: {found:?}");
    }
}

/// These show in the link that `/proc` gives for a process's namespaces.
#[test]
fn the_ipc_and_cgroup_namespaces_are_the_sessions_own_unless_left_out() {
    let world = world();
    for (namespace, name) in [(Namespace::Ipc, "ipc"), (Namespace::Cgroup, "cgroup")] {
        let host = fs::read_link(format!("/proc/self/ns/{name}")).unwrap();
        let host = host.to_str().unwrap().to_owned();
        let inside = |change: &dyn Fn(Role, Vec<Step>) -> Vec<Step>| {
            let cell = Cell::session(&plan_of(&world), Pids::Own, change).unwrap();
            let path = format!("/proc/self/ns/{name}");
            cell.run(&["readlink", &path], &world.workspace()).1.trim().to_owned()
        };
        assert_ne!(inside(&|_, steps| steps), host);
        assert_eq!(inside(&without_namespace(namespace)), host, "without {name}");
    }
}

/// A call's programs can not take over the process that runs them.
#[test]
fn without_undumpable_the_runner_would_be_its_users_own() {
    let world = World::new(Mode::User);
    let cell = |steps| Cell::as_user(steps, Pids::Shared).unwrap();
    let reach = |cell: &Cell| {
        cell.run(&["bash", "-c", "test -O /proc/$PPID/mem; echo $?"], &world.workspace()).1
    };
    assert_eq!(reach(&cell(vec![Step::Capabilities])), "0\n");
    assert_eq!(reach(&cell(vec![Step::Capabilities, Step::Undumpable])), "1\n");
}
