# netns.sh - hosts made of network namespaces. Sourced after lib.sh. Needs root, else exit 77.
#
# two_hosts MTU makes A and B, joined by a veth pair: va with 10.66.0.1, fd66::1 and vb with
# 10.66.0.2, fd66::2. They are named $NS_A and $NS_B, and go when the test ends.

need ip
[ "$(id -u)" = 0 ] || skip "network namespaces need root"
NS_A=urxe-a-$$
NS_B=urxe-b-$$
V4_A=10.66.0.1 V4_B=10.66.0.2 V6_A=fd66::1 V6_B=fd66::2

no_hosts() {
	local ns
	for ns in "$NS_A" "$NS_B"; do
		ip netns del "$ns" 2>/dev/null
	done
}

trap 'cleanup; no_hosts' EXIT

# one_host NAME - a namespace with nothing but lo
one_host() {
	ip netns add "$1" 2>/dev/null && ip -n "$1" link set lo up ||
		skip "no network namespaces can be made here"
}

# add_device NS DEVICE IP... - bring it up with these addresses
add_device() {
	local ns=$1 dev=$2 a
	shift 2
	for a in "$@"; do
		case $a in
		*:*) ip -n "$ns" addr add "$a/64" dev "$dev" nodad ;;
		*) ip -n "$ns" addr add "$a/24" dev "$dev" ;;
		esac
	done
	ip -n "$ns" link set "$dev" up
}

two_hosts() {
	no_hosts
	one_host "$NS_A"
	one_host "$NS_B"
	ip link add va mtu "$1" netns "$NS_A" type veth peer name vb mtu "$1" netns "$NS_B" ||
		skip "no veth devices can be made here"
	add_device "$NS_A" va $V4_A $V6_A
	add_device "$NS_B" vb $V4_B $V6_B
}

# The server's own namespace is where to look for who listens (instead of lib/pair.sh's)
listening() {
	ip netns exec "$NS_A" ss -Hltn "sport = $1" | grep -q .
}

# on_line A|B [option...] -- COMMAND... - sets LINE: under urxe on that host's device
on_line() {
	local ns=$NS_A dev=va
	[ "$1" = A ] || { ns=$NS_B dev=vb; }
	shift
	# not LINE of run_line: the namespace goes in front of all
	LINE=(ip netns exec "$ns" timeout -k 5 $LIMIT "$URXE" run --device "rxe0=$dev" "$@")
}

# in_ns NS [option...] -- COMMAND... - sets LINE: under urxe with the default devices
in_ns() {
	local ns=$1
	shift
	LINE=(ip netns exec "$ns" timeout -k 5 $LIMIT "$URXE" run "$@")
}

# gid_of A|B ADDRESS - the index of its GID
gid_of() {
	on_line "$1" -- ibv_devinfo -v
	"${LINE[@]}" 2>/dev/null | sed -n "s/.*GID\[ *\([0-9]*\)\]:.*[^0-9a-f.:]\(::ffff:\)\?$2\b.*/\1/p"
}

# across NAME PROGRAM... - server on A, client on B; GIDA, GIDB in PROGRAM are GID indices
GIDA=0 GIDB=0
across() {
	local name=$1 rc_client rc_server
	shift
	PORT=$(free_port)
	on_line A "${SERVER_OPTIONS[@]}" -- ${*//GID/$GIDA} -p "$PORT"
	"${LINE[@]}" >"$WORK/$name.server" 2>&1 &
	SERVER=$!
	PIDS+=("$SERVER")
	wait_listening "$PORT" "$SERVER" 30
	on_line B "${CLIENT_OPTIONS[@]}" -- ${*//GID/$GIDB} -p "$PORT" $V4_A
	"${LINE[@]}" >"$WORK/$name.client" 2>&1
	rc_client=$?
	[ $rc_client = 0 ] || { sleep 0.5; kill "$SERVER" 2>/dev/null; }
	wait "$SERVER"
	rc_server=$?
	[ $rc_client = 0 ] && [ $rc_server = 0 ] && return 0
	fail "exit codes: server $rc_server, client $rc_client" "$WORK/$name.server" "$WORK/$name.client"
	return 1
}
