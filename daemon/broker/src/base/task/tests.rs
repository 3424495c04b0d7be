//! Tests of parsing arguments into tasks, and of refused arguments.

use super::*;
use crate::tools::Registry;
use palisade_policy::{DEFAULT, ProfileSet};
use palisade_protocol::{CallOptions, JsonText};

const LONG_COMMAND: usize = 100 * 1024;
const MAX_COMMAND: usize = 3 * 1024 * 1024;
const MAX_ARGUMENT: usize = 128 * 1024;

fn validate_with(
    tool: &str,
    arguments: &str,
    options: CallOptions,
) -> Result<ValidatedTask, WireError> {
    let registry = Registry::new().unwrap();
    let profiles = ProfileSet::new([]).unwrap();
    let call = Call {
        tool: tool.parse().unwrap(),
        arguments: JsonText::parse(arguments.to_owned()).unwrap(),
        reason: None,
        options,
    };
    let tool = registry.resolve(&call.tool).unwrap();
    let scene = palisade_policy::Scene {
        workspace: "/work".into(),
        home: None,
        user: "tester".to_owned(),
        uid: 1000,
        gid: 1000,
    };
    validate(&tool.spec, &call, tool.parse(&call)?, (profiles.get(DEFAULT).unwrap(), &scene))
}

fn task(tool: &str, arguments: &str) -> Result<Task, WireError> {
    validate_with(tool, arguments, CallOptions::default()).map(|validated| validated.task)
}

fn refused(tool: &str, arguments: &str) -> (ErrorCode, String) {
    let error = task(tool, arguments).unwrap_err();
    assert!(!error.hint.is_empty(), "{}", error.message);
    (error.code, error.message)
}

fn ran(arguments: &str) -> Program {
    match task("bash", arguments) {
        Ok(Task::Run(program)) => program,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_shell_line_or_a_program_but_not_both() {
    assert_eq!(ran(r#"{"command":"true"}"#).argv, ["bash", "-c", "true"]);
    assert_eq!(ran(r#"{"argv":["ls","-l"]}"#).argv, ["ls", "-l"]);
    assert_eq!(ran(r#"{"command":""}"#).argv, ["bash", "-c", ""]);
    assert_eq!(ran(r#"{"command":"cd a"}"#).directory, DirectoryPolicy::Kept);
    assert_eq!(ran(r#"{"argv":["git","-C","a","log"]}"#).directory, DirectoryPolicy::Left);
    for (arguments, field) in [
        ("{}", "`command`"),
        (r#"{"command":"a","argv":["b"]}"#, "`argv`"),
        (r#"{"argv":[]}"#, "`argv`"),
        (r#"{"argv":[""]}"#, "`argv`"),
        (r#"{"argv":["a","b\u0000"]}"#, "`argv`"),
        (r#"{"command":"a\u0000b"}"#, "`command`"),
        (r#"{"command":"a","cwd":""}"#, "`cwd`"),
        (r#"{"command":"a","cwd":"/\u0000"}"#, "`cwd`"),
    ] {
        let (code, message) = refused("bash", arguments);
        assert_eq!(code, ErrorCode::InvalidArguments, "{arguments}");
        assert!(message.starts_with(field), "{arguments}: {message}");
    }
}

#[test]
fn the_field_and_what_it_takes_are_named() {
    let (code, message) = refused("bash", r#"{"command":7}"#);
    assert_eq!(code, ErrorCode::InvalidArguments);
    assert!(message.starts_with("`command`: invalid type: integer `7`"), "{message}");
    let (_, message) = refused("bash", r#"{"argv":["a",1]}"#);
    assert!(message.starts_with("`argv[1]`: "), "{message}");
    let (_, message) = refused("read_file", r#"{"path":"a","encoding":"rot13"}"#);
    assert!(message.contains("rot13") && message.contains("base64"), "{message}");
    let error = task("bash", r#"{"comand":"a"}"#).unwrap_err();
    assert!(error.message.contains("comand"), "{}", error.message);
    assert!(
        error.hint.starts_with("bash takes argv, background, cols, command, cwd"),
        "{}",
        error.hint
    );
    let (_, message) = refused("read_file", r#"{"offset":1}"#);
    assert_eq!(message, "`path`: it is required but missing");
    let (_, message) = refused("read_file", r#"{"path":7,"limit":-1,"foo":1,"bar":2}"#);
    for part in ["`bar`: ", "`foo`: there is no such argument", "`limit`: ", "`path`: "] {
        assert!(message.contains(part), "{message}");
    }
    let (_, message) =
        refused("edit", r#"{"path":"a","old_str":"b","new_str":"c","replaceAll":"false"}"#);
    assert_eq!(message, "`replace_all`: it is the string \"false\"; write false without quotes");
    let (_, message) = refused("read_file", r#"{"file_path":"a","limit":"10","offset":"x"}"#);
    assert!(
        message.contains("`limit`: it is the string \"10\"; write 10 without quotes"),
        "{message}"
    );
    assert!(message.contains("`offset`: ") && message.matches("quotes").count() == 1, "{message}");
    let (_, message) = refused("multi_edit", r#"{"file_path":"a","edits":[{"old_str":"b"}]}"#);
    assert_eq!(message, "`edits[0].new_string`: it is required but missing");
    let (_, message) = refused("bash", r#"{"command":"a","cmd":"b"}"#);
    assert_eq!(message, "`cmd`: it is another name of `command`, which is given too");
    let (_, message) = refused("read_file", r#"{"path":1}"#);
    assert!(message.starts_with("`path`: a path is a string"), "{message}");
}

#[test]
fn long_lines_go_by_descriptor_and_too_long_ones_nowhere() {
    let line = format!("#{}", "x".repeat(LONG_COMMAND));
    let program = ran(&format!(r#"{{"command":"{line}"}}"#));
    assert_eq!(program.argv, ["bash", "-c", ". /proc/self/fd/3"]);
    assert_eq!(program.script.as_deref(), Some(line.as_str()));
    let (code, _) = refused("bash", &format!(r#"{{"command":"{}"}}"#, "x".repeat(MAX_COMMAND + 1)));
    assert_eq!(code, ErrorCode::SpawnFailed);
    let argument = "x".repeat(MAX_ARGUMENT - 1);
    assert_eq!(ran(&format!(r#"{{"argv":["echo","{argument}"]}}"#)).argv[1], argument);
    let (code, message) = refused("bash", &format!(r#"{{"argv":["echo","{argument}x"]}}"#));
    assert_eq!(code, ErrorCode::SpawnFailed);
    assert!(message.contains("E2BIG"), "{message}");
    let many = vec![format!("\"{}\"", "x".repeat(100_000)); 21].join(",");
    assert_eq!(
        refused("bash", &format!(r#"{{"argv":["echo",{many}]}}"#)).0,
        ErrorCode::SpawnFailed
    );
}

#[test]
fn timeouts_are_held_to_the_profile() {
    let profiles = ProfileSet::new([]).unwrap();
    let profile = profiles.get(DEFAULT).unwrap();
    let with = |arguments: &str, timeout_ms| {
        validate_with("bash", arguments, CallOptions { timeout_ms, ..CallOptions::default() })
            .map(|validated| validated.timeout.as_millis() as u64)
    };
    assert_eq!(with(r#"{"command":"a"}"#, None), Ok(profile.timeout_ms()));
    assert_eq!(
        with(r#"{"command":"a"}"#, Some(profile.max_timeout_ms())),
        Ok(profile.max_timeout_ms())
    );
    assert_eq!(with(r#"{"command":"a","timeout_ms":5}"#, Some(7)), Ok(5));
    assert_eq!(with(r#"{"command":"a","timeout_ms":7}"#, Some(5)), Ok(5));
    let cut = |arguments: &str, timeout_ms| {
        let options = CallOptions { timeout_ms, ..CallOptions::default() };
        let found = validate_with("bash", arguments, options).unwrap();
        assert_eq!(found.timeout.as_millis() as u64, profile.max_timeout_ms());
        found.adjusted.into_iter().map(|found| found.why).collect::<Vec<_>>()
    };
    let most = profile.max_timeout_ms();
    assert!(cut(r#"{"command":"a"}"#, Some(most)).is_empty());
    for found in [
        cut(r#"{"command":"a","timeout_ms":999999999999}"#, None),
        cut(r#"{"command":"a","timeout_ms":999999999999}"#, Some(u64::MAX)),
    ] {
        let [why]: [String; 1] = found.try_into().unwrap();
        assert!(why.starts_with("the timeout of 999999999999 ms was cut to"), "{why}");
    }
    assert_eq!(cut(r#"{"command":"a"}"#, Some(most + 1)).len(), 1);
    for (arguments, option, field) in [
        (r#"{"command":"a","timeout_ms":0}"#, None, "`timeout_ms`"),
        (r#"{"command":"a","timeout_ms":-1}"#, None, "`timeout_ms`"),
        (r#"{"command":"a","timeout_ms":1.5}"#, None, "`timeout_ms`"),
        (r#"{"command":"a"}"#, Some(0), "`options.timeout_ms`"),
    ] {
        let error = with(arguments, option).unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidArguments);
        assert!(error.message.starts_with(field), "{arguments}: {}", error.message);
    }
}

#[test]
fn attachments_go_where_they_are_wanted() {
    let attach = || CallOptions { attach: true, ..CallOptions::default() };
    let program = validate_with("bash", r#"{"command":"cat"}"#, attach()).unwrap().task;
    assert!(matches!(program, Task::Run(Program { stdin: Some(Content::Attached), .. })));
    let write = validate_with("write_file", r#"{"path":"a"}"#, attach()).unwrap().task;
    let content = Content::Attached;
    assert!(
        matches!(write, Task::Change(ChangeTask::Write { content: found, .. }) if found == content)
    );
    for (tool, arguments) in [
        ("bash", r#"{"command":"cat","stdin":"x"}"#),
        ("write_file", r#"{"path":"a","content":"x"}"#),
        ("read_file", r#"{"path":"a"}"#),
        ("list_files", "{}"),
    ] {
        let error = validate_with(tool, arguments, attach()).unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidArguments, "{tool}");
    }
    assert_eq!(refused("write_file", r#"{"path":"a"}"#).0, ErrorCode::InvalidArguments);
}

#[test]
fn file_arguments_become_what_the_cell_is_asked() {
    let lines = Part::Lines { first: 3, count: u64::MAX };
    let (path, encoding) = (b"a".to_vec(), Encoding::Auto);
    let expected =
        Task::Read { path: path.clone(), part: lines, encoding, numbering: Numbering::None };
    assert_eq!(task("Read", r#"{"path":"a","offset":3}"#), Ok(expected));
    let choice = Choice { glob: None, hidden: true, ignored: false };
    let expected =
        Task::List { path: b".".to_vec(), recursive: false, skip: 0, limit: 1000, choice };
    assert_eq!(task("LS", "{}"), Ok(expected));
    let expected =
        Task::Read { path: vec![0xff], part: Part::All, encoding, numbering: Numbering::None };
    assert_eq!(task("Read", r#"{"path":{"base64":"/w=="}}"#), Ok(expected));
    for (tool, arguments) in [
        ("read_file", r#"{"path":""}"#),
        ("read_file", r#"{"path":"a\u0000"}"#),
        ("read_file", r#"{"path":"a","offset":0}"#),
        ("read_file", r#"{"path":"a","limit":0}"#),
        ("read_file", r#"{"path":"a","limit":1,"encoding":"raw"}"#),
        ("list_files", r#"{"limit":0}"#),
        ("list_files", r#"{"limit":10001}"#),
        ("delete_file", r#"{"path":""}"#),
    ] {
        assert_eq!(refused(tool, arguments).0, ErrorCode::InvalidArguments, "{arguments}");
    }
}

#[test]
fn a_change_says_what_it_needs() {
    let edit = r#"{"path":"f","old_string":"a","new_string":"b"}"#;
    let Ok(Task::Change(ChangeTask::Edit { files })) = task("Edit", edit) else { panic!() };
    let replacement = Replacement { old: b"a".to_vec(), new: b"b".to_vec(), all: false };
    assert_eq!(files, [EditedFile { path: b"f".to_vec(), edits: vec![replacement] }]);
    let many = r#"{"files":[{"path":"f","edits":[{"old_string":"a","new_string":""}]},
        {"path":"g","edits":[{"old_string":"a","new_string":"b","replace_all":true}]}]}"#;
    let Ok(Task::Change(ChangeTask::Edit { files })) = task("MultiEdit", many) else { panic!() };
    assert_eq!(files.len(), 2);
    assert!(files[1].edits[0].all && !files[0].edits[0].all);
    let delete = |arguments| match task("delete_file", arguments) {
        Ok(Task::Change(ChangeTask::Delete { kept, .. })) => kept,
        other => panic!("{other:?}"),
    };
    assert_eq!(delete(r#"{"path":"f"}"#), UndoRetention::ForUndo);
    assert_eq!(delete(r#"{"path":"f","permanent":true}"#), UndoRetention::Not);
    let undo = |arguments| match task("undo", arguments) {
        Ok(Task::Change(ChangeTask::Undo { which, force })) => (which, force),
        other => panic!("{other:?}"),
    };
    assert_eq!(undo(r#"{"call_id":"c1"}"#), (UndoTarget::Call("c1".parse().unwrap()), false));
    assert_eq!(
        undo(r#"{"to":"c1","force":true}"#),
        (UndoTarget::After("c1".parse().unwrap()), true)
    );
}

#[test]
fn a_change_that_makes_no_sense_names_its_field() {
    let same = r#"{"path":"f","edits":[{"old_string":"a","new_string":"a"}]}"#;
    let twice = r#"{"files":[{"path":"f","edits":[{"old_string":"a","new_string":"b"}]},
        {"path":"f","edits":[{"old_string":"a","new_string":"b"}]}]}"#;
    for (tool, arguments, field) in [
        ("edit", "{}", "`new_string`"),
        ("edit", r#"{"path":"","old_string":"a","new_string":"b"}"#, "`path`"),
        ("edit", r#"{"path":"f","old_string":"","new_string":"b"}"#, "`old_string`"),
        ("edit", r#"{"path":"f","old_string":"a","new_string":"a"}"#, "`old_string`"),
        ("edit", r#"{"path":"f","old_string":1,"new_string":"a"}"#, "`old_string`"),
        ("multi_edit", "{}", "`path`"),
        ("multi_edit", r#"{"path":"f"}"#, "`files[0].edits`"),
        ("multi_edit", r#"{"path":"f","files":[{"path":"g","edits":[]}]}"#, "`files`"),
        ("multi_edit", r#"{"edits":[{"old_string":"a","new_string":"b"}]}"#, "`path`"),
        ("multi_edit", r#"{"files":[{"path":"g","edits":[]}]}"#, "`files[0].edits`"),
        ("multi_edit", same, "`files[0].edits[0].old_string`"),
        ("multi_edit", twice, "`files[1].path`"),
        ("apply_patch", r#"{"patch":""}"#, "`patch`"),
        ("move_file", r#"{"from":"a"}"#, "`to`"),
        ("move_file", r#"{"from":"a","to":""}"#, "`to`"),
        ("make_dir", r#"{"path":"a\u0000"}"#, "`path`"),
        ("delete_file", r#"{"path":"f","permanent":"yes"}"#, "`permanent`"),
        ("undo", "{}", "`call_id`"),
        ("undo", r#"{"call_id":"a","to":"b"}"#, "`to`"),
        ("undo", r#"{"call_id":"a/b"}"#, "`call_id`"),
    ] {
        let (code, message) = refused(tool, arguments);
        assert_eq!(code, ErrorCode::InvalidArguments, "{tool} {arguments}");
        assert!(message.starts_with(field), "{tool} {arguments}: {message}");
    }
}
