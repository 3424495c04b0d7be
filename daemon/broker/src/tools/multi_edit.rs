//! `multi_edit`: replaces text in one or several files, all or nothing. Runs in the broker. Pure:
//! no I/O.

use super::{
    describe::{Description, Traits},
    schema,
};
use crate::base::task::{
    ChangeTask, EditedFile, ParsedArguments, Task, invalid, path, replacement,
};
use palisade_protocol::{
    AuditOperation, Call, PermissionClass, ToolSpec, WireError, arguments as wire,
};

pub(super) const DESCRIPTION: Description = Description {
    name: "multi_edit",
    aliases: &["MultiEdit"],
    text: "Makes several replacements at once, in one file (path and edits) or several (files, \
           each with path and edits). Edits of a file are made in order. If one does not match, \
           nothing is changed. Can be undone.",
    traits: Traits::Mutating,
    class: PermissionClass::File,
    operation: AuditOperation::Edit,
    search: "replace text several files batch refactor rename",
};

pub(super) fn parse(tool: &ToolSpec, call: &Call) -> Result<ParsedArguments, WireError> {
    let arguments: wire::MultiEdit = schema::parse(tool, call)?;
    let files = match (arguments.path, arguments.files) {
        (Some(path), files) if files.is_empty() => {
            vec![wire::FileEdits { path, edits: arguments.edits }]
        }
        (None, files) if !files.is_empty() && arguments.edits.is_empty() => files,
        (Some(_), _) => return Err(one_of("files", "`path` is also given")),
        (None, files) if files.is_empty() => return Err(one_of("path", "it is missing")),
        (None, _) => return Err(one_of("edits", "no `path` is given for them")),
    };
    let mut edited: Vec<EditedFile> = Vec::with_capacity(files.len());
    for (at, file) in files.into_iter().enumerate() {
        let field = |name: &str| format!("files[{at}].{name}");
        if file.edits.is_empty() {
            return Err(invalid(&field("edits"), "it is empty", "give what to replace"));
        }
        let path = path(&field("path"), file.path)?;
        if edited.iter().any(|other| other.path == path) {
            let hint = "put all edits of a file into one list";
            return Err(invalid(&field("path"), "it is given twice", hint));
        }
        let edits = file.edits.into_iter().enumerate().map(|(n, edit)| {
            let place = format!("{}[{n}].", field("edits"));
            replacement(&place, edit.old_string, edit.new_string, edit.replace_all)
        });
        edited.push(EditedFile { path, edits: edits.collect::<Result<_, _>>()? });
    }
    Ok(Task::Change(ChangeTask::Edit { files: edited }).into())
}

fn one_of(field: &str, why: &str) -> WireError {
    invalid(field, why, "give `path` and `edits`, or `files` with a path and edits each")
}
