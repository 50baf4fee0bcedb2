// SPDX-License-Identifier: Apache-2.0
#include "io/corpus.hpp"

#include "core/error.hpp"
#include "io/files.hpp"
#include "io/token_stream.hpp"
#include "io/token_writer.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>

namespace evener::io {

using core::ConfigError;
using core::IoError;

namespace {

constexpr std::size_t chunk_bytes = std::size_t{1} << 18;

/// One input, open at its first byte, with the number of bytes it is going to give.
struct Source {
    std::string path;
    FileDescriptor file;
    std::int64_t bytes = 0;
};

/// Up to chunk.size() bytes; 0 at the end.
std::size_t read_some(Source const& source, std::span<std::byte> chunk) {
    for (;;) {
        ssize_t const count = ::read(source.file.get(), chunk.data(), chunk.size());
        if (count >= 0)
            return static_cast<std::size_t>(count);
        if (errno != EINTR)
            throw IoError{source.path, fmt::format("cannot be read ({})", detail::errno_text())};
    }
}

/// Copies a pipe to a nameless file of the output folder, so that its length is known.
Source spool(Source const& pipe, std::string const& output_folder) {
    std::string name = output_folder + "/spool-XXXXXX";
    Source copy{pipe.path, FileDescriptor{::mkostemp(name.data(), O_CLOEXEC)}, 0};
    if (copy.file.get() < 0)
        throw IoError{name, fmt::format("cannot be created ({})", detail::errno_text())};
    ::unlink(name.c_str());
    std::vector<std::byte> chunk(chunk_bytes);
    while (std::size_t const count = read_some(pipe, chunk)) {
        detail::write_all(copy.file.get(), name, std::span{chunk}.first(count));
        copy.bytes += static_cast<std::int64_t>(count);
    }
    if (::lseek(copy.file.get(), 0, SEEK_SET) != 0)
        throw IoError{name, fmt::format("cannot be rewound ({})", detail::errno_text())};
    return copy;
}

Source open_source(std::string const& path, std::string const& output_folder) {
    bool const is_stdin = path == "-";
    Source source{is_stdin ? "standard input" : path,
                  FileDescriptor{is_stdin ? ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
                                          : ::open(path.c_str(), O_RDONLY | O_CLOEXEC)},
                  0};
    struct stat status {};
    if (source.file.get() < 0 || ::fstat(source.file.get(), &status) != 0)
        throw IoError{source.path, fmt::format("cannot be opened ({})", detail::errno_text())};
    if (S_ISDIR(status.st_mode))
        throw IoError{source.path, "is a folder; name its files, for example with a pattern '*'"};
    // Standard input may be a file that was read in part, so it is measured by reading it.
    if (is_stdin || !S_ISREG(status.st_mode))
        return spool(source, output_folder);
    source.bytes = status.st_size;
    return source;
}

std::vector<Source> open_sources(PrepareOptions const& options) {
    std::vector<std::string> patterns;
    for (std::string const& input : options.inputs)
        if (input != "-")
            patterns.push_back(input);
    if (options.inputs.size() > patterns.size() + 1)
        throw ConfigError{"standard input ('-') is named twice; it can be read only once"};
    expand_patterns(patterns); // refuses a file that is named twice, also by different inputs
    std::vector<Source> sources;
    for (std::string const& input : options.inputs) {
        if (input == "-") {
            sources.push_back(open_source(input, options.output_folder));
            continue;
        }
        for (std::string const& path : expand_patterns({input}))
            sources.push_back(open_source(path, options.output_folder));
    }
    return sources;
}

/// The next bytes of the sources, in order, exactly as many as their sizes announced.
class Reader {
  public:
    explicit Reader(std::vector<Source> sources) : sources_{std::move(sources)} {}

    /// Moves `tokens` bytes on into the writer.
    void copy(std::int64_t tokens, TokenWriter& writer) {
        while (tokens > 0) {
            Source& source = sources_[current_];
            auto const want =
                std::min({tokens, source.bytes, static_cast<std::int64_t>(chunk_.size())});
            if (want == 0) {
                ++current_;
                continue;
            }
            std::size_t const count =
                read_some(source, std::span{chunk_}.first(static_cast<std::size_t>(want)));
            if (count == 0)
                throw IoError{source.path, "became shorter while it was read; run again"};
            std::transform(chunk_.begin(), chunk_.begin() + static_cast<std::ptrdiff_t>(count),
                           tokens_.begin(),
                           [](std::byte byte) { return std::to_integer<std::int32_t>(byte); });
            writer.append(std::span{tokens_}.first(count));
            source.bytes -= static_cast<std::int64_t>(count);
            tokens -= static_cast<std::int64_t>(count);
        }
    }

  private:
    std::vector<Source> sources_;
    std::size_t current_ = 0;
    std::vector<std::byte> chunk_ = std::vector<std::byte>(chunk_bytes);
    std::vector<std::int32_t> tokens_ = std::vector<std::int32_t>(chunk_bytes);
};

void check_split(PrepareOptions const& options, std::int64_t total, std::int64_t validation) {
    std::string const& first = options.inputs.front();
    std::string const name = first == "-" ? "standard input" : first;
    if (total == 0)
        throw IoError{name, "is empty, there is nothing to prepare"};
    // Two tokens make the shortest sample: one input and its target.
    if (total - validation < 2 || (options.validation_fraction > 0 && validation < 2))
        throw IoError{name, fmt::format("is too short ({} bytes give {} for training and {} for "
                                        "validation; each needs at least 2) use a longer text or "
                                        "another validation fraction than {}",
                                        total, total - validation, validation,
                                        options.validation_fraction)};
    std::string const old = options.output_folder + "/val.bin";
    if (validation == 0 && ::access(old.c_str(), F_OK) == 0)
        throw IoError{old, "is of an earlier run, and no validation file is asked for now; remove "
                           "it first"};
}

} // namespace

PrepareReport prepare_bytes(PrepareOptions const& options) {
    auto const start = std::chrono::steady_clock::now();
    if (options.inputs.empty())
        throw ConfigError{"no input is named; name text files, or '-' for standard input"};
    if (!(options.validation_fraction >= 0 && options.validation_fraction < 1))
        throw ConfigError{fmt::format("the validation fraction is {}; use at least 0 and below 1",
                                      options.validation_fraction)};
    create_folder(options.output_folder);

    std::vector<Source> sources = open_sources(options);
    std::int64_t total = 0;
    for (Source const& source : sources)
        total += source.bytes;
    PrepareReport report;
    report.validation_tokens =
        static_cast<std::int64_t>(static_cast<double>(total) * options.validation_fraction);
    report.train_tokens = total - report.validation_tokens;
    check_split(options, total, report.validation_tokens);

    Reader reader{std::move(sources)};
    auto const write = [&](char const* name, std::int64_t tokens) {
        TokenWriter writer{options.output_folder + '/' + name, byte_vocabulary};
        reader.copy(tokens, writer);
        for (std::string& path : writer.close())
            report.files.push_back(std::move(path));
    };
    write("train.bin", report.train_tokens);
    if (report.validation_tokens > 0)
        write("val.bin", report.validation_tokens);
    report.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return report;
}

} // namespace evener::io
