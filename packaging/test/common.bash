# What the scripts of this folder share: a fresh root of Debian, and a client of the server's protocol.
#
# A script ends with 77 where the machine lacks what it needs.

skip() {
	echo "$step: skipped: $*"
	exit 77
}

fail() {
	echo "$step: FAILED: $*" >&2
	exit 1
}

note() {
	echo "$step: $*"
}

# debian_ready: skips where no root can be made.
debian_ready() {
	[[ $(id -u) == 0 ]] || skip "needs root, for chroot"
	command -v debootstrap >/dev/null || skip "needs debootstrap on the path"
	command -v dpkg-deb >/dev/null || skip "needs dpkg-deb on the path"
}

# contain NAMESPACES WORDS...: goes on in namespaces of its own, so that mounts and processes end with the script. The
# namespaces are options of unshare, in one word: `--net` beside the two that every script has, or nothing.
contain() {
	local namespaces=(--mount --pid --fork)
	if [[ -n $1 ]]; then namespaces+=("$1"); fi
	shift
	if [[ -z ${SLUICE_CONTAINED:-} ]]; then
		debian_ready
		unshare "${namespaces[@]}" true 2>/dev/null || skip "may not make namespaces (unshare)"
		SLUICE_CONTAINED=1 exec unshare "${namespaces[@]}" --mount-proc --kill-child "$0" "$@"
	fi
}

# base_of ROOT [PACKAGES]: names in `base` a minimal Debian, which is fetched once and kept beside the folder of the root; with
# further packages, which are joined by commas, a Debian that has these as well. A script with a network of its own calls this
# ahead of `contain`, as nothing can be fetched from in there.
base_of() {
	local root=$1 more=${2:-}
	base=$(dirname "$(dirname "$root")")/packages-base${more:+-with-${more%%,*}}
	if [[ -e $base/complete ]]; then return; fi
	rm -rf "$base"
	local mirror=${SLUICE_MIRROR:-} suite
	suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-stable}")
	if [[ -z $mirror ]]; then
		# The first mirror of this machine that has the suite itself.
		mirror=$(apt-get indextargets --format '$(RELEASE) $(REPO_URI)' 2>/dev/null |
			sed -n "s/^$suite //p" | head -n 1) || true
	fi
	[[ -n $mirror ]] || skip "no mirror is known: name one in SLUICE_MIRROR"
	note "fetching a minimal root"
	debootstrap --variant=minbase ${more:+--include="$more"} "$suite" "$base" "$mirror" >"$base.log" 2>&1 ||
		skip "debootstrap could not make a root: $base.log"
	touch "$base/complete"
}

# fresh_root ROOT [PACKAGES]: makes a copy of the Debian that `base_of` names.
fresh_root() {
	local root=$1 base
	base_of "$@"
	rm -rf "$root"
	cp -a "$base" "$root"
	rm -f "$root/complete"
}

# chroot_ready ROOT: what a root needs for `in_root`, unless a machine starts in it.
chroot_ready() {
	mount -t proc proc "$1/proc" || skip "may not mount /proc in a chroot"
}

# in_root WORDS...: runs a command in the root.
in_root() {
	chroot "$root" /usr/bin/env -i PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C "$@"
}

# build_image PROGRAMS ROOT: the steps of the Containerfile in a root that is there; sets `entrypoint`, `command`, `health` and
# `workdir` to what the image says.
build_image() {
	local programs=$1 root=$2 here file context instructions line words mode target word
	here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
	file=$here/packaging/container/Containerfile
	# The folder that the Containerfile is used in: an unpacked release.
	context=$root.context
	rm -rf "$context"
	mkdir -p "$context/bin" "$context/packaging"
	cp "$programs"/sluice-* "$context/bin/"
	cp "$here/LICENSE" "$context/LICENSE"
	: >"$context/THIRD-PARTY-LICENSES"
	cp -r "$here/packaging/container" "$context/packaging/container"

	# Instructions as lines, without comments and continuations.
	instructions=$(sed -e '/^#/d' -e '/^$/d' "$file" | sed -e ':a' -e '/\\$/N; s/\\\n[ \t]*//; ta')
	words_of() {
		sed -n "s/^$1 \[\(.*\)\]\$/\1/p" <<<"$instructions" | tail -n 1 | sed 's/", *"/\n/g; s/^"//; s/"$//'
	}
	while IFS= read -r line; do
		case $line in
		'RUN '*)
			note "${line:0:60}"
			in_root sh -c "${line#RUN }" >"$root/log" 2>&1 || fail "$line: $(cat "$root/log")"
			;;
		'COPY '*)
			note "$line"
			read -r -a words <<<"${line#COPY }"
			mode=''
			if [[ ${words[0]} == --chmod=* ]]; then
				mode=${words[0]#--chmod=}
				words=("${words[@]:1}")
			fi
			target=$root${words[-1]}
			unset 'words[-1]'
			if [[ $target == */ ]]; then mkdir -p "$target"; fi
			for word in "${words[@]}"; do
				if [[ -d $context/$word ]]; then cp -r "$context/$word/." "$target"; else cp "$context/$word" "$target"; fi
			done
			if [[ -n $mode ]]; then chmod "$mode" "$target"; fi
			;;
		'ARG '* | 'FROM '* | 'VOLUME '* | 'WORKDIR '* | 'EXPOSE '* | 'STOPSIGNAL '* | 'HEALTHCHECK '* | 'ENTRYPOINT '* | 'CMD '*) ;;
		*) fail "this script does not know the instruction: $line" ;;
		esac
	done <<<"$instructions"
	mapfile -t entrypoint < <(words_of ENTRYPOINT)
	mapfile -t command < <(words_of CMD)
	health=$(sed -n 's/^HEALTHCHECK .*CMD \["\(.*\)"\]$/\1/p' <<<"$instructions")
	workdir=$(sed -n 's/^WORKDIR //p' <<<"$instructions")
	rm -rf "$context"
}

# ask PORT COMMAND...: one inline command on a connection of its own; prints the first line of the reply, and of a text
# the text.
ask() {
	local port=$1 line
	shift
	# A port that nobody listens on is an answer of its own, and not a complaint.
	{ exec 7<>"/dev/tcp/127.0.0.1/$port"; } 2>/dev/null || return 1
	printf '%s\r\n' "$*" >&7
	IFS= read -r -t 5 line <&7 || { exec 7>&-; return 1; }
	if [[ $line == \$* && $line != \$-1* ]]; then
		IFS= read -r -t 5 line <&7 || { exec 7>&-; return 1; }
	fi
	exec 7>&-
	printf '%s\n' "${line%$'\r'}"
}

# ask_all PORT COMMAND...: as `ask`, with all lines of a text.
ask_all() {
	local port=$1 lines
	shift
	{ exec 7<>"/dev/tcp/127.0.0.1/$port"; } 2>/dev/null || return 1
	printf '%s\r\nQUIT\r\n' "$*" >&7
	mapfile -t lines < <(timeout 5 cat <&7 | tr -d '\r')
	exec 7>&-
	# The last line answers QUIT; the first one of a text is the text's length.
	if [[ ${lines[0]:-} == \$* ]]; then lines=("${lines[@]:1}"); fi
	((${#lines[@]} > 1)) || return 1
	printf '%s\n' "${lines[@]:0:${#lines[@]}-1}"
}

# says PATTERN WORDS...: whether a command prints a line that matches. Its output is read whole: a pipe into `grep -q` would end
# the command early, and that would count as its failure.
says() {
	grep -q -- "$1" <<<"$("${@:2}")"
}

# The networks of machines: a bridge, and for each machine a network of its own with one end of a cable in it.
declare -A network address

# plug MACHINE ADDRESS: a network for the machine, which has this address among the other machines.
plug() {
	if ! ip link show bridge0 >/dev/null 2>&1; then
		ip link set lo up
		ip link add bridge0 type bridge || skip "may not make a bridge of networks"
		ip link set bridge0 up
	fi
	unshare --net sleep infinity &
	network[$1]=$!
	until_true "a network for $1" is_apart "${network[$1]}"
	ip link add "to-$1" type veth peer name host0 netns "${network[$1]}" || skip "may not connect networks (veth)"
	ip link set "to-$1" master bridge0 up
	inside "$1" ip link set lo up
	inside "$1" ip link set host0 up
	move "$1" "$2"
}

is_apart() {
	[[ $(readlink "/proc/$1/ns/net") != "$(readlink /proc/self/ns/net)" ]]
}

# inside MACHINE WORDS...: a command of this machine in the network of that one.
inside() {
	nsenter --net --target "${network[$1]}" "${@:2}"
}

# move MACHINE ADDRESS: gives the machine this address and no other.
move() {
	inside "$1" ip address flush dev host0
	inside "$1" ip address add "$2/24" dev host0
	address[$1]=$2
}

# tell MACHINE WORDS...: an inline command to the server on the machine's port 6379; prints the reply.
tell() {
	inside "$1" bash -c '. "$0"; ask_all 6379 "$@"' "${BASH_SOURCE[0]}" "${@:2}"
}

# Machines: a root with systemd, started in namespaces of its own. The script that has some calls `end_machines` at its end.
declare -A first
# A machine's systemd wants groups of processes of its own, in each tree of them that systemd manages.
groups=()
end_machines() {
	kill -KILL "${first[@]}" 2>/dev/null || true
	sleep 0.2
	if ((${#groups[@]} > 0)); then find "${groups[@]}" -depth -type d -exec rmdir '{}' + 2>/dev/null || true; fi
}
join_groups() {
	local line mounted folder
	while IFS= read -r line; do
		case $line in
		0::*) mounted=/sys/fs/cgroup/unified && [[ -d $mounted ]] || mounted=/sys/fs/cgroup ;;
		*:name=systemd:*) mounted=/sys/fs/cgroup/systemd ;;
		*) continue ;;
		esac
		folder=$mounted${line##*:}/sluice-$1
		mkdir -p "$folder" && echo "$BASHPID" >"$folder/cgroup.procs" || return 1
	done </proc/self/cgroup
}

machines_ready() {
	local tool
	for tool in systemd-nspawn nsenter ip; do
		command -v "$tool" >/dev/null || skip "needs $tool on the path"
	done
}

# fresh_machine MACHINE PACKAGES: a root for it, with the debs of the server, `old.deb` and `new.deb`, of the folders $old and $new.
fresh_machine() {
	fresh_root "$root-$1" "$2"
	echo "$1" >"$root-$1/etc/hostname"
	cp "$(echo "$old"/sluice-server_*.deb)" "$root-$1/old.deb"
	cp "$(echo "$new"/sluice-server_*.deb)" "$root-$1/new.deb"
}

# boot MACHINE: starts its systemd, and waits until it has started what there is.
boot() {
	groups+=($(compgen -G "/sys/fs/cgroup/*/sluice-$1" || true))
	(
		join_groups "$1" || skip "may not make groups of processes"
		exec systemd-nspawn --quiet --directory="$root-$1" --machine="$1" --boot --keep-unit --register=no --link-journal=no \
			--resolv-conf=off --network-namespace-path="/proc/${network[$1]}/ns/net" <"/dev/null" >"$root-$1.boot" 2>&1
	) &
	until_true "$1 to boot" is_booted "$1" "$!"
}
is_booted() {
	first[$1]=$(pgrep --parent "$2" --exact systemd) && on "$1" systemctl --quiet is-active multi-user.target
}

# on MACHINE WORDS...: a command there.
on() {
	nsenter --mount --uts --ipc --net --pid --root --wd=/ --target "${first[$1]}" \
		/usr/bin/env -i PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C "${@:2}"
}

# until_true WHAT WORDS...: waits until a command succeeds, for 60 seconds.
until_true() {
	local what=$1 tries
	shift
	for ((tries = 0; tries < 600; tries++)); do
		"$@" >/dev/null 2>&1 && return 0
		sleep 0.1
	done
	fail "$what did not come in 60 seconds"
}

# expect WANTED GOT WHAT
expect() {
	[[ $1 == "$2" ]] || fail "$3: $2 instead of $1"
}

answers() {
	[[ $(ask "$1" PING) == @(+PONG|-NOAUTH*) ]]
}
