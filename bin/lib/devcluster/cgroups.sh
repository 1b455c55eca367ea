# shellcheck shell=bash
# Each host sees a cgroup of its own as the root of the memory and freezer hierarchies: Slurm names
# its cgroups after the node alone, and would mix up the jobs of two clusters on one machine.

CGROUP_HIERARCHIES=(memory freezer)

# Prints cgroup or linuxproc, then why.
choose_tracking() {
    local hierarchy dir probe
    if [[ -f /sys/fs/cgroup/cgroup.controllers ]]; then
        echo "linuxproc this machine has cgroup v2, which Slurm tracks by systemd alone"
        return
    fi
    for hierarchy in "${CGROUP_HIERARCHIES[@]}"; do
        dir=/sys/fs/cgroup/$hierarchy probe=$dir/$CGROUP-probe
        if [[ ! -f $dir/tasks ]] || ! mkdir "$probe" 2>/dev/null; then
            echo "linuxproc the cgroups of $dir cannot be written"
            return
        fi
        rmdir "$probe"
    done
    echo "cgroup cgroup v1, memory limits are enforced"
}

enter_host_cgroup() { # NAME PID
    local hierarchy dir
    for hierarchy in "${CGROUP_HIERARCHIES[@]}"; do
        dir=/sys/fs/cgroup/$hierarchy/$CGROUP/$1
        mkdir -p "$dir"
        echo "$2" >"$dir/cgroup.procs"
    done
}

remove_cgroup_tree() { # DIR; a cgroup stays busy for a moment after its last process
    local try
    for ((try = 0; try < 50; try++)); do
        [[ -d $1 ]] || return 0
        find "$1" -depth -type d -exec rmdir {} + 2>/dev/null && return 0
        sleep 0.1
    done
    warn "could not remove the cgroup $1"
}

remove_host_cgroup() {
    local hierarchy
    for hierarchy in "${CGROUP_HIERARCHIES[@]}"; do
        remove_cgroup_tree "/sys/fs/cgroup/$hierarchy/$CGROUP/$1"
    done
}

remove_all_cgroups() {
    local hierarchy
    for hierarchy in "${CGROUP_HIERARCHIES[@]}"; do
        remove_cgroup_tree "/sys/fs/cgroup/$hierarchy/$CGROUP"
    done
}
