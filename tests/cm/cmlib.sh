# cmlib.sh - servers and clients that find each other through rdma_cm. Sourced.
#
# Whether such a server listens cannot be seen from outside: it has no socket. So a client that
# is refused because nobody listens yet is started again, as a person would do it.

HERE_CM=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$HERE_CM/../programs/lib.sh"

# An address that no other test uses: udaddy and mckey have no option for the port, and two of
# them on one address are in each other's way.
A=127.$((64 + $$ / 256 % 128)).$(($$ % 256)).1

# What programs say when nobody listens (REJ 8, SIDR status 1, ECONNREFUSED; rstream and riostream
# print an errno that has nothing to do with it)
NOBODY='REJECTED, error:? 8|event: 8, error: 8|UNREACHABLE, error:? 1|error: 1$|onnection refused|^rpoll: '

# What a client says that came after its server listened, but before the server was ready:
# librdmacm accepts connections by itself, riostream sets their options later. The client goes
# then, and the server waits for ever.
TOO_EARLY='^riomap: Cannot allocate memory'

# cm_server NAME COMMAND... - sets SERVER; output in WORK/NAME.server
cm_server() {
	local name=$1
	shift
	run_line "${SERVER_OPTIONS[@]}" -- "$@"
	"${LINE[@]}" >"$WORK/$name.server" 2>&1 &
	SERVER=$!
	PIDS+=("$SERVER")
}

# cm_client NAME COMMAND... - run until it is not refused; its exit code. Output in
# WORK/NAME.client
cm_client() {
	local name=$1 rc n=100
	shift
	while :; do
		urun "${CLIENT_OPTIONS[@]}" -- "$@" >"$WORK/$name.client" 2>&1
		rc=$?
		[ $rc != 0 ] && grep -Eq "$NOBODY" "$WORK/$name.client" || return $rc
		kill -0 "$SERVER" 2>/dev/null || return $rc
		[ $((n -= 1)) -gt 0 ] || return $rc
		sleep 0.1
	done
}

# stop_server - end it, and all below it
stop_server() {
	kill "$SERVER" 2>/dev/null
	wait "$SERVER" 2>/dev/null
}

# cm_both NAME "SERVER COMMAND" "CLIENT COMMAND" - sets rc_server, rc_client
cm_both() {
	# shellcheck disable=SC2086
	cm_server "$1" $2
	# A client that makes several connections while the server begins to listen gets some of
	# them, is refused the others, and gives up: so does the server then.
	sleep "${START_DELAY:-0.3}"
	# shellcheck disable=SC2086
	cm_client "$1" $3
	rc_client=$?
	[ $rc_client = 0 ] || kill "$SERVER" 2>/dev/null
	wait "$SERVER"
	rc_server=$?
}

# cm_pair NAME "SERVER COMMAND" "CLIENT COMMAND" - a case: both must end with 0
cm_pair() {
	local name=$1 rc_client rc_server n=5
	begin "$name: $3"
	until cm_both "$@"; [ $rc_client = 0 ] || ! has "$WORK/$name.client" "$TOO_EARLY"; do
		[ $((n -= 1)) -gt 0 ] || break
	done
	if [ $rc_client = 0 ] && [ $rc_server = 0 ]; then
		pass
		return 0
	fi
	fail "exit codes: server $rc_server, client $rc_client" "$WORK/$name.server" \
		"$WORK/$name.client"
	return 1
}

# cm_endless NAME "SERVER COMMAND" "CLIENT COMMAND" - the server does not end by itself
cm_endless() {
	local name=$1 rc
	begin "$name: $3"
	# shellcheck disable=SC2086
	cm_server "$name" $2
	# shellcheck disable=SC2086
	cm_client "$name" $3
	rc=$?
	stop_server
	if [ $rc = 0 ]; then
		pass
		return 0
	fi
	fail "exit code of the client: $rc" "$WORK/$name.server" "$WORK/$name.client"
	return 1
}

# wait_for_line FILE REGEX SECONDS
wait_for_line() {
	local n=$(($3 * 20))
	until grep -Eq -- "$2" "$1" 2>/dev/null; do
		[ $((n -= 1)) -gt 0 ] || return 1
		sleep 0.05
	done
}

# send_until PID LOG COMMAND... - run a sender of datagrams, again if they came too early or were
# lost, until the receiver PID has what it waits for and ends; 0 if both ended with 0
send_until() {
	local pid=$1 log=$2 n=30
	shift 2
	while "$@" >"$log" 2>&1; do
		sleep 0.2
		kill -0 "$pid" 2>/dev/null || break
		[ $((n -= 1)) -gt 0 ] || return 1
	done
	wait "$pid"
}
