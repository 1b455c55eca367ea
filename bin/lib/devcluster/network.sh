# shellcheck shell=bash
# Two networks, as real clusters have: eth0 for Slurm, hsn0 for the training. Both are bridges in
# the head's network namespace, so that the machine gets one new interface, its own cable to eth0,
# and its packet filters have no say over what the nodes tell each other.

in_head_network() {
    local pid
    pid=$(host_pid head) || fail "the cluster's head is gone; start again with: devcluster up"
    nsenter --target "$pid" --net "$@"
}

net_is_free() { # NET, as in 198.18.2: nothing on this machine has or routes to an address there
    local overlap
    overlap=$(ip -o -4 route show table all match "$1.1" 2>/dev/null | grep -v '^default' || true)
    overlap+=$(ip -o -4 route show table all root "$1.0/24" 2>/dev/null || true)
    [[ -z $overlap ]]
}

# Sets ETH_NET and HSN_NET: two free neighbours in 198.18.0.0/15, which is set aside for test networks;
# the same ones for the same root if it can be.
choose_networks() {
    local start=$((16#$ID % 256)) i pair
    for ((i = 0; i < 256; i++)); do
        pair=$(((start + i) % 256))
        ETH_NET=198.$((18 + pair / 128)).$((pair % 128 * 2))
        HSN_NET=198.$((18 + pair / 128)).$((pair % 128 * 2 + 1))
        net_is_free "$ETH_NET" && net_is_free "$HSN_NET" && return
    done
    fail "no free /24 network is left in 198.18.0.0/15"
}

# The head's bridges and the machine's cable. The address of the head's eth0 is given by its host-init.
lay_networks() {
    local head
    head=$(host_pid head)
    in_head_network ip -batch - <<BATCH || fail "this kernel makes no network bridges: 'ip link add type bridge' failed"
link add eth0 type bridge
link add hsn0 type bridge
link set hsn0 up
BATCH
    ip -batch - <<BATCH || fail "could not connect the machine to the cluster's network"
link add $UPLINK type veth peer name machine netns $head
addr add $ETH_NET.1/24 dev $UPLINK
link set $UPLINK up
BATCH
    in_head_network ip link set machine master eth0 up
}

cables_of() { # the networks that a host is on
    case $1 in
    node*) printf '%s\n' eth0 hsn0 ;;
    login*) echo eth0 ;;
    esac
}

plug_in() {
    local name=$1 pid net
    pid=$(host_pid "$name") || fail "$name ended while starting; see $ROOT/log/$name.boot.log"
    for net in $(cables_of "$name"); do
        echo "link add $name-$net type veth peer name $net netns $pid"
        echo "link set $name-$net master $net up"
    done | in_head_network ip -batch -
}

remove_cables() {
    local net
    for net in $(cables_of "$1"); do
        in_head_network ip link del "$1-$net" 2>/dev/null || true
    done
}

# The switch's end goes down, so the host sees a link without carrier.
unplug() { in_head_network ip link set "$1-$2" down 2>/dev/null || true; }

require_cable() {
    # shellcheck disable=SC2046  # names are single words
    is_among "$2" $(cables_of "$1") ||
        fail "$1 has no network '$2'; it has: $(cables_of "$1" | paste -sd' ')"
}

cable_state() {
    local flags
    flags=$(in_head_network ip -o link show "$1-$2" 2>/dev/null) || {
        echo -
        return
    }
    [[ $flags == *"state UP"* ]] && echo up || echo cut
}
