// SPDX-License-Identifier: Apache-2.0
#include "app/device_routes.hpp"

#include "comm/cuda_aware.hpp"

#include <fmt/format.h>

namespace evener::app {

namespace {

using comm::CudaSupport;

/// The same on all ranks: "auto" needs the word of every rank's MPI.
CudaSupport support_of_all(comm::MpiSession const& mpi) {
    auto const mine = static_cast<std::int64_t>(comm::cuda_support());
    return static_cast<CudaSupport>(mpi.world().all_min(std::vector{mine})[0]);
}

void choose_messages(comm::MpiSession const& mpi, job::CudaAwareMpi wish, DeviceRoutes& routes) {
    if (wish == job::CudaAwareMpi::off) {
        routes.messages = "by way of pinned host memory";
        return;
    }
    CudaSupport const support = support_of_all(mpi);
    routes.device_messages = support == CudaSupport::yes;
    if (routes.device_messages) {
        routes.messages = fmt::format("from and to GPU memory ({} takes it)", mpi.library());
        return;
    }
    std::string const why =
        support == CudaSupport::no
            ? fmt::format("{} says that it takes no GPU memory", mpi.library())
            : fmt::format("{} does not say whether it takes GPU memory", mpi.library());
    if (wish == job::CudaAwareMpi::on)
        throw core::ConfigError{
            fmt::format("'run.cuda_aware_mpi' is \"on\" ({}); use an MPI that is "
                        "built with CUDA, or set it to \"off\"",
                        why)};
    routes.messages = fmt::format("by way of pinned host memory ({})", why);
}

} // namespace

DeviceRoutes choose_device_routes(comm::MpiSession const& mpi, Engine& engine, job::Run const& run,
                                  program::Plan const& plan) {
    DeviceRoutes routes;
    if (engine.gpu_ranks > 0)
        choose_messages(mpi, run.cuda_aware_mpi, routes);
    routes.groups =
        cluster::join_device_groups(mpi.world(), {.plan = plan,
                                                  .device = *engine.device,
                                                  .gpu = engine.gpu,
                                                  .enabled = run.nccl == job::Nccl::automatic});
    std::int64_t const left = engine.device->has_own_memory() ? engine.device->free_bytes() : 0;
    auto const all = comm::all_gather_values(mpi.world(), std::span<std::int64_t const>{&left, 1});
    for (std::size_t r = 0; r < all.size(); ++r)
        engine.ranks[r].device_bytes = all[r].front();
    return routes;
}

std::string routes_table(DeviceRoutes const& routes, Engine const& engine) {
    if (engine.gpu_ranks == 0)
        return "";
    std::string text = fmt::format("messages of GPU ranks: {}\n", routes.messages);
    for (std::size_t g = 0; g < routes.groups.routes.size(); ++g) {
        cluster::GroupRoute const& route = routes.groups.routes[g];
        text +=
            fmt::format("gradients and weights of group {}: {} ({})\n", g,
                        route.device ? "among its GPUs" : "by way of host memory", route.reason);
    }
    return text;
}

} // namespace evener::app
