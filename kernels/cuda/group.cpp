// SPDX-License-Identifier: Apache-2.0

// Collectives of the table over NCCL. Communicators do not block: what takes time is polled, so that
// a caller can give up and abort when a peer never comes. Unequal parts are one NCCL group of a
// reduce or broadcast per part, which NCCL fuses into one launch.

#include "kernels/cuda/nccl.hpp"
#include "kernels/cuda/open_device.hpp"

#include <cstring>

namespace evener::kernels::cuda {
namespace {

struct OpenGroup {
    OpenDevice* device = nullptr;
    ncclComm_t communicator = nullptr;
    int rank = 0;
};

OpenGroup& unwrap(Group* group) {
    return *reinterpret_cast<OpenGroup*>(group);
}

/// A call on a communicator that does not block may still be under way when it returns.
void require(ncclResult_t status, char const* call, ncclComm_t communicator) {
    if (status != ncclSuccess && status != ncclInProgress)
        throw std::runtime_error{std::string{call} + " failed (" + nccl().error_string(status) +
                                 ": " + nccl().last_error(communicator) + ")"};
}

/// Whether the last call is through. Throws what went wrong on any member.
bool through(OpenGroup const& group) {
    ncclResult_t state = ncclSuccess;
    require(nccl().get_async_error(group.communicator, &state), "ncclCommGetAsyncError",
            group.communicator);
    require(state, "a collective of the group", group.communicator);
    return state == ncclSuccess;
}

/// One NCCL group around enqueue(part, stream) for each part that is not empty. NCCL may go on
/// putting it on the stream behind the return, while somebody polls.
template <class Enqueue>
int enqueue_parts(Group* handle, GroupPart const* parts, int part_count, Reason* reason,
                  char const* call, Enqueue enqueue) {
    return guarded(reason, [&] {
        OpenGroup const& group = unwrap(handle);
        EVENER_CUDA(cudaSetDevice(group.device->context.ordinal));
        cudaStream_t const stream = group.device->stream(StreamKind::collective);
        require(nccl().group_start(), "ncclGroupStart", group.communicator);
        ncclResult_t status = ncclSuccess;
        for (GroupPart const* part = parts; part != parts + part_count; ++part)
            if (part->end > part->begin && (status == ncclSuccess || status == ncclInProgress))
                status = enqueue(group, *part, stream);
        ncclResult_t const ended = nccl().group_end(); // even after an error: the group is open
        require(status, call, group.communicator);
        require(ended, "ncclGroupEnd", group.communicator);
        return through(group) ? done : not_yet;
    });
}

int library_version(int* version, Reason* reason) {
    return guarded(reason, [&] {
        require(nccl().get_version(version), "ncclGetVersion", nullptr);
        return done;
    });
}

int make_id(void* id, Reason* reason) {
    return guarded(reason, [&] {
        static_assert(sizeof(ncclUniqueId) == group_id_bytes);
        ncclUniqueId unique{};
        require(nccl().get_unique_id(&unique), "ncclGetUniqueId", nullptr);
        std::memcpy(id, &unique, sizeof unique);
        return done;
    });
}

int create(Device* device, void const* id, int rank, int size, Group** group, Reason* reason) {
    return guarded(reason, [&] {
        auto created = std::make_unique<OpenGroup>();
        created->device = &use(device);
        created->rank = rank;
        ncclUniqueId unique{};
        std::memcpy(&unique, id, sizeof unique);
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        config.blocking = 0;
        require(nccl().init_rank(&created->communicator, size, unique, rank, &config),
                "ncclCommInitRankConfig", nullptr);
        *group = reinterpret_cast<Group*>(created.release());
        return done;
    });
}

int ready(Group* group, Reason* reason) {
    return guarded(reason, [&] { return through(unwrap(group)) ? done : not_yet; });
}

/// `reduced` holds the owner's parts one after the other, in the order of the list.
int reduce(Group* group, float const* gradient, float* reduced, GroupPart const* parts,
           int part_count, Reason* reason) {
    return enqueue_parts(group, parts, part_count, reason, "ncclReduce",
                         [&](OpenGroup const& member, GroupPart const& part, cudaStream_t stream) {
                             auto const count = static_cast<std::size_t>(part.end - part.begin);
                             float* const dst = part.owner == member.rank ? reduced : nullptr;
                             if (dst != nullptr)
                                 reduced += count;
                             return nccl().reduce(gradient + part.begin, dst, count, ncclFloat32,
                                                  ncclSum, part.owner, member.communicator, stream);
                         });
}

int gather(Group* group, void* weights, Element type, GroupPart const* parts, int part_count,
           Reason* reason) {
    ncclDataType_t const element = type == Element::float32 ? ncclFloat32 : ncclBfloat16;
    return enqueue_parts(
        group, parts, part_count, reason, "ncclBroadcast",
        [&](OpenGroup const& member, GroupPart const& part, cudaStream_t stream) {
            void* const at = static_cast<std::byte*>(weights) + part.begin * bytes_of(type);
            return nccl().broadcast(at, at, static_cast<std::size_t>(part.end - part.begin),
                                    element, part.owner, member.communicator, stream);
        });
}

void abort(Group* group) {
    nccl().abort(unwrap(group).communicator);
    delete &unwrap(group);
}

void destroy(Group* group) {
    cudaSetDevice(unwrap(group).device->context.ordinal);
    nccl().destroy(unwrap(group).communicator);
    delete &unwrap(group);
}

} // namespace

GroupTable const* group_table() {
    static constexpr GroupTable table{library_version, make_id, create, ready,
                                      reduce,          gather,  abort,  destroy};
    return &table;
}

} // namespace evener::kernels::cuda
