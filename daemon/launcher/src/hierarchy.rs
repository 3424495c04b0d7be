//! Finds the place of this process in the cgroup hierarchies, from what the kernel says about its
//! mounts.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The controllers that enforce limits.
const CONTROLLERS: [&str; 3] = ["memory", "pids", "cpu"];
/// The group that launchers themselves are in, in a v2 hierarchy.
pub(crate) const LEAF: &str = "palisade-launcher";

/// The group that launchers share in the root of a v1 hierarchy, where not even root may create one
/// without `CAP_DAC_OVERRIDE`.
const SHARED: &str = "palisade";

/// The available controllers, each with the directory in which this launcher's directory can be
/// created.
pub(crate) type Parents = Vec<(&'static str, PathBuf)>;

/// Finds this process's own group in the v2 hierarchy, if it has the memory controller.
pub(crate) fn hierarchy_v2(mounts: &str, own: &str) -> Result<Parents, String> {
    let mount = mounts.lines().find_map(|line| mount_point(line, "cgroup2", |_| true));
    let mount = mount.ok_or("cgroup v2 is not mounted")?;
    let path = own.lines().find_map(|line| line.strip_prefix("0::")).ok_or("no v2 cgroup")?;
    // Launchers that moved to a leaf are one level below the group that was given to them.
    let path = path.trim_matches('/');
    let path = path.strip_suffix(LEAF).filter(|p| p.is_empty() || p.ends_with('/')).unwrap_or(path);
    let parent = mount.join(path);
    let parents: Parents =
        controllers(&parent).into_iter().map(|name| (name, parent.clone())).collect();
    if parents.iter().any(|(name, _)| *name == "memory") {
        Ok(parents)
    } else {
        Err(format!("cgroup v2 at {} has no memory controller", parent.display()))
    }
}

/// Returns the controllers of a v2 group that enforce limits.
pub(crate) fn controllers(group: &Path) -> Vec<&'static str> {
    let available = fs::read_to_string(group.join("cgroup.controllers")).unwrap_or_default();
    let has = |name: &&str| available.split_whitespace().any(|a| a == *name);
    CONTROLLERS.into_iter().filter(has).collect()
}

/// Finds this process's own group in each v1 hierarchy that has one of the controllers.
pub(crate) fn hierarchies_v1(mounts: &str, own: &str) -> Result<Parents, String> {
    let mut parents = Vec::new();
    for controller in CONTROLLERS {
        let has = |options: &str| options.split(',').any(|option| option == controller);
        let mount = mounts.lines().find_map(|line| mount_point(line, "cgroup", has));
        let path = own.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let (controllers, path) = (fields.next()?, fields.next()?);
            controllers.split(',').any(|name| name == controller).then_some(path)
        });
        if let (Some(mount), Some(path)) = (mount, path) {
            let own = mount.join(path.trim_start_matches('/'));
            let shared = mount.join(SHARED);
            let parent = if path == "/" && shared.is_dir() { shared } else { own };
            parents.push((controller, parent));
        }
    }
    if parents.is_empty() { Err("no cgroup v1 controller is mounted".into()) } else { Ok(parents) }
}

/// Creates a group for all launchers in each v1 hierarchy in whose root this process is. Even root
/// can create it only with a capability that the launcher is about to give up. The group therefore
/// remains for later launchers.
pub(crate) fn share_v1_roots() {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    for (_, parent) in hierarchies_v1(&mounts, &own).unwrap_or_default() {
        let is_root = mounts
            .lines()
            .any(|line| mount_point(line, "cgroup", |_| true).is_some_and(|at| at == parent));
        if is_root {
            // If this fails, creating the launcher's own group fails later, and that is reported.
            fs::create_dir(parent.join(SHARED)).unwrap_or_default();
        }
    }
}

/// Returns the mount point in a line of mountinfo, if its type and options fit.
fn mount_point(line: &str, kind: &str, fits: impl Fn(&str) -> bool) -> Option<PathBuf> {
    let (mount, source) = line.split_once(" - ")?;
    let mut source = source.split(' ');
    if source.next()? != kind || !fits(source.nth(1)?) {
        return None;
    }
    mount.split(' ').nth(4).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
30 20 0:25 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
31 20 0:26 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
32 20 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
";

    #[test]
    fn finds_the_hierarchy_of_each_v1_controller_and_its_own_group_in_it() {
        let own = "4:memory:/a/b\n3:cpu,cpuacct:/\n0::/x\n";
        let found = hierarchies_v1(MOUNTS, own).unwrap();
        assert_eq!(
            found,
            [
                ("memory", PathBuf::from("/sys/fs/cgroup/memory/a/b")),
                ("cpu", PathBuf::from("/sys/fs/cgroup/cpu,cpuacct/"))
            ]
        );
    }

    #[test]
    fn a_v2_hierarchy_without_the_memory_controller_is_no_use() {
        assert!(hierarchy_v2(MOUNTS, "0::/nowhere\n").is_err_and(|why| why.contains("no memory")));
        assert!(hierarchy_v2("", "0::/\n").is_err());
    }

    #[test]
    fn a_launcher_that_stepped_aside_uses_the_group_above_its_own() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path().display();
        let mounts = format!("32 20 0:27 / {at} rw - cgroup2 cgroup2 rw\n");
        let (given, other) =
            (directory.path().join("given"), directory.path().join("a-palisade-launcher"));
        for group in [&given, &other] {
            fs::create_dir(group).unwrap();
            fs::write(group.join("cgroup.controllers"), "cpuset cpu memory pids\n").unwrap();
        }
        for (own, group) in [
            ("0::/given\n", &given),
            ("0::/given/palisade-launcher\n", &given),
            ("0::/a-palisade-launcher\n", &other),
        ] {
            let found = hierarchy_v2(&mounts, own).unwrap();
            assert_eq!(found.len(), CONTROLLERS.len());
            assert!(found.iter().all(|(_, parent)| parent.components().eq(group.components())));
        }
    }
}
