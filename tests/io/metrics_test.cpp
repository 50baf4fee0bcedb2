// SPDX-License-Identifier: Apache-2.0
#include "core/error.hpp"
#include "io/file_bytes.hpp"
#include "io/metrics.hpp"
#include "support/message.hpp"
#include "support/temporary_folder.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cmath>
#include <csignal>
#include <fstream>
#include <limits>

namespace evener::io {
namespace {

MetricsRecord record(std::int64_t step) {
    MetricsRecord result;
    result.step = step;
    result.loss = 2.5;
    result.grad_norm = 0.1;
    result.lr = 3e-4;
    result.tokens = 3000000000;
    result.tokens_per_second = 1234.5;
    result.step_seconds = 0.25;
    return result;
}

std::vector<std::int64_t> steps(std::string const& path) {
    std::vector<std::int64_t> found;
    std::ifstream file{path};
    for (std::string line; std::getline(file, line);)
        found.push_back(nlohmann::json::parse(line)["step"].get<std::int64_t>());
    return found;
}

class MetricsTest : public testing::Test {
  protected:
    support::TemporaryFolder folder_{"metrics"};
    std::string path_ = (folder_ / "metrics.jsonl").string();
};

TEST_F(MetricsTest, WritesOneObjectALine) {
    MetricsWriter writer{path_};
    writer.append(record(1));
    EXPECT_EQ(read_file(path_), // at once, not when the writer closes
              R"({"schema":1,"step":1,"loss":2.5,"val_loss":null,"grad_norm":0.1,"lr":0.0003,)"
              R"("tokens":3000000000,"tokens_per_second":1234.5,"step_seconds":0.25})"
              "\n");
    MetricsRecord second = record(2);
    second.val_loss = 2.25;
    second.extensions = {
        {"peak", 0.5}, {"host", "a\"b\n"}, {"skipped", false}, {"count", std::int64_t{7}}};
    writer.append(second);
    auto const line = nlohmann::json::parse(to_json(second));
    EXPECT_EQ(line["val_loss"], 2.25);
    EXPECT_EQ(line["peak"], 0.5);
    EXPECT_EQ(line["host"], "a\"b\n");
    EXPECT_EQ(line["skipped"], false);
    EXPECT_EQ(line["count"], 7);
    EXPECT_EQ(steps(path_), (std::vector<std::int64_t>{1, 2}));
}

TEST_F(MetricsTest, WritesNumbersThatAreNotFiniteAsNull) {
    MetricsRecord bad = record(1);
    bad.loss = std::nan("");
    bad.val_loss = std::numeric_limits<double>::infinity();
    bad.extensions = {{"x", -std::numeric_limits<double>::infinity()}};
    auto const line = nlohmann::json::parse(to_json(bad));
    EXPECT_TRUE(line["loss"].is_null());
    EXPECT_TRUE(line["val_loss"].is_null());
    EXPECT_TRUE(line["x"].is_null());
}

TEST_F(MetricsTest, KeepsEveryDigitOfANumber) {
    MetricsRecord precise = record(1);
    precise.loss = 0.1 + 0.2;
    EXPECT_EQ(nlohmann::json::parse(to_json(precise))["loss"].get<double>(), 0.1 + 0.2);
}

TEST_F(MetricsTest, RefusesAnExtensionNamedLikeAField) {
    MetricsRecord clash = record(1);
    clash.extensions = {{"loss", 1.0}};
    EXPECT_THROW(to_json(clash), core::ContractViolation);
}

TEST_F(MetricsTest, AppendsToWhatIsThere) {
    MetricsWriter{path_}.append(record(1));
    MetricsWriter{path_}.append(record(2));
    EXPECT_EQ(steps(path_), (std::vector<std::int64_t>{1, 2}));
}

TEST_F(MetricsTest, CutsOffATornLastLine) {
    for (std::string const torn : {"{\"schema\":1,\"step\":2,\"lo", "{", "\n{\"step\""}) {
        test::write(path_, to_json(record(1)) + '\n' + torn);
        MetricsWriter writer{path_};
        writer.append(record(2));
        writer.truncate_to_step(2); // drops the empty line of the third case
        EXPECT_EQ(steps(path_), (std::vector<std::int64_t>{1, 2})) << torn;
    }
    test::write(path_, "{\"only a torn line");
    MetricsWriter{path_}.append(record(5));
    EXPECT_EQ(steps(path_), (std::vector<std::int64_t>{5}));
}

TEST_F(MetricsTest, DropsLaterStepsOnResumeAndGoesOn) {
    MetricsWriter writer{path_};
    for (std::int64_t step = 1; step <= 6; ++step)
        writer.append(record(step));
    EXPECT_EQ(writer.truncate_to_step(4), 2);
    EXPECT_EQ(steps(path_), (std::vector<std::int64_t>{1, 2, 3, 4}));
    EXPECT_EQ(writer.truncate_to_step(4), 0);
    writer.append(record(5));
    EXPECT_EQ(steps(path_), (std::vector<std::int64_t>{1, 2, 3, 4, 5}));
    EXPECT_EQ(writer.truncate_to_step(0), 5);
    EXPECT_EQ(read_file(path_), "");
}

TEST_F(MetricsTest, DropsLinesThatAreNoRecord) {
    test::write(path_, to_json(record(1)) + "\nnoise\n[1]\n{\"step\":\"x\"}\n" +
                           to_json(record(2)) + '\n');
    MetricsWriter writer{path_};
    EXPECT_EQ(writer.truncate_to_step(9), 3);
    EXPECT_EQ(steps(path_), (std::vector<std::int64_t>{1, 2}));
}

TEST_F(MetricsTest, KeepsWhatCannotBeWrittenForTheNextTime) {
    MetricsWriter writer{path_};
    EXPECT_EQ(writer.append(record(1)), "");
    struct sigaction before {};
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    sigaction(SIGXFSZ, &ignore, &before);
    rlimit limit{};
    getrlimit(RLIMIT_FSIZE, &limit); // a limit on the file size stands for a full disk
    rlimit const full{200, limit.rlim_max};
    setrlimit(RLIMIT_FSIZE, &full);
    std::string const failure = writer.append(record(2));
    std::string const again = writer.append(record(3));
    setrlimit(RLIMIT_FSIZE, &limit);
    sigaction(SIGXFSZ, &before, nullptr);
    EXPECT_EQ(failure, "'" + path_ + "': cannot be written (File too large)");
    EXPECT_EQ(again, failure);
    EXPECT_EQ(writer.unwritten(), 2);
    EXPECT_EQ(steps(path_), (std::vector<std::int64_t>{1})); // no part of a line
    EXPECT_EQ(writer.append(record(4)), "");
    EXPECT_EQ(writer.unwritten(), 0);
    EXPECT_EQ(steps(path_), (std::vector<std::int64_t>{1, 2, 3, 4}));
}

TEST_F(MetricsTest, RefusesWhatIsNoRegularFile) {
    ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
    support::expect_error_containing<core::IoError>([&] { MetricsWriter{path_}; },
                                                    "is no regular file");
}

TEST_F(MetricsTest, NamesTheFileThatCannotBeOpened) {
    std::string const path = (folder_ / "none/metrics.jsonl").string();
    support::expect_error<core::IoError>([&] { MetricsWriter{path}; },
                                         "'" + path +
                                             "': cannot be opened (No such file or directory)");
}

} // namespace
} // namespace evener::io
