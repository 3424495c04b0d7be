#!/bin/bash
# What tests/machine runs in its virtual machine, as root: the package and the service as people use them, daemons of root's and
# of an ordinary user's with and without a delegated cgroup, then the test programs. For each a line of `results`: what, how it
# went, seconds. All that was printed is in `logs`.
set -u
share=/mnt
mkdir -p "$share/logs"
export agent=/run/palisade/agent.sock operator=/run/palisade/operator.sock

printf 'Debian %s, Linux %s, systemd %s, %s at /sys/fs/cgroup, %s cores, %s MiB, %s\n' "$(cat /etc/debian_version)" "$(uname -r)" \
    "$(systemctl --version | awk 'NR == 1 { print $2 }')" "$(stat --file-system --format %T /sys/fs/cgroup)" "$(nproc)" \
    "$(awk '/^MemTotal/ { print int($2 / 1024) }' /proc/meminfo)" "$(date -u +%F)" | tee "$share/facts"

# check NAME SCRIPT: one line of the table.
check() {
    local log=$share/logs/${1//[^a-z_0-9-]/_} began=$EPOCHREALTIME how counted
    if timeout --kill-after 10 1800 bash -euc "$2" > "$log" 2>&1 < /dev/null; then how=ok; else how="failed ($?)"; fi
    # A test program says itself how many passed.
    counted=$(awk '/^test result:/ { passed += $4; failed += $6 }
        END { if (passed + failed) printf "%d passed%s", passed, failed ? ", failed " failed : "" }' "$log")
    [ -z "$counted" ] || { [ "$how" = ok ] && how=$counted || how="failed: $counted"; }
    printf '%s\t%s\t%.0f\n' "$1" "$how" "$(awk "BEGIN { print $EPOCHREALTIME - $began }")" | tee -a "$share/results"
}

# as USER COMMAND...: in a workspace of theirs.
as() { runuser --user "$1" -- env --chdir "/home/$1/work" HOME="/home/$1" XDG_RUNTIME_DIR="/run/user/$(id -u "$1")" "${@:2}"; }
# delegated USER COMMAND...: the same in a unit of their own systemd, which has a cgroup of its own.
delegated() { as "$1" systemd-run --user --quiet --wait --pipe -p Delegate=yes --working-directory "/home/$1/work" "${@:2}"; }
# holds EXPRESSION: whether it is true of the result that comes in as JSON.
holds() {
    python3 -c 'import json, sys
result = json.load(sys.stdin)
receipt = result["receipt"]
by = {limit["name"]: limit["by"] for limit in receipt["limits"]}
missing = {less["layer"]: less["why"] for less in receipt["degraded"]}
print(result["error"], result["stdout"], by, missing, sep="\n")
sys.exit(not eval(sys.argv[1]))' "$1"
}
# The one that is open, of all that come in as JSON.
only_session() { python3 -c 'import json, sys
[session] = json.load(sys.stdin)["sessions"]
print(session["session"])'; }
# in_transaction USER OPTIONS: what a program deletes with nobody to approve it is there as before; what it makes is made; hidden
# names are hidden of what is written, too; and it is said where that is kept.
in_transaction() {
    local work=/home/$1/work disk='"disk: overlayfs needs user attributes" in by["transaction"] and "transaction" not in missing'
    as "$1" bash -c 'echo old > kept; echo secret > .env; mkdir -p sub; echo secret > sub/.env'
    as "$1" palisade run $2 --json -- 'python3 -c "import os; os.remove(\"kept\"); open(\"gone\", \"w\")"' | holds "not result['success'] and $disk"
    [ "$(cat "$work/kept")" = old ] && [ ! -e "$work/gone" ] || return 1
    as "$1" palisade run $2 --json -- 'python3 -c "open(\"made\", \"w\").write(\"new\")"; printf more >> kept' | holds "result['success']"
    [ "$(cat "$work/made") $(tr '\n' , < "$work/kept")" = 'new old,more' ] || return 1
    as "$1" palisade run $2 --profile guarded --json -- 'cat kept .env sub/.env; ls -A sub; python3 -c "open(\"sub/second\", \"w\")"' |
        holds "result['stdout'] == 'old\nmore' and 'sub/.env: No such file' in result['stderr']"
    [ -e "$work/sub/second" ] && [ "$(cat "$work/sub/.env")" = secret ] || return 1
    as "$1" rm -r kept made sub .env
}
export -f as delegated holds only_session in_transaction

mkdir -p /etc/palisade/profiles
# Soon full, and nobody is asked.
sed -e 's/^ask = .*/ask = "never"/; s/^memory = .*/memory = "96 MiB"/; s/^processes = .*/processes = 40/; s/^cpu_percent = .*/cpu_percent = 50/' \
    "$share/workspace.toml" > /etc/palisade/profiles/small.toml
for user in alice:4343 bob:4344; do
    useradd --create-home --shell /bin/bash --uid "${user#*:}" "${user%:*}"
    install -d -o "${user%:*}" -g "${user%:*}" "/home/${user%:*}/work"
    loginctl enable-linger "${user%:*}"
done

export all="by['memory'] == by['processes'] == by['cpu'] == 'cgroup v2' and 'limits' not in missing"
export none="by['memory'] == by['processes'] == 'rlimit' and 'cpu' not in by and 'limits' in missing"
export full='python3 -c "x = bytearray(400 << 20)"'

check 'package: installed' "dpkg --install $share/palisade_*.deb; usermod --append --groups palisade-users,palisade-operators alice"
check 'service: active' 'systemctl start palisaded; systemctl is-active palisaded palisade-launcher'
check 'service: doctor' 'as alice palisade doctor --socket $agent; as alice palisade doctor --socket $agent --json | grep -q "cgroup v2: memory, pids, cpu"'
check 'service: doctor --prove' 'as alice palisade doctor --socket $agent --prove build workspace readonly'
check 'service: a session, bounded by cgroup v2' 'as alice palisade run --socket $agent --profile small --json -- "id -u" | holds "result[\"stdout\"] == \"4343\\n\" and $all"'
check 'service: out of memory, told' 'as alice palisade run --socket $agent --profile small --json -- "$full" | holds "result[\"oom\"] and not result[\"success\"] and $all"
as alice palisade run --socket $agent --profile small --json -- "echo alive" | holds "result[\"success\"] and not result[\"oom\"]"'
check 'service: a transaction on the disk, and names hidden in it' 'in_transaction alice "--socket $agent"'
check 'service: what a transaction left on the disk is removed' 'for i in {1..100}; do [ -n "$(find /var/lib/palisade-launcher -mindepth 2)" ] || exit 0; sleep 0.1; done
find /var/lib/palisade-launcher; exit 1'
check 'service: a session killed, with all of its processes and its cgroup' '
as alice palisade run --socket $agent --profile small -- "setsid sleep 98765 & sleep 98764" & run=$!
until pgrep -f "^sleep 98765" > /dev/null && pgrep -f "^sleep 98764" > /dev/null; do sleep 0.2; done
cgroup=/sys/fs/cgroup$(cut -d : -f 3 /proc/$(pgrep -f "^sleep 98765")/cgroup); echo $cgroup; cd $cgroup
[[ $cgroup == /sys/fs/cgroup/palisade.slice/palisade-launcher.service/palisade-*/session-* ]]
[ "$(cat pids.max memory.max memory.swap.max cpu.max | xargs)" = "40 100663296 0 50000 100000" ]
cd /; palisade sessions --operator-socket $operator --json | tee /tmp/sessions
palisade kill --operator-socket $operator "$(only_session < /tmp/sessions)"
! wait $run
! pgrep -f "^sleep 9876"
for i in {1..50}; do [ -d $cgroup ] || exit 0; sleep 0.2; done; exit 1'
check 'service: metrics and status' 'systemctl stop palisaded.service; systemctl enable --now palisade-metrics.socket
as alice palisade run --socket $agent --profile small -- true
curl --silent --fail --unix-socket /run/palisade/metrics.sock http://localhost/metrics | tee /dev/stderr | grep "^palisade_launcher_up 1"
as alice palisade status --socket $agent | grep "cgroup v2\|6\.1\."'
small="--profiles /etc/palisade/profiles --profile small --json --"
check 'an ordinary user: no cgroup delegated, limits for each process, and it is said' "as bob palisade run $small 'id -u' | holds \"\$none\""
check 'an ordinary user: what this kernel can not hold is refused, and says so' '
told() { ! as bob palisade run --profile "$1" -- true > /tmp/told 2>&1; cat /tmp/told; grep -q "$2" /tmp/told; }
told trusted-net "needs Landlock ABI 6 (Linux 6.12), and this kernel has 2"'
check 'an ordinary user: names are hidden of what is only read' 'as bob bash -c "echo secret > .env; echo open > seen"
as bob palisade run --profile readonly --json -- "cat seen .env; ls -A; touch seen" | holds "result[\"stdout\"] == \"open\\nseen\\n\" and \"Read-only\" in result[\"stderr\"]"
[ "$(cat /home/bob/work/.env)" = secret ]; as bob rm .env seen'
check 'an ordinary user: a transaction on the disk, and names hidden in it' "in_transaction bob ''"
check 'an ordinary user: in a delegated cgroup, bounded by cgroup v2' "delegated bob palisade run $small 'id -u' | holds \"\$all\"
delegated bob palisade run $small \"\$full\" | holds 'result[\"oom\"]'"
check 'root: private daemon, no cgroup delegated' "cd /home/bob/work; palisade run $small 'id -u' | holds \"\$none\""
check 'root: private daemon in a delegated cgroup' "cd /home/bob/work; systemd-run --quiet --wait --pipe -p Delegate=yes --working-directory /home/bob/work palisade run $small 'id -u' | holds \"\$all\""
check 'package: purged' 'dpkg --purge palisade; ! systemctl is-active palisaded; [ ! -e /var/lib/palisade ]'

cp -r "$share/target" /srv/target
useradd --home-dir /srv/user --create-home --uid 4242 tester
export unit="--quiet --wait --pipe -p Delegate=yes -p RuntimeMaxSec=1700 -p LimitNOFILE=65536 --setenv=TMPDIR=/tmp"
while read -r name program <&3; do
    check "$name, as root" "systemd-run $unit --setenv=HOME=/root --working-directory /root /srv/target/deps/$program $name::"
    check "$name, as an ordinary user" "systemd-run $unit --setenv=HOME=/srv/user --uid 4242 --gid 4242 --working-directory /srv/user /srv/target/deps/$program $name::"
done 3< "$share/tests"
touch "$share/done"
