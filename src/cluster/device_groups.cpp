// SPDX-License-Identifier: Apache-2.0
#include "cluster/device_groups.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

namespace evener::cluster {

namespace {

using core::RankId;

/// The fields in the order in which a difference is reported.
struct Field {
    char const* name;
    std::string GroupFacts::*value;
};
constexpr Field compared[] = {{"GPU", &GroupFacts::model},
                              {"driver", &GroupFacts::driver},
                              {"NCCL version", &GroupFacts::library},
                              {"network adapters", &GroupFacts::networks}};

std::string version_text(int version) {
    return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

/// Facts of all ranks; a text per field, since their lengths differ.
std::vector<GroupFacts> all_facts(comm::Communicator const& world, GroupFacts const& mine) {
    std::vector<GroupFacts> facts(static_cast<std::size_t>(world.size()));
    for (auto const field : {&GroupFacts::model, &GroupFacts::driver, &GroupFacts::library,
                             &GroupFacts::networks, &GroupFacts::trouble}) {
        std::vector<std::string> const texts = world.all_gather(mine.*field);
        for (std::size_t rank = 0; rank < texts.size(); ++rank)
            facts[rank].*field = texts[rank];
    }
    return facts;
}

/// Whether other ranks are in the rank's group.
bool in_company(program::Plan const& plan, RankId rank) {
    return std::any_of(plan.groups.begin(), plan.groups.end(), [&](program::Group const& group) {
        return group.ranks.size() > 1 && program::member_of(group, rank) >= 0;
    });
}

/// Until all members have come. Throws core::DeviceError.
void wait_until_ready(device::Group& group, std::chrono::seconds limit) {
    auto const until = std::chrono::steady_clock::now() + limit;
    while (!group.ready()) {
        if (std::chrono::steady_clock::now() > until)
            throw core::DeviceError{
                0, false,
                fmt::format(
                    "some member did not come within {} s (a firewall, or the wrong network "
                    "adapter: NCCL_SOCKET_IFNAME names one)",
                    limit.count())};
        std::this_thread::sleep_for(std::chrono::milliseconds{1});
    }
}

/// Runs `step` on the ranks that are in the group; what the lowest of those that failed says, on all
/// ranks.
template <class Step>
std::string failure_of(comm::Communicator const& world, bool member, Step step) {
    std::string message;
    bool ok = true;
    if (member) {
        try {
            step();
        } catch (core::DeviceError const& error) {
            ok = false;
            message = error.what();
        }
    }
    comm::Agreement const agreement = comm::agree(world, ok, message);
    return agreement.ok ? "" : fmt::format("rank {}: {}", agreement.rank, agreement.message);
}

/// Collective: all ranks, members or not. Empty when the group is made.
std::string join(comm::Communicator const& world, DeviceGroupInput const& input,
                 std::vector<RankId> const& ranks, std::unique_ptr<device::Group>& own) {
    RankId const me{world.rank()};
    auto const place = std::find(ranks.begin(), ranks.end(), me);
    bool const member = place != ranks.end();
    device::GroupId id{};
    std::string failure =
        failure_of(world, me == ranks.front(), [&] { id = device::make_group_id(input.device); });
    if (!failure.empty())
        return failure;
    auto const bytes = world.broadcast(std::span<std::byte const>{id}, ranks.front().value);
    std::copy_n(bytes.begin(), id.size(), id.begin());
    failure = failure_of(world, member, [&] {
        own = std::make_unique<device::Group>(input.device, id,
                                              static_cast<int>(place - ranks.begin()),
                                              static_cast<int>(ranks.size()));
        wait_until_ready(*own, input.time_limit);
    });
    if (!failure.empty() && member && own != nullptr) {
        own->abort();
        own.reset();
    }
    return failure;
}

} // namespace

std::string network_names(std::filesystem::path const& classes) {
    std::vector<std::string> names;
    std::error_code none; // a folder that does not exist has no entries
    for (auto const& entry : std::filesystem::directory_iterator{classes / "infiniband", none})
        names.push_back(entry.path().filename());
    for (auto const& entry : std::filesystem::directory_iterator{classes / "net", none})
        if (std::filesystem::exists(entry.path() / "device", none)) // not lo, bridges, containers
            names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    std::string text;
    for (std::string const& name : names)
        text += (text.empty() ? "" : " ") + name;
    return text;
}

GroupFacts group_facts(device::Device const* device, kernels::DeviceFacts const* gpu) {
    GroupFacts facts;
    if (device == nullptr || gpu == nullptr) {
        facts.trouble = "computes on the CPU";
        return facts;
    }
    facts.model = fmt::format("{}, compute capability {}.{}", gpu->name, gpu->capability_major,
                              gpu->capability_minor);
    facts.driver =
        fmt::format("CUDA {}.{}", gpu->driver_version / 1000, gpu->driver_version % 1000 / 10);
    facts.networks = network_names();
    try {
        facts.library = version_text(device::group_library_version(*device));
    } catch (core::DeviceError const& error) {
        facts.trouble = error.what();
    }
    return facts;
}

std::string why_no_group(std::vector<RankId> const& ranks, std::vector<GroupFacts> const& facts) {
    if (ranks.size() < 2)
        return "one rank alone";
    for (RankId const rank : ranks)
        if (std::string const& trouble = facts[rank.index()].trouble; !trouble.empty())
            return fmt::format("rank {}: {}", rank.value, trouble);
    GroupFacts const& first = facts[ranks.front().index()];
    for (RankId const rank : ranks)
        for (Field const& field : compared)
            if (facts[rank.index()].*field.value != first.*field.value)
                return fmt::format("ranks {} and {} differ in {}: '{}' and '{}'",
                                   ranks.front().value, rank.value, field.name, first.*field.value,
                                   facts[rank.index()].*field.value);
    return "";
}

DeviceGroups join_device_groups(comm::Communicator const& world, DeviceGroupInput const& input) {
    DeviceGroups groups;
    groups.routes.resize(input.plan.groups.size());
    if (!input.enabled) {
        for (GroupRoute& route : groups.routes)
            route.reason = "'run.nccl' is \"off\"";
        return groups;
    }
    GroupFacts mine;
    if (in_company(input.plan, RankId{world.rank()})) // who is alone need not open the library
        mine = group_facts(&input.device, input.gpu ? &input.gpu->facts : nullptr);
    std::vector<GroupFacts> const facts = all_facts(world, mine);
    for (std::size_t g = 0; g < groups.routes.size(); ++g) {
        GroupRoute& route = groups.routes[g];
        std::vector<RankId> ranks = input.plan.groups[g].ranks;
        std::sort(ranks.begin(), ranks.end());
        route.reason = why_no_group(ranks, facts);
        if (!route.reason.empty())
            continue;
        std::unique_ptr<device::Group> own;
        route.reason = join(world, input, ranks, own);
        route.device = route.reason.empty();
        if (route.device)
            route.reason = "NCCL " + facts[ranks.front().index()].library;
        if (own != nullptr) {
            groups.own = std::move(own);
            groups.ranks = std::move(ranks);
        }
    }
    return groups;
}

} // namespace evener::cluster
