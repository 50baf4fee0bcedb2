// SPDX-License-Identifier: Apache-2.0
#include "runtime/status.hpp"

#include "core/log.hpp"
#include "io/files.hpp"
#include "runtime/signals.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <utility>

namespace evener::runtime {

namespace {

using Layout = StatusLayout;
constexpr std::size_t word = sizeof(std::uint64_t);
constexpr std::size_t line_words = Layout::width / word;
static_assert(Layout::width % word == 0 && Layout::position_end % word == 0);

std::int64_t unix_milliseconds() {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
}

/// The number at the right end of `width` characters, the rest `fill`.
void put_number(char* place, std::size_t width, std::uint64_t value, char fill) noexcept {
    char* at = place + width;
    do {
        *--at = static_cast<char>('0' + value % 10);
        value /= 10;
    } while (value > 0 && at > place);
    std::fill(place, at, fill);
}

void store(std::uint64_t* line, std::size_t offset, void const* bytes) noexcept {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes, word);
    std::atomic_ref{line[offset / word]}.store(value, std::memory_order_relaxed);
}

/// "0000123" and an end, in one store.
void store_count(std::uint64_t* line, std::size_t offset, std::uint64_t count, char end) noexcept {
    char text[word];
    put_number(text, word - 1, count % 10'000'000, '0');
    text[word - 1] = end;
    store(line, offset, text);
}

} // namespace

StatusWords status_words(std::string_view text) {
    StatusWords words;
    words.fill(' ');
    std::copy_n(text.begin(), std::min(text.size(), words.size()), words.begin());
    if (text.size() > words.size()) // what is cut must not look whole
        std::fill_n(words.end() - 3, 3, '.');
    return words;
}

Status::Status(comm::MpiSession const& mpi, std::string const& file)
    : file_{file}, rank_{mpi.rank()}, node_of_{comm::lowest_of_nodes(mpi.world(), mpi.node())},
      places_{status_places(node_of_)}, exceptions_{std::uncaught_exceptions()} {
    std::string content;
    if (rank_ == 0) {
        double const now = 1e-3 * static_cast<double>(unix_milliseconds());
        content.resize(places_.bytes, '\0');
        for (std::size_t r = 0; r < node_of_.size(); ++r) {
            StatusText const line = first_status_line(static_cast<int>(r), mpi.hosts()[r], now);
            std::copy(line.begin(), line.end(),
                      content.begin() + static_cast<std::ptrdiff_t>(places_.offsets[r]));
        }
        try {
            io::write_file_atomically(file, content);
        } catch (core::IoError const& error) {
            core::log::root(core::log::Level::warn, "no status file: {}", error.what());
        }
    }
    content = mpi.world().broadcast(content);
    std::string const first =
        content.substr(places_.offsets[static_cast<std::size_t>(rank_)], Layout::width);
    std::memcpy(text_.data(), first.data(), first.size());
    sees_others_ = map(content);
    if (!sees_others_) {
        memory_.resize(line_words);
        line_ = memory_.data();
        std::memcpy(line_, text_.data(), text_.size());
    }
    mark_termination_at(line_ + Layout::signal / word);
    // Nobody changes a line before all have compared the file.
    std::int64_t const unseen =
        mpi.world().all_sum(std::vector<std::int64_t>{sees_others_ ? 0 : 1}).front();
    if (unseen > 0)
        core::log::root(core::log::Level::info,
                        "{} of {} ranks do not see '{}' and keep their lines to themselves", unseen,
                        mpi.size(), file_);
}

/// Whether the file there is the one that rank 0 has just written: a node may have one of its own
/// under that name.
bool Status::map(std::string const& content) {
    io::FileDescriptor const file{open(file_.c_str(), O_RDWR | O_CLOEXEC)};
    struct stat facts {};
    if (file.get() < 0 || fstat(file.get(), &facts) != 0 ||
        static_cast<std::size_t>(facts.st_size) != content.size())
        return false;
    void* const memory =
        mmap(nullptr, content.size(), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (memory == MAP_FAILED)
        return false;
    if (std::memcmp(memory, content.data(), content.size()) != 0) {
        munmap(memory, content.size());
        return false;
    }
    mapped_ = {static_cast<std::uint64_t*>(memory), content.size() / word};
    guard_ = io::MappingGuard{std::as_bytes(mapped_), PROT_READ | PROT_WRITE};
    line_ = mapped_.data() + places_.offsets[static_cast<std::size_t>(rank_)] / word;
    return true;
}

Status::~Status() {
    enter(std::uncaught_exceptions() > exceptions_ ? Phase::failed : Phase::end, step_);
    mark_termination_at(nullptr);
    guard_ = {};
    if (!mapped_.empty())
        munmap(mapped_.data(), mapped_.size_bytes());
}

void Status::enter(Phase phase, std::int64_t step) noexcept {
    step_ = step;
    put_number(text_.data() + Layout::step, 10, static_cast<std::uint64_t>(step), ' ');
    std::string_view const name = name_of(phase);
    std::fill_n(text_.data() + Layout::phase, Layout::text + Layout::text_width - Layout::phase,
                ' ');
    std::copy(name.begin(), name.end(), text_.data() + Layout::phase);
    phase_.store(phase, std::memory_order_relaxed);
    publish();
    if (guard_.lost() && !std::exchange(said_lost_, true))
        core::log::root(core::log::Level::warn,
                        "'{}' was cut short by somebody; it says nothing more until the next start",
                        file_);
}

void Status::write(char const (&verb)[6], StatusWords const& words) noexcept {
    std::memcpy(text_.data() + Layout::verb, verb, 5);
    std::memcpy(text_.data() + Layout::text, words.data(), words.size());
    publish();
}

void Status::publish() noexcept {
    auto const now = static_cast<std::uint64_t>(unix_milliseconds());
    char* const time = text_.data() + Layout::time;
    put_number(time, 10, now / 1000, ' ');
    put_number(time + 11, 3, now % 1000, '0'); // behind the point
    for (std::size_t offset = 0; offset < Layout::position_end; offset += word)
        store(line_, offset, text_.data() + offset);
    changes_.store(changes_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

void Status::beat(bool moved) noexcept {
    moves_ += moved ? 1 : 0;
    store_count(line_, Layout::moved, moves_, ' ');
    store_count(line_, Layout::alive, ++beats_, '\n');
}

StatusText Status::line(int rank) const noexcept {
    StatusText text;
    std::uint64_t* const line =
        rank == rank_ ? line_
                      : mapped_.data() + places_.offsets[static_cast<std::size_t>(rank)] / word;
    for (std::size_t i = 0; i < line_words; ++i) {
        std::uint64_t const value = std::atomic_ref{line[i]}.load(std::memory_order_relaxed);
        std::memcpy(text.data() + i * word, &value, word);
    }
    return text;
}

std::vector<StatusRecord> read_status(std::string const& file) {
    try {
        return parse_status(io::read_file(file));
    } catch (core::IoError const&) { // of a run that has none
        return {};
    }
}

} // namespace evener::runtime
