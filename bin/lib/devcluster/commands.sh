# shellcheck shell=bash
# shellcheck disable=SC2034  # variables are for the other parts
# What each command of bin/devcluster does.

# One command that changes something at a time. The lock is the folder itself: nothing to clean up.
lock_root() {
    exec 9<"$ROOT"
    flock 9
}

need_cluster() {
    need_root
    load_cluster || fail "no devcluster is up at $ROOT; start one with: devcluster up"
    host_is_on head || fail "the devcluster at $ROOT has ended (or the machine was restarted);" \
        "start it anew with: devcluster up"
}

is_up() { load_cluster && [[ -e $RUN/complete ]] && host_is_on head; }

parse_up() {
    NODES=4 LIKE_PRODUCTION=0 ASKED_SHARES=()
    while (($#)); do
        case $1 in
        --like-production) LIKE_PRODUCTION=1 ;;
        --share)
            [[ -n ${2:-} ]] || fail "--share wants a folder"
            ASKED_SHARES+=("$2")
            shift
            ;;
        --share=*) ASKED_SHARES+=("${1#*=}") ;;
        [1-9] | [1-9][0-9]) NODES=$1 ;;
        *) fail "up: '$1' is neither a number of nodes (1 to 99) nor --like-production nor --share DIR" ;;
        esac
        shift
    done
}

parse_settings() {
    local name value
    GPUS=${DEVCLUSTER_GPUS:-4} CPUS=${DEVCLUSTER_CPUS:-8} MEMORY=${DEVCLUSTER_MEMORY:-16000}
    SHM_SIZE=${DEVCLUSTER_SHM:-1g}
    for name in GPUS CPUS MEMORY; do
        value=${!name}
        [[ $value =~ ^(0|[1-9][0-9]{0,6})$ ]] || fail "DEVCLUSTER_$name is '$value'; it must be a number"
    done
    CLUSTER_NAME=${DEVCLUSTER_NAME:-devcluster}
    [[ $CLUSTER_NAME =~ ^[a-z][a-z0-9_-]{0,39}$ ]] ||
        fail "DEVCLUSTER_NAME is '$CLUSTER_NAME'; a name is of a-z, 0-9, _ and -, and begins with a letter"
    ((CPUS > 0 && MEMORY > 0)) || fail "DEVCLUSTER_CPUS and DEVCLUSTER_MEMORY must be more than 0"
    [[ $SHM_SIZE =~ ^[1-9][0-9]*[kmg%]?$ ]] || fail "DEVCLUSTER_SHM is '$SHM_SIZE'; a size is like 64m or 1g"
}

command_up() {
    parse_up "$@"
    parse_settings
    need_all
    mkdir -p "$ROOT"
    lock_root
    if is_up; then
        say "is up already at $ROOT with $NODES nodes; nothing was changed"
        return
    fi
    clean_up_remains
    # Half a cluster is no use to anybody; its logs are.
    trap clean_up_remains EXIT
    trap 'exit 143' TERM HUP
    trap 'exit 130' INT
    make_root
    boot
    : >"$RUN/complete"
    trap - EXIT TERM HUP INT
    say "is up at $ROOT: $NODES nodes, Slurm $(slurmctld -V | cut -d' ' -f2), after $SECONDS s." \
        "To use it from this shell: eval \"\$($0 env)\""
}

boot() {
    local name
    read -r TRACKING TRACKING_WHY < <(choose_tracking)
    choose_shares "${ASKED_SHARES[@]}"
    # Between the choice of a network and its use no other devcluster may choose.
    exec 8</run
    flock 8 # (a folder, as there: nothing is left)
    choose_networks
    write_configuration
    start_host head
    lay_networks
    exec 8>&-
    wait_ready head
    start_munge
    make_database || fail "MariaDB could not make a database; see $ROOT/log/install-db.log"
    start_database
    wait_for 20 munge_answers || fail "munge does not answer; see $ROOT/log/munged.log: $(log_tail munged.log)"
    wait_for 40 database_answers || fail "MariaDB does not answer; see $ROOT/log/mariadb.log: $(log_tail mariadb.log)"
    start_dbd
    fill_accounting
    start_ctld
    for name in $(login_names) $(node_names); do start_host "$name"; done
    for name in $(login_names) $(node_names); do plug_in "$name"; done
    for name in $(login_names) $(node_names); do wait_ready "$name"; done
    wait_for 60 nodes_idle || fail "not all nodes came up; see $ROOT/log/slurmd.*.log"
}

# Processes, interfaces, cgroups, sockets and files of this root, whatever state it is in.
clean_up_remains() {
    local -a inits
    mapfile -t inits < <(all_inits)
    end_inits "${inits[@]}"
    ip link del "$UPLINK" 2>/dev/null || true
    remove_all_cgroups
    [[ $SOCKETS == "$RUN" ]] || rm -rf "$SOCKETS"
    [[ ! -f $ROOT/README ]] ||
        rm -rf --one-file-system "${ROOT:?}"/{etc,run,state,db,munge,hosts}
}

command_down() {
    want 0 down "$@"
    need_root
    if [[ -d $ROOT ]]; then lock_root; fi
    clean_up_remains
    say "is down; logs and shared/ are still in $ROOT"
}

command_env() {
    want 0 env "$@"
    load_cluster || fail "no devcluster is up at $ROOT; start one with: devcluster up"
    print_env
}

command_exec() {
    (($# >= 2)) || fail "usage: devcluster exec HOST COMMAND..."
    need_cluster
    require_host "$1"
    become_in_host "$@"
}

command_cut() {
    need_cluster
    require_host "$1"
    require_cable "$1" "${2:-hsn0}"
    host_is_on "$1" || fail "$1 is off; there is nothing to cut"
    unplug "$1" "${2:-hsn0}"
}

command_heal() {
    need_cluster
    require_host "$1"
    require_cable "$1" "${2:-hsn0}"
    host_is_on "$1" || fail "$1 is off; turn it on with: devcluster revive $1"
    in_head_network ip link set "$1-${2:-hsn0}" up
    if [[ ${2:-hsn0} == eth0 && $1 == node* ]]; then welcome_back "$1"; fi
}

command_kill() {
    need_cluster
    require_host "$1"
    [[ $1 != head ]] || fail "the head holds the cluster's networks; use: devcluster ctld stop, or down"
    lock_root
    power_off "$1"
}

command_revive() {
    need_cluster
    require_host "$1"
    lock_root
    power_on "$1"
    if [[ $1 == node* ]]; then welcome_back "$1"; fi
}

command_pause() {
    need_cluster
    require_node "$1"
    signal_daemon "$1" /run/slurmd.pid STOP
}

command_resume() {
    need_cluster
    require_node "$1"
    signal_daemon "$1" /run/slurmd.pid CONT
    welcome_back "$1"
}

command_daemon() { # slurmctld|slurmdbd stop|start
    need_cluster
    lock_root
    case $2 in
    stop) stop_daemon "$1" ;;
    start)
        if daemon_is_running "$1"; then return; fi
        "start_${1#slurm}"
        # A controller that has just started knows no node until it has asked each.
        [[ $1 != slurmctld ]] || wait_for 20 nodes_known || warn "slurmctld runs, but has not heard of all nodes yet"
        ;;
    *) fail "usage: devcluster ${1#slurm} stop|start" ;;
    esac
}

command_status() {
    local name eth hsn
    want 0 status "$@"
    need_root
    is_up || {
        say "is down (state folder: $ROOT)"
        exit 3
    }
    need_cluster
    echo "devcluster at $ROOT: up, $NODES nodes, $(slurmctld -V)"
    ((!LIKE_PRODUCTION)) || echo "time-outs   as in production"
    echo "tracking    $TRACKING ($TRACKING_WHY)"
    echo "networks    eth0 $ETH_NET.0/24, hsn0 $HSN_NET.0/24"
    for name in slurmctld slurmdbd; do
        printf '%-11s %s\n' "$name" "$(daemon_is_running "$name" && echo running || echo stopped)"
    done
    for name in $(login_names) $(node_names); do
        eth=- hsn=-
        if ! host_is_on "$name"; then
            printf '%-11s off\n' "$name"
            continue
        fi
        eth=$(cable_state "$name" eth0)
        [[ $name == login* ]] || hsn=$(cable_state "$name" hsn0)
        printf '%-11s on  eth0 %-4s hsn0 %-4s %s\n' "$name" "$eth" "$hsn" "$([[ $name == login* ]] || node_state "$name")"
    done
}
