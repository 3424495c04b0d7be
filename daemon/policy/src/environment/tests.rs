//! Tests of the environment: it has exactly the listed variables, and none that runs other code.

use super::*;
use crate::ProfileSet;

fn profile() -> Profile {
    ProfileSet::new([]).unwrap().get("workspace").unwrap().clone()
}

fn scene(home: Option<&str>) -> Scene {
    Scene {
        workspace: "/home/u/project".into(),
        home: home.map(Into::into),
        user: "u".to_owned(),
        uid: 1000,
        gid: 1000,
    }
}

fn with(name: &str, value: &str) -> Result<Vec<String>, EnvironmentError> {
    let extra = BTreeMap::from([(name.to_owned(), value.to_owned())]);
    let environment = profile().environment(&scene(Some("/home/u")), &extra, b"/usr/bin")?;
    Ok(environment.into_iter().map(|v| String::from_utf8(v).unwrap()).collect())
}

#[test]
fn the_environment_is_exactly_this() {
    let scene = scene(Some("/home/u"));
    let path = profile().search_path(&scene, Search::Whole).unwrap();
    let found = profile().environment(&scene, &BTreeMap::new(), &path).unwrap();
    let found: Vec<_> = found.into_iter().map(|v| String::from_utf8(v).unwrap()).collect();
    assert_eq!(
        found,
        [
            "HOME=/home/u",
            "LC_CTYPE=C.UTF-8",
            "LOGNAME=u",
            "PATH=/home/u/.cargo/bin:/home/u/.local/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:\
             /usr/bin:/sbin:/bin:/home/u/go/bin:/home/u/.pyenv/shims",
            "PWD=/home/u/project",
            "SHELL=/bin/bash",
            "SHLVL=1",
            "TERM=dumb",
            "TMPDIR=/tmp",
            "USER=u",
        ]
    );
}

#[test]
fn without_a_home_there_is_the_private_tmp() {
    for home in [None, Some("/"), Some("/usr/sbin")] {
        let found = profile().environment(&scene(home), &BTreeMap::new(), b"/usr/bin").unwrap();
        assert!(found.contains(&b"HOME=/tmp".to_vec()), "{home:?}");
        let path = profile().search_path(&scene(home), Search::Whole).unwrap();
        assert_eq!(path, b"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    }
}

#[test]
fn callers_add_and_replace() {
    for (name, value) in [("FOO", "bar"), ("_x1", ""), ("LANG", "de_DE.UTF-8"), ("PATH", "/x")] {
        let found = with(name, value).unwrap();
        let of = |v: &&String| v.starts_with(&format!("{name}="));
        assert_eq!(found.iter().filter(of).collect::<Vec<_>>(), [&format!("{name}={value}")]);
    }
}

#[test]
fn a_language_brings_its_own_characters() {
    let of = |name, value| {
        let mut found = with(name, value).unwrap();
        found.retain(|variable| variable.starts_with("L") && !variable.starts_with("LOGNAME"));
        found
    };
    assert_eq!(of("LANG", "de_DE.ISO-8859-1"), ["LANG=de_DE.ISO-8859-1"]);
    assert_eq!(of("LC_CTYPE", "C"), ["LC_CTYPE=C"]);
    assert_eq!(of("LC_ALL", "C"), ["LC_ALL=C", "LC_CTYPE=C.UTF-8"], "which is the stronger");
}

#[test]
fn names_and_values_are_checked() {
    for name in ["", "1X", "A=B", "A B", "A-B", "A\0B", "Ä", "BASH_FUNC_ls%%", "A\n"] {
        assert_eq!(with(name, "x"), Err(EnvironmentError::Name(name.to_owned())), "{name:?}");
    }
    assert_eq!(with("FOO", "a\0b"), Err(EnvironmentError::Nul("FOO".to_owned())));
    assert!(with("FOO", "a\nb=c").is_ok());
}

#[test]
fn what_runs_other_code_is_refused_with_its_reason() {
    for name in [
        "LD_PRELOAD",
        "LD_AUDIT",
        "LD_LIBRARY_PATH",
        "GCONV_PATH",
        "BASH_ENV",
        "ENV",
        "PROMPT_COMMAND",
        "BASH_FUNC_ls",
        "SHELLOPTS",
        "BASHOPTS",
        "PS4",
        "SHLVL",
        "PYTHONSTARTUP",
        "PYTHONHOME",
        "PERL5OPT",
        "PERL5LIB",
        "RUBYOPT",
        "NODE_OPTIONS",
        "GIT_SSH_COMMAND",
        "GIT_SSH",
        "GIT_EXTERNAL_DIFF",
        "GIT_PAGER",
        "PAGER",
        "GIT_EDITOR",
        "EDITOR",
        "GIT_CONFIG_COUNT",
        "GIT_CONFIG_KEY_0",
        "GIT_CONFIG_GLOBAL",
        "GIT_EXEC_PATH",
        "JAVA_TOOL_OPTIONS",
        "RUSTC_WRAPPER",
    ] {
        match with(name, "/x") {
            Err(EnvironmentError::Refused { name: named, why }) => {
                assert_eq!(named, name);
                assert!(why.len() > 10, "{name}: {why}");
            }
            other => panic!("{name}: {other:?}"),
        }
    }
    for name in ["CARGO_TERM_COLOR", "RUST_BACKTRACE", "GIT_AUTHOR_NAME", "ENVIRONMENT", "LDFLAGS"]
    {
        assert!(with(name, "x").is_ok(), "{name}");
    }
}

#[test]
fn what_is_dangerous_is_left_out_and_what_is_harmless_stays() {
    let screened = |name: &str, value: &str| {
        let mut set = BTreeMap::from([(name.to_owned(), value.to_owned())]);
        let left = profile().screen_variables(&scene(Some("/home/u")), &mut set)?;
        assert_eq!(left.len() + set.len(), 1, "{name}={value}");
        Ok::<_, EnvironmentError>(left.into_iter().map(|one| one.name).next())
    };
    for (name, value) in [
        ("PAGER", "cat"),
        ("GIT_PAGER", ""),
        ("GIT_EDITOR", "true"),
        ("PYTHONPATH", "/home/u/project/src:lib:"),
        ("PYTHONPATH", "."),
        ("CARGO_TARGET_DIR", "target/other"),
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("MAKEFLAGS", "-j4"),
        ("PIP_NO_INPUT", "1"),
    ] {
        assert_eq!(screened(name, value), Ok(None), "{name}={value}");
        assert!(with(name, value).unwrap().contains(&format!("{name}={value}")));
    }
    for (name, value) in [
        ("PAGER", "./cat"),
        ("PAGER", "cat; rm -r ."),
        ("GIT_EDITOR", "vi"),
        ("PYTHONPATH", "/home/u/project/src:/tmp"),
        ("PYTHONPATH", "/home/u/project/../other"),
        ("PYTHONPATH", "/home/u/projects"),
        ("LD_PRELOAD", ""),
        ("GIT_CONFIG_GLOBAL", "config"),
        ("CARGO_TARGET_DIR", "/tmp/target"),
    ] {
        assert_eq!(screened(name, value), Ok(Some(name.to_owned())), "{name}={value}");
    }
    // Without these the command would act on something else.
    for (name, value) in
        [("GIT_DIR", "other"), ("GLOBIGNORE", "keep"), ("MAKEFLAGS", "-n"), ("PIP_TARGET", "x")]
    {
        let refused = screened(name, value);
        assert!(matches!(refused, Err(EnvironmentError::Refused { .. })), "{name}: {refused:?}");
    }
    assert_eq!(screened("A", "b\0"), Err(EnvironmentError::Nul("A".to_owned())));
    assert_eq!(screened("A B", ""), Err(EnvironmentError::Name("A B".to_owned())));
}

#[test]
fn what_only_reads_looks_for_programs_of_the_system_alone() {
    let of = |search| {
        let path = profile().search_path(&scene(Some("/home/u")), search);
        String::from_utf8(path.unwrap()).unwrap()
    };
    assert!(of(Search::Whole).starts_with("/home/u/.cargo/bin:"));
    let system = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    assert_eq!(of(Search::System), system);
}

#[test]
fn programs_are_told_of_the_proxy_unless_another_one_is_set() {
    let text = |set: &str| {
        format!(
            "version = 1\ndescription = \"x\"\n[fs]\nworkspace = \"read\"\nexecute = [\"/usr\"]\n\
             [net]\nmode = \"domains\"\nask = true\n{set}"
        )
    };
    let of = |set: &str, extra: &[(&str, &str)]| {
        let profile = Profile::parse("mine", &text(set)).unwrap();
        let extra = extra.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let found = profile.environment(&scene(None), &extra, b"/usr/bin").unwrap();
        let found = found.into_iter().map(|v| String::from_utf8(v).unwrap());
        let of_proxy = |v: &String| v.to_lowercase().contains("proxy") || v.starts_with("GIT_");
        found.filter(of_proxy).collect::<Vec<_>>()
    };
    let (url, direct) = ("http://127.0.0.1:61080", "localhost,127.0.0.1,::1");
    let all = [
        format!("ALL_PROXY={url}"),
        format!("CARGO_HTTP_PROXY={url}"),
        "GIT_CONFIG_COUNT=1".to_owned(),
        "GIT_CONFIG_KEY_0=http.proxy".to_owned(),
        format!("GIT_CONFIG_VALUE_0={url}"),
        format!("HTTPS_PROXY={url}"),
        format!("HTTP_PROXY={url}"),
        "NODE_USE_ENV_PROXY=1".to_owned(),
        format!("NO_PROXY={direct}"),
        format!("PIP_PROXY={url}"),
        format!("all_proxy={url}"),
        format!("http_proxy={url}"),
        format!("https_proxy={url}"),
        format!("no_proxy={direct}"),
        format!("npm_config_https_proxy={url}"),
        format!("npm_config_noproxy={direct}"),
        format!("npm_config_proxy={url}"),
    ];
    assert_eq!(of("", &[]), all);
    let without = |names: &[&str]| {
        let kept = all.iter().filter(|v| !names.iter().any(|n| v.starts_with(&format!("{n}="))));
        kept.cloned().collect::<Vec<_>>()
    };
    let mut expected = without(&["HTTPS_PROXY", "https_proxy"]);
    expected.push("https_proxy=http://10.0.0.1:3128".to_owned());
    expected.sort();
    assert_eq!(of("[env]\nset = { https_proxy = \"http://10.0.0.1:3128\" }\n", &[]), expected);
    assert_eq!(of("", &[("https_proxy", "http://10.0.0.1:3128")]), expected);
    let other = Profile::parse("mine", &text("").replace("domains\"\nask = true", "loopback\""));
    let found = other.unwrap().environment(&scene(None), &BTreeMap::new(), b"/usr/bin").unwrap();
    assert!(!found.iter().any(|v| v.to_ascii_lowercase().windows(5).any(|w| w == b"proxy")));
}
