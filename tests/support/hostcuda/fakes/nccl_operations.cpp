// SPDX-License-Identifier: Apache-2.0

#include "nccl_operations.hpp"

#include "faults.hpp"
#include <cuda_bf16.h>

#include <csignal>
#include <cstring>
#include <type_traits>

namespace evener::hostcuda {
namespace {

/// In front of every message: what the sender calls, so that calls that do not match are seen.
struct Header {
    Collective kind;
    int type;
    int reduction;
    int root;
    std::uint64_t count;
    friend bool operator==(Header const&, Header const&) = default;
};

std::size_t element_bytes(ncclDataType_t type) {
    switch (type) {
    case ncclInt8:
    case ncclUint8:
        return 1;
    case ncclFloat16:
    case ncclBfloat16:
        return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
        return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
        return 8;
    default:
        refuse_call(cudaErrorNotSupported, "the fake NCCL does not know this element type");
    }
}

bool reduces(Collective kind) {
    return kind == Collective::reduce || kind == Collective::all_reduce ||
           kind == Collective::reduce_scatter;
}

char const* name_of(Collective kind) {
    constexpr char const* names[] = {"ncclReduce",    "ncclBroadcast",     "ncclAllReduce",
                                     "ncclAllGather", "ncclReduceScatter", "ncclSend",
                                     "ncclRecv"};
    return names[static_cast<int>(kind)];
}

std::string described(Header const& header) {
    return std::string{name_of(header.kind)} + " of " + std::to_string(header.count) +
           " elements of type " + std::to_string(header.type);
}

Header header_of(CollectiveCall const& call) {
    bool const between_two = call.kind == Collective::send || call.kind == Collective::receive;
    return {between_two ? Collective::send : call.kind, call.type,
            reduces(call.kind) ? call.reduction : -1, between_two ? -1 : call.peer, call.count};
}

float number(__nv_bfloat16 value) {
    return __bfloat162float(value);
}
template <class T>
T number(T value) {
    return value;
}
template <class T, class Sum>
T rounded(Sum value) {
    if constexpr (std::is_same_v<T, __nv_bfloat16>)
        return __float2bfloat16(value);
    else
        return value;
}

/// dst[i] = the parts' i-th elements, combined in order.
template <class T>
void combine(void* dst, std::vector<std::byte const*> const& parts, std::size_t count,
             ncclRedOp_t reduction) {
    for (std::size_t i = 0; i < count; ++i) {
        auto const element = [&](std::size_t part) {
            T value;
            std::memcpy(&value, parts[part] + i * sizeof(T), sizeof value);
            return number(value);
        };
        auto result = element(0);
        for (std::size_t part = 1; part < parts.size(); ++part) {
            auto const next = element(part);
            if (reduction == ncclMax)
                result = std::max(result, next);
            else if (reduction == ncclMin)
                result = std::min(result, next);
            else if (reduction == ncclProd)
                result *= next;
            else
                result += next;
        }
        if (reduction == ncclAvg)
            result /= static_cast<decltype(result)>(parts.size());
        T const value = rounded<T>(result);
        std::memcpy(static_cast<std::byte*>(dst) + i * sizeof(T), &value, sizeof value);
    }
}

void combine_any(void* dst, std::vector<std::byte const*> const& parts,
                 CollectiveCall const& call) {
    if (call.type == ncclFloat32)
        combine<float>(dst, parts, call.count, call.reduction);
    else if (call.type == ncclFloat64)
        combine<double>(dst, parts, call.count, call.reduction);
    else
        combine<__nv_bfloat16>(dst, parts, call.count, call.reduction);
}

/// One call under way.
class Exchange {
  public:
    Exchange(CollectiveCall call, Messages& messages)
        : call_{std::move(call)}, messages_{messages}, header_{header_of(call_)},
          bytes_{call_.count * element_bytes(call_.type)},
          received_(static_cast<std::size_t>(call_.communicator->size)) {}

    /// Reads the sources and sends what the others need.
    void send() {
        for (int other = 0; other < size(); ++other) {
            if (!sends_to(other))
                continue;
            std::size_t const offset =
                call_.kind == Collective::reduce_scatter ? static_cast<std::size_t>(other) : 0;
            auto const* const begin = static_cast<std::byte const*>(call_.src) + offset * bytes_;
            std::vector<std::byte> message(sizeof header_ + bytes_);
            std::memcpy(message.data(), &header_, sizeof header_);
            std::copy_n(begin, bytes_, message.data() + sizeof header_);
            if (stays(other))
                kept_ = std::move(message);
            else
                messages_.send(std::move(message), world_rank(other), tag());
        }
    }

    /// After all sends of the group: what is received is undefined until it is there.
    void receive() {
        for (int other = 0; other < size(); ++other)
            if (receives_from(other) && !stays(other))
                received_[static_cast<std::size_t>(other)] =
                    &messages_.receive(sizeof header_ + bytes_, world_rank(other), tag());
        if (receives())
            std::memset(call_.dst, poison, bytes_ * parts_of_result());
    }

    void finish() {
        if (!receives())
            return;
        std::vector<std::byte const*> parts;
        for (int other = 0; other < size(); ++other) {
            if (!receives_from(other))
                continue;
            auto const& message =
                stays(other) ? kept_ : *received_[static_cast<std::size_t>(other)];
            expect_match(message, other);
            parts.push_back(message.data() + sizeof header_);
        }
        if (reduces(call_.kind)) {
            combine_any(call_.dst, parts, call_);
            return;
        }
        for (std::size_t i = 0; i < parts.size(); ++i)
            std::copy_n(parts[i], bytes_, static_cast<std::byte*>(call_.dst) + i * bytes_);
    }

  private:
    int rank() const { return call_.communicator->rank; }
    int size() const { return call_.communicator->size; }
    int tag() const { return call_.communicator->tag; }
    int world_rank(int member) const {
        return call_.communicator->world_rank[static_cast<std::size_t>(member)];
    }

    /// A rank's own part needs no message; what it sends to itself is received by another call.
    bool stays(int other) const {
        return other == rank() && call_.kind != Collective::send &&
               call_.kind != Collective::receive;
    }

    bool sends_to(int other) const {
        switch (call_.kind) {
        case Collective::reduce:
        case Collective::send:
            return other == call_.peer;
        case Collective::broadcast:
            return rank() == call_.peer;
        case Collective::receive:
            return false;
        default:
            return true;
        }
    }

    bool receives_from(int other) const {
        switch (call_.kind) {
        case Collective::reduce:
            return rank() == call_.peer;
        case Collective::broadcast:
        case Collective::receive:
            return other == call_.peer;
        case Collective::send:
            return false;
        default:
            return true;
        }
    }

    bool receives() const {
        return call_.kind == Collective::reduce ? rank() == call_.peer
                                                : call_.kind != Collective::send;
    }

    std::size_t parts_of_result() const {
        return call_.kind == Collective::all_gather ? static_cast<std::size_t>(size()) : 1;
    }

    void expect_match(std::vector<std::byte> const& message, int other) const {
        Header theirs;
        std::memcpy(&theirs, message.data(), sizeof theirs);
        if (!(theirs == header_))
            throw Fault{cudaErrorLaunchFailure, Fault::Kind::fatal,
                        "members of a communicator make different calls: rank " +
                            std::to_string(rank()) + " " + described(header_) + ", rank " +
                            std::to_string(other) + " " + described(theirs) +
                            " (or with another root or reduction)"};
    }

    CollectiveCall call_;
    Messages& messages_;
    Header header_;
    std::size_t bytes_; ///< of one part
    std::vector<std::byte> kept_;
    std::vector<std::vector<std::byte> const*> received_;
};

/// The calls of a group, from the first message to the last result.
class Group {
  public:
    explicit Group(std::vector<CollectiveCall> const& calls)
        : communicator_{calls.front().communicator}, number_{communicator_->issued++} {
        for (CollectiveCall const& call : calls)
            exchanges_.emplace_back(call, messages_);
    }

    Outcome advance() {
        if (communicator_->aborted)
            return Outcome::done;
        if (!started_) {
            if (communicator_->started != number_)
                return Outcome::blocked;
            start();
        }
        if (!messages_.done())
            return Outcome::in_flight;
        DeviceMemoryAccess const access{communicator_->device};
        for (Exchange& exchange : exchanges_)
            exchange.finish();
        return Outcome::done;
    }

  private:
    void start() {
        if (fault_now(FaultKind::dies))
            std::raise(SIGKILL);
        started_ = true;
        ++communicator_->started;
        DeviceMemoryAccess const access{communicator_->device};
        for (Exchange& exchange : exchanges_)
            exchange.send();
        for (Exchange& exchange : exchanges_)
            exchange.receive();
    }

    std::shared_ptr<Communicator> communicator_;
    std::uint64_t number_;
    bool started_ = false;
    Messages messages_;
    std::vector<Exchange> exchanges_;
};

Range range_of(void const* address, std::size_t bytes) {
    auto const* const begin = static_cast<std::byte const*>(address);
    return {begin, begin + bytes};
}

} // namespace

void check(CollectiveCall const& call) {
    std::string const name = name_of(call.kind);
    Communicator const& communicator = *call.communicator;
    bool const any_peer = call.kind == Collective::all_reduce ||
                          call.kind == Collective::all_gather ||
                          call.kind == Collective::reduce_scatter;
    if (!any_peer && (call.peer < 0 || call.peer >= communicator.size))
        refuse_call(cudaErrorInvalidValue, name + ": rank " + std::to_string(call.peer) + " of " +
                                               std::to_string(communicator.size));
    if (reduces(call.kind) && call.type != ncclFloat32 && call.type != ncclFloat64 &&
        call.type != ncclBfloat16)
        refuse_call(cudaErrorNotSupported,
                    name + ": the fake NCCL reduces float32, float64 and bfloat16 only");
    std::size_t const bytes = call.count * element_bytes(call.type);
    if (bytes > std::size_t{1} << 30)
        refuse_call(cudaErrorNotSupported, name + ": more than 1 GiB in a message");
    auto const members = static_cast<std::size_t>(communicator.size);
    std::size_t const src_parts = call.kind == Collective::reduce_scatter ? members : 1;
    std::size_t const dst_parts = call.kind == Collective::all_gather ? members : 1;
    if (call.src)
        expect_within(call.src, bytes * src_parts, (name + ", source").c_str());
    if (call.dst)
        expect_within(call.dst, bytes * dst_parts, (name + ", destination").c_str());
    if (device_of(call.stream) != communicator.device)
        refuse_call(cudaErrorInvalidResourceHandle,
                    name + ": the stream is of another device than the communicator");
}

void issue(std::vector<CollectiveCall> const& calls) {
    auto const group = std::make_shared<Group>(calls);
    Operation operation;
    operation.access = Access::none; // opened only where it is needed
    operation.advance = [group] { return group->advance(); };
    for (CollectiveCall const& call : calls)
        for (void const* address : {call.src, static_cast<void const*>(call.dst)})
            if (Allocation const* const found = find_allocation(address); found && found->host)
                operation.pinned.push_back(
                    range_of(address, call.count * element_bytes(call.type)));
    enqueue(calls.front().stream, std::move(operation));
}

} // namespace evener::hostcuda
