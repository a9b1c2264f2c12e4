# clusters.sh - 64 ranks on 8 hosts made of namespaces (tests/programs/cluster-runs). Sourced; needs deps.sh, count.sh
# and ROOT.

# run_clusters BUILD - print cases and table, and add to passed, failed, skipped; what is missing is a skip
run_clusters() {
	local log=$1/clusters.log n
	# in a process of its own, because it ends that if it fails
	# shellcheck disable=SC2086
	(install_packages $CLUSTER_PACKAGES) || log "skip: no Slurm"
	URXE=$1/tools/urxe "$ROOT/tests/programs/cluster-runs" 2>&1 | tee "$log"
	n=$(grep -c '^ok: ' "$log")
	passed=$((passed + n))
	n=$(grep -c '^FAILED: ' "$log")
	failed=$((failed + n))
	n=$(grep -c '^skip: ' "$log")
	skipped=$((skipped + n))
}
