# programs.sh - every program of Debian that uses RDMA, once: a table of what works. Sourced by scripts/test.
#
# Each row runs under `urxe run` with no variable set, small, alone, and must use the device where it can.
# A row that cannot work names what the program says then; the row fails if it says something else.

# What the rows need beside the packages of the tests
PROGRAM_PACKAGES="qperf fio mpich libmpich-dev libopenmpi-dev"

# A program for MPI: sums and large messages
MPI_PROGRAM='
#include <mpi.h>
#include <stdio.h>
#include <string.h>
static char a[1 << 20], b[1 << 20];
int main(int argc, char **argv)
{
	int rank, n, sum;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &n);
	MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	memset(a, rank + 1, sizeof(a));
	MPI_Sendrecv(a, sizeof(a), MPI_CHAR, (rank + 1) % n, 0, b, sizeof(b), MPI_CHAR, (rank + n - 1) % n, 0,
		     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	if (sum != n * (n - 1) / 2 || b[77] != (rank + n - 1) % n + 1)
		return 1;
	if (!rank)
		puts("right");
	MPI_Finalize();
	return 0;
}'

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
	'not installed') skipped=$((skipped + 1)) ;;
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
	timeout -k 5 120 "$URXE" run --device rxe0=lo --stats -- "$@"
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
	sleep 1
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
}

rows_of_perftest() {
	local o
	for o in "ib_send_bw" "ib_send_bw -R" "ib_send_bw -e" "ib_send_bw -I 64 -s 64" "ib_send_bw --use-srq -r 64" "ib_send_bw -c UD -s 1000" \
		"ib_send_bw -c UC" "ib_write_bw" "ib_write_bw -q 8" "ib_write_bw -l 5" "ib_write_bw --odp" "ib_write_bw -m 256" "ib_write_bw -x 1" \
		"ib_read_bw" "ib_read_bw -a" "ib_read_lat" "ib_write_lat" "ib_send_lat" "ib_atomic_bw -A FETCH_AND_ADD" "ib_atomic_lat"; do
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
	printf '[global]\nioengine=rdma\nport=18777\nverb=%s\nbs=64k\nsize=2m\n[receiver]\nrw=read\niodepth=4\n' write >"$WORK/server.fio"
	printf '[global]\nioengine=rdma\nhostname=127.0.0.1\nport=18777\nverb=%s\nbs=64k\nsize=2m\n[sender]\nrw=write\niodepth=4\n' write >"$WORK/client.fio"
	pair fio "fio $WORK/server.fio" "fio $WORK/client.fio"
	pair UCX "ucx_perftest -t tag_bw -n 200 -s 65536" "ucx_perftest -t tag_bw -n 200 -s 65536 127.0.0.1"
	for t in rc_verbs ud_verbs; do
		pair UCX "ucx_perftest -d rxe0:1 -x $t -t am_lat -n 200" "ucx_perftest -d rxe0:1 -x $t -t am_lat -n 200 127.0.0.1"
	done
	opens pyverbs "/usr/bin/python3 -c 'import pyverbs.device as d; c = d.Context(name=\"rxe0\"); print(c.query_device().max_qp)'"
}

rows_of_mpi() {
	local t
	printf '%s\n' "$MPI_PROGRAM" >"$WORK/sum.c"
	for t in openmpi mpich; do
		row "$t" "mpicc"
		have "mpicc.$t" && ! "mpicc.$t" -o "$WORK/sum.$t" "$WORK/sum.c" >"$OUT/cc" 2>&1 && verdict FAILED "does not compile"
	done
	[ -x "$WORK/sum.openmpi" ] &&
		alone "Open MPI" "mpirun.openmpi --allow-run-as-root --oversubscribe --mca pml ucx -n 4 $WORK/sum.openmpi"
	[ -x "$WORK/sum.mpich" ] && alone MPICH "mpiexec.mpich -n 4 $WORK/sum.mpich"
	alone mpi4py "mpirun.openmpi --allow-run-as-root --oversubscribe --mca pml ucx -n 2 /usr/bin/python3 -c 'from mpi4py import MPI; assert MPI.COMM_WORLD.allreduce(1) == 2'"
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
	rm -rf "$WORK"
}
