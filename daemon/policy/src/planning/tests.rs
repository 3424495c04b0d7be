//! Tests of the plans of the built-in profiles: what they include, what they omit, what is refused.

use super::*;
use crate::ProfileSet;
use palisade_plan::{
    Absent, CgroupFacts, Facts, Found, Identity, Layer, Namespace, Network, OverlayFacts, Role,
    SetIdBits, Sockets, Step, StepError, Tcp, assemble,
    ceiling::{AcceptedFilters, Ceiling},
    codec::{self, MAX_PLAN},
    fixed_rules, steps,
};

fn profile(name: &str) -> Profile {
    ProfileSet::new([]).unwrap().get(name).unwrap().clone()
}

fn scene(workspace: &str, home: Option<&str>) -> Scene {
    Scene {
        workspace: workspace.into(),
        home: home.map(Into::into),
        user: "u".to_owned(),
        uid: 1000,
        gid: 1000,
    }
}

fn usual() -> Scene {
    scene("/home/u/project", Some("/home/u"))
}

fn grants(plan: &LaunchPlan, path: &str) -> Vec<Access> {
    let on = plan.grants.iter().filter(|grant| grant.path.as_path() == Path::new(path));
    on.map(|grant| grant.access).collect()
}

#[test]
fn built_in_plans_are_under_the_ceiling_and_fit_in_a_message() {
    let trusted = Ceiling { network: "53,80,443".parse().unwrap(), ..Ceiling::default() };
    for name in ["workspace", "readonly", "build", "guarded", "strict", "trusted-net"] {
        let ceiling = if name == "trusted-net" { trusted.clone() } else { Ceiling::default() };
        let plan = profile(name).plan(&usual()).unwrap();
        let identity = Identity { uid: 1000, gid: 1000 };
        assert_eq!(
            ceiling.check(&plan, identity, &mut AcceptedFilters::default()),
            Ok(()),
            "{name}"
        );
        assert!(codec::encode(&plan).unwrap().len() < MAX_PLAN, "{name}");
        assert!(
            assemble(&plan.syscalls, &fixed_rules(Sockets::of(&plan.network), SetIdBits::SetGid))
                .is_ok()
        );
        let network = match name {
            "strict" => Network::None,
            "trusted-net" => Network::Ports(vec![53, 80, 443]),
            _ => Network::Loopback,
        };
        assert_eq!(plan.network, network, "{name}");
        assert_eq!(plan.optional, [Layer::Limits]);
    }
}

#[test]
fn the_workspace_is_writable_or_not_as_the_profile_says() {
    for (name, access) in [("workspace", Access::Write), ("readonly", Access::Execute)] {
        let plan = profile(name).plan(&usual()).unwrap();
        let path = "/home/u/project";
        let expected = Bind { path: path.into(), access, missing: MissingPath::Refuse };
        assert_eq!(plan.workspace, expected);
        assert_eq!(grants(&plan, path), [access]);
        // Nothing else of the host is writable.
        assert!(plan.binds.iter().all(|bind| bind.access < Access::Write));
    }
}

#[test]
fn the_small_root_has_programs_and_no_secrets() {
    let plan = profile("workspace").plan(&usual()).unwrap();
    let bind = |path: &str| plan.binds.iter().find(|b| b.path.as_path() == Path::new(path));
    let usr = bind("/usr").unwrap();
    assert_eq!((usr.access, usr.missing), (Access::Execute, MissingPath::Refuse));
    for path in ["/bin", "/lib64", "/opt", "/nix/store", "/home/u/.cargo/bin", "/home/u/.rustup"] {
        let bind = bind(path).unwrap();
        assert_eq!((bind.access, bind.missing), (Access::Execute, MissingPath::Skip), "{path}");
        assert_eq!(grants(&plan, path), [Access::Execute], "{path}");
    }
    for path in ["/etc/passwd", "/etc/ld.so.cache", "/etc/ssl/certs", "/home/u/.cargo/registry"] {
        assert_eq!(bind(path).unwrap().access, Access::Read, "{path}");
        assert_eq!(grants(&plan, path), [Access::Read], "{path}");
    }
    // Neither these paths nor anything above them.
    for path in [
        "/etc/shadow",
        "/etc/ssl/private",
        "/etc/palisade",
        "/home/u/.ssh",
        "/home/u/.gitconfig",
        "/home/u/.cargo/credentials.toml",
        "/home/u/.aws",
        "/run",
        "/var",
        "/root",
        "/sys",
    ] {
        let shown = plan.binds.iter().find(|bind| Path::new(path).starts_with(bind.path.as_path()));
        assert_eq!(shown, None, "{path}");
    }
    assert_eq!(grants(&plan, "/proc"), [Access::Read]);
    assert_eq!(grants(&plan, "/dev"), [Access::Device]);
}

#[test]
fn private_file_systems() {
    let plan = profile("workspace").plan(&usual()).unwrap();
    let found: Vec<_> =
        plan.tmpfs.iter().map(|t| (t.path.as_path().to_str().unwrap(), t.bytes, t.mode)).collect();
    let gib = 1 << 30;
    assert_eq!(
        found,
        [
            ("/tmp", gib, 0o1777),
            ("/var/tmp", gib, 0o1777),
            ("/dev/shm", gib, 0o1777),
            ("/run", 1 << 20, 0o755),
            ("/home/u", gib, 0o700),
        ]
    );
    for path in ["/tmp", "/var/tmp", "/dev/shm", "/home/u"] {
        assert_eq!(grants(&plan, path), [Access::Write], "{path}");
    }
    assert_eq!(grants(&plan, "/run"), []);
}

#[test]
fn without_a_root_of_its_own_a_session_has_no_leave_on_the_hosts_tmp_and_home() {
    let mut plan = profile("workspace").plan(&usual()).unwrap();
    plan.optional = vec![Layer::Mount];
    let granted = |found: &Found| {
        let layer = |layer| {
            let other = Found::Yes(String::new());
            (layer, if layer == Layer::Mount { found.clone() } else { other })
        };
        let facts = Facts {
            kernel: String::new(),
            privileged: false,
            user_namespace: found.clone(),
            layers: Layer::ALL.map(layer).to_vec(),
            landlock_abi: 7,
            landlock_errata: 0,
            overlay: OverlayFacts::all(found.clone()),
            records: found.clone(),
            audit_session: found.clone(),
            cgroup: CgroupFacts::default(),
            ports: found.clone(),
        };
        let identity = Identity { uid: 1000, gid: 1000 };
        let (steps, _) = steps(&plan, &facts, identity, Role::Runner).unwrap();
        let grants = steps.into_iter().find_map(|step| {
            if let Step::Landlock { grants, .. } = step { Some(grants) } else { None }
        });
        let writable = grants.unwrap().into_iter().filter(|grant| grant.access == Access::Write);
        writable.map(|grant| grant.path.as_path().to_owned()).collect::<Vec<_>>()
    };
    let private = ["/home/u/project", "/tmp", "/var/tmp", "/dev/shm", "/home/u"];
    assert_eq!(granted(&Found::Yes(String::new())), private.map(PathBuf::from));
    assert_eq!(granted(&Found::No("test".to_owned())), [PathBuf::from("/home/u/project")]);
}

#[test]
fn homes_that_can_not_be_private_are_left_out() {
    for home in [None, Some("/"), Some("/usr/sbin"), Some("/bin"), Some("/dev"), Some("/etc/x")] {
        let plan = profile("workspace").plan(&scene("/srv/p", home)).unwrap();
        assert_eq!(plan.tmpfs.len(), 4, "{home:?}");
        let toolchain = |bind: &Bind| bind.path.as_path().ends_with(".cargo/bin");
        assert!(!plan.binds.iter().any(toolchain), "{home:?}");
    }
    let plan = profile("workspace").plan(&scene("/srv/p", Some("/nonexistent"))).unwrap();
    assert_eq!(plan.tmpfs.len(), 5);
    let plan = profile("workspace").plan(&scene("/srv/p", Some("/tmp"))).unwrap();
    assert_eq!(plan.tmpfs.len(), 4);
}

#[test]
fn workspaces_that_can_not_be() {
    let plan = |workspace: &str| profile("workspace").plan(&scene(workspace, Some("/home/u")));
    for path in ["/", "/usr", "/etc", "/etc/nginx", "/bin", "/proc/1", "/home", "/var", "/run"] {
        assert_eq!(plan(path), Err(PlanError::System(path.into())), "{path}");
    }
    for path in ["/tmp", "/var/tmp", "/dev/shm"] {
        assert_eq!(plan(path), Err(PlanError::Private(path.into())), "{path}");
    }
    for path in ["", "project", "/home/u/../v", "/home/u/project/", "/home//u/p", "/a\0b"] {
        let error = PlanError::NotPlain { what: "the workspace", path: path.into() };
        assert_eq!(plan(path), Err(error), "{path:?}");
    }
    let error = PlanError::HoldsHome { workspace: "/home/u".into(), home: "/home/u".into() };
    assert!(error.to_string().contains("keys and tokens"));
    assert_eq!(plan("/home/u"), Err(error));
    let holds = profile("workspace").plan(&scene("/srv", Some("/srv/homes/u")));
    let error = PlanError::HoldsHome { workspace: "/srv".into(), home: "/srv/homes/u".into() };
    assert_eq!(holds, Err(error));
    let odd = profile("workspace").plan(&scene("/srv/p", Some("home")));
    assert_eq!(odd, Err(PlanError::NotPlain { what: "the home", path: "home".into() }));
    for path in ["/home/u/p", "/tmp/p", "/srv/p", "/usr/src/p", "/home/u2", "/dev/shm/p"] {
        assert!(plan(path).is_ok(), "{path}");
    }
}

#[test]
fn variables_stand_for_the_scenes_own() {
    let text = r#"
        version = 1
        description = "test"
        [fs]
        workspace = "read"
        execute = ["!/usr"]
        read = ["!$HOME/data", "$TMP/../x"]
        unguarded = ["!$WORKSPACE/out", "/srv/shared"]
    "#;
    let broken = Profile::parse("mine", text);
    assert!(broken.is_err_and(|e| e.to_string().contains("$TMP/../x")));
    let mine = Profile::parse("mine", &text.replace("/../x", "/x")).unwrap();
    let plan = mine.plan(&usual()).unwrap();
    let bind = |path: &str, access, missing| Bind { path: path.into(), access, missing };
    assert_eq!(
        plan.binds,
        [
            bind("/usr", Access::Execute, MissingPath::Refuse),
            bind("/home/u/data", Access::Read, MissingPath::Refuse),
            bind("/tmp/x", Access::Read, MissingPath::Skip),
            bind("/home/u/project/out", Access::Write, MissingPath::Refuse),
            bind("/srv/shared", Access::Write, MissingPath::Skip),
        ]
    );
    let unguarded = ["/home/u/project/out", "/srv/shared"].map(std::path::PathBuf::from);
    assert_eq!(mine.unguarded(&usual()), Ok(unguarded.to_vec()));
    let error = PlanError::NoHome("/data".to_owned());
    assert_eq!(mine.plan(&scene("/srv/p", None)), Err(error));
}

fn facts(landlock_abi: u32, network: Found) -> Facts {
    let here = || Found::Yes(String::new());
    let layer = |layer| (layer, if layer == Layer::Network { network.clone() } else { here() });
    Facts {
        kernel: String::new(),
        privileged: false,
        user_namespace: here(),
        layers: Layer::ALL.map(layer).to_vec(),
        landlock_abi,
        landlock_errata: 0,
        overlay: OverlayFacts::all(here()),
        records: here(),
        audit_session: here(),
        cgroup: CgroupFacts::default(),
        ports: here(),
    }
}

/// Before Linux 6.6 a tmpfs can not store the marks of an overlay for deleted names, so writing
/// there is unavailable. Hiding names in a workspace that is only read does not need the marks.
#[test]
fn names_are_hidden_of_what_is_only_read_where_writing_can_not_be_held_back() {
    let identity = Identity { uid: 1000, gid: 1000 };
    let here = Found::Yes(String::new());
    let mut facts = facts(7, here.clone());
    let old = Found::No("old".to_owned());
    facts.overlay = OverlayFacts { read: here, write: old.clone(), memory: old };
    let planned =
        |name: &str, role| steps(&profile(name).plan(&usual()).unwrap(), &facts, identity, role);
    for name in ["readonly", "strict"] {
        let (made, absent) = planned(name, Role::Transaction).unwrap();
        let overlay = made.iter().find_map(|step| {
            if let Step::Overlay(overlay) = step { Some(overlay.access) } else { None }
        });
        assert_eq!((overlay, absent), (Some(Access::Execute), vec![]), "{name}");
    }
    let missing = StepError::Missing(Absent { layer: Layer::Hide, why: "old".to_owned() });
    assert_eq!(planned("guarded", Role::Files).unwrap_err(), missing);
    assert_eq!(
        planned("workspace", Role::Transaction).unwrap_err(),
        StepError::Transaction("old".to_owned())
    );
}

#[test]
fn each_network_has_its_own_steps() {
    let identity = Identity { uid: 1000, gid: 1000 };
    let taken = |plan: &LaunchPlan, facts: &Facts| {
        let (steps, absent) = steps(plan, facts, identity, Role::Files).unwrap();
        let own = steps.iter().any(
            |step| matches!(step, Step::Namespaces(kinds) if kinds.contains(&Namespace::Network)),
        );
        let tcp = steps.iter().find_map(|step| {
            if let Step::Landlock { tcp, .. } = step { Some(tcp.clone()) } else { None }
        });
        let absent: Vec<_> = absent.into_iter().map(|absent| absent.layer).collect();
        (own, steps.contains(&Step::Loopback), tcp.unwrap(), absent)
    };
    let plan = |name: &str| {
        let optional = vec![Layer::Network];
        LaunchPlan { optional, ..profile(name).plan(&usual()).unwrap() }
    };
    let here = facts(7, Found::Yes(String::new()));
    let gone = facts(7, Found::No("gone".to_owned()));
    let ports = Tcp::Connect(vec![53, 80, 443]);
    assert_eq!(taken(&plan("strict"), &here), (true, false, Tcp::NotHandled, vec![]));
    assert_eq!(taken(&plan("workspace"), &here), (true, true, Tcp::NotHandled, vec![]));
    for name in ["strict", "workspace"] {
        let missing = (false, false, Tcp::Refused, vec![Layer::Network]);
        assert_eq!(taken(&plan(name), &gone), missing, "{name}");
    }
    for facts in [&here, &gone] {
        assert_eq!(taken(&plan("trusted-net"), facts), (false, false, ports.clone(), vec![]));
    }
    // Without scoped abstract sockets, those of the host could be reached.
    let old =
        steps(&plan("trusted-net"), &facts(5, gone.layer(Layer::Network)), identity, Role::Files);
    assert!(
        matches!(&old, Err(StepError::Missing(absent)) if absent.layer == Layer::Landlock && absent.why.contains("ABI 6")),
        "{old:?}"
    );
}
