//! Modes, owners, times, attributes and kinds of files: what is outside keeps its own, and inside
//! nothing is made that gives rights to whoever runs or opens it.

use palisade_tests::{Mode, ORDINARY, World, both_views};
use serde_json::json;
use std::{
    fs,
    os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, chown},
};

#[test]
fn attributes_of_what_is_outside_stay() {
    for mode in Mode::all() {
        let (world, [blind, seeing]) = both_views(mode);
        let canary = world.canary();
        let shown = canary.display();
        let attributes = || {
            let found = fs::metadata(&canary).unwrap();
            (found.mode(), found.uid(), found.gid(), found.mtime_nsec(), found.ctime_nsec())
        };
        let before = attributes();
        let on = |path: &str| {
            [
                format!("chmod:{path}:0x1ff"),
                format!("chmod:{path}:0x9ed"),
                format!("chown:{path}"),
                format!("sys:utimensat:-100:@{path}:0:0"),
                format!("sys:setxattr:@{path}:@user.palisade:buf:1:0"),
                format!("truncate:{path}"),
            ]
        };
        let outside = on(&shown.to_string());
        // Setting a set-id bit is refused before it is asked where.
        assert_eq!(blind.told(&outside).join(" "), "ENOENT EPERM ENOENT ENOENT ENOENT ENOENT");
        assert_eq!(seeing.told(&outside).join(" "), "EROFS EPERM EROFS EROFS EROFS EROFS");
        let system = seeing.told(&on("/usr/bin/env")).join(" ");
        assert_eq!(system, "EROFS EPERM EROFS EROFS EROFS EROFS");
        assert_eq!(attributes(), before);
        world.assert_canary_untouched();
        // The control: inside, and what the file system has is had.
        assert!(blind.done("write_file", json!({"path": "own", "content": "x"})).success);
        let [mode_bits, _, _, times, extra, cut] = on("own");
        let own = [mode_bits, times, extra, cut];
        let answers = blind.told(&own);
        assert_eq!(answers, world.told_outside(&own));
        assert_eq!([answers[0].as_str(), &answers[1], &answers[3]], ["ok"; 3]);
        assert_eq!(fs::metadata(world.workspace().join("own")).unwrap().mode() & 0o7777, 0o777);
    }
}

#[test]
fn set_id_bits_are_neither_set_nor_kept_nor_obeyed() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let program = world.workspace().join("program");
        fs::copy("/usr/bin/id", &program).unwrap();
        world.give(&program);
        let bits = || fs::metadata(&program).unwrap().mode() & 0o7777;
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let sandbox = world.open();
        // 04755, 02755, 06777; then without, for a control.
        let attempts = [
            "chmod:program:0x9ed",
            "chmod:program:0x5ed",
            "sys:fchmodat:-100:@program:0xdff",
            "sys:creat:@made:0x9ed",
            "sys:mkdir:@directory:0x5ed",
        ];
        // The kernel ignores the bits in the mode of a new directory.
        let answers = ["EPERM", "EPERM", "EPERM", "EPERM", "ok"];
        assert_eq!(sandbox.told(&attempts.map(str::to_owned)), answers, "{mode:?}");
        assert_eq!(bits(), 0o755);
        let made = fs::metadata(world.workspace().join("directory")).unwrap().mode();
        assert_eq!(made & 0o6000, 0);
        assert!(!world.workspace().join("made").exists());
        assert_eq!(sandbox.told(&["chmod:program:0x1c9".to_owned()]), ["ok"]);
        assert_eq!(bits(), 0o711);
        // One that is there already gives nothing to who runs it. Only root can plant another
        // user's; what an ordinary user plants is its own, and shows the mode alone.
        let own = mode.uid();
        if rustix::process::geteuid().is_root() {
            let other = if own == ORDINARY { 0 } else { ORDINARY };
            chown(&program, Some(other), Some(other)).unwrap();
        }
        fs::set_permissions(&program, fs::Permissions::from_mode(0o6755)).unwrap();
        assert_eq!(sandbox.ok("./program -u; ./program -g").trim(), format!("{own}\n{own}"));
        // And a file that is written anew does not inherit them.
        world.give(&program);
        fs::set_permissions(&program, fs::Permissions::from_mode(0o6755)).unwrap();
        assert!(sandbox.done("write_file", json!({"path": "program", "content": "x"})).success);
        assert_eq!(bits(), 0o755);
    }
}

#[test]
fn a_program_gets_no_capabilities() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let program = world.workspace().join("program");
        fs::copy("/usr/bin/id", &program).unwrap();
        world.give(&program);
        let sandbox = world.open();
        assert_eq!(sandbox.told(&["filecap:program".to_owned()]), ["EPERM"]);
        let mut value = [0u8; 64];
        let found = rustix::fs::getxattr(&program, "security.capability", &mut value[..]);
        assert_eq!(found, Err(rustix::io::Errno::NODATA));
        // The control: an attribute without power, wherever the file system has such.
        let harmless = ["sys:setxattr:@program:@user.palisade:buf:1:0".to_owned()];
        assert_eq!(sandbox.told(&harmless), world.told_outside(&harmless));
    }
}

#[test]
fn nobody_watches_the_whole_file_system() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        let attempts = [
            "sys:fanotify_init:0:0",
            // With file ids, which asks for no privilege.
            "sys:fanotify_init:0x200:0",
            "sys:fanotify_mark:3:1:2:-100:@/",
        ];
        assert_eq!(sandbox.told(&attempts.map(str::to_owned)), ["EPERM"; 3]);
        // The control: one's own files can be watched.
        assert_eq!(sandbox.told(&["watch:.".to_owned()]), ["ok"]);
    }
}

#[test]
fn no_device_is_made_anywhere_and_no_fifo_outside() {
    for mode in Mode::all() {
        let (world, [blind, seeing]) = both_views(mode);
        let new = world.outside().join("new");
        // Character and block devices: /dev/null and a disk.
        let devices = [
            "sys:mknod:@node:0x21b6:0x103",
            "sys:mknod:@node:0x61b6:0x800",
            "sys:mknodat:-100:@node:0x21b6:0x103",
            "sys:mknod:@/tmp/node:0x21b6:0x103",
            "sys:mknod:@/dev/shm/node:0x61b6:0x800",
        ];
        assert_eq!(blind.told(&devices.map(str::to_owned)), ["EPERM"; 5], "{mode:?}");
        assert!(!world.workspace().join("node").exists());
        // A rename that leaves a device node of number 0, for which no privilege is needed. The
        // control: the same rename without that.
        fs::write(world.workspace().join("old"), "").unwrap();
        world.give(&world.workspace().join("old"));
        let renames = [4, 5, 0].map(|flags| format!("sys:316:-100:@old:-100:@moved:{flags}"));
        assert_eq!(blind.told(&renames), ["EPERM", "EPERM", "ok"], "{mode:?}");
        assert!(!world.workspace().join("old").exists());
        assert!(world.workspace().join("moved").is_file());
        let fifo = [format!("sys:mknod:@{}:0x1180:0", new.display())];
        assert_eq!(blind.told(&fifo), ["ENOENT"]);
        assert_eq!(seeing.told(&fifo), ["EROFS"]);
        world.assert_canary_untouched();
        // The control: a FIFO of one's own.
        assert_eq!(blind.told(&["sys:mknod:@fifo:0x1180:0".to_owned()]), ["ok"]);
        assert!(fs::metadata(world.workspace().join("fifo")).unwrap().file_type().is_fifo());
    }
}
