// SPDX-License-Identifier: Apache-2.0

// Collectives among devices, one rank each: unequal parts, parts of nobody's, both element types.

#include "kernels/bfloat16.hpp"

#include "harness.hpp"
#include <gtest/gtest.h>
#include <mpi.h>

#include <array>
#include <cstring>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <thread>

namespace evener::kernels::test {
namespace {

class DeviceGroup : public testing::Test {
  public:
    void SetUp() override {
        MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
        MPI_Comm_size(MPI_COMM_WORLD, &size_);
        if (plugin_table() == nullptr)
            GTEST_SKIP() << why_unusable();
        open_.emplace(plugin_table(), 1);
    }
    void TearDown() override { MPI_Barrier(MPI_COMM_WORLD); }

    GroupTable const& table() const { return *open_->table().group; }
    OpenTable const& open() const { return *open_; }
    int rank() const { return rank_; }
    int size() const { return size_; }

    /// Joins the group of all ranks; collective.
    Group* join() {
        std::array<std::byte, group_id_bytes> id{};
        if (rank_ == 0)
            require(table().make_id(id.data(), &reason_));
        MPI_Bcast(id.data(), group_id_bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
        Group* group = nullptr;
        require(table().create(open().device(), id.data(), rank_, size_, &group, &reason_));
        wait_until_ready(group);
        return group;
    }

    void wait_until_ready(Group* group) const {
        int code = 1;
        while ((code = table().ready(group, &reason_)) == 1)
            std::this_thread::yield();
        require(code);
    }

    /// Of a call that enqueues.
    void require_enqueued(Group* group, int code) const {
        if (code != 1)
            require(code);
        wait_until_ready(group);
    }

    void require(int code) const {
        if (code != 0)
            throw std::runtime_error(reason_.text);
    }

    /// Rank r owns 97 (r + 1) elements, rank 0 another 5 at the end, the last rank an empty part.
    std::vector<GroupPart> parts() const {
        std::vector<GroupPart> parts;
        std::int64_t end = 0;
        for (int owner = 0; owner < size_; ++owner) {
            parts.push_back({owner, end, end + 97 * (owner + 1)});
            end = parts.back().end;
        }
        parts.push_back({size_ - 1, end, end});
        parts.push_back({0, end, end + 5});
        return parts;
    }

    void to_device(Memory const& device, void const* src, std::int64_t bytes) const {
        Memory const pinned{open(), Memory::Kind::pinned, bytes};
        std::memcpy(pinned.begin(), src, static_cast<std::size_t>(bytes));
        copy(open(), StreamKind::copy_in, device.begin(), pinned.begin(), bytes);
        TableEvent const there{open()};
        there.record(StreamKind::copy_in);
        there.hold_up(StreamKind::collective);
        there.synchronize();
    }

    /// What the collective stream has left there.
    template <class T>
    std::vector<T> from_device(Memory const& device, std::int64_t elements) const {
        auto const bytes = elements * static_cast<std::int64_t>(sizeof(T));
        Memory const pinned{open(), Memory::Kind::pinned, bytes};
        TableEvent const collected{open()};
        collected.record(StreamKind::collective);
        collected.hold_up(StreamKind::copy_out);
        copy(open(), StreamKind::copy_out, pinned.begin(), device.begin(), bytes);
        TableEvent const there{open()};
        there.record(StreamKind::copy_out);
        while (!there.is_done())
            std::this_thread::yield();
        std::vector<T> values(static_cast<std::size_t>(elements));
        std::memcpy(values.data(), pinned.begin(), static_cast<std::size_t>(bytes));
        return values;
    }

    mutable Reason reason_;

  private:
    int rank_ = 0;
    int size_ = 1;
    std::optional<OpenTable> open_;
};

TEST_F(DeviceGroup, KnowsTheVersionOfItsLibrary) {
    int version = 0;
    require(table().library_version(&version, &reason_));
    EXPECT_GE(version, 20000);
}

TEST_F(DeviceGroup, ReducesEachPartToItsOwner) {
    Group* const group = join();
    auto const all = parts();
    std::int64_t const elements = all.back().end;
    std::vector<float> gradient(static_cast<std::size_t>(elements));
    std::vector<float> expected;
    for (int step = 1; step <= 2; ++step) {
        // sums of small integers, exact in any order
        for (std::int64_t i = 0; i < elements; ++i)
            gradient[static_cast<std::size_t>(i)] =
                static_cast<float>(step * (rank() + 1) * (i % 13));
        expected.clear();
        for (GroupPart const& part : all)
            for (std::int64_t i = part.begin; i < part.end && part.owner == rank(); ++i)
                expected.push_back(static_cast<float>(step * size() * (size() + 1) / 2 * (i % 13)));
        auto const own = static_cast<std::int64_t>(expected.size());
        Memory const whole{open(), Memory::Kind::device, elements * 4};
        Memory const reduced{open(), Memory::Kind::device, own * 4};
        to_device(whole, gradient.data(), elements * 4);
        require_enqueued(group, table().reduce(group, reinterpret_cast<float*>(whole.begin()),
                                               reinterpret_cast<float*>(reduced.begin()),
                                               all.data(), static_cast<int>(all.size()), &reason_));
        EXPECT_EQ(from_device<float>(reduced, own), expected);
        EXPECT_EQ(from_device<float>(whole, elements), gradient); // is only read
    }
    table().destroy(group);
}

TEST_F(DeviceGroup, GathersEachPartFromItsOwner) {
    Group* const group = join();
    auto const all = parts();
    std::int64_t const elements = all.back().end;
    for (Element const type : {Element::float32, Element::bfloat16}) {
        std::vector<float> values(static_cast<std::size_t>(elements), -1.0f);
        std::vector<float> expected(values.size());
        for (std::int64_t i = 0; i < elements; ++i)
            expected[static_cast<std::size_t>(i)] = static_cast<float>(i % 101);
        for (GroupPart const& part : all)
            for (std::int64_t i = part.begin; i < part.end && part.owner == rank(); ++i)
                values[static_cast<std::size_t>(i)] = expected[static_cast<std::size_t>(i)];
        Memory const weights{open(), Memory::Kind::device, elements * bytes_of(type)};
        std::vector<BFloat16> narrow(values.size());
        for (std::size_t i = 0; i < values.size(); ++i)
            narrow[i] = to_bfloat16(values[i]);
        bool const wide = type == Element::float32;
        to_device(weights, wide ? static_cast<void const*>(values.data()) : narrow.data(),
                  elements * bytes_of(type));
        require_enqueued(group, table().gather(group, weights.begin(), type, all.data(),
                                               static_cast<int>(all.size()), &reason_));
        if (wide) {
            EXPECT_EQ(from_device<float>(weights, elements), expected);
        } else {
            auto const gathered = from_device<BFloat16>(weights, elements);
            for (std::size_t i = 0; i < values.size(); ++i)
                ASSERT_EQ(to_float(gathered[i]), expected[i]) << i;
        }
    }
    table().destroy(group);
}

TEST_F(DeviceGroup, CanBeGivenUpWhileAPeerIsMissing) {
    if (size() == 1)
        GTEST_SKIP() << "a group of one misses nobody";
    if (rank() == 0) {
        std::array<std::byte, group_id_bytes> id{};
        require(table().make_id(id.data(), &reason_));
        Group* group = nullptr;
        require(table().create(open().device(), id.data(), 0, size(), &group, &reason_));
        for (int poll = 0; poll < 100; ++poll)
            EXPECT_EQ(table().ready(group, &reason_), 1);
        table().abort(group);
    }
}

TEST_F(DeviceGroup, SaysWhichCallFailed) {
    Group* const group = join();
    Memory const memory{open(), Memory::Kind::device, 64};
    GroupPart const part{size(), 0, 4}; // nobody's
    auto* const values = reinterpret_cast<float*>(memory.begin());
    EXPECT_EQ(table().reduce(group, values, values, &part, 1, &reason_), 2);
    EXPECT_EQ(std::string{reason_.text}.find("ncclReduce failed ("), 0u) << reason_.text;
    table().abort(group);
}

} // namespace
} // namespace evener::kernels::test
