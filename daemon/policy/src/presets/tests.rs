use super::*;
use crate::{Owner, ProfileSet, Source};

fn hosts(name: &str, settings: &[(&str, &str)]) -> Vec<(String, String)> {
    let preset = PRESETS.iter().find(|preset| preset.name == name).unwrap();
    let found: Vec<_> = settings
        .iter()
        .map(|(origin, text)| PresetSettings { origin: (*origin).into(), text: (*text).into() })
        .collect();
    let hosts = preset.hosts(&found).into_iter();
    hosts.map(|host| (host.entry, host.refused.unwrap_or(host.origin))).collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
}

const DEFAULT: &str = "the tool's default";

#[test]
fn without_settings_the_hosts_are_the_tools_defaults() {
    for preset in PRESETS {
        let names: Vec<_> = preset.hosts(&[]).into_iter().map(|host| host.entry).collect();
        let mut defaults: Vec<_> = preset.defaults.iter().map(|name| (*name).to_owned()).collect();
        defaults.sort();
        assert_eq!(names, defaults, "{}", preset.name);
    }
}

#[test]
fn each_tools_own_settings_name_the_hosts() {
    let pip = "[global]\nindex-url = https://user:secret@Index.Example:443/simple\n\
               extra-index-url =\n    https://more.example/simple\n    http://old.example:8080/\n";
    assert_eq!(
        hosts("python", &[("/etc/pip.conf", pip)]),
        pairs(&[
            ("index.example", "/etc/pip.conf"),
            ("more.example", "/etc/pip.conf"),
            ("old.example:8080", "/etc/pip.conf"),
        ])
    );
    let more = hosts("python", &[("$PIP_EXTRA_INDEX_URL", "https://more.example/")]);
    assert_eq!(
        more,
        pairs(&[
            ("files.pythonhosted.org", DEFAULT),
            ("more.example", "$PIP_EXTRA_INDEX_URL"),
            ("pypi.org", DEFAULT)
        ])
    );
    let npm = "@mine:registry=https://npm.example/\n//npm.example/:_authToken=abc\n";
    assert_eq!(
        hosts("node", &[("~/.npmrc", npm)]),
        pairs(&[("npm.example", "~/.npmrc"), ("registry.npmjs.org", DEFAULT)])
    );
    let cargo = "[source.crates-io]\nreplace-with = \"mirror\"\n[source.mirror]\n\
                 registry = \"sparse+https://crates.example/index/\"\n[registries.own]\n\
                 index = \"ssh://git@git.example/index\"\n";
    assert_eq!(
        hosts("rust", &[("~/.cargo/config.toml", cargo)]),
        pairs(&[
            ("crates.example", "~/.cargo/config.toml"),
            ("git.example/index", "only http and https are served by name"),
        ])
    );
    assert_eq!(
        hosts("go", &[("$GOPROXY", "https://go.example|https://proxy.example,direct")]),
        pairs(&[("go.example", "$GOPROXY"), ("proxy.example", "$GOPROXY")])
    );
    let env = "GOFLAGS=-mod=mod\nGOPROXY=https://go.example\n";
    assert_eq!(hosts("go", &[("env", env)]), pairs(&[("go.example", "env")]));
    let apt = "# deb http://no.example/ x main\ndeb [signed-by=/k.gpg] http://deb.example/debian x main\n";
    let sources = "Types: deb\nURIs: https://one.example/debian http://two.example/debian\n";
    assert_eq!(
        hosts("debian", &[("a", apt), ("b", sources)]),
        pairs(&[("deb.example", "a"), ("one.example", "b"), ("two.example", "b")])
    );
}

#[test]
fn what_is_no_entry_is_left_out_with_a_reason_and_no_password_is_shown() {
    let refused = |url: &str| hosts("node", &[("~/.npmrc", &format!("registry={url}"))]);
    let own = "it is this host; see net.host.ports";
    assert_eq!(refused("http://localhost:4873/"), pairs(&[("http://localhost:4873/", own)]));
    assert_eq!(refused("http://127.0.0.1:4873/")[0].1, own);
    let wrong = refused("ftp://me:secret@npm.example/");
    assert_eq!(wrong[0].0, "npm.example/");
    assert!(!format!("{wrong:?}").contains("secret"));
    for url in ["https://*.com/", "https:///x", "nonsense", "https://a b/"] {
        let found = refused(url);
        assert!(found.iter().all(|(_, told)| told != "~/.npmrc"), "{url}: {found:?}");
    }
}

#[test]
fn a_presets_profile_loads_and_allows_its_hosts() {
    let found =
        [PresetSettings { origin: "x\ny".into(), text: "registry=http://127.0.0.1/".into() }];
    let all: Vec<_> = PRESETS.iter().map(|preset| (preset.name, preset.hosts(&found))).collect();
    let text = preset_profile("workspace", &all);
    let source = Source { name: "mine", file: "mine.toml", text: &text, owner: Owner::Own };
    let set = ProfileSet::new([source]).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let told = crate::explain(
        set.get("mine").unwrap(),
        &crate::examples::scene(),
        crate::Act::Connect,
        "pypi.org:443",
    )
    .unwrap();
    assert_eq!(told.decision, crate::Decision::Allow, "{text}");
    let line = text.lines().nth(told.at.unwrap().line - 1).unwrap();
    assert!(line.ends_with("# python: the tool's default"), "{line}");
    assert!(text.contains("# left out, it is this host; see net.host.ports: http://127.0.0.1/"));
}
