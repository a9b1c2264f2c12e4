# hosts.sh - tests of many hosts, and of images that are built: long ones, whose lines are counted. Sourced; needs deps.sh,
# count.sh and ROOT.

# run_counted LOG COMMAND... - its lines "ok: ", "FAILED: " and "skip: " are added to passed, failed, skipped
run_counted() {
	local log=$1 rc
	shift
	"$@" 2>&1 | tee "$log"
	rc=${PIPESTATUS[0]}
	passed=$((passed + $(grep -c '^ok: ' "$log")))
	skipped=$((skipped + $(grep -c '^skip: ' "$log")))
	failed=$((failed + $(grep -c '^FAILED: ' "$log")))
	# it failed beside its cases
	[ "$rc" = 0 ] || [ "$rc" = 77 ] || grep -q '^FAILED: ' "$log" || failed=$((failed + 1))
}

# run_clusters BUILD - 64 ranks on 8 hosts made of namespaces
run_clusters() {
	# in a process of its own, because it ends that if it fails
	# shellcheck disable=SC2086
	(install_packages $CLUSTER_PACKAGES) || log "skip: no Slurm"
	URXE=$1/tools/urxe run_counted "$1/clusters.log" "$ROOT/tests/programs/cluster-runs"
}

# run_containers BUILD - the image by its Containerfile, and the commands of its README
run_containers() {
	# shellcheck disable=SC2086
	(install_packages $IMAGE_PACKAGES) || log "skip: no images"
	URXE=$1/tools/urxe run_counted "$1/containers.log" "$ROOT/tests/packages/container-image" "$1/base.tar"
}
