# shellcheck shell=bash
# shellcheck disable=SC2034  # variables are for the other parts
# What every part of the devcluster shares: where things are, how it talks, how it waits.
# Sourced, with DEVCLUSTER_LIB set to this folder.

# Daemons and ip live in sbin, which neither cron nor an ordinary user has on its PATH.
for dir in /usr/local/sbin /usr/sbin /sbin; do
    [[ :${PATH:-/usr/bin:/bin}: == *:$dir:* ]] || PATH=${PATH:-/usr/bin:/bin}:$dir
done

say() { printf 'devcluster: %s\n' "$*"; }
warn() { printf 'devcluster: %s\n' "$*" >&2; }
fail() {
    warn "$@"
    exit 1
}

# wait_for SECONDS COMMAND...: until the command succeeds; 1 when the time is over.
wait_for() {
    local deadline=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        ((SECONDS < deadline)) || return 1
        sleep 0.1
    done
}

# Sets ROOT and everything that follows from it. Called once, before any command.
set_paths() {
    ROOT=${DEVCLUSTER_ROOT:-${TMPDIR:-/tmp}/devcluster-$UID}
    ROOT=$(realpath -m -- "$ROOT")
    # slurm.conf has no way to quote a path.
    [[ $ROOT =~ ^[A-Za-z0-9/._+@-]+$ ]] ||
        fail "the state folder '$ROOT' has characters that Slurm's files cannot carry." \
            "Name another in DEVCLUSTER_ROOT (letters, digits and / . _ + @ - only)."
    ID=$(printf '%s' "$ROOT" | sha256sum | cut -c1-6)
    RUN=$ROOT/run
    SHARED=$ROOT/shared
    # An address of a unix socket holds 107 bytes, and munge appends ".lock" to its own.
    SOCKETS=$RUN
    ((${#ROOT} <= 80)) || SOCKETS=/run/devcluster-$ID
    MUNGE_SOCKET=$SOCKETS/munge.sock
    UPLINK=dc$ID # the machine's end of its cable into the cluster
    CGROUP=devcluster-$ID
}

# Reads what `up` decided: NODES, NETS, TRACKING, SHARES ... False where nothing is up.
load_cluster() {
    [[ -f $ROOT/etc/cluster.env ]] || return 1
    # shellcheck disable=SC1091  # written by write_cluster_env
    source "$ROOT/etc/cluster.env"
}

node_names() {
    local i
    for ((i = 1; i <= NODES; i++)); do printf 'node%02d\n' "$i"; done
}

login_names() { printf '%s\n' login1 login2; }

host_names() {
    echo head
    login_names
    node_names
}

# The last part of a host's addresses; the machine itself has 1.
host_number() {
    case $1 in
    head) echo 2 ;;
    login1) echo 3 ;;
    login2) echo 4 ;;
    node*) echo $((10 + 10#${1#node})) ;;
    esac
}

eth_address() { echo "$ETH_NET.$(host_number "$1")"; }
hsn_address() { echo "$HSN_NET.$(host_number "$1")"; }

# is_among WORD WORDS...: (`| grep -q` would do, were it not for pipefail: grep ends at its first match,
# and the writer may die of that)
is_among() {
    local word=$1
    shift
    [[ $word != *[[:space:]]* && " $* " == *" $word "* ]]
}

require_host() {
    # shellcheck disable=SC2046  # names are single words
    is_among "$1" $(host_names) ||
        fail "there is no host '$1' here; there are: $(host_names | paste -sd' ')"
}

require_node() {
    # shellcheck disable=SC2046  # names are single words
    is_among "$1" $(node_names) ||
        fail "there is no node '$1' here; there are: $(node_names | paste -sd' ')"
}
