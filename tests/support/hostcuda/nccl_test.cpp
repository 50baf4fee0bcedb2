// SPDX-License-Identifier: Apache-2.0

// Programs that are correct on GPUs must end, with the right numbers, on every seed: collectives
// while a peer waits for something else, loops of queries, two threads, hosts that block in MPI.
// A test that hangs is ended by ctest's timeout.

#include "hostcuda/scheduler.hpp"
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <gtest/gtest.h>
#include <mpi.h>
#include <nccl.h>

#include <atomic>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

namespace evener::hostcuda {
namespace {

constexpr std::uint64_t seeds = 32;
constexpr std::size_t count = 1000;

#define EXPECT_OK(call) EXPECT_EQ(static_cast<int>(call), 0) << #call

int world_rank() {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank;
}

int world_size() {
    int size = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    return size;
}

/// A communicator of all ranks, ready.
class Group {
  public:
    explicit Group(int blocking = 1) {
        ncclUniqueId id{};
        if (world_rank() == 0) {
            EXPECT_OK(ncclGetUniqueId(&id));
        }
        MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        config.blocking = blocking;
        auto const code = ncclCommInitRankConfig(&comm, world_size(), id, world_rank(), &config);
        EXPECT_EQ(code, blocking ? ncclSuccess : ncclInProgress);
        settle();
    }
    ~Group() {
        if (comm) {
            EXPECT_OK(ncclCommDestroy(comm));
        }
    }
    Group(Group const&) = delete;
    Group& operator=(Group const&) = delete;

    /// Polls until the last call is through.
    void settle() const {
        ncclResult_t state = ncclInProgress;
        while (state == ncclInProgress)
            ASSERT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
        EXPECT_EQ(state, ncclSuccess);
    }

    void abort() { EXPECT_OK(ncclCommAbort(std::exchange(comm, nullptr))); }

    ncclComm_t comm = nullptr;
};

class Stream {
  public:
    Stream() { EXPECT_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)); }
    ~Stream() { EXPECT_OK(cudaStreamDestroy(stream)); }
    Stream(Stream const&) = delete;
    Stream& operator=(Stream const&) = delete;
    operator cudaStream_t() const { return stream; }
    cudaStream_t stream = nullptr;
};

class Event {
  public:
    Event() { EXPECT_OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming)); }
    ~Event() { EXPECT_OK(cudaEventDestroy(event)); }
    Event(Event const&) = delete;
    Event& operator=(Event const&) = delete;
    operator cudaEvent_t() const { return event; }
    cudaEvent_t event = nullptr;
};

/// `elements` floats in device memory, and as many in pinned memory.
class Vector {
  public:
    explicit Vector(std::size_t elements = count) : elements{elements} {
        EXPECT_OK(cudaMalloc(&device, elements * sizeof(float)));
        EXPECT_OK(cudaMallocHost(&host, elements * sizeof(float)));
    }
    ~Vector() {
        EXPECT_OK(cudaFree(device));
        EXPECT_OK(cudaFreeHost(host));
    }
    Vector(Vector const&) = delete;
    Vector& operator=(Vector const&) = delete;

    void upload(cudaStream_t stream, float first) {
        std::iota(host, host + elements, first);
        EXPECT_OK(cudaMemcpyAsync(device, host, elements * sizeof(float), cudaMemcpyHostToDevice,
                                  stream));
    }
    void download(cudaStream_t stream) {
        EXPECT_OK(cudaMemcpyAsync(host, device, elements * sizeof(float), cudaMemcpyDeviceToHost,
                                  stream));
    }
    /// Elements [begin, end) are first + i.
    void expect_from(float first, std::size_t begin, std::size_t end) const {
        for (std::size_t i = begin; i < end; ++i)
            ASSERT_EQ(host[i], first + static_cast<float>(i)) << i;
    }

    std::size_t elements;
    float* device = nullptr;
    float* host = nullptr;
};

/// Runs `body` with each seed, another one on each rank.
template <class Body>
void with_seeds(Body const& body) {
    for (std::uint64_t seed = 0; seed < seeds; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        set_seed(seed == 0 ? 0 : seed * 100 + static_cast<std::uint64_t>(world_rank()));
        body();
        if (testing::Test::HasFailure())
            return;
    }
}

/// The sum over ranks of (rank * 10 + i) is total + size * i.
float total() {
    return static_cast<float>(world_size() * (world_size() - 1) * 5);
}

void expect_sum(Vector const& result) {
    for (std::size_t i = 0; i < result.elements; ++i)
        ASSERT_EQ(result.host[i],
                  total() + static_cast<float>(world_size()) * static_cast<float>(i))
            << i;
}

float own_first() {
    return static_cast<float>(world_rank() * 10);
}

TEST(Nccl, ACopyCanBeWaitedForWhileAPeerWaitsInACollective) {
    Group const group;
    with_seeds([&] {
        Stream const collective;
        Stream const copies;
        Vector gradient;
        Vector other;
        gradient.upload(collective, own_first());
        if (world_rank() % 2 == 0) {
            other.upload(copies, 5);
            EXPECT_OK(ncclAllReduce(gradient.device, gradient.device, count, ncclFloat32, ncclSum,
                                    group.comm, collective));
            other.download(copies);
            EXPECT_OK(cudaStreamSynchronize(copies));
            other.expect_from(5, 0, count);
            // Rank 1 starts only now.
            for (int peer = 1; peer < world_size(); peer += 2)
                MPI_Send(nullptr, 0, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
        } else {
            MPI_Recv(nullptr, 0, MPI_BYTE, world_rank() - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            for (int first = 0; first < world_size(); first += 2)
                if (first != world_rank() - 1)
                    MPI_Recv(nullptr, 0, MPI_BYTE, first, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            EXPECT_OK(ncclAllReduce(gradient.device, gradient.device, count, ncclFloat32, ncclSum,
                                    group.comm, collective));
        }
        gradient.download(collective);
        EXPECT_OK(cudaStreamSynchronize(collective));
        expect_sum(gradient);
    });
}

TEST(Nccl, QueriesMakeProgress) {
    Group const group;
    with_seeds([&] {
        Stream const collective;
        Stream const copies;
        Vector gradient;
        Event reduced;
        Event copied;
        gradient.upload(collective, own_first());
        EXPECT_OK(ncclAllReduce(gradient.device, gradient.device, count, ncclFloat32, ncclSum,
                                group.comm, collective));
        EXPECT_OK(cudaEventRecord(reduced, collective));
        EXPECT_OK(cudaStreamWaitEvent(copies, reduced, 0));
        gradient.download(copies);
        EXPECT_OK(cudaEventRecord(copied, copies));
        while (cudaEventQuery(copied) == cudaErrorNotReady)
            std::this_thread::yield();
        expect_sum(gradient);
        while (cudaStreamQuery(collective) == cudaErrorNotReady)
            std::this_thread::yield();
    });
}

TEST(Nccl, TheDeviceGoesOnWhileTheHostBlocksInAMessage) {
    if (world_size() < 2)
        GTEST_SKIP() << "needs two ranks";
    Group const group;
    with_seeds([&] {
        Stream const collective;
        Vector gradient;
        gradient.upload(collective, own_first());
        EXPECT_OK(ncclAllReduce(gradient.device, gradient.device, count, ncclFloat32, ncclSum,
                                group.comm, collective));
        gradient.download(collective);
        if (world_rank() == 0) { // nobody calls the runtime here until rank 1 has its sum
            MPI_Recv(nullptr, 0, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            EXPECT_OK(cudaStreamSynchronize(collective));
        } else {
            EXPECT_OK(cudaStreamSynchronize(collective));
            if (world_rank() == 1)
                MPI_Send(nullptr, 0, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
        }
        expect_sum(gradient);
    });
}

TEST(Nccl, ComputeAndTransportThreadsMayCallAtOnce) {
    Group const group;
    with_seeds([&] {
        Stream const collective;
        Stream const copies;
        Vector gradient;
        Vector message;
        Event arrived;
        message.upload(copies, 7);
        EXPECT_OK(cudaEventRecord(arrived, copies));
        std::atomic<bool> sent = false;
        std::thread transport{[&] {
            while (cudaEventQuery(arrived) == cudaErrorNotReady)
                std::this_thread::yield();
            message.download(copies);
            EXPECT_OK(cudaStreamSynchronize(copies));
            int const peer = (world_rank() + 1) % world_size();
            int const source = (world_rank() + world_size() - 1) % world_size();
            std::vector<float> received(count);
            MPI_Sendrecv(message.host, count, MPI_FLOAT, peer, 2, received.data(), count, MPI_FLOAT,
                         source, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            EXPECT_EQ(received[3], 10);
            sent = true;
        }};
        for (int i = 0; i < 3; ++i) {
            gradient.upload(collective, own_first());
            EXPECT_OK(ncclAllReduce(gradient.device, gradient.device, count, ncclFloat32, ncclSum,
                                    group.comm, collective));
            gradient.download(collective);
            EXPECT_OK(cudaStreamSynchronize(collective));
            expect_sum(gradient);
        }
        transport.join();
        EXPECT_TRUE(sent);
    });
}

TEST(Nccl, UnequalPartsAreReducedToTheirOwnersAndGathered) {
    Group const group{0};
    auto const ranks = static_cast<std::size_t>(world_size());
    // Part r is [begin(r), begin(r + 1)): larger ones for later ranks, none for rank 0 of three.
    auto const begin = [&](std::size_t rank) {
        return ranks == 1 ? rank * count : count * rank * (rank - 1) / (ranks * (ranks - 1));
    };
    with_seeds([&] {
        Stream const collective;
        Vector gradient;
        Vector shard;
        gradient.upload(collective, own_first());
        EXPECT_OK(ncclGroupStart());
        for (std::size_t owner = 0; owner < ranks; ++owner) {
            std::size_t const size = begin(owner + 1) - begin(owner);
            bool const mine = static_cast<int>(owner) == world_rank();
            if (size > 0) {
                EXPECT_OK(ncclReduce(
                    gradient.device + begin(owner), mine ? shard.device + begin(owner) : nullptr,
                    size, ncclFloat32, ncclSum, static_cast<int>(owner), group.comm, collective));
            }
        }
        auto code = ncclGroupEnd();
        EXPECT_TRUE(code == ncclSuccess || code == ncclInProgress);
        group.settle();
        EXPECT_OK(ncclGroupStart());
        for (std::size_t owner = 0; owner < ranks; ++owner) {
            float* const part = shard.device + begin(owner);
            if (std::size_t const size = begin(owner + 1) - begin(owner); size > 0) {
                EXPECT_OK(ncclBroadcast(part, part, size, ncclFloat32, static_cast<int>(owner),
                                        group.comm, collective));
            }
        }
        code = ncclGroupEnd();
        EXPECT_TRUE(code == ncclSuccess || code == ncclInProgress);
        group.settle();
        shard.download(collective);
        EXPECT_OK(cudaStreamSynchronize(collective));
        expect_sum(shard);
    });
}

TEST(Nccl, SendAndReceiveGoRoundARing) {
    Group const group;
    with_seeds([&] {
        Stream const stream;
        Vector own;
        Vector received;
        own.upload(stream, own_first());
        int const next = (world_rank() + 1) % world_size();
        int const previous = (world_rank() + world_size() - 1) % world_size();
        EXPECT_OK(ncclGroupStart());
        EXPECT_OK(ncclSend(own.device, count, ncclFloat32, next, group.comm, stream));
        EXPECT_OK(ncclRecv(received.device, count, ncclFloat32, previous, group.comm, stream));
        EXPECT_OK(ncclGroupEnd());
        received.download(stream);
        EXPECT_OK(cudaStreamSynchronize(stream));
        received.expect_from(static_cast<float>(previous * 10), 0, count);
    });
}

TEST(Nccl, GatherScatterAndBfloat16Agree) {
    Group const group;
    auto const ranks = static_cast<std::size_t>(world_size());
    with_seeds([&] {
        Stream const stream;
        Vector own;
        Vector all{count * ranks};
        Vector scattered;
        own.upload(stream, own_first());
        EXPECT_OK(ncclAllGather(own.device, all.device, count, ncclFloat32, group.comm, stream));
        EXPECT_OK(ncclReduceScatter(all.device, scattered.device, count, ncclFloat32, ncclSum,
                                    group.comm, stream));
        scattered.download(stream);
        std::vector<__nv_bfloat16> halves(count,
                                          __float2bfloat16(static_cast<float>(world_rank() + 1)));
        EXPECT_OK(
            cudaMemcpyAsync(own.device, halves.data(), count * 2, cudaMemcpyHostToDevice, stream));
        EXPECT_OK(ncclAllReduce(own.device, own.device, count, ncclBfloat16, ncclAvg, group.comm,
                                stream));
        EXPECT_OK(
            cudaMemcpyAsync(halves.data(), own.device, count * 2, cudaMemcpyDeviceToHost, stream));
        EXPECT_OK(cudaStreamSynchronize(stream));
        for (std::size_t i = 0; i < count; ++i) {
            ASSERT_EQ(scattered.host[i],
                      static_cast<float>(world_size()) * (own_first() + static_cast<float>(i)));
            ASSERT_EQ(__bfloat162float(halves[i]), static_cast<float>(world_size() + 1) / 2);
        }
    });
}

TEST(Nccl, SubCommunicatorsWorkBesideTheirParent) {
    Group const group;
    with_seeds([&] {
        ncclComm_t half = nullptr;
        int const color = world_rank() % 2;
        EXPECT_OK(ncclCommSplit(group.comm, color, -world_rank(), &half, nullptr));
        int size = 0;
        int rank = 0;
        EXPECT_OK(ncclCommCount(half, &size));
        EXPECT_OK(ncclCommUserRank(half, &rank));
        EXPECT_EQ(size, (world_size() + 1 - color) / 2);
        EXPECT_EQ(rank, size - 1 - world_rank() / 2); // the key turns the order round
        Stream const stream;
        Stream const other;
        Vector mine;
        Vector whole;
        mine.upload(stream, own_first());
        whole.upload(other, own_first());
        EXPECT_OK(ncclBroadcast(mine.device, mine.device, count, ncclFloat32, size - 1, half,
                                stream)); // from the lowest rank of the color
        EXPECT_OK(ncclAllReduce(whole.device, whole.device, count, ncclFloat32, ncclSum, group.comm,
                                other));
        mine.download(stream);
        whole.download(other);
        EXPECT_OK(cudaStreamSynchronize(stream));
        EXPECT_OK(cudaStreamSynchronize(other));
        mine.expect_from(static_cast<float>(color * 10), 0, count);
        expect_sum(whole);
        EXPECT_OK(ncclCommDestroy(half));
    });
}

TEST(Nccl, CollectivesOfOneCommunicatorStartInOrderOnAnyStreams) {
    Group const group;
    with_seeds([&] {
        Stream const streams[2];
        Vector vectors[4];
        for (int i = 0; i < 4; ++i)
            vectors[i].upload(streams[i % 2], static_cast<float>(100 * i) + own_first());
        for (int i = 0; i < 4; ++i)
            EXPECT_OK(ncclBroadcast(vectors[i].device, vectors[i].device, count, ncclFloat32, 0,
                                    group.comm, streams[i % 2]));
        for (int i = 0; i < 4; ++i)
            vectors[i].download(streams[i % 2]);
        for (Stream const& stream : streams)
            EXPECT_OK(cudaStreamSynchronize(stream));
        for (int i = 0; i < 4; ++i)
            vectors[i].expect_from(static_cast<float>(100 * i), 0, count);
    });
}

TEST(Nccl, AnAbortEndsWhatAPeerNeverJoins) {
    if (world_size() < 2)
        GTEST_SKIP() << "needs two ranks";
    Group group{0};
    Stream const stream;
    Vector gradient;
    if (world_rank() == 0) {
        EXPECT_OK(ncclGroupStart());
        EXPECT_OK(ncclAllReduce(gradient.device, gradient.device, count, ncclFloat32, ncclSum,
                                group.comm, stream));
        static_cast<void>(ncclGroupEnd());
        group.settle();
        EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
        EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
    }
    group.abort();
    EXPECT_OK(cudaStreamSynchronize(stream));
}

} // namespace
} // namespace evener::hostcuda
