#!/bin/bash
# Boots a systemd as the first process of namespaces of its own, on an overlay of the host's root:
# what is changed there is gone afterwards, and the host never sees it. As root.
#
#   boot-systemd.sh DIRECTORY   DIRECTORY is at /src in there, read-only
#
# Prints `ready PID` once it is up, PID being that systemd's, for nsenter. Lives until its standard
# input ends (so that whoever started it can not leave it behind, however they end), then kills
# everything in there and removes the cgroups that it made.
set -u
source=$1
name=palisade-boot-$$
# Only a place for mounts of the namespaces; on the host it stays empty.
below=$(mktemp -d) || exit 1

# The cgroups to make: in each hierarchy that systemd or a session can use, below our own.
hierarchies() {
    while IFS=: read -r _ controllers path; do
        case $controllers in
        '') type=cgroup2 options='' at=$(findmnt -n -o TARGET -t cgroup2 | head -n 1) ;;
        cpuset) continue ;;
        name=*) type=cgroup options=none,$controllers at=$(findmnt -n -o TARGET -t cgroup -O "$controllers" | head -n 1) ;;
        *) type=cgroup options=$controllers at=$(findmnt -n -o TARGET -t cgroup -O "$controllers" | head -n 1) ;;
        esac
        # Version 2 shares out controllers only from a group without processes: from the top.
        [ $type = cgroup2 ] && top=/ || top=$path
        [ -n "$at" ] && echo "$type ${options:--} $at ${top%/}/$name $path"
    done </proc/self/cgroup
}
hierarchies=$(hierarchies)

tear_down() {
    if [ -n "${child-}" ]; then
        # The first process of a PID namespace takes all the others with it.
        kill -KILL "${systemd:-$child}" "$child" 2>/dev/null
        wait "$child" 2>/dev/null
    fi
    while read -r _ _ at path _; do
        # The kernel takes a moment to let go of killed processes.
        for _ in {1..500}; do
            find "$at$path" -depth -type d -exec rmdir {} + 2>/dev/null
            [ -d "$at$path" ] || continue 2
            sleep 0.02
        done
        echo "$at$path is still in use" >&2
    done <<<"$hierarchies"
    rm -f "$below/go"
    rmdir "$below"
}
trap tear_down EXIT
trap 'exit 1' HUP INT TERM

# Runs inside the namespaces, before there is a systemd.
outer=$$
export hierarchies source below outer
inside() {
    set -eu
    until [ -e "$below/go" ]; do sleep 0.01; done
    mount -t tmpfs tmpfs "$below"
    mkdir "$below"/{upper,work,root}
    root=$below/root
    # What daemons of the host have left is not there. Whiteouts, for it is in use on the host:
    # deleting it in the overlay would race with what they add and delete meanwhile.
    mkdir -p "$below"/upper/{etc,var/lib}
    for state in etc/palisade var/lib/palisade{,-launcher,-proof}; do
        mknod "$below/upper/$state" c 0 0
    done
    mount -t overlay overlay -o "lowerdir=/,upperdir=$below/upper,workdir=$below/work" "$root"
    mount -t proc proc "$root/proc"
    mount -t sysfs -o ro sysfs "$root/sys"
    if grep -q '^cgroup ' <<<"$hierarchies"; then
        mount -t tmpfs -o mode=755 tmpfs "$root/sys/fs/cgroup"
        legacy=systemd.unified_cgroup_hierarchy=0
    fi
    while read -r type options at _ _; do
        mkdir -p "$root$at"
        if [ "$options" = - ]; then
            mount -t "$type" "$type" "$root$at"
        else
            mount -t "$type" -o "$options" "$type" "$root$at"
        fi
    done <<<"$hierarchies"
    mount -t tmpfs -o mode=755 tmpfs "$root/dev"
    for device in null zero full random urandom tty; do
        mknod -m 666 "$root/dev/$device" c $(stat -c '0x%t 0x%T' "/dev/$device")
    done
    mkdir "$root"/dev/{pts,shm}
    mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$root/dev/pts"
    mount -t tmpfs tmpfs "$root/dev/shm"
    ln -s pts/ptmx "$root/dev/ptmx"
    ln -s /proc/self/fd "$root/dev/fd"
    mount -t tmpfs -o mode=755 tmpfs "$root/run"
    mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
    mount -t tmpfs -o mode=1777 tmpfs "$root/var/tmp"
    # For a unit that has business in the host's network namespace.
    : >"$root/run/host-network"
    mount --bind "/proc/$outer/ns/net" "$root/run/host-network"
    mkdir "$root/src"
    mount --bind "$source" "$root/src"
    mount -o remount,bind,ro "$root/src"
    # Nothing of what the host has enabled or mounts.
    rm -rf "$root"/etc/systemd/system/*.{wants,requires}
    : >"$root/etc/fstab"
    # By this, images of containers keep packages from starting what they install.
    rm -f "$root/usr/sbin/policy-rc.d"
    hostname palisade-boot
    cd "$root"
    mkdir .old
    pivot_root . .old
    umount -l /.old
    rmdir /.old
    exec env -i container=palisade PATH=/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb \
        /lib/systemd/systemd --system --unit=multi-user.target ${legacy-} </dev/null
}
export -f inside

(
    while read -r _ _ at path _; do
        mkdir "$at$path" && echo $BASHPID >"$at$path/cgroup.procs" || exit 1
    done <<<"$hierarchies"
    exec unshare --pid --mount --uts --ipc --net --cgroup --fork --kill-child \
        --propagation private bash -c inside
) </dev/null >&2 &
child=$!

# What is inside must be alone in its cgroups, or version 2 does not share out controllers there.
until [ "$(cat "/proc/$child/comm" 2>/dev/null)" = unshare ] &&
    systemd=$(tr -d ' ' <"/proc/$child/task/$child/children") && [ -n "$systemd" ]; do
    kill -0 "$child" 2>/dev/null || { echo 'the namespaces were not made' >&2; exit 1; }
    sleep 0.01
done
while read -r _ _ at _ before; do
    echo "$child" >"$at${before%/}/cgroup.procs" || exit 1
done <<<"$hierarchies"
touch "$below/go"

# Whether it is up, asked from inside; the first argument is its pid.
up() {
    nsenter --target "$1" --all --root --wd systemctl is-active --quiet multi-user.target 2>/dev/null
}
for _ in {1..6000}; do
    kill -0 "$child" 2>/dev/null || { echo 'systemd did not start' >&2; exit 1; }
    if [ "$(cat "/proc/$systemd/comm" 2>/dev/null)" = systemd ] && up "$systemd"; then
        echo "ready $systemd"
        # Until the end of standard input.
        cat >/dev/null
        exit 0
    fi
    sleep 0.05
done
echo 'systemd is not up after five minutes' >&2
exit 1
