// SPDX-License-Identifier: Apache-2.0
#include "runtime/background_task.hpp"

#include "core/error.hpp"

#include <chrono>
#include <csignal>

namespace evener::runtime {

void BackgroundTask::start(Work work) {
    EVENER_EXPECT(!result_.valid());
    // A thread inherits the mask of the one that makes it.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
        result_ = std::async(std::launch::async,
                             [this, work = std::move(work)] { return work(unwanted_); });
    } catch (...) { // no thread to be had
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
        throw;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

bool BackgroundTask::running() const {
    return result_.valid() &&
           result_.wait_for(std::chrono::seconds{0}) != std::future_status::ready;
}

void BackgroundTask::wait() const {
    if (result_.valid())
        result_.wait();
}

std::string BackgroundTask::take() {
    return result_.valid() ? result_.get() : std::string{};
}

} // namespace evener::runtime
