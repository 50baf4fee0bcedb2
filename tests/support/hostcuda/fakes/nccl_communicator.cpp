// SPDX-License-Identifier: Apache-2.0

// How members find each other. The creator of the unique id hears of every other member and sends
// all of them the list; a split is an exchange among all members of the parent.

#include "nccl_communicator.hpp"

#include "faults.hpp"
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <deque>

namespace evener::hostcuda {
namespace {

constexpr int serials = 4096; ///< communicators that one process may be first of
constexpr int tags_each = 2;

/// What ncclUniqueId holds.
struct Identity {
    char magic[8];
    int world_rank; ///< of the creator
    int serial;
};
constexpr char identity_magic[8] = "evener";

/// The first tag that is ours.
int first_tag() {
    static int const value = [] {
        int* bound = nullptr;
        int found = 0;
        MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &bound, &found);
        int world = 1;
        MPI_Comm_size(MPI_COMM_WORLD, &world);
        int const first = found ? *bound / 2 : 0;
        if (first / serials / tags_each < world + 1)
            refuse_call(cudaErrorNotSupported, "this MPI has too few tags for the fake NCCL");
        return first;
    }();
    return value;
}

int own_world_rank() {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank;
}

int next_serial() {
    static int last = 0;
    return last++ % serials;
}

int joining_tag(int serial) {
    return first_tag() + serial;
}

int data_tag(int first_world_rank, int serial) {
    return first_tag() + serials + (first_world_rank * serials + serial) * tags_each;
}

template <class Value>
std::vector<std::byte> bytes_of(Value const* values, std::size_t count) {
    auto const* const begin = reinterpret_cast<std::byte const*>(values);
    return {begin, begin + count * sizeof(Value)};
}

template <class Value>
Value value_at(std::vector<std::byte> const& bytes) {
    Value value;
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
}

/// What a member tells the creator.
struct Arrival {
    int rank;
    int world_rank;
    int process;
};

/// The creator's part.
std::function<bool()> gather_members(std::shared_ptr<Communicator> const& self, int tag) {
    struct Work {
        Messages arrivals;
        Messages lists;
        std::vector<std::vector<std::byte> const*> members;
        bool listed = false;
    };
    auto const work = std::make_shared<Work>();
    for (int i = 1; i < self->size; ++i)
        work->members.push_back(&work->arrivals.receive(sizeof(Arrival), MPI_ANY_SOURCE, tag));
    return [work, tag, weak = std::weak_ptr{self}] {
        auto const communicator = weak.lock();
        if (!work->arrivals.done())
            return false;
        if (!work->listed) {
            work->listed = true;
            for (auto const* bytes : work->members) {
                auto const arrival = value_at<Arrival>(*bytes);
                auto const size = communicator->size;
                if (arrival.rank < 0 || arrival.rank >= size ||
                    communicator->world_rank[static_cast<std::size_t>(arrival.rank)] >= 0)
                    refuse_call(cudaErrorInvalidValue, "two members of a communicator say they are "
                                                       "rank " +
                                                           std::to_string(arrival.rank));
                communicator->world_rank[static_cast<std::size_t>(arrival.rank)] =
                    arrival.world_rank;
                communicator->process[static_cast<std::size_t>(arrival.rank)] = arrival.process;
            }
            auto const& ranks = communicator->world_rank;
            std::vector<int> list = ranks;
            list.insert(list.end(), communicator->process.begin(), communicator->process.end());
            for (int i = 0; i < communicator->size; ++i)
                if (i != communicator->rank)
                    work->lists.send(bytes_of(list.data(), list.size()),
                                     ranks[static_cast<std::size_t>(i)], tag);
        }
        return work->lists.done();
    };
}

/// Everybody else's.
std::function<bool()> announce(std::shared_ptr<Communicator> const& self, int creator, int tag) {
    struct Work {
        Messages messages;
        std::vector<std::byte> const* list = nullptr;
    };
    auto const work = std::make_shared<Work>();
    Arrival const arrival{self->rank, own_world_rank(), getpid()};
    work->messages.send(bytes_of(&arrival, 1), creator, tag);
    work->list = &work->messages.receive(2 * self->world_rank.size() * sizeof(int), creator, tag);
    return [work, weak = std::weak_ptr{self}] {
        if (!work->messages.done())
            return false;
        auto const communicator = weak.lock();
        std::size_t const half = work->list->size() / 2;
        std::memcpy(communicator->world_rank.data(), work->list->data(), half);
        std::memcpy(communicator->process.data(), work->list->data() + half, half);
        return true;
    };
}

} // namespace

void expect_mpi() {
    int initialized = 0;
    int finalized = 0;
    MPI_Initialized(&initialized);
    MPI_Finalized(&finalized);
    int level = MPI_THREAD_SINGLE;
    if (initialized && !finalized)
        MPI_Query_thread(&level);
    if (level != MPI_THREAD_MULTIPLE)
        refuse_call(cudaErrorNotSupported,
                    "the fake NCCL needs a process that runs MPI with MPI_THREAD_MULTIPLE");
}

struct Messages::State {
    std::deque<std::vector<std::byte>> memory; // addresses stay
    std::vector<MPI_Request> requests;
};

std::vector<std::unique_ptr<Messages::State>>& Messages::abandoned() {
    static auto& all = *new std::vector<std::unique_ptr<State>>;
    return all;
}

Messages::Messages() = default;

Messages::~Messages() {
    if (state_ && !state_->requests.empty())
        abandoned().push_back(std::move(state_)); // MPI still uses the memory
}

Messages::State& Messages::state() {
    if (!state_) {
        expect_mpi();
        state_ = std::make_unique<State>();
    }
    return *state_;
}

void Messages::send(std::vector<std::byte> bytes, int world_rank, int tag) {
    auto const& kept = state().memory.emplace_back(std::move(bytes));
    MPI_Isend(kept.data(), static_cast<int>(kept.size()), MPI_BYTE, world_rank, tag, MPI_COMM_WORLD,
              &state().requests.emplace_back());
}

std::vector<std::byte> const& Messages::receive(std::size_t bytes, int world_rank, int tag) {
    auto& kept = state().memory.emplace_back(bytes);
    MPI_Irecv(kept.data(), static_cast<int>(kept.size()), MPI_BYTE, world_rank, tag, MPI_COMM_WORLD,
              &state().requests.emplace_back());
    return kept;
}

bool Messages::done() {
    if (!state_ || state_->requests.empty())
        return true;
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (finalized)
        return false;
    int all = 0;
    int const code = MPI_Testall(static_cast<int>(state_->requests.size()), state_->requests.data(),
                                 &all, MPI_STATUSES_IGNORE);
    if (code != MPI_SUCCESS)
        throw Fault{cudaErrorLaunchFailure, Fault::Kind::fatal,
                    "a message between GPUs failed: members called collectives of different sizes, "
                    "or one of them is gone"};
    if (all)
        state_->requests.clear();
    return all != 0;
}

ncclUniqueId make_unique_id() {
    expect_mpi();
    Identity identity{};
    std::memcpy(identity.magic, identity_magic, sizeof identity_magic);
    identity.world_rank = own_world_rank();
    identity.serial = next_serial();
    ncclUniqueId id{};
    static_assert(sizeof identity <= sizeof id.internal);
    std::memcpy(id.internal, &identity, sizeof identity);
    return id;
}

std::shared_ptr<Communicator> join(ncclUniqueId const& id, int rank, int size) {
    expect_mpi();
    Identity identity{};
    std::memcpy(&identity, id.internal, sizeof identity);
    if (std::memcmp(identity.magic, identity_magic, sizeof identity_magic) != 0)
        refuse_call(cudaErrorInvalidValue, "this is no unique id of ncclGetUniqueId");
    if (rank < 0 || rank >= size)
        refuse_call(cudaErrorInvalidValue, "rank " + std::to_string(rank) +
                                               " of a communicator of " + std::to_string(size));
    auto communicator = std::make_shared<Communicator>();
    communicator->rank = rank;
    communicator->size = size;
    communicator->device = current_device();
    communicator->world_rank.assign(static_cast<std::size_t>(size), -1);
    communicator->world_rank[static_cast<std::size_t>(rank)] = own_world_rank();
    communicator->process.assign(static_cast<std::size_t>(size), 0);
    communicator->process[static_cast<std::size_t>(rank)] = getpid();
    communicator->tag = data_tag(identity.world_rank, identity.serial);
    if (fault_now(FaultKind::absent)) {
        communicator->joining = std::make_unique<Joining>(Joining{[] { return false; }});
        return communicator;
    }
    int const tag = joining_tag(identity.serial);
    bool const creator = identity.world_rank == own_world_rank();
    communicator->joining = std::make_unique<Joining>(
        Joining{creator ? gather_members(communicator, tag)
                        : announce(communicator, identity.world_rank, tag)});
    return communicator;
}

std::shared_ptr<Communicator> split(Communicator& parent, int color, int key) {
    struct Proposal {
        int color, key, serial;
    };
    Proposal const own{color, key, next_serial()};
    Messages messages;
    std::vector<std::vector<std::byte> const*> received(parent.world_rank.size());
    for (std::size_t i = 0; i < received.size(); ++i) {
        messages.send(bytes_of(&own, 1), parent.world_rank[i], parent.tag + 1);
        received[i] = &messages.receive(sizeof own, parent.world_rank[i], parent.tag + 1);
    }
    while (!messages.done())
        give_way();
    struct Member {
        int key, rank, serial;
    };
    std::vector<Member> members;
    for (std::size_t i = 0; i < received.size(); ++i)
        if (auto const other = value_at<Proposal>(*received[i]); other.color == color)
            members.push_back({other.key, static_cast<int>(i), other.serial});
    if (color < 0)
        return nullptr;
    std::stable_sort(members.begin(), members.end(),
                     [](Member const& a, Member const& b) { return a.key < b.key; });
    auto communicator = std::make_shared<Communicator>();
    communicator->size = static_cast<int>(members.size());
    communicator->device = parent.device;
    communicator->blocking = parent.blocking;
    for (Member const& member : members) {
        if (member.rank == parent.rank)
            communicator->rank = static_cast<int>(communicator->world_rank.size());
        communicator->world_rank.push_back(
            parent.world_rank[static_cast<std::size_t>(member.rank)]);
    }
    communicator->tag = data_tag(communicator->world_rank.front(), members.front().serial);
    return communicator;
}

bool joined(Communicator& communicator) {
    if (communicator.joining && communicator.joining->advance())
        communicator.joining.reset();
    return !communicator.joining;
}

int missing_member(Communicator const& communicator) {
    for (std::size_t member = 0; member < communicator.process.size(); ++member)
        if (int const process = communicator.process[member];
            process > 0 && kill(process, 0) != 0 && errno == ESRCH)
            return static_cast<int>(member);
    return -1;
}

void wait_until_joined(Communicator& communicator) {
    while (!joined(communicator))
        give_way();
}

} // namespace evener::hostcuda
