# lib.sh - what the tests of real programs share. Sourced.
#
# The environment: URXE is the command line to test, PREFIX (may be empty) a command that every
# program is started through, see in-world. Each test works in a directory of its own that is
# removed at the end. Programs are started in the background, awaited by what they do (a TCP port
# that listens), never by time, and ended by their process ids.

set -u
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$HERE/../../scripts/lib/pair.sh"

: "${URXE:?is not set: run this by meson test}"
: "${PREFIX:=}"
LIMIT=90 # seconds for one program; a loaded machine is slow
DEVICE=(--device rxe0=lo)
WORK=$(mktemp -d "${TMPDIR:-/tmp}/urxe-test-XXXXXX")
chmod 0777 "$WORK" # PREFIX may change the user
PIDS=()
FAILED=0
CASE=

cleanup() {
	local pid
	for pid in "${PIDS[@]}"; do
		kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null
	done
	rm -rf "$WORK"
}
trap cleanup EXIT

skip() {
	echo "skip: $*"
	exit 77
}

need() {
	local p
	for p in "$@"; do
		command -v "$p" >/dev/null || skip "$p is not installed"
	done
}

# begin NAME - a case; its result is told by pass or fail
begin() {
	CASE=$*
}

pass() {
	echo "ok: $CASE"
}

# fail REASON [FILE...] - go on with the next case
fail() {
	local f
	echo "FAILED: $CASE: $1"
	shift
	for f in "$@"; do
		echo "--- ${f##*/}"
		tail -n 40 "$f"
	done
	FAILED=1
}

# finish - at the end of each test
finish() {
	exit $FAILED
}

# run_line [option...] -- COMMAND... - sets LINE: under urxe, with a time limit, in the world of
# the test. "${LINE[@]}" & is one process, and $! its id: to end that ends all below it.
run_line() {
	# shellcheck disable=SC2206
	LINE=(timeout -k 5 $LIMIT $PREFIX "$URXE" run "${DEVICE[@]}" "$@")
}

# urun [option...] -- COMMAND... - the same in the foreground
urun() {
	run_line "$@"
	"${LINE[@]}"
}

# program_of PID - the process of the program below a LINE: timeout, urxe, program
program_of() {
	pgrep -P "$(pgrep -P "$1")"
}

# expect_line FILE REGEX - as a condition
has() {
	grep -Eq -- "$2" "$1"
}

# SERVER_OPTIONS, CLIENT_OPTIONS: options of `urxe run` at each end
SERVER_OPTIONS=()
CLIENT_OPTIONS=()

# start_server NAME PROGRAM [option...] - sets PORT and SERVER; output in WORK/NAME.server
start_server() {
	local name=$1
	shift
	PORT=$(free_port)
	run_line "${SERVER_OPTIONS[@]}" -- "$@" -p "$PORT"
	"${LINE[@]}" >"$WORK/$name.server" 2>&1 &
	SERVER=$!
	PIDS+=("$SERVER")
	wait_listening "$PORT" "$SERVER" 30
}

# pair NAME PROGRAM [option...] - run both ends to the end; 0 if both exit with 0
pair() {
	local name=$1 rc_client rc_server
	shift
	if ! start_server "$name" "$@"; then
		kill "$SERVER" 2>/dev/null
		fail "the server does not listen" "$WORK/$name.server"
		return 1
	fi
	urun "${CLIENT_OPTIONS[@]}" -- "$@" -p "$PORT" 127.0.0.1 >"$WORK/$name.client" 2>&1
	rc_client=$?
	# The client is gone: a server that still waits will wait forever.
	if [ $rc_client != 0 ]; then
		sleep 0.5
		kill "$SERVER" 2>/dev/null
	fi
	wait "$SERVER"
	rc_server=$?
	[ $rc_client = 0 ] && [ $rc_server = 0 ] && return 0
	fail "exit codes: server $rc_server, client $rc_client" "$WORK/$name.server" \
		"$WORK/$name.client"
	return 1
}

# run_pair PROGRAM [option...] - a case of its own
run_pair() {
	begin "$*"
	pair pair "$@" && pass
}
