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

# Goes on in namespaces of its own, so that mounts and processes end with the script.
contain() {
	if [[ -z ${SLUICE_CONTAINED:-} ]]; then
		[[ $(id -u) == 0 ]] || skip "needs root, for chroot"
		command -v debootstrap >/dev/null || skip "needs debootstrap on the path"
		command -v dpkg-deb >/dev/null || skip "needs dpkg-deb on the path"
		unshare --mount --pid --fork true 2>/dev/null || skip "may not make namespaces (unshare)"
		SLUICE_CONTAINED=1 exec unshare --mount --pid --fork --kill-child "$0" "$@"
	fi
}

# fresh_root ROOT: makes a copy of a minimal Debian, which is fetched once and kept beside it.
fresh_root() {
	local root=$1 base
	base=$(dirname "$(dirname "$root")")/packages-base
	if [[ ! -e $base/complete ]]; then
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
		debootstrap --variant=minbase "$suite" "$base" "$mirror" >"$base.log" 2>&1 ||
			skip "debootstrap could not make a root: $base.log"
		touch "$base/complete"
	fi
	rm -rf "$root"
	cp -a "$base" "$root"
	rm -f "$root/complete"
	mount -t proc proc "$root/proc" || skip "may not mount /proc in a chroot"
}

# in_root WORDS...: runs a command in the root.
in_root() {
	chroot "$root" /usr/bin/env -i PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C "$@"
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
