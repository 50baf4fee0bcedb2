// SPDX-License-Identifier: Apache-2.0
#pragma once

// A device table for tests of the transport: memory of its own that is really the process's, copy
// streams that work only when somebody asks for an event, and as far as the test lets them; a log of
// the copies that were made. One device at a time.

#include "kernels/table.hpp"

#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <vector>

namespace evener::comm {

struct RecordedCopy {
    kernels::StreamKind stream = kernels::StreamKind::copy_out;
    void const* dst = nullptr;
    std::int64_t bytes = 0;
};

class RecordingDevice {
  public:
    RecordingDevice();
    ~RecordingDevice();
    RecordingDevice(RecordingDevice const&) = delete;
    RecordingDevice& operator=(RecordingDevice const&) = delete;

    kernels::DeviceTable const& table() const;

    /// How many copies may be made from now on; by default any number.
    void allow(std::int64_t copies);
    std::vector<RecordedCopy> made() const;
    /// The next step of each stream, as when somebody asks for an event.
    void work();

  private:
    friend struct RecordingTable;
    struct Step {
        std::function<void()> run;
        bool copies = false;
    };
    void advance();

    mutable std::mutex mutex_;
    std::deque<Step> streams_[static_cast<int>(kernels::StreamKind::count)];
    std::int64_t allowed_ = std::int64_t{1} << 40;
    std::vector<RecordedCopy> made_;
};

} // namespace evener::comm
