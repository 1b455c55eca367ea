# shellcheck shell=bash
# Whether a cluster can run here, and the Debian packages it needs.

# command:package
NEEDED=(
    slurmctld:slurmctld slurmd:slurmd slurmdbd:slurmdbd sbatch:slurm-client munged:munge
    mariadbd:mariadb-server mariadb-install-db:mariadb-server mariadb-admin:mariadb-client
    ip:iproute2 nsenter:util-linux unshare:util-linux setpriv:util-linux flock:util-linux
    ps:procps hostname:hostname
)

lacking_packages() {
    local pair
    for pair in "${NEEDED[@]}"; do
        command -v "${pair%%:*}" >/dev/null || echo "${pair#*:}"
    done | sort -u
}

need_root() {
    ((EUID == 0)) || fail "this needs root: it makes network, mount and process namespaces, and slurmd starts" \
        "jobs as their users. Try: sudo $0"
}

# Debian's packages start their daemons when installed; a policy-rc.d that says no prevents it.
forbid_service_starts() {
    POLICY=/usr/sbin/policy-rc.d
    if [[ -e $POLICY ]]; then
        POLICY=
        return
    fi
    trap 'rm -f "$POLICY"' EXIT
    printf '#!/bin/sh\n# devcluster is installing packages, and starts none of their services\nexit 101\n' >"$POLICY"
    chmod 755 "$POLICY"
}

install_packages() { # PACKAGE...
    local -a install=(apt-get install --yes --no-install-recommends "$@")
    local -x DEBIAN_FRONTEND=noninteractive
    warn "installing Debian packages: $*"
    forbid_service_starts
    if ! "${install[@]}" >"$INSTALL_LOG" 2>&1; then
        { apt-get update && "${install[@]}"; } >>"$INSTALL_LOG" 2>&1 ||
            fail "apt-get could not install $*: $(tail -n 2 "$INSTALL_LOG" | paste -sd' ')" \
                "(all of it: $INSTALL_LOG)"
    fi
    [[ -z $POLICY ]] || rm -f "$POLICY"
    trap - EXIT
}

need_packages() {
    local -a packages
    mapfile -t packages < <(lacking_packages)
    ((${#packages[@]})) || return 0
    command -v apt-get >/dev/null ||
        fail "this machine lacks programs of the Debian packages ${packages[*]}, and has no apt-get to install" \
            "them with. Install them (Debian 12 or newer is what this is made for), then try again"
    INSTALL_LOG=$(mktemp "${TMPDIR:-/tmp}/devcluster-install.XXXXXX")
    install_packages "${packages[@]}"
    mapfile -t packages < <(lacking_packages)
    ((${#packages[@]} == 0)) || fail "still lacking after the installation: ${packages[*]} (see $INSTALL_LOG)"
    rm -f "$INSTALL_LOG"
}

need_namespaces() {
    local complaint
    complaint=$(unshare --net --uts --ipc --mount --pid --fork mount -t tmpfs tmpfs /mnt 2>&1) ||
        fail "this machine does not let root make namespaces and mounts ($complaint)." \
            "In a container it takes --privileged; otherwise use a virtual machine"
}

# Everything at once, before anything is made.
need_all() {
    [[ $(uname -s) == Linux ]] || fail "this needs Linux"
    need_root
    need_packages
    need_namespaces
}
