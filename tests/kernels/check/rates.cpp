// SPDX-License-Identifier: Apache-2.0

#include "rates.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <stdexcept>

namespace evener::kernels::test {
namespace {

/// Length of what operands are filled with, over and over.
constexpr std::int64_t pattern_elements = 1 << 18;

void wait_for(OpenTable const& open, StreamKind stream) {
    TableEvent const event{open};
    event.record(stream);
    event.synchronize();
}

/// Writes the operand on the device through a piece of pinned memory.
void fill(OpenTable const& open, Case const& test, Operand const& operand, std::byte* device) {
    std::int64_t const size = size_of(operand.storage);
    std::int64_t const count = std::min(operand.count, pattern_elements);
    Memory const pinned{open, Memory::Kind::pinned, count * size};
    if (operand.storage == Storage::scalars)
        std::memcpy(pinned.begin(), &test.scalars, sizeof test.scalars);
    else
        for (std::int64_t i = 0; i < count; ++i)
            write(operand.storage, pinned.begin() + i * size, operand.fill(i));
    for (std::int64_t begin = 0; begin < operand.count; begin += count)
        copy(open, StreamKind::compute, device + begin * size, pinned.begin(),
             std::min(count, operand.count - begin) * size);
    wait_for(open, StreamKind::compute);
}

/// A case with its memory, ready to be run again and again.
class Prepared {
  public:
    Prepared(OpenTable const& open, Case const& test) : open_{open}, operation_{open, test.shape} {
        if (operation_.get() == nullptr)
            throw std::runtime_error(operation_.reason.text);
        for (Operand const& operand : test.operands) {
            if (operand.null) {
                pointers_.push_back(nullptr);
                continue;
            }
            std::byte* const begin = allocate(operand.count * size_of(operand.storage));
            pointers_.push_back(begin);
            fill(open, test, operand, begin);
        }
        workspace_ = allocate(operation_.workspace_bytes);
    }

    void run() {
        Reason reason;
        if (open_.table().run(open_.device(), operation_.get(), pointers_.data(), workspace_,
                              &reason) != 0)
            throw std::runtime_error(reason.text);
    }

  private:
    std::byte* allocate(std::int64_t bytes) {
        memory_.emplace_back(open_, Memory::Kind::device, bytes);
        return memory_.back().begin();
    }

    OpenTable const& open_;
    PreparedOperation operation_;
    std::vector<Memory> memory_;
    std::vector<void*> pointers_;
    std::byte* workspace_ = nullptr;
};

/// Seconds of `times` runs of `work`, by the device's clock.
template <class Work>
double seconds_of(OpenTable const& open, int times, Work&& work) {
    TableEvent const begin{open};
    TableEvent const end{open};
    begin.record(StreamKind::compute);
    for (int i = 0; i < times; ++i)
        work();
    end.record(StreamKind::compute);
    end.synchronize();
    double seconds = 0;
    Reason reason;
    if (open.table().memory->elapsed(open.device(), begin.get(), end.get(), &seconds, &reason) != 0)
        throw std::runtime_error(reason.text);
    return seconds;
}

/// Seconds of one run: the least of three means, each over 20 ms or more.
template <class Work>
double seconds_of_one(OpenTable const& open, bool small, Work&& work) {
    work(); // warm
    double const once = seconds_of(open, 1, work);
    int const times =
        small ? 1 : std::clamp(static_cast<int>(0.02 / std::max(once, 1e-6)), 2, 2000);
    double best = seconds_of(open, times, work) / times;
    for (int batch = 1; batch < (small ? 1 : 3); ++batch)
        best = std::min(best, seconds_of(open, times, work) / times);
    return std::max(best, 1e-9);
}

double copy_rate(OpenTable const& open, bool small) {
    std::int64_t const bytes = small ? 4096 : std::int64_t{1} << 30;
    Memory const from{open, Memory::Kind::device, bytes};
    Memory const to{open, Memory::Kind::device, bytes};
    double const seconds = seconds_of_one(
        open, small, [&] { copy(open, StreamKind::compute, to.begin(), from.begin(), bytes); });
    return 2 * static_cast<double>(bytes) / seconds;
}

} // namespace

void print_rates(OpenTable const& open, bool small) {
    double const bandwidth = copy_rate(open, small);
    std::printf("copies on the device: %.1f GB/s read and written\n", bandwidth * 1e-9);
    std::printf("%-52s %11s %9s %7s %10s %9s\n", "operation", "time [us]", "GB/s", "of copy",
                "TFLOP/s", "of cuBLAS");
    double product_rate[2] = {}; // by Element: float32, bfloat16
    for (RateCase const& rated : rate_cases(small)) {
        Case const& test = rated.test;
        bool const narrow = test.operands[0].storage == Storage::bfloat16;
        if (!open.table().supports(open.device(), Element::bfloat16) && narrow &&
            test.shape.kind == OperationKind::matmul) {
            std::printf("%-52s not on this device\n", test.name.c_str());
            continue;
        }
        Prepared prepared{open, test};
        double const seconds = seconds_of_one(open, small, [&] { prepared.run(); });
        double const bytes = static_cast<double>(rated.bytes) / seconds;
        std::printf("%-52s %11.1f %9.1f ", test.name.c_str(), seconds * 1e6, bytes * 1e-9);
        if (rated.operations == 0) {
            std::printf("%6.1f%%\n", 100 * bytes / bandwidth);
            continue;
        }
        double const rate = rated.operations / seconds;
        if (rated.sets_the_rate)
            product_rate[narrow] = rate;
        std::printf("%7s %10.1f", "", rate * 1e-12);
        if (product_rate[narrow] > 0)
            std::printf(" %8.1f%%", 100 * rate / product_rate[narrow]);
        std::printf("\n");
    }
    std::fflush(stdout);
}

} // namespace evener::kernels::test
