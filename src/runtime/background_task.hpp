// SPDX-License-Identifier: Apache-2.0
#pragma once

// One piece of work in a thread of its own, and its result as text. It never outlives its owner: who
// goes while it works tells it to give up and waits.

#include <atomic>
#include <functional>
#include <future>
#include <string>

namespace evener::runtime {

class BackgroundTask {
  public:
    /// Gets a flag to look at now and then: set, the result is wanted no more.
    using Work = std::function<std::string(std::atomic<bool> const& unwanted)>;

    BackgroundTask() = default;
    BackgroundTask(BackgroundTask const&) = delete;
    BackgroundTask& operator=(BackgroundTask const&) = delete;
    ~BackgroundTask() { unwanted_ = true; } // the future's destructor waits for the thread

    /// The thread takes no signals: they are the main thread's. No task may be there.
    void start(Work work);
    /// Whether it is still at work.
    bool running() const;
    void wait() const;
    /// Waits and returns the result, or throws what the work threw; the task is gone then. Empty
    /// where there is none.
    std::string take();

  private:
    std::atomic<bool> unwanted_ = false;
    std::future<std::string> result_;
};

} // namespace evener::runtime
