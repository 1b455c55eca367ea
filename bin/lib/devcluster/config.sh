# shellcheck shell=bash
# shellcheck disable=SC2153  # SHARED and SHARES are two things
# Every file that `up` writes into the state folder.

make_root() {
    if [[ -e $ROOT || -L $ROOT ]]; then
        # The default lies in /tmp, where anybody can put a folder of this name first.
        [[ -d $ROOT && ! -L $ROOT && -O $ROOT ]] ||
            fail "$ROOT exists and is not a folder of yours; name another in DEVCLUSTER_ROOT"
        [[ -f $ROOT/README || -z $(ls -A "$ROOT") ]] ||
            fail "$ROOT has files and is no devcluster's; name an empty or new folder in DEVCLUSTER_ROOT"
    fi
    mkdir -p "$ROOT"
    chmod 755 "$ROOT"
    cat >"$ROOT/README" <<'README'
The state of one devcluster (a Slurm test cluster on this machine). bin/devcluster makes and removes it.

shared/   a folder that all hosts see; yours, kept by `devcluster down`
log/      the daemons' logs, kept until the next `devcluster up`
etc/      slurm.conf and the rest of the configuration; profile.yaml is slurmswift's profile of this cluster
hosts/    /tmp and /var/tmp of each host
run/, state/, db/, munge/    processes, Slurm's own state, its database, its key
README
    rm -rf --one-file-system "$ROOT/log"
    mkdir -p "$ROOT"/{etc,log,run,state,db,hosts,shared}
    chmod 1777 "$SHARED"
    mkdir -m 700 "$ROOT/munge"
    [[ $SOCKETS == "$RUN" ]] || mkdir -p "$SOCKETS"
}

# A folder that hosts see although it lies in a part of the machine they have their own of (/tmp ...).
# Both names of it where a link leads there.
add_share() {
    local path=$1
    [[ -e $path ]] || fail "--share $path: there is nothing of that name"
    SHARES+=("$(realpath -s -- "$path")" "$(realpath -- "$path")")
}

choose_shares() { # PATH... : those asked for
    local path
    local -a asked=()
    SHARES=()
    add_share "$ROOT"
    add_share "$SOCKETS"
    add_share "$DEVCLUSTER_LIB/../../.."
    [[ -z ${VIRTUAL_ENV:-} || ! -d ${VIRTUAL_ENV:-} ]] || add_share "$VIRTUAL_ENV"
    IFS=: read -r -a asked <<<"${DEVCLUSTER_SHARE:-}"
    for path in "${asked[@]}" "$@"; do [[ -z $path ]] || add_share "$path"; done
}

write_cluster_env() {
    declare -p NODES LIKE_PRODUCTION ETH_NET HSN_NET TRACKING TRACKING_WHY GPUS SHM_SIZE SHARES |
        sed 's/^declare -\([^ ]*\) /declare -g\1 /; s/-g-/-g/' >"$ROOT/etc/cluster.env"
}

write_hosts_file() {
    local name
    {
        echo "127.0.0.1 localhost"
        for name in $(host_names); do echo "$(eth_address "$name") $name"; done
        for name in $(node_names); do echo "$(hsn_address "$name") $name-hsn0"; done
    } >"$ROOT/etc/hosts"
}

slurm_release() { # 2205 for 22.05.8
    slurmctld -V | sed 's/^[^0-9]*\([0-9]*\)\.\([0-9]*\).*/\1\2/'
}

time_outs() {
    if ((LIKE_PRODUCTION)); then
        printf '%s\n' KillWait=30 SlurmdTimeout=300 MinJobAge=300 MessageTimeout=10 SlurmctldTimeout=120
    else
        printf '%s\n' KillWait=5 SlurmdTimeout=15 MinJobAge=60 MessageTimeout=5 SlurmctldTimeout=30 \
            SchedulerParameters=sched_interval=2,bf_interval=5,batch_sched_delay=0
    fi
}

tracking_lines() {
    if [[ $TRACKING == cgroup ]]; then
        printf '%s\n' ProctrackType=proctrack/cgroup TaskPlugin=task/cgroup
    else
        printf '%s\n' ProctrackType=proctrack/linuxproc TaskPlugin=task/none
    fi
}

cgroup_lines() {
    if [[ $TRACKING == cgroup ]]; then
        echo ConstrainRAMSpace=yes
    elif (($(slurm_release) >= 2311)); then
        echo CgroupPlugin=disabled
    else
        echo CgroupPlugin=cgroup/v1 # slurmd loads one although nothing uses it; this one asks for nothing
    fi
}

store_comments() { # the option's name changed
    if (($(slurm_release) >= 2108)); then echo AccountingStoreFlags=job_comment; else echo AccountingStoreJobComment=YES; fi
}

write_slurm_conf() {
    local name last
    last=$(node_names | tail -n 1)
    cat >"$ROOT/etc/slurm.conf" <<CONF
ClusterName=$CLUSTER_NAME
SlurmctldHost=head($ETH_NET.2)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$MUNGE_SOCKET
CredType=cred/munge
StateSaveLocation=$ROOT/state
SlurmdSpoolDir=/run/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=$ROOT/log/slurmctld.log
SlurmdLogFile=$ROOT/log/slurmd.%n.log
MailProg=/bin/true
MpiDefault=none
ReturnToService=2
JobRequeue=1
$(time_outs)
$(tracking_lines)

# Nodes claim more CPUs and memory than the machine has: they all share it.
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerNode=$((MEMORY / 4))
GresTypes=gpu
PriorityType=priority/multifactor
PriorityWeightQOS=10000
PreemptType=preempt/qos
PreemptMode=REQUEUE

AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=$ETH_NET.2
# The path is where clients look for munge when they talk to slurmdbd; without it they use the machine's.
AccountingStoragePass=$MUNGE_SOCKET
$(store_comments)
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=5

$(for name in $(node_names); do
        echo "NodeName=$name NodeAddr=$(eth_address "$name") CPUs=$CPUS RealMemory=$MEMORY Gres=gpu:$GPUS State=UNKNOWN"
    done)
PartitionName=gpu Nodes=ALL Default=YES MaxTime=7-00:00:00 State=UP
PartitionName=debug Nodes=$last MaxTime=00:30:00 MaxNodes=1 State=UP
CONF
    echo "NodeName=node[01-${last#node}] Name=gpu File=/run/devcluster/nvidia[0-$((GPUS - 1))]" >"$ROOT/etc/gres.conf"
    ((GPUS)) || : >"$ROOT/etc/gres.conf"
    cgroup_lines >"$ROOT/etc/cgroup.conf"
}

write_slurmdbd_conf() {
    (umask 077 && cat >"$ROOT/etc/slurmdbd.conf") <<CONF
AuthType=auth/munge
AuthInfo=socket=$MUNGE_SOCKET
DbdHost=head
DbdAddr=$ETH_NET.2
SlurmUser=root
PidFile=/run/slurmdbd.pid
LogFile=$ROOT/log/slurmdbd.log
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm_acct_db
CONF
}

write_profile() {
    cat >"$ROOT/etc/profile.yaml" <<'YAML'
schema: 1
name: devcluster
sbatch:
  partition: gpu
network:
  interface: hsn0
environment:
  variables:
    NCCL_SOCKET_IFNAME: hsn0
    GLOO_SOCKET_IFNAME: hsn0
YAML
}

write_configuration() {
    write_cluster_env
    write_hosts_file
    write_slurm_conf
    write_slurmdbd_conf
    write_profile
}

# What a shell outside of the hosts needs; the hosts have their configuration in /etc/slurm.
print_env() {
    printf 'export %s=%q\n' DEVCLUSTER_ROOT "$ROOT" SLURM_CONF "$ROOT/etc/slurm.conf" \
        DEVCLUSTER_SHARED "$SHARED" SLURMSWIFT_PROFILE "$ROOT/etc/profile.yaml"
}
