# shellcheck shell=bash disable=SC2154
# Sourced by the tests of this folder, which set `engine` first.
#
# usage of each: tests/engines/ENGINE [PIPEPROF]    (default: the release build)
#
# A test plans a campaign, runs the printed script on a real scheduler, kills the pipeprof of a chunk, resumes, and
# requires the same bytes as a local run. It needs root on Debian 12, and the kernels of `pipeprof kernel fetch 6.1
# 6.12`. All its files are in a temporary folder, and what it starts ends with it.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
binary=$(realpath "${1:-$here/../../target/x86_64-unknown-linux-gnu/release/pipeprof}")
work=$(mktemp -d "${TMPDIR:-/tmp}/pipeprof-$engine.XXXXXX")
work=$(realpath "$work")
# The scripts must quote this.
campaign="$work/a user's campaign"
daemons=()

fail() {
	echo "tests/engines/$engine: $*" >&2
	exit 1
}

say() { echo "$engine: $*"; }

# The pids of processes that this test left: their folder, arguments or environment name its temporary folder.
left() {
	local process
	for process in /proc/[0-9]*; do
		case ${process#/proc/} in "$$" | "$BASHPID") continue ;; esac
		case $(readlink "$process/cwd" 2>/dev/null || true) in "$work"*) echo "${process#/proc/}" && continue ;; esac
		if grep -q -s -F -e "$work" "$process/cmdline" "$process/environ" 2>/dev/null; then echo "${process#/proc/}"; fi
	done
}

# Ends these processes, and waits for them.
end() { # PID...
	local pid attempt
	[ $# -gt 0 ] || return 0
	kill "$@" 2>/dev/null || true
	for attempt in {1..50}; do
		for pid in "$@"; do
			if [ -e "/proc/$pid" ] && ! grep -q '^State:[[:space:]]*Z' "/proc/$pid/status" 2>/dev/null; then
				if [ "$attempt" = 40 ]; then kill -9 "$@" 2>/dev/null || true; fi
				sleep 0.1
				continue 2
			fi
		done
		return 0
	done
}

# Daemons end in reverse order. Then jobs whose daemon is gone.
clean() {
	local status=$? index rest
	trap - EXIT INT TERM HUP
	cd /
	if declare -F before_end >/dev/null; then before_end || true; fi
	for ((index = ${#daemons[@]} - 1; index >= 0; index--)); do end "${daemons[index]}"; done
	mapfile -t rest < <(left)
	end "${rest[@]}"
	if declare -F after_end >/dev/null; then after_end || true; fi
	if [ "$status" != 0 ] && [ -n "${KEEP:-}" ]; then
		echo "tests/engines/$engine: kept $work" >&2
	else
		rm -rf --one-file-system "$work"
	fi
	exit "$status"
}
trap clean EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

# Starts a daemon that stays in the foreground. Its output is in a file.
start() { # NAME COMMAND...
	local name=$1
	shift
	"$@" >"$work/$name.log" 2>&1 </dev/null &
	daemons+=($!)
}

# Waits until a command succeeds.
await() { # SECONDS COMMAND...
	local until=$((SECONDS + $1))
	shift
	until "$@" >/dev/null 2>&1; do
		if [ "$SECONDS" -ge "$until" ]; then
			tail -n 20 "$work"/*.log >&2 || true
			fail "does not succeed in time: $*"
		fi
		sleep 0.2
	done
}

# A free port of this machine.
free_port() {
	local port
	while :; do
		port=$((20000 + RANDOM % 12000))
		if ! (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then break; fi
	done
	echo "$port"
}

# Writes the list and the engine's script: at least 20 cells, in chunks of about four.
plan() {
	pipeprof -q matrix plan --kernel 6.1 --kernel 6.12 --cpus 1 --mode write --mode vmsplice --mode splice \
		--buffer-size 8K,16K,64K,128K --run-flags '--calls 50 --runs 1' --canary 10% \
		--for "$engine" --chunk-time 10s >script
	cells=$(wc -l <cells.jsonl)
	[ "$cells" -ge 20 ] || fail "the campaign has only $cells cells"
	cat script
}

finished() { find store/cells -mindepth 1 -maxdepth 1 -name '[0-9a-f]*' 2>/dev/null | wc -l; }

enough_finished() { [ "$(finished)" -ge $((cells / 4)) ]; }

# The pid of a chunk's pipeprof, with this campaign as its folder.
chunk_pid() {
	local process words
	for process in /proc/[0-9]*; do
		[ "$(readlink "$process/exe" 2>/dev/null)" = "$binary" ] || continue
		[ "$(readlink "$process/cwd" 2>/dev/null)" = "$campaign" ] || continue
		mapfile -d '' -t words <"$process/cmdline" 2>/dev/null || continue
		if [ "${words[*]:1:2}" = 'matrix run' ]; then echo "${process#/proc/}" && return; fi
	done
	return 1
}

# Runs a command that starts the campaign, and kills a chunk when a quarter of the cells is finished. The command must
# fail for it.
run_and_kill() { # COMMAND...
	local pid victim chunk status=0
	"$@" >"$work/first.log" 2>&1 &
	pid=$!
	until enough_finished; do
		[ -e "/proc/$pid" ] || { cat "$work/first.log" script >&2; fail "ended before it finished a quarter of the cells"; }
		sleep 0.2
	done
	await 60 chunk_pid
	victim=$(chunk_pid) || fail "no chunk runs any more"
	chunk=$(tr '\0' ' ' <"/proc/$victim/cmdline")
	kill -9 "$victim"
	say "killed pid $victim (${chunk#* }) after $(finished) of $cells cells"
	# What was finished now must not run again.
	cp -r store/log "$work/log"
	wait "$pid" || status=$?
	[ "$status" != 0 ] || fail "does not report the chunk that was killed"
	[ "$(finished)" -lt "$cells" ] || fail "the killed chunk was complete"
	say "exit status $status, $(finished) of $cells cells finished"
}

# Runs a command that continues the campaign. It must succeed.
resume() { # COMMAND...
	local pid status=0
	"$@" >"$work/second.log" 2>&1 &
	pid=$!
	wait "$pid" || status=$?
	if [ "$status" != 0 ]; then
		cat "$work/second.log" >&2
		fail "cannot resume: exit status $status"
	fi
	[ "$(finished)" = "$cells" ] || fail "$(finished) of $cells cells are finished"
}

# Compares the store with that of a local run. LOCAL_STORE keeps the latter for other engines.
compare_with_local() {
	local local_store=${LOCAL_STORE:-$work/local} canaries log pid
	for log in "$work"/log/*.json; do
		cmp "$log" "store/log/${log##*/}" || fail "a finished cell ran again"
	done
	pipeprof -q matrix run cells.jsonl --store "$local_store" --jobs 2 &
	pid=$!
	wait "$pid" || fail "the local run failed"
	# Fails if a cell is missing, failed or differs between two chunks.
	pipeprof -q matrix merge store -o merged >"$work/merge.log" || { cat "$work/merge.log" >&2; fail "the store is incomplete"; }
	pipeprof -q matrix merge "$local_store" -o "$work/merged-local" >"$work/merge-local.log" || fail "the local store is incomplete"
	head -n 2 "$work/merge.log"
	canaries=$(grep -c '"canary":true' cells.jsonl)
	grep -q "^  \"compared\": $canaries," merged/merge.json || fail "not all of $canaries canaries were compared"
	diff -r merged/cells "$work/merged-local/cells" || fail "the engine's results differ from local ones"
	say "$cells cells equal those of a local run"
}

[ "$(id -u)" = 0 ] || fail "needs root"
[ -x "$binary" ] || fail "$binary does not exist: build it with 'make build'"
# As on a node with an installed pipeprof.
mkdir -p "$work/bin" "$campaign"
ln -s "$binary" "$work/bin/pipeprof"
export PATH="$work/bin:$PATH"
cd "$campaign"
