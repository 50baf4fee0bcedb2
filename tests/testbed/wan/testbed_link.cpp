// SPDX-License-Identifier: Apache-2.0

// A slow link between two network namespaces, for kernels without netem:
//   testbed_link [--priority N] [--segments] [--statistics FILE] --settings FILE NAMESPACE:DEVICE
//                NAMESPACE:DEVICE
// A NAMESPACE is a file such as /proc/PID/ns/net, a DEVICE a TUN device in it, made where missing. What
// the kernel routes into one comes out of the other. SIGHUP reads the settings again, SIGTERM ends.
// The statistics are written every half second, one line for each direction.

#include "core/error.hpp"
#include "core/handle.hpp"

#include "testbed/wan/direction.hpp"
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <string>
#include <utility>

namespace evener::testbed {
namespace {

struct DescriptorTraits {
    using Handle = int;
    static Handle null() noexcept { return -1; }
    static void close(Handle descriptor) noexcept { ::close(descriptor); }
};
using Descriptor = core::UniqueHandle<DescriptorTraits>;

constexpr std::size_t virtio_header = 10; // sizeof(virtio_net_hdr); its header is no valid C++
constexpr long second = 1'000'000'000;    // ns

/// A descriptor that a system call returned; throws with errno's text where it failed.
Descriptor opened(int descriptor, std::string const& what) {
    if (descriptor < 0)
        throw core::IoError{what, std::strerror(errno)};
    return Descriptor{descriptor};
}

void check(int result, std::string const& what) {
    if (result < 0)
        throw core::IoError{what, std::strerror(errno)};
}

Nanoseconds now() {
    timespec time{};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<Nanoseconds>(time.tv_sec) * second + time.tv_nsec;
}

struct Arguments {
    std::string settings;
    std::string statistics;
    std::array<std::string, 2> ends;
    int priority = 0;
    bool whole = true; ///< super-packets stay in one piece
};

Arguments parse(int argc, char** argv) {
    Arguments result;
    std::size_t ends = 0;
    for (int i = 1; i < argc; ++i) {
        std::string const word = argv[i];
        bool const has_value = i + 1 < argc;
        if (word == "--segments")
            result.whole = false;
        else if (word == "--priority" && has_value)
            result.priority = std::atoi(argv[++i]);
        else if (word == "--settings" && has_value)
            result.settings = argv[++i];
        else if (word == "--statistics" && has_value)
            result.statistics = argv[++i];
        else if (!word.starts_with('-') && word.find(':') != std::string::npos && ends < 2)
            result.ends[ends++] = word;
        else
            throw core::ConfigError{"'" + word + "' is no argument of testbed_link"};
    }
    if (ends != 2 || result.settings.empty())
        throw core::ConfigError{"--settings FILE and two of NAMESPACE:DEVICE are needed"};
    return result;
}

/// The device of "NAMESPACE:DEVICE"; the process stays in that namespace.
Descriptor open_device(std::string const& end, bool whole) {
    std::size_t const colon = end.rfind(':');
    Descriptor const space = opened(open(end.substr(0, colon).c_str(), O_RDONLY | O_CLOEXEC), end);
    check(setns(space.get(), CLONE_NEWNET), end);
    Descriptor device =
        opened(open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC), "/dev/net/tun");
    ifreq request{};
    request.ifr_flags = static_cast<short>(IFF_TUN | IFF_NO_PI | (whole ? IFF_VNET_HDR : 0));
    end.substr(colon + 1).copy(request.ifr_name, IFNAMSIZ - 1);
    check(ioctl(device.get(), TUNSETIFF, &request), end);
    if (whole)
        check(ioctl(device.get(), TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4), end);
    return device;
}

Descriptor signals_of_this_process() {
    sigset_t set;
    sigemptyset(&set);
    for (int const number : {SIGHUP, SIGTERM, SIGINT})
        sigaddset(&set, number);
    check(sigprocmask(SIG_BLOCK, &set, nullptr), "sigprocmask");
    return opened(signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC), "signalfd");
}

class Link {
  public:
    explicit Link(Arguments arguments)
        : arguments_{std::move(arguments)}, header_{arguments_.whole ? virtio_header : 0} {
        load();
        for (std::size_t i = 0; i < 2; ++i)
            devices_[i] = open_device(arguments_.ends[i], arguments_.whole);
        signals_ = signals_of_this_process();
        alarm_ = opened(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK), "timerfd");
        half_second_ = opened(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK), "timerfd");
        itimerspec const half{{0, second / 2}, {0, second / 2}};
        check(timerfd_settime(half_second_.get(), 0, &half, nullptr), "timerfd");
        poll_ = opened(epoll_create1(EPOLL_CLOEXEC), "epoll");
        for (int const descriptor : {devices_[0].get(), devices_[1].get(), signals_.get(),
                                     alarm_.get(), half_second_.get()}) {
            epoll_event event{};
            event.events = EPOLLIN;
            event.data.fd = descriptor;
            check(epoll_ctl(poll_.get(), EPOLL_CTL_ADD, descriptor, &event), "epoll");
        }
    }

    void run() {
        while (!ended_) {
            std::array<epoll_event, 8> events{};
            int const count = epoll_wait(poll_.get(), events.data(), events.size(), -1);
            for (int i = 0; i < count; ++i)
                handle(events[static_cast<std::size_t>(i)].data.fd);
            Nanoseconds const time = now();
            for (std::size_t i = 0; i < 2; ++i)
                directions_[i].release(time, [&](Bytes const& bytes) {
                    // a device that is set down refuses
                    return write(devices_[1 - i].get(), bytes.data(), bytes.size()) >= 0;
                });
            set_alarm();
        }
    }

  private:
    void load() {
        std::ifstream file{arguments_.settings};
        BothDirections const settings = read_settings(file, arguments_.settings);
        directions_[0].configure(settings.ab);
        directions_[1].configure(settings.ba);
    }

    void handle(int descriptor) {
        std::uint64_t expirations = 0;
        if (descriptor == alarm_.get()) {
            if (read(descriptor, &expirations, sizeof expirations) > 0)
                alarm_at_ = 0;
        } else if (descriptor == half_second_.get()) {
            if (read(descriptor, &expirations, sizeof expirations) > 0)
                write_statistics();
        } else if (descriptor == signals_.get()) {
            signalfd_siginfo signal{};
            while (read(descriptor, &signal, sizeof signal) > 0)
                obey(static_cast<int>(signal.ssi_signo));
        } else {
            take(descriptor == devices_[0].get() ? 0 : 1);
        }
    }

    void obey(int signal) {
        if (signal != SIGHUP) {
            ended_ = true;
            return;
        }
        try {
            load();
        } catch (core::ConfigError const& error) { // the link stays as it is
            std::fprintf(stderr, "%s\n", error.what());
        }
    }

    /// A limited number of packets, so that neither direction starves the other.
    void take(std::size_t side) {
        for (int i = 0; i < 64; ++i) {
            ssize_t const count = read(devices_[side].get(), buffer_.data(), buffer_.size());
            if (count <= static_cast<ssize_t>(header_))
                return;
            directions_[side].accept({buffer_.data(), static_cast<std::size_t>(count)}, header_,
                                     now());
        }
    }

    void write_statistics() {
        if (arguments_.statistics.empty())
            return;
        std::string const part = arguments_.statistics + ".new";
        std::ofstream file{part};
        report(file, "ab", directions_[0]);
        report(file, "ba", directions_[1]);
        file.close();
        std::rename(part.c_str(), arguments_.statistics.c_str());
    }

    void set_alarm() {
        Nanoseconds next = 0;
        for (Direction const& direction : directions_)
            if (auto const due = direction.next_due(); due && (next == 0 || *due < next))
                next = *due;
        if (next == 0 || next == alarm_at_)
            return;
        alarm_at_ = next;
        itimerspec const at{{}, {static_cast<time_t>(next / second), next % second}};
        check(timerfd_settime(alarm_.get(), TFD_TIMER_ABSTIME, &at, nullptr), "timerfd");
    }

    Arguments arguments_;
    std::size_t header_;
    std::array<Direction, 2> directions_; // [0] from device 0 to device 1
    std::array<Descriptor, 2> devices_;
    Descriptor signals_;
    Descriptor alarm_;
    Descriptor half_second_;
    Descriptor poll_;
    std::array<std::uint8_t, 65536 + 64> buffer_{};
    Nanoseconds alarm_at_ = 0; // 0: not set
    bool ended_ = false;
};

/// First in line when a packet is due, however busy the cores are; without the right to, as others.
void raise_priority(int priority) {
    sched_param parameters{};
    parameters.sched_priority = priority;
    if (priority > 0 && sched_setscheduler(0, SCHED_FIFO, &parameters) < 0)
        std::fprintf(stderr, "testbed_link: no real-time priority (%s)\n", std::strerror(errno));
}

} // namespace
} // namespace evener::testbed

int main(int argc, char** argv) {
    using namespace evener;
    try {
        testbed::Arguments const arguments = testbed::parse(argc, argv);
        testbed::Link link{arguments};
        testbed::raise_priority(arguments.priority);
        link.run();
    } catch (core::Error const& error) {
        std::fprintf(stderr, "testbed_link: %s\n", error.what());
        return static_cast<int>(error.code());
    }
}
