// SPDX-License-Identifier: Apache-2.0

// Speed of writing a data file: SliceWriter (HDF5, digests, flush, close, fsync, the frame's digest)
// against write(2) and fsync of the same bytes, in turns. One JSON line: `share`, the median over
// rounds of the plain time / the writer's, judged: at least 0.8.
//   bin/writer_bench [FOLDER [MB]]
#include "checkpoints/writer.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <vector>

namespace {

using namespace evener;

constexpr int rounds = 9;
constexpr std::int64_t columns = 1024;
constexpr std::int64_t rows = 1024; ///< 4 MiB a slice, as a projection of a small model has

double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

double plain(std::string const& folder, std::vector<float> const& data, std::int64_t slices) {
    std::string const path = folder + "/plain";
    std::filesystem::remove(path);
    double const begin = now();
    int const file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    for (std::int64_t i = 0; i < slices; ++i) {
        auto const* bytes = reinterpret_cast<char const*>(data.data() + i * rows * columns);
        for (std::int64_t done = 0; done < 4 * rows * columns;) {
            ssize_t const written =
                ::write(file, bytes + done, static_cast<std::size_t>(4 * rows * columns - done));
            if (written <= 0) {
                fmt::print(stderr, "{}: cannot be written\n", path);
                std::exit(5);
            }
            done += written;
        }
    }
    ::fsync(file);
    ::close(file);
    double const seconds = now() - begin;
    std::filesystem::remove(path);
    return seconds;
}

double sliced(std::string const& folder, std::vector<float> const& data, std::int64_t slices) {
    double const begin = now();
    checkpoints::SliceWriter writer{folder, 0};
    for (std::int64_t i = 0; i < slices; ++i)
        writer.write({"parameters",
                      fmt::format("tensor.{}", i),
                      {rows, columns},
                      {0, rows},
                      data.data() + i * rows * columns});
    checkpoints::WriterResult const result = writer.finish();
    double const seconds = now() - begin;
    std::filesystem::remove(folder + "/" + result.file.name);
    return seconds;
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

} // namespace

int main(int argc, char** argv) {
    std::string const folder =
        argc > 1
            ? argv[1]
            : (std::filesystem::temp_directory_path() / fmt::format("evener-writer-{}", ::getpid()))
                  .string();
    std::int64_t const slices =
        (argc > 2 ? std::atoll(argv[2]) : 200) * 1'000'000 / (4 * rows * columns);
    std::filesystem::create_directories(folder);
    std::vector<float> data(static_cast<std::size_t>(slices * rows * columns));
    for (std::size_t i = 0; i < data.size(); ++i)
        data[i] = static_cast<float>(i * 2654435761u % 1000003u);
    plain(folder, data, slices); // warm
    sliced(folder, data, slices);
    std::vector<double> shares;
    std::vector<double> speeds;
    for (int i = 0; i < rounds; ++i) {
        double const a = i % 2 == 0 ? plain(folder, data, slices) : 0;
        double const b = sliced(folder, data, slices);
        double const plain_seconds = i % 2 == 0 ? a : plain(folder, data, slices);
        shares.push_back(plain_seconds / b);
        speeds.push_back(4e-9 * static_cast<double>(data.size()) / b);
    }
    std::filesystem::remove_all(folder);
    fmt::print(
        "{{\"bench\": \"writer\", \"share\": {:.3f}, \"share_least\": {:.3f}, "
        "\"share_most\": {:.3f}, \"gigabytes_per_second\": {:.3f}, \"mb\": {:.0f}, \"n\": {}, "
        "\"baseline\": \"write and fsync of the same bytes\"}}\n",
        median(shares), *std::min_element(shares.begin(), shares.end()),
        *std::max_element(shares.begin(), shares.end()), median(speeds),
        4e-6 * static_cast<double>(data.size()), rounds);
}
