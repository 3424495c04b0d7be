# Connects this network namespace to that of a server with public and private addresses. It is read by the
# shell that becomes the daemon, so that the server ends with it. $1 is a directory of the test.
PATH=/usr/sbin:/usr/bin:/sbin:/bin
mkfifo "$1/started" || exit 1
unshare --net python3 "$1/server.py" "$1" &
read -r server < "$1/started"
far() { nsenter --target "$server" --net ip "$@"; }
{
    ip link add near type veth peer name far netns "$server" &&
        far address add 11.0.0.2/24 dev far && far address add 10.1.2.3/32 dev far &&
        far address add 10.1.2.4/32 dev far && far link set far up &&
        ip address add 11.0.0.1/24 dev near && ip link set near up && ip link set lo up &&
        ip route add default via 11.0.0.2
} || exit 1
