//! Package managers and other real clients over TLS that ends at the host: they work with an allowed
//! host, by the proxy and without it, and the host hears nothing of them when it is another one.

use super::development::{reachable, toolchain};
use palisade_tests::{
    BareRepository, Mode, NamedHosts, Place, Sandbox, TestAuthority, WebServer, named_profile, text,
};
use std::{fs, path::Path, process::Command};

const NAMES: [&str; 2] = ["packages.test", "other.test"];

/// Writes a package `tiny` for pip, npm and cargo, each with the files of its registry, as whole answers
/// of a web server: `make.py DIRECTORY URL`.
const MAKE: &str = r##"
import base64, hashlib, io, json, os, sys, tarfile, zipfile
root, url = sys.argv[1:]
def put(path, kind, body):
    path = os.path.join(root, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    open(path, "wb").write(head.encode() + body)
def tar(files):
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for name, body in files.items():
            info = tarfile.TarInfo(name); info.size = len(body); info.mode = 0o644
            archive.addfile(info, io.BytesIO(body))
    return made.getvalue()
wheel = io.BytesIO()
with zipfile.ZipFile(wheel, "w") as archive:
    archive.writestr("tiny.py", "answer = 42\n")
    archive.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
    archive.writestr("tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    archive.writestr("tiny-1.0.dist-info/RECORD", "tiny.py,,\ntiny-1.0.dist-info/METADATA,,\ntiny-1.0.dist-info/WHEEL,,\ntiny-1.0.dist-info/RECORD,,\n")
wheel, name = wheel.getvalue(), "tiny-1.0-py3-none-any.whl"
put("pip/" + name, "application/zip", wheel)
link = f'<a href="../{name}#sha256={hashlib.sha256(wheel).hexdigest()}">{name}</a>'
put("pip/tiny/index", "text/html", f"<!DOCTYPE html><html><body>{link}</body></html>".encode())
package = tar({"package/package.json": b'{"name":"tiny","version":"1.0.0"}', "package/index.js": b"module.exports = 42\n"})
put("npm/tiny-1.0.0.tgz", "application/octet-stream", package)
digest = "sha512-" + base64.b64encode(hashlib.sha512(package).digest()).decode()
version = {"name": "tiny", "version": "1.0.0", "dist": {"tarball": url + "/raw/npm/tiny-1.0.0.tgz", "integrity": digest}}
put("npm/tiny", "application/json", json.dumps({"name": "tiny", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}).encode())
crate = tar({"tiny-1.0.0/Cargo.toml": b'[package]\nname = "tiny"\nversion = "1.0.0"\nedition = "2021"\n', "tiny-1.0.0/src/lib.rs": b"pub const ANSWER: u32 = 42;\n"})
put("crates/tiny-1.0.0.crate", "application/octet-stream", crate)
put("index/config.json", "application/json", json.dumps({"dl": url + "/raw/crates/{crate}-{version}.crate"}).encode())
entry = {"name": "tiny", "vers": "1.0.0", "deps": [], "cksum": hashlib.sha256(crate).hexdigest(), "features": {}, "yanked": False}
put("index/ti/ny/tiny", "text/plain", json.dumps(entry).encode() + b"\n")
"##;

/// A host with packages, a server behind it that speaks TLS, and a session that allows it.
struct Packages {
    server: WebServer,
    hosts: NamedHosts,
    sandbox: Sandbox,
    _files: Place,
}

impl Packages {
    fn new(mode: Mode, change: impl Fn(String) -> String) -> Self {
        let (files, authority) = (Place::new(), TestAuthority::default());
        let server = WebServer::start_tls(files.path(), authority.server(&NAMES));
        let port = server.port;
        let url = format!("https://packages.test:{port}");
        let made = Command::new("/usr/bin/python3")
            .args(["-c", MAKE])
            .args([files.path().as_os_str(), url.as_ref()])
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", text(&made.stderr));
        let net = format!(
            "mode = \"domains\"\nallow = [\"packages.test:{port}\", \"127.0.0.1:{port}\"]\n"
        );
        let hosts = NamedHosts::with_profile(mode, &NAMES, &change(named_profile(&net)));
        // The authority of the server is the program's affair: nothing of Palisade vouches for it.
        fs::write(hosts.world.workspace().join("authority.pem"), authority.pem()).unwrap();
        let sandbox = hosts.open();
        Self { server, hosts, sandbox, _files: files }
    }

    /// Runs a line with `URL` for the allowed host, which must succeed with this output, and then for
    /// another one, which must fail without a byte to the server.
    fn works_for_the_allowed_host_only(&self, what: &str, line: &str, expected: &str) {
        let at = |host: &str| {
            let line = line.replace("URL", &format!("https://{host}:{}", self.server.port));
            let call = self.sandbox.session.bash(line);
            let call = call.timeout(std::time::Duration::from_secs(300));
            self.sandbox.wait(call.into_future()).unwrap()
        };
        let done = at("packages.test");
        let shown = format!("{what}: {}\n{}\n{:?}", done.stdout, done.stderr, done.error);
        assert!(done.success && done.stdout.contains(expected), "{shown}");
        assert!(!self.server.requests().is_empty(), "{shown}");
        let (bytes, connections) = (self.server.received(), self.server.connections());
        let refused = at("other.test");
        let shown = format!("{what}: {}\n{}", refused.stdout, refused.stderr);
        assert!(!refused.success && !refused.stdout.contains(expected), "{shown}");
        let after = (self.server.received(), self.server.connections());
        assert_eq!(after, (bytes, connections), "{shown}");
    }
}

/// The name of a client, its program, a line of it and the line's output.
type Client = (&'static str, &'static str, &'static str, &'static str);

/// The clients that need nothing but what Debian has.
const CLIENTS: [Client; 13] = [
    ("curl", "curl", "curl -sS --cacert authority.pem URL/x", "hello"),
    ("curl, no proxy", "curl", "curl -sS --cacert authority.pem --noproxy '*' URL/x", "hello"),
    (
        "curl, SOCKS5",
        "curl",
        "curl -sS --cacert authority.pem --socks5-hostname 127.0.0.1:61080 URL/x",
        "hello",
    ),
    (
        "curl, SOCKS5 with an address",
        "curl",
        "curl -sS --cacert authority.pem --socks5 127.0.0.1:61080 URL/x",
        "hello",
    ),
    ("wget", "wget", "wget -q -O- --ca-certificate=authority.pem URL/x", "hello"),
    (
        "wget, no proxy",
        "wget",
        "wget -q -O- --no-proxy --ca-certificate=authority.pem URL/x",
        "hello",
    ),
    (
        "python's urllib",
        "python3",
        "SSL_CERT_FILE=authority.pem /usr/bin/python3 -c 'import urllib.request as u; \
         print(u.urlopen(\"URL/x\").read())'",
        "hello",
    ),
    (
        "python's requests, as pip has it",
        "python3",
        "PYTHONPATH=$(echo /usr/share/python-wheels/pip-*.whl) /usr/bin/python3 -c 'from pip._vendor \
         import requests; print(requests.get(\"URL/x\", verify=\"authority.pem\").text)'",
        "hello",
    ),
    (
        "python's requests, no proxy",
        "python3",
        "PYTHONPATH=$(echo /usr/share/python-wheels/pip-*.whl) /usr/bin/python3 -c 'from pip._vendor \
         import requests; s = requests.Session(); s.trust_env = False; \
         print(s.get(\"URL/x\", verify=\"authority.pem\").text)'",
        "hello",
    ),
    // Before version 24 it knows no proxy.
    (
        "node's fetch",
        "node",
        "NODE_EXTRA_CA_CERTS=authority.pem node -e 'fetch(\"URL/x\").then(r => r.text())\
         .then(t => process.stdout.write(t))'",
        "hello",
    ),
    (
        "pip",
        "python3",
        "rm -rf got; PYTHONPATH=$(echo /usr/share/python-wheels/pip-*.whl) /usr/bin/python3 -m pip \
         install -q --disable-pip-version-check --retries 0 --no-cache-dir --target got \
         --cert authority.pem --index-url URL/raw/pip tiny && PYTHONPATH=got /usr/bin/python3 -c \
         'import tiny; print(tiny.answer)'",
        "42",
    ),
    (
        "pip, whose configuration names another proxy",
        "python3",
        "rm -rf got; printf '[global]\\nproxy = http://127.0.0.1:9\\n' > pip.conf; \
         PIP_CONFIG_FILE=$PWD/pip.conf PYTHONPATH=$(echo /usr/share/python-wheels/pip-*.whl) \
         /usr/bin/python3 -m pip install -q --disable-pip-version-check --retries 0 --no-cache-dir \
         --target got --cert authority.pem --index-url URL/raw/pip tiny && PYTHONPATH=got \
         /usr/bin/python3 -c 'import tiny; print(tiny.answer)'",
        "42",
    ),
    (
        "npm",
        "npm",
        "rm -rf js; mkdir js; cd js; echo '{}' > package.json; npm install --silent --fetch-retries 0 \
         --no-audit --no-fund --no-update-notifier --cache cache --cafile ../authority.pem \
         --registry URL/raw/npm/ tiny && node -p 'require(\"tiny\")'; code=$?; cd ..; exit $code",
        "42",
    ),
];

#[test]
fn clients_speak_tls_with_an_allowed_host_and_with_no_other() {
    for mode in Mode::all() {
        let packages = Packages::new(mode, |profile| profile);
        for (name, program, line, expected) in CLIENTS {
            if !Path::new("/usr/bin").join(program).exists() {
                eprintln!("{program} is not installed");
                continue;
            }
            let what = format!("{mode:?}: {name}");
            packages.works_for_the_allowed_host_only(&what, line, expected);
        }
        assert_eq!(packages.hosts.rooms().len(), 1, "{mode:?}");
    }
}

const FETCH: &str = "rm -rf home; CARGO_HOME=$PWD/home CARGO_HTTP_CAINFO=$PWD/authority.pem \
    CARGO_NET_RETRY=0 cargo --config 'source.crates-io.replace-with=\"tiny\"' --config \
    'source.tiny.registry=\"sparse+URL/raw/index/\"' fetch --manifest-path crate/Cargo.toml && \
    ls home/registry/cache/*/";

#[test]
fn cargo_fetches_from_an_allowed_registry_and_from_no_other() {
    for mode in Mode::all() {
        let Some(root) = toolchain() else {
            eprintln!("there is no toolchain");
            continue;
        };
        let place = Place::new();
        let root = reachable(mode, &root, place.path());
        let execute = format!("    \"!/usr\", \"!{}\",\n", root.display());
        let path = format!("    \"{}/bin\", \"/usr/local/sbin\",", root.display());
        let packages = Packages::new(mode, |profile| {
            let search =
                "    \"$HOME/.cargo/bin\", \"$HOME/.local/bin\",\n    \"/usr/local/sbin\",";
            assert!(profile.contains(search));
            profile.replacen("    \"!/usr\",\n", &execute, 1).replacen(search, &path, 1)
        });
        let manifest = "[package]\nname = \"user\"\nversion = \"1.0.0\"\nedition = \"2021\"\n\
                        [dependencies]\ntiny = \"1\"\n";
        let directory = packages.hosts.world.workspace().join("crate");
        fs::create_dir_all(directory.join("src")).unwrap();
        fs::write(directory.join("Cargo.toml"), manifest).unwrap();
        fs::write(directory.join("src/lib.rs"), "").unwrap();
        for path in [directory.clone(), directory.join("src"), directory.join("Cargo.toml")] {
            packages.hosts.world.give(&path);
        }
        let (what, expected) = (format!("{mode:?}: cargo"), "tiny-1.0.0.crate");
        packages.works_for_the_allowed_host_only(&what, FETCH, expected);
        let other = "mkdir -p .cargo; printf '[http]\\nproxy = \"http://127.0.0.1:9\"\\n' > \
                     .cargo/config.toml;";
        let what = format!("{what}, whose configuration names another proxy");
        packages.works_for_the_allowed_host_only(&what, &format!("{other} {FETCH}"), expected);
    }
}

#[test]
fn git_clones_and_pushes_over_tls_to_an_allowed_host_and_to_no_other() {
    for mode in Mode::all() {
        // The last one's configuration names another proxy: the user's, and the repository's.
        let other = "git config --global http.proxy http://127.0.0.1:9;";
        for (proxy, set) in [("", ""), ("-c http.proxy= ", ""), ("", other)] {
            let repository = BareRepository::new();
            let authority = TestAuthority::default();
            let server = WebServer::start_tls(repository.directory(), authority.server(&NAMES));
            let port = server.port;
            let net = format!(
                "mode = \"domains\"\nallow = [\"packages.test:{port}\", \"127.0.0.1:{port}\"]\n"
            );
            let hosts = NamedHosts::new(mode, &NAMES, &net);
            fs::write(hosts.world.workspace().join("authority.pem"), authority.pem()).unwrap();
            let sandbox = hosts.open();
            let git = format!("GIT_SSL_CAINFO=$PWD/authority.pem git {proxy}");
            let url =
                |host: &str| format!("https://user:own-password@{host}:{port}/git/project.git");
            let commit = format!(
                "{set} {git} clone -q {} work && {} git -C work -c user.name=a -c user.email=a@test commit -q \
                 --allow-empty -m pushed && {git} -C work push -q origin main",
                url("packages.test"),
                set.replace("--global", "").replace("git config", "git -C work config"),
            );
            let done = sandbox.bash(&commit);
            assert!(done.success, "{mode:?}: {}\n{:?}", done.stderr, done.error);
            assert_eq!(repository.subjects(), "pushed\nfirst\n", "{mode:?}");
            let before = server.received();
            let push = format!("{git} -C work push -q {} main:other", url("other.test"));
            assert!(!sandbox.bash(&push).success, "{mode:?}");
            assert!(!sandbox.bash(&format!("{git} clone -q {} again", url("other.test"))).success);
            assert_eq!(server.received(), before, "{mode:?}");
        }
    }
}

/// Gets a page, without a proxy or by the one that properties name.
const JAVA: &str = "import java.net.*;\npublic class Get {\n  public static void main(String[] a) \
    throws Exception {\n    try (var in = new URL(a[0]).openStream()) { in.transferTo(System.out); }\n  \
    }\n}\n";

#[test]
fn java_reaches_an_allowed_host_and_no_other() {
    if !Path::new("/usr/bin/javac").exists() {
        eprintln!("javac is not installed");
        return;
    }
    for mode in Mode::all() {
        let server = WebServer::start(Path::new("/nonexistent"));
        let port = server.port;
        let net = format!(
            "mode = \"domains\"\nallow = [\"packages.test:{port}\", \"127.0.0.1:{port}\"]\n"
        );
        let hosts = NamedHosts::new(mode, &NAMES, &net);
        fs::write(hosts.world.workspace().join("Get.java"), JAVA).unwrap();
        let sandbox = hosts.open();
        let run = |line: &str| {
            let call = sandbox.session.bash(line).timeout(std::time::Duration::from_secs(300));
            sandbox.wait(call.into_future()).unwrap()
        };
        let compiled = run("javac -J-Xmx256m Get.java");
        assert!(compiled.success, "{mode:?}: {}", compiled.stderr);
        for proxy in ["", "-Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=61080"] {
            let get =
                |host: &str| run(&format!("java -Xmx128m {proxy} Get http://{host}:{port}/x"));
            let done = get("packages.test");
            assert_eq!(done.stdout, "hello from /x\n", "{mode:?}: {proxy}: {}", done.stderr);
            let before = server.received();
            let refused = get("other.test");
            assert!(!refused.success && !refused.stdout.contains("hello"), "{mode:?}: {proxy}");
            assert_eq!(server.received(), before, "{mode:?}: {proxy}");
        }
    }
}
