//! Real clients in a session whose network is by name: they work with an allowed host, by the proxy
//! and without, and a private daemon takes hosts from the command line.

use palisade_tests::{
    BareRepository, Mode, NamedHosts, WebServer, among_names, hosts_file, named_profile,
    rooms::awaited, text,
};
use std::path::Path;

const NAMES: [&str; 2] = ["packages.test", "other.test"];

fn net(port: u16) -> String {
    format!("mode = \"domains\"\nallow = [\"packages.test:{port}\", \"127.0.0.1:{port}\"]\n")
}

/// A line for each client, with `URL` for the server and without the proxy where it says so.
const CLIENTS: [(&str, &str, &str); 6] = [
    ("curl", "curl", "curl -sS URL/x"),
    ("curl, no proxy", "curl", "curl -sS --noproxy '*' URL/x"),
    ("wget", "wget", "wget -q -O- URL/x"),
    (
        "python",
        "python3",
        "/usr/bin/python3 -c 'import urllib.request as u; print(u.urlopen(\"URL/x\").read().decode(), end=\"\")'",
    ),
    (
        "python, no proxy",
        "python3",
        "/usr/bin/python3 -c 'import urllib.request as u; o = u.build_opener(u.ProxyHandler({})); \
         print(o.open(\"URL/x\").read().decode(), end=\"\")'",
    ),
    (
        "a program that knows no proxy",
        "bash",
        "exec 3<>/dev/tcp/HOST/PORT; printf 'GET /x HTTP/1.0\\r\\nHost: HOST:PORT\\r\\n\\r\\n' >&3; tail -n 1 <&3",
    ),
];

#[test]
fn clients_work_with_an_allowed_host_and_not_with_another() {
    for mode in Mode::all() {
        let server = WebServer::start(Path::new("/nonexistent"));
        let port = server.port;
        let hosts = NamedHosts::new(mode, &NAMES, &net(port));
        let sandbox = hosts.open();
        for (name, program, line) in CLIENTS {
            if !Path::new("/usr/bin").join(program).exists() {
                eprintln!("{program} is not installed");
                continue;
            }
            let at = |host: &str| {
                let line = line.replace("URL", &format!("http://{host}:{port}"));
                sandbox.bash(&line.replace("HOST", host).replace("PORT", &port.to_string()))
            };
            let reached = at("packages.test");
            assert_eq!(
                reached.stdout, "hello from /x\n",
                "{mode:?}: {name}: {}\n{:?}",
                reached.stderr, reached.error
            );
            assert_eq!(server.requests().len(), 1, "{mode:?}: {name}");
            let refused = at("other.test");
            assert!(!refused.stdout.contains("hello"), "{mode:?}: {name}: {}", refused.stdout);
            assert!(server.requests().is_empty(), "{mode:?}: {name} reached another host");
        }
    }
}

#[test]
fn git_clones_from_an_allowed_host() {
    for mode in Mode::all() {
        let repository = BareRepository::new();
        let server = WebServer::start(repository.directory());
        let port = server.port;
        let hosts = NamedHosts::new(mode, &NAMES, &net(port));
        let sandbox = hosts.open();
        let clone = |host: &str| {
            sandbox.bash(&format!("git clone -q http://{host}:{port}/files/project.git {host}"))
        };
        let cloned = clone("packages.test");
        assert!(cloned.success, "{mode:?}: {}\n{:?}", cloned.stderr, cloned.error);
        assert_eq!(sandbox.ok("cat packages.test/file"), "from git\n");
        assert!(!server.requests().is_empty());
        let refused = clone("other.test");
        assert!(!refused.success, "{mode:?}");
        assert!(refused.stderr.contains("403"), "{mode:?}: {}", refused.stderr);
        assert!(server.requests().is_empty(), "{mode:?}");
    }
}

#[test]
fn a_private_daemon_takes_hosts_from_the_command_line() {
    for mode in Mode::all() {
        let server = WebServer::start(Path::new("/nonexistent"));
        let port = server.port;
        let world = palisade_tests::World::new(mode);
        world.add_unasked("plain", &named_profile("mode = \"loopback\""));
        let hosts = hosts_file(&world, &NAMES);
        let run = |domains: &[String], host: &str| {
            let mut command = among_names(&world, &hosts, "palisade");
            command.args(["run", "--profile", "plain", "--profiles"]).arg(world.profiles());
            for domain in domains {
                command.arg("--allow-domain").arg(domain);
            }
            command.args(["--", &format!("curl -sS http://{host}:{port}/x")]).output().unwrap()
        };
        let domains = [format!("packages.test:{port}"), format!("127.0.0.1:{port}")];
        let reached = run(&domains, "packages.test");
        assert_eq!(text(&reached.stdout), "hello from /x\n", "{mode:?}: {}", text(&reached.stderr));
        assert_eq!(server.requests().len(), 1);
        let refused = run(&domains, "other.test");
        assert!(text(&refused.stdout).contains("does not include other.test"), "{refused:?}");
        let without = run(&[], "packages.test");
        assert!(!without.status.success() && without.stdout.is_empty(), "{mode:?}: {without:?}");
        assert!(server.requests().is_empty(), "{mode:?}");
        let wrong = run(&["*.com".to_owned()], "packages.test");
        assert!(text(&wrong.stderr).contains("\"*.com\" can not be allowed"), "{wrong:?}");
    }
}

#[test]
fn hosts_that_were_used_are_learned_and_refused_ones_are_suggested() {
    for mode in Mode::all() {
        let server = WebServer::start(Path::new("/nonexistent"));
        let port = server.port;
        let world = palisade_tests::World::new(mode);
        let net = format!(
            "mode = \"domains\"\nallow = [\"packages.test:{port}\", \"unused.test\", \
             \"127.0.0.1:{port}\"]\nask = true\n"
        );
        world.add_unasked("wide", &named_profile(&net));
        let hosts = hosts_file(&world, &NAMES);
        let learned = world.workspace().join("learned.toml");
        let url = format!("http://packages.test:{port}/x");
        for how in ["", "--noproxy \"*\""] {
            let mut learn = among_names(&world, &hosts, "palisade");
            learn.args(["profile", "learn", "--from", "wide", "--profiles"]).arg(world.profiles());
            learn.arg("-o").arg(&learned);
            let learn = learn.args(["--", &format!("curl -sS {how} {url}")]).output().unwrap();
            let told = format!("{}{}", text(&learn.stdout), text(&learn.stderr));
            assert!(learn.status.success(), "{mode:?}: {told}");
            assert!(told.contains("the command succeeds under the learned profile"), "{told}");
            let profile = std::fs::read_to_string(&learned).unwrap();
            let line =
                format!("\"packages.test:{port}\", # The run connected to packages.test:{port}.");
            assert!(profile.contains(&line), "{mode:?}: {profile}");
            assert!(profile.contains("ask = false") && !profile.contains("unused"), "{profile}");
            std::fs::remove_file(&learned).unwrap();
        }
    }
    for mode in Mode::all() {
        let server = WebServer::start(Path::new("/nonexistent"));
        let hosts = NamedHosts::new(mode, &NAMES, &net(server.port));
        let sandbox = hosts.open();
        assert!(sandbox.bash("curl -sS https://other.test/x").exit_code != Some(0));
        drop(sandbox);
        let log = hosts.world.state().join("audit");
        let profiles = hosts.world.profiles();
        let words = ["profile", "suggest", "--json", "--dir", log.to_str().unwrap()];
        // The record of a connection may come after the reply.
        let told = awaited("the refused connection is in the log", || {
            let suggest = hosts.palisade(&words).arg("--profiles").arg(&profiles).output().unwrap();
            let told = text(&suggest.stdout);
            told.contains("other.test").then_some(told)
        });
        assert!(told.contains("net.allow"), "{mode:?}: {told}");
    }
}
