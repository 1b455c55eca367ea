# shellcheck shell=bash
# The daemons of the head: munge, MariaDB, slurmdbd, slurmctld.

log_tail() { tail -n 3 "$ROOT/log/$1" 2>/dev/null || true; }

# In the head as the rest, so that it ends with it.
make_database() {
    in_host head mariadb-install-db --no-defaults --user=root --datadir="$ROOT/db" --skip-test-db --skip-name-resolve \
        --auth-root-authentication-method=normal --innodb-log-file-size=8M --innodb-doublewrite=0 \
        --innodb-flush-log-at-trx-commit=0 >"$ROOT/log/install-db.log" 2>&1
}

start_munge() {
    head -c 1024 /dev/urandom >"$ROOT/munge/key"
    chmod 400 "$ROOT/munge/key"
    # --force: munged dislikes a log and a key below a folder like /tmp, which anybody can write.
    daemon_in_host head "$ROOT/log/munged.out" munged --foreground --force --key-file="$ROOT/munge/key" \
        --socket="$MUNGE_SOCKET" --pid-file=/run/munged.pid --seed-file="$ROOT/munge/seed" \
        --log-file="$ROOT/log/munged.log"
}

munge_answers() { munge --socket="$MUNGE_SOCKET" --no-input; }

# Reached by its socket in the head's own /run alone. Speed before safety: nothing here outlives a `down`.
start_database() {
    daemon_in_host head "$ROOT/log/mariadb.log" mariadbd --no-defaults --user=root --datadir="$ROOT/db" \
        --socket=/run/mysqld/mysqld.sock --pid-file=/run/mysqld/mysqld.pid --skip-networking \
        --skip-grant-tables --skip-log-bin --innodb-buffer-pool-size=64M --innodb-log-file-size=8M \
        --innodb-doublewrite=0 --innodb-flush-log-at-trx-commit=0 --innodb-lock-wait-timeout=900
}

database_answers() { in_host head mariadb-admin --no-defaults --socket=/run/mysqld/mysqld.sock ping; }

start_dbd() {
    daemon_in_host head "$ROOT/log/slurmdbd.out" slurmdbd -D
    wait_for 30 dbd_answers || fail "slurmdbd does not answer; see $ROOT/log/slurmdbd.log: $(log_tail slurmdbd.log)"
}

dbd_answers() { SLURM_CONF=$ROOT/etc/slurm.conf sacctmgr --noheader list cluster; }

start_ctld() {
    daemon_in_host head "$ROOT/log/slurmctld.out" slurmctld -D
    wait_for 30 ctld_answers || fail "slurmctld does not answer; see $ROOT/log/slurmctld.log: $(log_tail slurmctld.log)"
}

ctld_answers() { [[ $(SLURM_CONF=$ROOT/etc/slurm.conf scontrol ping) == *"is UP"* ]]; }

daemon_is_running() { # slurmctld | slurmdbd
    # shellcheck disable=SC2016  # expanded in the head
    in_host head bash -c 'read -r pid <"/run/$1.pid" && [[ $(</proc/$pid/comm) == "$1" ]]' running "$1" 2>/dev/null
}

daemon_is_stopped() { ! daemon_is_running "$1"; }

stop_daemon() { # slurmctld | slurmdbd
    daemon_is_running "$1" || return 0
    signal_daemon head "/run/$1.pid" TERM
    wait_for 20 daemon_is_stopped "$1" || signal_daemon head "/run/$1.pid" KILL
    wait_for 5 daemon_is_stopped "$1" || fail "$1 does not stop"
}

# The people of this machine that could submit jobs: root and ordinary users.
cluster_users() {
    getent passwd | awk -F: '($3 == 0 || ($3 >= 1000 && $3 < 60000)) && ++n <= 50 { print $1 }' | paste -sd,
}

# Accounts lab and students; QOS low (requeued when high needs its nodes), normal, high.
fill_accounting() {
    local -a sacctmgr=(sacctmgr --immediate --quiet)
    local -x SLURM_CONF=$ROOT/etc/slurm.conf
    {
        "${sacctmgr[@]}" add cluster "$CLUSTER_NAME"
        "${sacctmgr[@]}" add qos low set priority=0 preemptmode=requeue
        "${sacctmgr[@]}" add qos high set priority=1000 preemptmode=requeue preempt=low
        "${sacctmgr[@]}" modify qos normal set priority=100
        "${sacctmgr[@]}" add account lab,students set qos=low,normal,high defaultqos=normal
        "${sacctmgr[@]}" add user "$(cluster_users)" account=lab,students defaultaccount=lab
    } >"$ROOT/log/sacctmgr.log" 2>&1 || fail "sacctmgr could not fill the accounting; see $ROOT/log/sacctmgr.log"
}

nodes_idle() {
    local idle
    idle=$(SLURM_CONF=$ROOT/etc/slurm.conf sinfo --noheader --partition=gpu --states=idle --responding --format=%D)
    [[ $idle == "$NODES" ]]
}

nodes_known() { [[ -z $(SLURM_CONF=$ROOT/etc/slurm.conf sinfo --noheader --states=unknown --format=%n) ]]; }

node_state() {
    SLURM_CONF=$ROOT/etc/slurm.conf timeout 20 sinfo --noheader --nodes="$1" --partition=gpu --format=%T 2>/dev/null ||
        echo unknown
}

node_serves() { [[ $(node_state "$1") =~ ^(idle|allocated|mixed|completing)$ ]]; }

# Slurm takes a node back when it registers; a node it has set down is told to at once.
welcome_back() {
    local name=$1 state
    ctld_answers || {
        say "slurmctld is stopped: it takes $name back when it runs again"
        return
    }
    wait_for 2 node_serves "$name" && return
    state=$(node_state "$name")
    if [[ $state == down* || $state == drain* ]]; then
        SLURM_CONF=$ROOT/etc/slurm.conf scontrol update nodename="$name" state=resume 2>/dev/null || true
    fi
    wait_for 30 node_serves "$name" || warn "Slurm does not have $name back yet: $(node_state "$name")"
}
