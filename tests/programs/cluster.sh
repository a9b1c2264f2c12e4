# cluster.sh - many hosts made of namespaces, with sshd on each, and Slurm where it is there. Sourced after lib.sh.
# Needs root, else exit 77.
#
# cluster N MTU makes the hosts node1 ... nodeN: each has network, host name, processes, IPC and mounts (/dev/shm, /run)
# of its own, eth0 with 10.67.0.I and fd67::I, and sshd. What they have in common is the file system, as machines that
# mount one. They go when the test ends.

need ip sshd ssh ssh-keygen unshare nsenter
[ "$(id -u)" = 0 ] || skip "network namespaces need root"
NODES=0
BRIDGE=urxe-net-$$
SSHD=$(command -v sshd)

# node_ns I - the name of its network namespace
node_ns() {
	echo "urxe-node$1-$$"
}

no_cluster() {
	local i
	for i in $(seq "$NODES"); do
		# the first process of the host; all others end with it
		[ -z "${NODE_PID[i]:-}" ] || { kill -KILL "${NODE_PID[i]}" && wait "${NODE_PID[i]}"; } 2>/dev/null
		ip netns del "$(node_ns "$i")" 2>/dev/null
	done
	ip netns del "$BRIDGE" 2>/dev/null
	NODES=0
	NODE_PID=()
}
NODE_PID=()
trap 'no_cluster; cleanup' EXIT

# ssh_files - keys, and the configuration of both ends
ssh_files() {
	local i
	[ -e "$WORK/ssh" ] && return
	mkdir -m 0700 "$WORK/ssh"
	ssh-keygen -q -t ed25519 -N '' -f "$WORK/ssh/host" && ssh-keygen -q -t ed25519 -N '' -f "$WORK/ssh/user" || return
	cp "$WORK/ssh/user.pub" "$WORK/ssh/authorized"
	cat >"$WORK/ssh/sshd_config" <<-END
		HostKey $WORK/ssh/host
		AuthorizedKeysFile $WORK/ssh/authorized
		PidFile none
		StrictModes no
		UsePAM no
		PermitRootLogin yes
		PasswordAuthentication no
		MaxStartups 100
		AcceptEnv none
	END
	cat >"$WORK/ssh/config" <<-END
		Host *
		IdentityFile $WORK/ssh/user
		IdentitiesOnly yes
		StrictHostKeyChecking no
		UserKnownHostsFile /dev/null
		LogLevel ERROR
	END
	cp /etc/hosts "$WORK/hosts" 2>/dev/null
	for i in $(seq "$1"); do
		printf '10.67.0.%d node%d\nfd67::%x node%d\n' "$i" "$i" "$i" "$i"
	done >"$WORK/hosts"
	echo "127.0.0.1 localhost" >>"$WORK/hosts"
}

# What the first process of a host does, in its namespaces: $1 its number, $2 WORK, $3 sshd
FIRST='
set -e
hostname "node$1"
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mount -t tmpfs -o mode=0755 tmpfs /run
mkdir -m 0755 /run/sshd
mount --bind "$2/hosts" /etc/hosts
exec "$3" -D -e -f "$2/ssh/sshd_config"
'

# node I MTU - one host
node() {
	local ns
	ns=$(node_ns "$1")
	ip netns add "$ns" 2>/dev/null || return
	ip link add eth0 mtu "$2" netns "$ns" type veth peer name "port$1" mtu "$2" netns "$BRIDGE" || return
	ip -n "$BRIDGE" link set "port$1" master br0 up
	ip -n "$ns" link set lo up
	ip -n "$ns" addr add "10.67.0.$1/24" dev eth0
	ip -n "$ns" addr add "fd67::$(printf %x "$1")/64" dev eth0 nodad
	ip -n "$ns" link set eth0 up
	ip netns exec "$ns" unshare --uts --ipc --mount --pid --fork --kill-child --mount-proc \
		bash -c "$FIRST" first "$1" "$WORK" "$SSHD" >"$WORK/node$1.log" 2>&1 &
	NODE_PID[$1]=$!
}

# cluster N MTU - sets NODES; skips where it cannot be made
cluster() {
	local i n=100
	no_cluster
	ssh_files "$1" || skip "ssh-keygen makes no keys"
	ip netns add "$BRIDGE" 2>/dev/null && ip -n "$BRIDGE" link add br0 mtu "$2" type bridge && ip -n "$BRIDGE" link set br0 up ||
		skip "no network namespaces or bridges can be made here"
	for i in $(seq "$1"); do
		NODES=$i
		node "$i" "$2" || skip "no hosts can be made here"
	done
	for i in $(seq "$1"); do
		until ip netns exec "$(node_ns "$i")" ss -Hltn 'sport = 22' | grep -q .; do
			[ $((n -= 1)) -gt 0 ] && kill -0 "${NODE_PID[i]}" || skip "no sshd: $(tail -n 1 "$WORK/node$i.log")"
			sleep 0.1
		done
	done
}

# on_node I COMMAND... - by ssh from the host itself, as a user would; what is in the environment stays behind
on_node() {
	local i=$1
	shift
	ip netns exec "$(node_ns "$i")" timeout -k 5 "$LIMIT" ssh -n -F "$WORK/ssh/config" "10.67.0.$i" "$(printf '%q ' "$@")"
}

# node_list [SLOTS] - node1:SLOTS,node2:SLOTS,...
node_list() {
	local i list=
	for i in $(seq "$NODES"); do
		list+=${list:+,}node$i${1:+:$1}
	done
	echo "$list"
}

# --- Slurm ------------------------------------------------------------------------

# slurm CPUS - its daemons on all hosts, the controller on node1; 1 where it is not there, with a reason in WORK/slurm.out
slurm() {
	local i n=40 p
	for p in munged slurmctld slurmd srun sinfo; do
		PATH=$PATH:/usr/sbin command -v $p >/dev/null || { echo "$p is not installed" >"$WORK/slurm.out" && return 1; }
	done
	rm -rf "$WORK/slurm"
	mkdir -p "$WORK/slurm/state"
	(umask 077 && head -c 1024 /dev/urandom >"$WORK/slurm/key")
	cat >"$WORK/slurm/slurm.conf" <<-END
		ClusterName=urxe
		SlurmctldHost=node1(10.67.0.1)
		SlurmUser=root
		AuthInfo=socket=/run/munge.socket
		StateSaveLocation=$WORK/slurm/state
		SlurmdSpoolDir=$WORK/slurm/%n
		SlurmctldPidFile=/run/slurmctld.pid
		SlurmdPidFile=/run/slurmd.pid
		SlurmctldLogFile=$WORK/slurm/ctld.log
		SlurmdLogFile=$WORK/slurm/%n.log
		ProctrackType=proctrack/linuxproc
		TaskPlugin=task/none
		MpiDefault=none
		ReturnToService=2
		SlurmdParameters=config_overrides
		TmpFS=/dev/shm
		MessageTimeout=60
		$(for i in $(seq "$NODES"); do echo "NodeName=node$i NodeAddr=10.67.0.$i CPUs=$1 State=UNKNOWN"; done)
		PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES
	END
	# nothing is bounded by cgroups; the plugin for the first version looks at none then
	echo CgroupPlugin=cgroup/v1 >"$WORK/slurm/cgroup.conf"
	for i in $(seq "$NODES"); do
		mkdir "$WORK/slurm/node$i"
		on_node "$i" sh -c "PATH=\$PATH:/usr/sbin; export SLURM_CONF=$WORK/slurm/slurm.conf
			munged --force --key-file=$WORK/slurm/key --socket=/run/munge.socket --pid-file=/run/munged.pid \
				--log-file=/run/munged.log --seed-file=/run/munged.seed
			[ $i != 1 ] || slurmctld; slurmd -N node$i" >>"$WORK/slurm.out" 2>&1 </dev/null
	done
	until [ "$(on_node 1 env SLURM_CONF="$WORK/slurm/slurm.conf" sinfo -h -o %D -t idle 2>/dev/null | tail -n 1)" = "$NODES" ]; do
		[ $((n -= 1)) -gt 0 ] || { tail -n 3 "$WORK"/slurm/*.log >"$WORK/slurm.out" 2>&1 && return 1; }
		sleep 0.2
	done
}

# on_slurm OPTION... COMMAND... - srun on node1
on_slurm() {
	on_node 1 env SLURM_CONF="$WORK/slurm/slurm.conf" srun --immediate=60 "$@"
}
