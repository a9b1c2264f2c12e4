# count.sh - add up results. Sourced; sets passed, failed, skipped, and second: how many of those
# that passed did so on a second run only. Needs deps.sh and ROOT.

passed=0
failed=0
skipped=0
second=0

# print_counts - the last line of a run
print_counts() {
	local line="$passed passed, $failed failed, $skipped skipped"
	[ "$second" = 0 ] || line="$line, $second on a second run"
	echo "$line"
}

# meson_names - the names of tests out of what Meson calls them: "project:suite / name", since 1.10 "suite - project:name"
meson_names() {
	sed -E 's,.* / ,,; s,^.* - [^ ]*:,,'
}

# count_meson FILE - the log of `meson test`, one JSON object a line, as retry_failed left it
count_meson() {
	local result
	[ -s "$1" ] || return 1
	while read -r result; do
		case $result in
		AGAIN)
			passed=$((passed + 1))
			second=$((second + 1))
			;;
		OK | EXPECTEDFAIL) passed=$((passed + 1)) ;;
		SKIP) skipped=$((skipped + 1)) ;;
		*) failed=$((failed + 1)) ;;
		esac
	done < <(jq -r .result "$1")
}

INTEROP_SECONDS=1500 # two minutes where nothing else runs

# interop_counts LOG - what the suite says at its end: passed and failed
interop_counts() {
	sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed.*/\1 \2/p' "$1" 2>/dev/null | tail -n 1
}

# run_interop BUILD - make the guest, run the suite against it; what is missing is a skip
run_interop() {
	local here=$ROOT/tests/interop guest=$1/guest log=$1/interop.log rc counts attempt before=0
	rm -f "$log"
	# in a process of its own, because it ends that if it fails
	# shellcheck disable=SC2086
	(install_packages $INTEROP_PACKAGES) || log "skip: no virtual machine"
	"$here/make-guest" "$guest"
	rc=$?
	for attempt in 1 2; do
		[ $rc = 0 ] || break
		[ $attempt = 1 ] || log "The suite failed; once more, with a new virtual machine:"
		# INT, so that it removes its network namespace
		timeout -s INT -k 30 $INTEROP_SECONDS "$here/interop.py" "$guest" "$1/tools/urxe" | tee "$log"
		rc=${PIPESTATUS[0]}
		[ $rc != 0 ] && [ $rc != 77 ] && [ $attempt = 1 ] || break
		rc=0
		counts=$(interop_counts "$log")
		before=${counts#* }
	done
	counts=$(interop_counts "$log")
	if [ $rc = 77 ]; then
		skipped=$((skipped + 1))
	elif [ -n "$counts" ]; then
		passed=$((passed + ${counts% *}))
		failed=$((failed + ${counts#* }))
		[ "${before:-0}" -le "${counts#* }" ] || second=$((second + before - ${counts#* }))
		# Every case passed and yet it failed: something beside the cases
		[ $rc = 0 ] || [ "${counts#* }" != 0 ] || failed=$((failed + 1))
	else
		failed=$((failed + 1))
	fi
}

# retry_failed BUILD - run what failed once more, one after the other, and note in the log what
# passes then
retry_failed() {
	local log=$1/meson-logs/testlog.json name again=$1/meson-logs/again.json
	for name in $(jq -r 'select(.result | IN("OK", "EXPECTEDFAIL", "SKIP") | not) | .name' "$log" |
		meson_names); do
		log "$name failed beside others; alone:"
		meson test -C "$1" --no-rebuild --print-errorlogs --logbase again "$name" || continue
		log "$name passes alone"
		jq -c --arg n "$name" 'if (.name | endswith("/ " + $n) or endswith(":" + $n)) then .result = "AGAIN" else . end' \
			"$log" >"$again.new" && mv "$again.new" "$log"
	done
}
