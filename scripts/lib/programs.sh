# programs.sh - every program of Debian that uses RDMA, once: a table of what works. Sourced by scripts/test.
#
# Each row runs under `urxe run` with no variable set, small, alone, and must use the device where it can.
# A row that cannot work names what the program says then; the row fails if it says something else.

# What the rows need beside the packages of the tests. redis-server, openssh-server and tgt would start services: who has
# them gets their rows.
PROGRAM_PACKAGES="qperf fio mpich libmpich-dev libopenmpi-dev iperf3 curl librpma-dev
	libiscsi-bin dapl2-utils qemu-system-x86 golang-go iproute2 util-linux gcc libc6-dev"

# Small programs for libraries that bring none
PROGRAM_SOURCES=$ROOT/tests/programs/libraries

# Where the programs run: nothing, or the way into a network namespace; and the interface of their device
PLACE=()
DEVICE=lo
# The limit of each in seconds, and how long a server has to listen; more on a crowded machine
ROW_LIMIT=${ROW_LIMIT:-120}
SERVER_WAIT=${SERVER_WAIT:-1}

# row PROGRAM WHAT - begin a row: a name, and what is tried
row() {
	ROW=$1
	WHAT=${2//$WORK\//}
}

# verdict RESULT [WHY] - end it
verdict() {
	printf '| %s | `%s` | %s | %s |\n' "$ROW" "$WHAT" "$1" "${2:-}"
	case $1 in
	works | cannot) passed=$((passed + 1)) ;;
	'not installed' | 'needs root') skipped=$((skipped + 1)) ;;
	*)
		failed=$((failed + 1))
		sed 's/^/    /' "$OUT"/* | tail -n 15 >&2
		;;
	esac
}

# judge RC - of what lies in $OUT: it ended well, and a device sent packets
judge() {
	if [ "$1" != 0 ]; then
		verdict FAILED "exit code $1"
	elif ! grep -Eqs 'network: sent [1-9]' "$OUT"/*; then
		verdict FAILED "it did not use the device"
	else
		verdict works
	fi
}

have() {
	PATH=$PATH:/usr/sbin command -v "$1" >/dev/null || [ -e "$1" ] || {
		verdict 'not installed'
		return 1
	}
}

# under COMMAND... - in the background or not
under() {
	timeout -k 30 "$ROW_LIMIT" "${PLACE[@]}" "$URXE" run --device "rxe0=$DEVICE" --stats -- "$@"
}

# alone PROGRAM WHAT - a command that ends by itself
alone() {
	row "$1" "$2"
	have "${2%% *}" || return
	rm -f "$OUT"/*
	eval "under $2" >"$OUT/it" 2>&1
	judge $?
}

# opens PROGRAM WHAT - the same of one that opens the device and sends nothing
opens() {
	row "$1" "$2"
	have "${2%% *}" || return
	rm -f "$OUT"/*
	if eval "under $2" >"$OUT/it" 2>&1 && grep -q 'what the emulated HCA did' "$OUT/it"; then
		verdict works
	else
		verdict FAILED "it does not open the device"
	fi
}

# both SERVER CLIENT - a server, which has a second to listen, and its client, to the client's end, whose
# exit code it returns; sets SERVER, the server's process
both() {
	rm -f "$OUT"/*
	eval "under $1" >"$OUT/server" 2>&1 &
	SERVER=$!
	sleep "$SERVER_WAIT"
	eval "under $2" >"$OUT/client" 2>&1
}

# pair PROGRAM WHAT CLIENT [ANYHOW] - a server and its client; the server is ended with it if it is one
# that goes on (ANYHOW)
pair() {
	local rc
	row "$1" "$3"
	have "${2%% *}" || return
	both "$2" "$3"
	rc=$?
	[ -z "${4:-}" ] && [ $rc = 0 ] || kill $SERVER 2>/dev/null
	wait $SERVER
	[ $? = 0 ] || [ -n "${4:-}" ] || rc=1
	judge $rc
}

# cannot PROGRAM WHAT CLIENT SAYS WHY - the same, which fails for a reason of its own: it must say SAYS
cannot() {
	row "$1" "$3"
	have "${2%% *}" || return
	both "$2" "$3"
	kill $SERVER 2>/dev/null
	wait $SERVER 2>/dev/null
	if grep -Eqs -- "$4" "$OUT"/*; then
		verdict cannot "$5"
	else
		verdict FAILED "it did not say '$4'"
	fi
}

rows_of_rdma_core() {
	local b
	opens ibverbs-utils "ibv_devinfo -v"
	for b in rc uc ud srq xsrq; do
		pair ibverbs-utils "ibv_${b}_pingpong -g 0 -n 50" "ibv_${b}_pingpong -g 0 -n 50 127.0.0.1"
	done
	pair ibverbs-utils "ibv_rc_pingpong -g 0 -n 50 -o -P -e" "ibv_rc_pingpong -g 0 -n 50 -o -P -e 127.0.0.1"
	pair rdmacm-utils "rping -s -C 10 -V" "rping -c -a 127.0.0.1 -C 10 -V"
	pair rdmacm-utils "ucmatose -b 127.0.0.1 -C 5" "ucmatose -s 127.0.0.1 -C 5"
	pair rdmacm-utils "udaddy -b 127.0.0.1 -C 5" "udaddy -s 127.0.0.1 -C 5"
	pair rdmacm-utils "rstream -S 4096 -C 20" "rstream -s 127.0.0.1 -S 4096 -C 20"
	pair rdmacm-utils "riostream -S 4096 -C 20" "riostream -s 127.0.0.1 -S 4096 -C 20"
	pair rdmacm-utils "rdma_server" "rdma_client -s 127.0.0.1"
	pair rdmacm-utils "rdma_xserver" "rdma_xclient -s 127.0.0.1"
	pair rdmacm-utils "rdma_xserver -c x" "rdma_xclient -s 127.0.0.1 -c x"
	pair rdmacm-utils "cmtime" "cmtime -s 127.0.0.1 -c 20" goes-on
	pair rdmacm-utils "mckey -m 239.1.1.1 -b 127.0.0.1 -C 5" "mckey -m 239.1.1.1 -b 127.0.0.1 -C 5 -s"
	seq 20000 >"$WORK/file"
	pair rdmacm-utils "rcopy" "rcopy $WORK/file 127.0.0.1:$WORK/copy" goes-on
}

rows_of_perftest() {
	local o
	for o in "ib_send_bw" "ib_send_bw -R" "ib_send_bw -e" "ib_send_bw -I 64 -s 64" "ib_send_bw --use-srq -r 64" "ib_send_bw -c UD -s 1000" \
		"ib_send_bw -c UC" "ib_send_bw -c XRC" "ib_send_bw -a" "ib_send_bw -b" "ib_send_bw -R -c UD -s 1000" "ib_send_lat" "ib_send_lat -R" \
		"ib_send_lat -c UD -s 64" "ib_send_lat -c XRC" "ib_send_lat -e" "ib_write_bw" "ib_write_bw -R" "ib_write_bw -q 8" "ib_write_bw -q 16 -l 5" \
		"ib_write_bw -l 5" "ib_write_bw --odp" "ib_write_bw -a" "ib_write_bw -b" "ib_write_bw -c UC" "ib_write_bw -c XRC" "ib_write_bw -I 64 -s 64" \
		"ib_write_bw -m 256" "ib_write_bw -m 512" "ib_write_bw -m 1024" "ib_write_bw -m 2048" "ib_write_bw -m 4096" "ib_write_bw -x 1" \
		"ib_write_lat" "ib_write_lat -R" "ib_write_lat -I 32 -s 16" "ib_read_bw" "ib_read_bw -a" "ib_read_bw -R" "ib_read_bw -o 8 -q 4" \
		"ib_read_bw --odp" "ib_read_lat" "ib_read_lat -R" "ib_atomic_bw -A FETCH_AND_ADD" "ib_atomic_bw -A CMP_AND_SWAP -R" "ib_atomic_lat"; do
		case $o in
		*"-x 1"*) pair perftest "$o -d rxe0 -F -n 50" "$o -d rxe0 -F -n 50 127.0.0.1" ;;
		*) pair perftest "$o -d rxe0 -x 0 -F -n 50" "$o -d rxe0 -x 0 -F -n 50 127.0.0.1" ;;
		esac
	done
}

rows_of_tools() {
	local t
	for t in rc_lat rc_bw rc_rdma_read_bw rc_rdma_write_bw rc_fetch_add_mr; do
		pair qperf "qperf" "qperf -t 1 -cm 1 127.0.0.1 $t" goes-on
	done
	cannot qperf "qperf" "qperf -t 1 127.0.0.1 ud_lat" "failed to create address handle" \
		"qperf addresses its peer by LID, which RoCE has not; RC goes through rdma_cm (-cm 1)"
	for t in write read send; do
		printf '[global]\nioengine=rdma\nport=18777\nbs=64k\nsize=2m\n[receiver]\nrw=read\niodepth=16\n' >"$WORK/server.fio"
		printf '[global]\nioengine=rdma\nhostname=127.0.0.1\nport=18777\nverb=%s\nbs=64k\nsize=2m\n[sender]\nrw=write\niodepth=1\n' $t \
			>"$WORK/$t.fio"
		pair fio "fio $WORK/server.fio" "fio $WORK/$t.fio"
	done
	pair UCX "ucx_perftest -t tag_bw -n 200 -s 65536" "ucx_perftest -t tag_bw -n 200 -s 65536 127.0.0.1"
	for t in rc_verbs ud_verbs; do
		pair UCX "ucx_perftest -d rxe0:1 -x $t -t am_lat -n 200" "ucx_perftest -d rxe0:1 -x $t -t am_lat -n 200 127.0.0.1"
	done
	for t in "-t stream_bw" "-t ucp_put_bw" "-t ucp_get" "-t ucp_fadd -s 8" "-t tag_lat -T 2 -M multi"; do
		pair UCX "env UCX_TLS=rc_v,self ucx_perftest $t -n 100" "env UCX_TLS=rc_v,self ucx_perftest $t -n 100 127.0.0.1"
	done
	t="env UCX_IB_REG_METHODS=odp,direct ucx_perftest -t tag_bw -n 20 -s 1000000"
	cannot UCX "$t" "$t 127.0.0.1" "on-demand region" \
		"it runs with an implicit on-demand region, and UCX 1.13 crashes when it gives that back: uct_ib_md_close() hands the region where uct_ib_mem_dereg() takes its parameters"
	opens pyverbs "/usr/bin/python3 -c 'import pyverbs.device as d; c = d.Context(name=\"rxe0\"); print(c.query_device().max_qp)'"
}

# built COMPILER NAME [LIBRARY...] - $WORK/NAME from the source NAME.c
built() {
	row "$1" "$1 $2.c"
	have "$1" || return
	"$1" -O1 -o "$WORK/$2" "$PROGRAM_SOURCES/$2.c" "${@:3}" >"$OUT/cc" 2>&1 && return
	verdict FAILED "does not compile"
	return 1
}

rows_of_mpi() {
	local n run="mpirun.openmpi --allow-run-as-root --oversubscribe"
	if built mpicc.openmpi mpi; then
		for n in 4 16; do
			alone "Open MPI" "$run --mca pml ucx --mca osc ucx -n $n $WORK/mpi"
		done
	fi
	if built mpicc.mpich mpi; then
		for n in 4 16; do
			alone MPICH "mpiexec.mpich -n $n $WORK/mpi"
		done
	fi
	built oshcc shmem && alone OpenSHMEM "oshrun --allow-run-as-root --oversubscribe --mca osc ucx -n 4 $WORK/shmem"
	alone mpi4py "$run --mca pml ucx -n 2 /usr/bin/python3 -c 'from mpi4py import MPI; assert MPI.COMM_WORLD.allreduce(1) == 2'"
}

# rows_of_rsockets - programs that know nothing of RDMA, over librspreload
rows_of_rsockets() {
	local lib
	lib=$(ls /usr/lib/*/rsocket/librspreload.so 2>/dev/null)
	row librspreload rsockets
	have "$lib" || return
	printf '#!/bin/sh\nLD_PRELOAD="$LD_PRELOAD:%s" exec "$@"\n' "$lib" >"$WORK/rsockets"
	chmod +x "$WORK/rsockets"
	PATH=$PATH:$WORK
	row curl curl
	have curl && built gcc http && pair curl "rsockets $WORK/http" "rsockets curl -sS -m 60 -o $WORK/got http://127.0.0.1:18123/"
	row iperf3 iperf3
	have iperf3 && cannot iperf3 "rsockets iperf3 -s -1 -p 18124" "rsockets timeout 12 iperf3 -c 127.0.0.1 -p 18124 -t 1" "0.00 Bytes .*receiver" \
		"select() of librspreload 44 answers with numbers of rsockets and not with the program's"
	row redis redis-server
	have redis-server && cannot redis "true" "rsockets redis-server --port 18125 --save ''" "creating TCP socket accept handler" \
		"librspreload 44 has no epoll"
	row ssh sshd
	have sshd && ssh-keygen -q -t ed25519 -N "" -f "$WORK/key" && cannot ssh "true" "rsockets /usr/sbin/sshd -D -e -p 18126 -h $WORK/key -o ListenAddress=127.0.0.1" "Cannot bind any address" \
		"rsockets have no F_SETFD"
}

# iSER lets in whom an address and a name of an initiator are bound for (TCP, whom either is bound for)
rows_of_storage() {
	local to="tgtadm -C 77 --lld iser --mode" url='"iscsi://127.0.0.1:3260/iqn.2001-04.com.example:urxe/1?iser"' i
	row tgt "tgtd, iscsi-inq -i iqn.urxe $url"
	have tgtd && have iscsi-inq || return
	[ "$(id -u)" = 0 ] || {
		verdict 'needs root'
		return
	}
	rm -f "$OUT"/*
	truncate -s 8M "$WORK/disk"
	ROW_LIMIT=60 under tgtd -f -C 77 >"$OUT/server" 2>&1 &
	SERVER=$!
	for i in {1..50}; do
		sleep 0.5
		$to target --op new --tid 1 --targetname iqn.2001-04.com.example:urxe 2>/dev/null && break
	done
	$to logicalunit --op new --tid 1 --lun 1 -b "$WORK/disk" && $to target --op bind --tid 1 -I ALL &&
		$to target --op bind --tid 1 -Q iqn.urxe && eval "under iscsi-inq -i iqn.urxe $url" >"$OUT/client" 2>&1
	i=$?
	kill $SERVER
	wait $SERVER 2>/dev/null
	grep -q VIRTUAL-DISK "$OUT/client" || i=1
	judge $i
}

# A machine of 64 MiB moves from one QEMU to another
rows_of_qemu() {
	local qemu="qemu-system-x86_64 -accel tcg -m 64 -nodefaults -display none -S" rc
	row QEMU "migrate rdma:127.0.0.1:18127"
	have qemu-system-x86_64 || return
	rm -f "$OUT"/*
	eval "under $qemu -qmp unix:$WORK/to,server,nowait -incoming rdma:127.0.0.1:18127" >"$OUT/server" 2>&1 &
	SERVER=$!
	eval "under $qemu -qmp unix:$WORK/from,server,nowait" >"$OUT/client" 2>&1 &
	timeout "$ROW_LIMIT" python3 "$PROGRAM_SOURCES/migrate.py" "$WORK/from" "$WORK/to" rdma:127.0.0.1:18127 >"$OUT/migrate" 2>&1
	rc=$?
	[ $rc = 0 ] || kill $SERVER $! 2>/dev/null
	wait $SERVER $! 2>/dev/null
	judge $rc
}

# rows_of_late - languages whose programs load libibverbs when they need it
rows_of_late() {
	mkdir -p "$WORK/go"
	cp "$PROGRAM_SOURCES"/late.* "$WORK/go"
	row Go late.go
	have go && (cd "$WORK/go" && GOCACHE=$WORK/cache GO111MODULE=off go build -o ../late-go late.go) >"$OUT/cc" 2>&1 && opens Go "$WORK/late-go"
	row Java Late.java
	have java && gcc -shared -fPIC -o "$WORK/liblate.so" "$PROGRAM_SOURCES/late.c" -ldl &&
		opens Java "java -Xmx128m $PROGRAM_SOURCES/Late.java $WORK/liblate.so"
}

# apart COMMAND... - run rows in a network namespace with an interface that is not lo, which some libraries leave out
apart() {
	local user=() pid
	[ "$(id -u)" = 0 ] || user=(-U --preserve-credentials)
	rm -f "$WORK/there"
	unshare $([ "$(id -u)" = 0 ] || echo -Ur) -n sh -c 'ip link set lo up && ip link add urxe0 type veth peer name urxe1 &&
		ip addr add 10.77.0.1/24 dev urxe0 && ip link set urxe1 up && ip link set urxe0 up && echo >"$1" && exec sleep 3600' sh "$WORK/there" &
	pid=$!
	for _ in {1..50}; do
		[ -e "$WORK/there" ] && break
		sleep 0.2
	done
	PLACE=(nsenter "${user[@]}" -t $pid -n)
	DEVICE=urxe0
	"$@"
	PLACE=()
	DEVICE=lo
	kill $pid
	wait $pid 2>/dev/null
}

rows_of_addresses() {
	local t run="mpirun.openmpi --allow-run-as-root --oversubscribe"
	cannot rdmacm-utils "udpong" "udpong -s 10.77.0.1 -C 20 -S 1000" "rconnect: " \
		"datagrams of rsockets make an address handle without a GRH, which RoCE refuses (ib_core, too)"
	opens libfabric "fi_info -p verbs"
	for t in "verbs -e msg" "'verbs;ofi_rxm' -e rdm" "verbs -e dgram"; do
		pair libfabric "fi_pingpong -p $t" "fi_pingpong -p $t 10.77.0.1"
	done
	[ -x "$WORK/mpi" ] && built mpicc.openmpi mpi && alone "Open MPI" "$run --mca pml cm --mca mtl ofi -n 2 $WORK/mpi"
	built gcc rpma -lrpma -libverbs && pair librpma "$WORK/rpma 10.77.0.1" "$WORK/rpma 10.77.0.1 client"
	printf 'ofa-v2-urxe u2.0 nonthreadsafe default libdaplofa.so.2 dapl.2.0 "urxe0 0" ""\n' >"$WORK/dat.conf"
	t="env DAT_OVERRIDE=$WORK/dat.conf dtest -P ofa-v2-urxe -b 65536 -B 4"
	row DAPL "$t"
	have dtest && pair DAPL "$t" "$t -h 10.77.0.1"
}

# run_programs URXE - print the table, and add to passed, failed, skipped
run_programs() {
	URXE=$1
	WORK=$(mktemp -d "${TMPDIR:-/tmp}/urxe-programs-XXXXXX")
	OUT=$WORK/out
	mkdir "$OUT"
	printf '| program | command | result | why |\n|---|---|---|---|\n'
	rows_of_rdma_core
	rows_of_perftest
	rows_of_tools
	rows_of_mpi
	rows_of_rsockets
	rows_of_storage
	rows_of_qemu
	rows_of_late
	apart rows_of_addresses
	rm -rf "$WORK"
}
