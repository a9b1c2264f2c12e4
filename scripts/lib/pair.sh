# pair.sh - a server and a client on this host. Sourced.

# free_port - a TCP port that nobody listens on; another one at each call
free_port() {
	local port
	while :; do
		port=$((20000 + (RANDOM * 32768 + RANDOM) % 12000))
		listening "$port" || break
	done
	echo "$port"
}

# listening PORT - does somebody? Asks the kernel; to connect would take the server's accept.
listening() {
	local hex
	hex=$(printf ':%04X' "$1")
	# sl local_address rem_address st ...; 0A is TCP_LISTEN (proc(5))
	awk -v p="$hex$" '$4 == "0A" && $2 ~ p { found = 1 } END { exit !found }' \
		/proc/net/tcp /proc/net/tcp6 2>/dev/null
}

# wait_listening PORT PID SECONDS - until somebody listens; fails if PID ends before
wait_listening() {
	local n=$(($3 * 50))
	until listening "$1"; do
		kill -0 "$2" 2>/dev/null || return 1
		[ $((n -= 1)) -gt 0 ] || return 1
		sleep 0.02
	done
}
