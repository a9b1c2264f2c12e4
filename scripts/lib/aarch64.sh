# aarch64.sh - the suites net, odp and emu built for aarch64, run by qemu-user. Sourced; needs
# deps.sh and count.sh.
#
# The libraries for aarch64 are the distribution's packages, unpacked into a folder of their own:
# nothing of them is installed here. Whatever cannot be had is a skip with its reason.

# aarch64_apt DIR COMMAND... - apt-get for the other machine, whose state and cache are in DIR
aarch64_apt() {
	local dir=$1
	shift
	mkdir -p "$dir/lists/partial" "$dir/cache/archives/partial"
	[ -e "$dir/status" ] || : >"$dir/status"
	apt-get -q -y -o APT::Architecture=arm64 -o APT::Architectures=arm64 \
		-o Dir::State="$dir" -o Dir::State::status="$dir/status" -o Dir::Cache="$dir/cache" \
		-o APT::Sandbox::User="$(id -un)" --no-install-recommends "$@" </dev/null
}

# aarch64_root DIR - fill DIR/root, once, and again when other libraries are needed
aarch64_root() {
	local dir=$1 deb
	[ "$(cat "$dir/root.done" 2>/dev/null)" != "$AARCH64_LIBRARIES" ] || return 0
	rm -rf "$dir/root"
	mkdir -p "$dir/root"
	aarch64_apt "$dir" update >"$dir/apt.log" 2>&1 || true # the next line knows whether it matters
	# shellcheck disable=SC2086
	aarch64_apt "$dir" install --download-only $AARCH64_LIBRARIES >>"$dir/apt.log" 2>&1 || return 1
	for deb in "$dir"/cache/archives/*.deb; do
		dpkg-deb -x "$deb" "$dir/root" >>"$dir/apt.log" 2>&1 || return 1
	done
	# since Debian 13 packages have nothing in /lib, which is a link that the installer makes
	[ -e "$dir/root/lib" ] || ln -s usr/lib "$dir/root/lib" || return 1
	printf '%s\n' "$AARCH64_LIBRARIES" >"$dir/root.done"
}

# aarch64_cross_file ROOT - for meson
aarch64_cross_file() {
	cat <<-END
		[constants]
		root = '$1'
		[binaries]
		c = 'aarch64-linux-gnu-gcc'
		ar = 'aarch64-linux-gnu-ar'
		strip = 'aarch64-linux-gnu-strip'
		pkgconfig = 'pkg-config'
		exe_wrapper = ['qemu-aarch64', '-L', root]
		[properties]
		sys_root = root
		pkg_config_libdir = [root / 'usr/lib/aarch64-linux-gnu/pkgconfig', root / 'usr/share/pkgconfig']
		[built-in options]
		c_args = ['--sysroot=' + root, '-isystem', root / 'usr/include/aarch64-linux-gnu',
		  '-isystem', root / 'usr/include']
		c_link_args = ['--sysroot=' + root]
		[host_machine]
		system = 'linux'
		cpu_family = 'aarch64'
		cpu = 'aarch64'
		endian = 'little'
	END
}

skip_aarch64() {
	log "skip aarch64: $1"
	skipped=$((skipped + 1))
}

# run_aarch64 DIR - build all of urxe for aarch64 in DIR, run what an emulator can run
run_aarch64() {
	local dir=$1 again=
	mkdir -p "$dir"
	# in a process of its own, because it ends that if it fails
	# shellcheck disable=SC2086
	(install_packages $AARCH64_PACKAGES) || {
		skip_aarch64 "no cross compiler, or no emulator"
		return
	}
	aarch64_root "$dir" || {
		skip_aarch64 "its libraries cannot be had, see $dir/apt.log"
		return
	}
	aarch64_cross_file "$dir/root" >"$dir/cross.ini"
	build_in "$dir/build" -Dtests=true --cross-file "$dir/cross.ini"
	rm -f "$dir/build/meson-logs/testlog.json"
	export URXE_TEST_EMULATED=yes
	meson test -C "$dir/build" --no-rebuild --print-errorlogs --timeout-multiplier 5 \
		--suite net --suite odp --suite emu || again=yes
	[ -z "$again" ] || retry_failed "$dir/build"
	unset URXE_TEST_EMULATED
	count_meson "$dir/build/meson-logs/testlog.json" || die "meson test left no results for aarch64"
}
