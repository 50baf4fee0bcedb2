// SPDX-License-Identifier: Apache-2.0
#include "io/metrics.hpp"

#include "core/error.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

namespace evener::io {

using core::IoError;
using Json = nlohmann::ordered_json;

namespace {

/// The step of a line, or nothing when the line is not a record.
std::optional<std::int64_t> step_of(std::string const& line) {
    Json const record = Json::parse(line, nullptr, false);
    if (!record.is_object() || !record.contains("step") || !record["step"].is_number_integer())
        return std::nullopt;
    return record["step"].get<std::int64_t>();
}

} // namespace

std::string to_json(MetricsRecord const& record) {
    Json line{{"schema", metrics_schema},
              {"step", record.step},
              {"loss", record.loss},
              {"val_loss", nullptr},
              {"grad_norm", record.grad_norm},
              {"lr", record.lr},
              {"tokens", record.tokens},
              {"tokens_per_second", record.tokens_per_second},
              {"step_seconds", record.step_seconds}};
    if (record.val_loss)
        line["val_loss"] = *record.val_loss;
    for (auto const& [name, value] : record.extensions) {
        EVENER_EXPECT(!line.contains(name));
        std::visit([&, &key = name](auto const& held) { line[key] = held; }, value);
    }
    // Invalid UTF-8 in a text (a path) becomes U+FFFD instead of an exception in mid-training.
    return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

MetricsWriter::MetricsWriter(std::string path) : path_{std::move(path)} {
    open();
}

void MetricsWriter::open() {
    file_.reset(::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
    if (file_.get() < 0)
        throw IoError{path_, fmt::format("cannot be opened ({})", detail::errno_text())};
    struct stat facts {};
    if (::fstat(file_.get(), &facts) != 0 || !S_ISREG(facts.st_mode))
        throw IoError{path_,
                      "is no regular file (lines are appended to it and read again by the next "
                      "resume) move it away"};
    // A line that a killed run began must not fuse with our first one: cut back to the last
    // newline.
    off_t const end = ::lseek(file_.get(), 0, SEEK_END);
    off_t keep = end;
    char last = '\n';
    while (keep > 0 && ::pread(file_.get(), &last, 1, keep - 1) == 1 && last != '\n')
        --keep;
    if (keep != end && ::ftruncate(file_.get(), keep) != 0)
        throw IoError{path_, fmt::format("cannot be repaired ({})", detail::errno_text())};
}

std::string MetricsWriter::append(MetricsRecord const& record) {
    pending_ += to_json(record) + '\n';
    ++unwritten_;
    off_t const end = ::lseek(file_.get(), 0, SEEK_END);
    try {
        detail::write_all(file_.get(), path_, std::as_bytes(std::span{pending_}));
    } catch (IoError const& error) {
        // No part of a line stays; where that fails too, the next start cuts it off.
        static_cast<void>(::ftruncate(file_.get(), end) == 0);
        return error.what();
    }
    pending_.clear();
    unwritten_ = 0;
    return "";
}

std::int64_t MetricsWriter::truncate_to_step(std::int64_t step) {
    std::ifstream old{path_};
    if (!old)
        throw IoError{path_, fmt::format("cannot be opened ({})", detail::errno_text())};
    std::int64_t dropped = 0;
    AtomicFile replacement{path_};
    std::string block;
    for (std::string line; std::getline(old, line);) {
        std::optional<std::int64_t> const found = step_of(line);
        if (!found || *found > step) {
            ++dropped;
            continue;
        }
        block += line + '\n';
        if (block.size() >= std::size_t{1} << 20) {
            replacement.append(std::as_bytes(std::span{block}));
            block.clear();
        }
    }
    if (dropped == 0)
        return 0;
    replacement.append(std::as_bytes(std::span{block}));
    replacement.commit();
    open();
    return dropped;
}

} // namespace evener::io
