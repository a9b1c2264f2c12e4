# deps.sh - what urxe needs from the distribution, and how it gets there. Sourced.
#
# Needs: log(), die() are defined here for all scripts.

log() {
	printf '%s\n' "$*" >&2
}

die() {
	printf '%s: %s\n' "${0##*/}" "$*" >&2
	exit 1
}

# To build
BUILD_PACKAGES="gcc libc6-dev meson ninja-build pkg-config
	libibverbs-dev libisal-dev liburing-dev libjson-c-dev libevent-dev uthash-dev zlib1g-dev libdw-dev"
# To run programs: the distribution's own RDMA user space
RUN_PACKAGES="libibverbs1 ibverbs-providers ibverbs-utils"
# To test; jq reads reports, tshark checks packets, chromium opens pages
TEST_PACKAGES="check librdmacm-dev rdmacm-utils perftest python3 python3-pyverbs
	clang libclang-rt-dev libjemalloc2 libtcmalloc-minimal4 tshark jq iproute2 util-linux procps chromium valgrind strace gdb
	openssh-server openssh-client ucx-utils openmpi-bin python3-mpi4py libfabric-bin infiniband-diags hwloc-nox"
# To make Debian packages
DEB_PACKAGES="build-essential debhelper dpkg-dev fakeroot lintian git check librdmacm-dev python3"
# ... and others, and to try containers and the completion of three shells
PACKAGE_PACKAGES="$DEB_PACKAGES rpm man-db bash-completion zsh fish
	podman runc catatonit python3-yaml"
# For the clusters of scripts/test --clusters, which go without Slurm where it is not there
CLUSTER_PACKAGES="slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge"
# For the image of scripts/test --containers
IMAGE_PACKAGES="podman runc catatonit podman-compose netavark aardvark-dns iptables debootstrap"
# To fuzz
FUZZ_PACKAGES="clang libclang-rt-dev check"
# To analyse
ANALYZE_PACKAGES="clang-tidy cppcheck"
# For the virtual machine of the interoperability suite, which is skipped without them
INTEROP_PACKAGES="qemu-system-x86 busybox-static cpio kmod iproute2"

# To build for aarch64 and run it here, which is skipped without them; the libraries are unpacked
# beside the build, not installed
AARCH64_PACKAGES="gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user"
AARCH64_LIBRARIES="libc6-dev check libibverbs-dev librdmacm-dev libisal-dev liburing-dev libjson-c-dev
	libevent-dev uthash-dev zlib1g-dev"

# missing_packages PACKAGE... - those that are not installed
missing_packages() {
	local p
	for p in "$@"; do
		[ "$(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null)" = installed ] ||
			printf '%s ' "$p"
	done
}

# install_packages PACKAGE... - make them available; only what is missing is touched
install_packages() {
	local missing sudo=
	command -v dpkg-query >/dev/null ||
		die "this is no Debian-like system; install by hand: $*"
	missing=$(missing_packages "$@")
	[ -n "$missing" ] || return 0
	if [ "$(id -u)" != 0 ]; then
		sudo=$(command -v sudo) ||
			die "packages are missing and this is neither root nor is there sudo; as root: apt-get install $missing"
	fi
	log "Installing: $missing"
	# The lists of a fresh image are empty or old; an update is needed only then.
	# shellcheck disable=SC2086
	apt_get install $missing || { apt_get update && apt_get install $missing; } ||
		die "apt-get could not install: $missing"
}

# apt_get COMMAND... - quiet unless it fails, never asks
apt_get() {
	local out rc
	out=$($sudo env DEBIAN_FRONTEND=noninteractive apt-get -y -q \
		-o Dpkg::Use-Pty=0 --no-install-recommends "$@" </dev/null 2>&1)
	rc=$?
	[ $rc = 0 ] || printf '%s\n' "$out" >&2
	return $rc
}

# build_shown DIR - ninja; on a terminal one line shows how far it is
build_shown() {
	local line rc
	if ! [ -t 2 ]; then
		log "Building in $1 ..."
		ninja -C "$1" >"$1/ninja.log" 2>&1
		return
	fi
	ninja -C "$1" 2>&1 | while IFS= read -r line; do
		printf '%s\n' "$line" >&3
		[[ $line != \[* ]] || printf '\rBuilding %s ' "${line%%]*}]" >&2
	done 3>"$1/ninja.log"
	rc=${PIPESTATUS[0]}
	printf '\r\033[K' >&2
	return "$rc"
}

# build_in DIR [meson option...] - configure once, then build
build_in() {
	local dir=$1
	shift
	if [ ! -e "$dir/build.ninja" ]; then
		mkdir -p "$dir"
		meson setup "$@" "$dir" "$ROOT" >"$dir/setup.log" 2>&1 || {
			cat "$dir/setup.log" >&2
			die "configuration failed"
		}
	fi
	build_shown "$dir" || {
		tail -n 60 "$dir/ninja.log" >&2
		die "the build failed; all of its output is in $dir/ninja.log"
	}
}
