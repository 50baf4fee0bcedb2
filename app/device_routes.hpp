// SPDX-License-Identifier: Apache-2.0
#pragma once

// How GPU ranks exchange what they compute: the groups that reduce among their devices, and whether
// MPI gets device memory.

#include "cluster/device_groups.hpp"
#include "runtime/device_exchange.hpp"

#include "app/engine.hpp"

namespace evener::app {

struct DeviceRoutes {
    cluster::DeviceGroups groups;
    bool device_messages = false;
    std::string messages; ///< for the start table

    /// For the session, which must not outlive this.
    runtime::DeviceExchange exchange() const {
        return {groups.own.get(), groups.ranks, device_messages};
    }
};

/// Collective, before programs are made: groups take memory of their GPUs, after which the ranks'
/// `device_bytes` are measured again. Throws core::ConfigError where the job insists on what this MPI
/// does not offer.
DeviceRoutes choose_device_routes(comm::MpiSession const& mpi, Engine& engine, job::Run const& run,
                                  program::Plan const& plan);

/// How groups and messages travel; empty where no rank has a GPU.
std::string routes_table(DeviceRoutes const& routes, Engine const& engine);

} // namespace evener::app
