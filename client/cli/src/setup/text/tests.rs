use super::*;

fn json_file() -> ConfigFile {
    let settings = vec![
        Setting::exactly(&["servers", "palisade"], json!({"command": "p", "args": ["mcp"]})),
        Setting::including(&["permissions", "deny"], &["Bash", "Read"]),
        Setting::exactly(&["shell"], false),
    ];
    ConfigFile { path: "/x/a.json".into(), format: Format::Json(settings) }
}

fn toml_file() -> ConfigFile {
    let settings = vec![
        Setting::exactly(&["mode"], "read-only"),
        Setting::exactly(&["features", "shell"], false),
        Setting::exactly(&["servers", "palisade", "args"], json!(["mcp", "a \"b\""])),
    ];
    ConfigFile { path: "/x/a.toml".into(), format: Format::Toml(settings) }
}

fn block_file() -> ConfigFile {
    let text = "extensions:\n  palisade:\n    enabled: true\n".to_owned();
    ConfigFile { path: "/x/a.yaml".into(), format: Format::Block { key: "extensions", text } }
}

/// Whatever was written before is there afterwards, and a second time changes nothing.
#[test]
fn settings_are_added_and_everything_else_stays() {
    let json = "// mine\n{\n    \"z\": 1.50, // a price\n    \"permissions\": {\"deny\": [\"Web\", \
                \"Read\"]},\n    \"shell\": true,\n    \"a\": [1,2,],\n}\n";
    let toml = "# mine\nmode = \"full\" # why\nz   = 1\n\n[servers.other] # theirs\nargs = [ 1 ]\n";
    let cases = [
        (json_file(), json, &["// mine\n", "\"z\": 1.50, // a price\n", "\"a\": [1,2,]"][..]),
        (json_file(), "", &[]),
        (json_file(), "{}", &[]),
        (toml_file(), toml, &["# mine\n", "z   = 1\n", "[servers.other] # theirs\nargs = [ 1 ]"]),
        (toml_file(), "servers = { other = { a = 1 } }\n", &["other = { a = 1 }"]),
        (toml_file(), "", &[]),
        (block_file(), "GOOSE_MODE: auto", &["GOOSE_MODE: auto\n"]),
        (block_file(), "", &[]),
    ];
    for (file, before, kept) in cases {
        assert!(!missing(&file, before).unwrap().is_empty(), "{before}");
        let after = with_settings(&file, before).unwrap();
        for text in kept {
            assert!(after.contains(text), "{text} is gone:\n{after}");
        }
        assert_eq!(missing(&file, &after).unwrap(), [""; 0], "{after}");
        assert_eq!(with_settings(&file, &after).unwrap(), after);
    }
    let after = with_settings(&json_file(), json).unwrap();
    assert_eq!(
        read(&json_file(), &after).unwrap(),
        json!({"z": 1.5, "permissions": {"deny": ["Web", "Read", "Bash"]}, "shell": false,
            "a": [1, 2], "servers": {"palisade": {"command": "p", "args": ["mcp"]}}})
    );
}

#[test]
fn a_new_file_has_all_settings() {
    for file in [json_file(), toml_file(), block_file()] {
        let text = fresh(&file).unwrap();
        assert_eq!(missing(&file, &text).unwrap(), [""; 0], "{text}");
    }
}

#[test]
fn what_can_not_be_read_or_kept_is_refused() {
    let cases = [
        (json_file(), "{\"a\": "),
        (json_file(), "[1]"),
        (json_file(), "{a: 1}"),
        (json_file(), "{\"a\": 1} {\"b\": 2}"),
        (json_file(), "{\"permissions\": \"all\"}"),
        (json_file(), "{\"permissions\": {\"deny\": \"all\"}}"),
        (json_file(), "{\"shell\": true, \"shell\": true}"),
        (toml_file(), "mode = "),
        (toml_file(), "features = 3"),
        (toml_file(), "[[servers]]\na = 1\n"),
        (toml_file(), "a = 1\na = 2\n"),
        (block_file(), "extensions:\n  other: {}\n"),
        (block_file(), "\"extensions\": {}\n"),
        (block_file(), "{extensions: {}}\n"),
        (block_file(), "---\na: 1\n"),
    ];
    for (file, before) in cases {
        let refused = with_settings(&file, before);
        assert!(refused.is_err(), "{before} became {refused:?}");
    }
}
