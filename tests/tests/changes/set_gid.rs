//! The set-gid bit: directories that a group shares keep it, and no file gets it.

use palisade_tests::{Desk, Mode, profile_with};
use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt as _, path::Path};

/// Returns the permission bits of everything below a directory, by path.
fn modes(top: &Path) -> BTreeMap<String, u32> {
    let (mut found, mut waiting) = (BTreeMap::new(), vec![top.to_owned()]);
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(directory).unwrap().flatten() {
            let meta = entry.metadata().unwrap();
            let name = entry.path().strip_prefix(top).unwrap().display().to_string();
            if name == "probe" {
                continue;
            }
            found.insert(name, meta.permissions().mode() & 0o7777);
            if meta.is_dir() {
                waiting.push(entry.path());
            }
        }
    }
    found
}

/// Makes a directory into one that a group shares, with a shared directory in it.
fn share(mode: Mode, top: &Path) {
    mode.act(|| {
        fs::create_dir_all(top.join("d/sub")).unwrap();
        fs::write(top.join("d/file"), "x\n").unwrap();
        for directory in [top.to_owned(), top.join("d"), top.join("d/sub")] {
            fs::set_permissions(directory, fs::Permissions::from_mode(0o2775)).unwrap();
        }
    });
}

/// Runs a line in a directory without a daemon, as the session's user.
fn outside(mode: Mode, line: &str, at: &Path) -> (bool, String) {
    let output = mode.act(|| {
        std::process::Command::new("bash").args(["-c", line]).current_dir(at).output().unwrap()
    });
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Lines that set the bit, since what they copy or change has it.
const EVERYDAY: [&str; 8] = [
    "umask 002; cp -a d copy",
    "umask 002; mkdir -p t; tar cf - d | tar xpf - -C t",
    "umask 002; mkdir new; chmod 755 new",
    "chmod 700 d",
    "chmod -R g+s d/sub; chmod u+w d",
    "python3 -c \"import shutil; shutil.copytree('d', 'tree')\"",
    "umask 002; install -d -m 2775 made",
    "umask 002; cp -r --preserve=mode d other; chmod 775 other/sub",
];

#[test]
fn everyday_commands_work_in_a_directory_that_a_group_shares() {
    for mode in Mode::all() {
        for line in EVERYDAY {
            let desk = Desk::new(mode, &profile_with(&[]));
            share(mode, &desk.world.workspace());
            let control = desk.world.outside().join("shared");
            mode.act(|| fs::create_dir(&control).unwrap());
            share(mode, &control);
            assert_eq!(outside(mode, line, &control), (true, String::new()), "{mode:?}: {line}");
            let result = desk.sandbox.bash(line);
            assert!(result.success, "{mode:?}: {line}: {result:?}");
            let expected = modes(&control);
            assert!(expected.values().any(|bits| bits & 0o2000 != 0), "{line}");
            assert_eq!(modes(&desk.world.workspace()), expected, "{mode:?}: {line}");
        }
    }
}

/// Makes set-gid programs: by each system call, and by an access control list that opens one which is
/// not executable at first. Prints what became of each.
const LENDS: &str = r"exec python3 - <<'E'
import ctypes, errno, os, struct
libc = ctypes.CDLL(None, use_errno=True)
content = open('/usr/bin/id', 'rb').read()
def made(name, mode):
    how = struct.pack('QQQ', os.O_CREAT | os.O_RDWR, mode, 0)
    fd = libc.syscall(437, -100, name.encode(), how, 24)
    if fd < 0: raise OSError(ctypes.get_errno(), name)
    os.write(fd, content)
    os.close(fd)
def by_list():
    made('listed', 0o2644)
    entry = lambda tag, bits: struct.pack('<HHI', tag, bits, 0xffffffff)
    open_to_all = struct.pack('<I', 2) + entry(1, 7) + entry(4, 5) + entry(0x20, 5)
    os.setxattr('listed', 'system.posix_acl_access', open_to_all)
def by_mode():
    open('changed', 'wb').write(content)
    os.chmod('changed', 0o2755)
def set_user_id():
    open('owned', 'wb').write(content)
    os.chmod('owned', 0o4755)
for attempt in (by_list, by_mode, set_user_id, lambda: made('empty', 0o6755)):
    try:
        attempt()
        print('done')
    except OSError as error:
        print(errno.errorcode[error.errno])
E";

#[test]
fn no_file_with_a_set_id_bit_reaches_the_host() {
    for mode in Mode::all() {
        // What changes the host's files at once is refused; what is held back loses the bits.
        for (guard, said) in
            [("off", "ENOSYS\nEPERM\nEPERM\nENOSYS\n"), ("auto", "done\ndone\nEPERM\ndone\n")]
        {
            let guard_line = format!("guard = {guard:?}");
            let desk = Desk::new(mode, &profile_with(&[("guard = \"auto\"", &guard_line)]));
            let control = desk.world.outside().join("control");
            mode.act(|| fs::create_dir(&control).unwrap());
            // The control: without a daemon they are all set.
            assert_eq!(outside(mode, LENDS, &control).1, "");
            let bits = |top: &Path| modes(top).values().filter(|bits| *bits & 0o6000 != 0).count();
            // Writing takes the bits from a file, except root's.
            let made = if mode.uid() == 0 { 4 } else { 3 };
            assert_eq!(bits(&control), made, "{:?}", modes(&control));
            let result = desk.sandbox.bash(LENDS);
            assert_eq!(result.stdout, said, "{mode:?} {guard}: {result:?}");
            assert_eq!(bits(&desk.world.workspace()), 0, "{mode:?} {guard}");
        }
    }
}
