# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: Apache-2.0
# common.sh: what the scripts of the testbed share; sourced, never run.
#
# A cluster is one PID and mount namespace; its PID 1 is lib/init. When that process is killed, the
# kernel ends everything in the cluster: ranks, daemons of mpirun and Slurm, link emulators.
#
# A host is an idle process of the cluster (lib/holder) with namespaces of its own: network (eth0),
# host name, shared memory, and mounts: /dev/shm, /etc/hosts, no name server, and node-local scratch
# at $testbed_state/local. Processes are visible and all other files shared, as /home is on a
# cluster.
#
# A site X is one more host, dcX, with the site's switch; it is also its router. Nothing is made in
# the network of the machine itself and no host has a route out, so no packet leaves the cluster,
# and clusters of different names may use the same addresses.

TESTBED_NAME=${TESTBED_NAME:-main}
testbed_bin=$(cd "$(dirname "${BASH_SOURCE[0]}")/../bin" && pwd)
testbed_lib=${testbed_bin%/bin}/lib
testbed_state=/run/evener-$TESTBED_NAME # short: paths of sockets end at 107 characters
testbed_net=10.77                       # site number k has the addresses 10.77.k.0/24
export TESTBED_NAME

die() {
    echo "${0##*/}: $*" >&2
    exit 1
}

[[ $TESTBED_NAME =~ ^[a-z0-9-]{1,20}$ ]] ||
    die "TESTBED_NAME is '$TESTBED_NAME' (it becomes part of paths) use up to 20 of a-z, 0-9 and -"

# Prints the head comment of the script and ends it.
usage() {
    sed -n '3,/^[^#]/ { s/^# \{0,1\}//p }' "$0" >&2
    exit 2
}

# enter SCRIPT [ARGUMENT ...]: runs the script inside the cluster unless it is there already.
enter() {
    [[ -s $testbed_state/namespace ]] ||
        die "the cluster '$TESTBED_NAME' is not up, start it with hosts-up SITE:COUNT"
    if [[ $(readlink /proc/self/ns/pid) != "$(<"$testbed_state/namespace")" ]]; then
        exec nsenter -t "$(<"$testbed_state/init")" -p -m --wdns="$PWD" -- "$@"
    fi
}

# The process, as the cluster counts, that holds the namespaces of a host.
holder_of() {
    local pid
    [[ -s $testbed_state/$1/pid ]] || die "there is no host '$1'"
    pid=$(<"$testbed_state/$1/pid")
    [[ -d /proc/$pid/ns ]] || die "the holder of host '$1' is gone"
    echo "$pid"
}

# in_net HOST COMMAND ...: runs the command in the network of the host, with everything else of
# ours.
in_net() {
    local pid
    pid=$(holder_of "$1") || return
    nsenter -t "$pid" -n -- "${@:2}"
}

address_of() {
    awk -v host="$1" '$2 == host { print $1 }' "$testbed_state/hosts"
}

# The router of the first site; Slurm's controller and log-in host.
first_router() {
    awk 'NR == 1 { print "dc" $1 }' "$testbed_state/sites"
}

# wait_until SECONDS COMMAND ...: until the command succeeds; false when it never did.
wait_until() {
    local deadline=$((SECONDS + $1 + 1))
    shift
    until "$@"; do
        ((SECONDS < deadline)) || return 1
        sleep 0.02
    done
}

# routes_of HOST: the commands that give a host its routes. The congestion control stands in the
# routes, since the kernel refuses to change the default of a network namespace to one that it does
# not list as allowed.
routes_of() {
    local address network control=${TESTBED_CONGESTION:-cubic}
    address=$(address_of "$1")
    network=${address%.*}
    echo "ip route replace $network.0/24 dev eth0 src $address congctl $control
          ip route replace default via $network.254 congctl $control"
}
