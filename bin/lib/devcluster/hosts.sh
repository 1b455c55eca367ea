# shellcheck shell=bash
# Hosts: each a set of namespaces whose first process is `host-init ROOT NAME`.

# is_init PID NAME: whether that process is the first one of this cluster's host NAME.
# A pid file alone proves nothing: after a reboot its number may be anybody's.
is_init() {
    local -a argv=()
    mapfile -d '' -t argv 2>/dev/null <"/proc/$1/cmdline" || return 1
    [[ ${argv[1]-} == "$DEVCLUSTER_LIB/host-init" || ${argv[1]-} == */host-init ]] &&
        [[ ${argv[2]-} == "$ROOT" && ${argv[3]-} == "$2" ]]
}

# The first process of a host, as the machine numbers it; false where the host is off.
host_pid() {
    local pid
    [[ -f $RUN/$1.pid ]] && pid=$(<"$RUN/$1.pid") && [[ -n $pid ]] && is_init "$pid" "$1" && echo "$pid"
}

host_is_on() { host_pid "$1" >/dev/null; }

# Every process of every host of this root, whatever the pid files say.
all_inits() {
    local dir
    local -a argv
    for dir in /proc/[0-9]*; do
        argv=()
        { mapfile -d '' -t argv <"$dir/cmdline"; } 2>/dev/null || continue
        [[ ${argv[1]-} == */host-init && ${argv[2]-} == "$ROOT" ]] && echo "${dir#/proc/}"
    done
    return 0
}

# start_host NAME: boots it and returns when its first process runs; it waits for its cables.
start_host() {
    local name=$1 namespaces=(--net --uts --ipc --mount --pid)
    rm -f "$RUN/$name.pid" "$RUN/$name.ready"
    mkdir -p "$ROOT/hosts/$name"/{tmp,var-tmp}
    chmod 1777 "$ROOT/hosts/$name"/{tmp,var-tmp}
    [[ $TRACKING != cgroup ]] || namespaces+=(--cgroup)
    (
        # A namespace of cgroups begins where its maker stands: stand in the host's own first.
        [[ $TRACKING != cgroup ]] || enter_host_cgroup "$name" "$BASHPID"
        cd /
        # The environment of whoever called `up` is no business of the jobs.
        exec env -i PATH="$PATH" LANG=C.UTF-8 setsid unshare "${namespaces[@]}" --fork --kill-child \
            bash "$DEVCLUSTER_LIB/host-init" "$ROOT" "$name"
    ) >>"$ROOT/log/$name.boot.log" 2>&1 </dev/null 8>&- 9>&- &
    disown
    wait_for 10 host_is_on "$name" || fail "$name did not start; see $ROOT/log/$name.boot.log"
}

host_is_ready() { [[ -e $RUN/$1.ready ]]; }

wait_ready() {
    wait_for 15 host_is_ready "$1" ||
        fail "$1 did not come up; see $ROOT/log/$1.boot.log: $(tail -n 1 "$ROOT/log/$1.boot.log")"
}

# end_inits PID...: everything in these hosts dies in the same instant.
end_inits() {
    local pid
    for pid; do kill -KILL "$pid" 2>/dev/null || true; done
    for pid; do wait_for 10 process_is_gone "$pid" || warn "process $pid does not die"; done
}

process_is_gone() { [[ ! -e /proc/$1 ]] || grep -q '^State:.Z' "/proc/$1/status"; }

# in_host NAME COMMAND...: run it there, in the present folder where the host has it.
in_host() { (become_in_host "$@"); }

# The same in place of this shell: a signal to `devcluster exec` is one to nsenter, and the command
# dies with nsenter.
become_in_host() {
    local name=$1 pid
    # --root: in a chroot, the root of a mount namespace is not that of its processes.
    local -a namespaces=(--net --uts --ipc --mount --pid --root)
    shift
    pid=$(host_pid "$name") || fail "$name is off; turn it on with: devcluster revive $name"
    [[ $TRACKING != cgroup ]] || namespaces+=(--cgroup)
    exec 8>&- 9>&-
    # shellcheck disable=SC2016  # expanded in the host
    exec nsenter --target "$pid" "${namespaces[@]}" setpriv --pdeathsig KILL \
        env --chdir=/ SLURM_CONF="$ROOT/etc/slurm.conf" SLURMSWIFT_PROFILE="$ROOT/etc/profile.yaml" \
        DEVCLUSTER_ROOT="$ROOT" HOSTNAME="$name" \
        bash -c 'cd -- "$1" 2>/dev/null || cd /; shift; exec "$@"' devcluster-exec "$PWD" "$@"
}

# daemon_in_host NAME LOG COMMAND...: the command stays in the foreground there, we do not wait.
daemon_in_host() {
    local name=$1 log=$2 pid
    shift 2
    pid=$(host_pid "$name") || fail "$name is off"
    (cd / && exec setsid nsenter --target "$pid" --net --uts --ipc --mount --pid --root \
        env -u DEVCLUSTER_ROOT SLURM_CONF="$ROOT/etc/slurm.conf" "$@") \
        >>"$log" 2>&1 </dev/null 8>&- 9>&- &
    disown # its end is no news to this shell
}

# signal_daemon HOST PIDFILE SIGNAL: the pid file holds the number inside the host.
signal_daemon() {
    # shellcheck disable=SC2016  # expanded in the host
    in_host "$1" bash -c 'read -r pid <"$1" && kill -"$2" "$pid"' signal "$2" "$3"
}

power_off() {
    local name=$1 pid
    pid=$(host_pid "$name") || fail "$name is off already"
    # Cables first: a machine without power says no goodbye (FIN, RST) to its peers.
    unplug "$name" eth0
    unplug "$name" hsn0
    end_inits "$pid"
    rm -f "$RUN/$name.pid" "$RUN/$name.ready"
}

power_on() {
    local name=$1
    ! host_is_on "$name" || fail "$name is on already"
    remove_cables "$name"
    [[ $TRACKING != cgroup ]] || remove_host_cgroup "$name"
    start_host "$name"
    plug_in "$name"
    wait_ready "$name"
}
