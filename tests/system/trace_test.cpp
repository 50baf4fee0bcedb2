// SPDX-License-Identifier: Apache-2.0
// Pictures of planned and of trained steps: the files hold what the programs say.
#include "io/files.hpp"
#include "job/print.hpp"
#include "support/paths.hpp"
#include "support/temporary_folder.hpp"
#include "support/xml.hpp"

#include "system/runs.hpp"
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <map>
#include <sstream>
#include <tuple>

namespace evener::system_test {
namespace {

using Row = std::map<std::string, std::string>; ///< of a CSV file, by column

std::vector<std::string> split(std::string const& text, char at) {
    std::vector<std::string> parts(1);
    for (char const c : text)
        if (c == at)
            parts.emplace_back();
        else
            parts.back() += c;
    return parts;
}

std::vector<Row> read_csv(std::filesystem::path const& file) {
    std::istringstream lines{io::read_file(file.string())};
    std::string line;
    std::getline(lines, line);
    auto const columns = split(line, ',');
    std::vector<Row> rows;
    while (std::getline(lines, line)) {
        auto const cells = split(line, ',');
        EXPECT_EQ(cells.size(), columns.size()) << line;
        Row& row = rows.emplace_back();
        for (std::size_t c = 0; c < cells.size(); ++c)
            row[columns[c]] = cells[c];
    }
    return rows;
}

/// `rank: instruction` for each instruction of the programs that `evener plan` prints, as far as
/// the CSV has it.
std::vector<std::string> printed_instructions(std::string const& output) {
    std::vector<std::string> found;
    std::string rank;
    for (std::string const& line : split(output, '\n')) {
        auto const words = split(line, ' ');
        if (words.size() > 1 && words[0] == "program")
            rank = words[1];
        bool const is_instruction = !rank.empty() && words.size() > 1 && !words[0].empty() &&
                                    words[0].find_first_not_of("0123456789") == std::string::npos;
        if (!is_instruction)
            continue;
        std::map<std::string, std::string> values;
        for (std::string const& word : words)
            if (std::size_t const equal = word.find('='); equal != std::string::npos)
                values[word.substr(0, equal)] = word.substr(equal + 1);
        found.push_back(fmt::format("{} {} {} {} {}", rank, words[1], values["chunk"],
                                    values["microbatch"], values["peer"]));
    }
    return found;
}

std::vector<std::string> listed_instructions(std::vector<Row> const& rows) {
    std::vector<std::string> found;
    for (Row const& row : rows)
        found.push_back(fmt::format("rank={} {} {} {} {}", row.at("rank"), row.at("kind"),
                                    row.at("chunk"), row.at("microbatch"), row.at("peer")));
    return found;
}

double number(Row const& row, std::string const& column) {
    return std::stod(row.at(column));
}

/// What any run must keep: no instruction ends before it starts, computations of a rank one after
/// the other, no message arrives before it was sent.
void expect_possible(std::vector<Row> const& rows, std::string const& start,
                     std::string const& end) {
    using Message = std::tuple<std::string, std::string, std::string, std::string, std::string>;
    std::map<std::string, double> computing_until;
    std::map<Message, double> sent;
    for (Row const& row : rows) {
        EXPECT_GE(number(row, start), 0);
        EXPECT_LE(number(row, start), number(row, end));
        if (row.at("queue") == "compute") {
            EXPECT_GE(number(row, start), computing_until[row.at("rank")]);
            computing_until[row.at("rank")] = number(row, end);
        }
        if (row.at("kind") == "send")
            sent[{row.at("rank"), row.at("peer"), row.at("queue").substr(5), row.at("chunk"),
                  row.at("microbatch")}] = number(row, start);
    }
    int received = 0;
    for (Row const& row : rows) {
        if (row.at("kind") != "receive")
            continue;
        ++received;
        Message const message{row.at("peer"), row.at("rank"), row.at("queue").substr(8),
                              row.at("chunk"), row.at("microbatch")};
        EXPECT_GE(number(row, end), sent.at(message));
    }
    EXPECT_GT(received, 0);
}

std::size_t complete_events(std::filesystem::path const& file) {
    auto const trace = nlohmann::json::parse(io::read_file(file.string()));
    std::size_t count = 0;
    for (auto const& event : trace.at("traceEvents"))
        count += event.at("ph") == "X" ? 1 : 0;
    return count;
}

bool has_text(std::filesystem::path const& svg, std::string const& part) {
    for (auto const& element : support::read_xml(io::read_file(svg.string())))
        if (element.name == "text" && element.text.find(part) != std::string::npos)
            return true;
    return false;
}

class Trace : public ::testing::Test {
  protected:
    /// Three ranks, the first alone, the others sharing microbatches.
    job::Job job(std::string const& name) const {
        model::ModelConfig config = tiny_config();
        config.vocabulary = 23;
        write_tokens(folder_ / "tokens.bin", config.vocabulary, 60 * 8 + 1, 5);
        program::Plan plan;
        plan.groups = {{.ranks = {core::RankId{0}}, .shares = {1}, .shard_weights = {1}},
                       {.ranks = {core::RankId{1}, core::RankId{2}},
                        .shares = {2, 1},
                        .shard_weights = {1, 1}}};
        plan.chunks = {{core::GroupId{0}, {0, 3}}, {core::GroupId{1}, {3, 6}}};
        plan.batch_size = 9;
        plan.microbatch_size = 3;
        plan.boundary_types = program::default_boundary_types(plan);
        return with_plan(small_job(config, folder_ / "tokens.bin", folder_ / name, 4), plan);
    }

    support::ProcessResult plan(job::Job const& job, std::vector<std::string> options) const {
        std::string const file = job.run.out + "-plan.toml";
        io::write_file_atomically(file, job::print_job(job));
        options.insert(options.begin(), {support::program("evener").string(), "plan", file});
        return support::run_process(options);
    }

    std::string path(std::string const& name) const { return (folder_ / name).string(); }

    support::TemporaryFolder folder_{"trace"};
};

TEST_F(Trace, PlanDrawsThePredictedStep) {
    auto const result = plan(
        job("run"), {"--svg", path("p.svg"), "--trace", path("p.json"), "--csv", path("p.csv")});
    ASSERT_EQ(result.exit_code, 0) << result.errors;
    EXPECT_NE(result.output.find("predicted step: "), std::string::npos);
    EXPECT_NE(result.output.find("FLOPs over matrix rates"), std::string::npos);
    EXPECT_NE(result.output.find("wrote " + path("p.json")), std::string::npos);
    auto const rows = read_csv(path("p.csv"));
    EXPECT_EQ(listed_instructions(rows), printed_instructions(result.output));
    expect_possible(rows, "start", "end");
    EXPECT_EQ(complete_events(path("p.json")), rows.size());
    EXPECT_TRUE(has_text(path("p.svg"), "test: 1f1b, 3 microbatches of 3 sequences on 3 ranks"));
    EXPECT_TRUE(has_text(path("p.svg"), "FLOPs over matrix rates"));
}

TEST_F(Trace, PlanNamesWhatItCannotWrite) {
    auto const twice = plan(job("run"), {"--svg", path("same"), "--csv", path("same")});
    EXPECT_EQ(twice.exit_code, 2);
    EXPECT_NE(twice.errors.find("'--svg' and '--csv' are both"), std::string::npos) << twice.errors;
    auto const nowhere = plan(job("run"), {"--trace", path("no/where.json")});
    EXPECT_EQ(nowhere.exit_code, 5);
    EXPECT_NE(nowhere.errors.find("no/where.json"), std::string::npos) << nowhere.errors;
    auto const folder = plan(job("run"), {"--csv", folder_.path().string()});
    EXPECT_EQ(folder.exit_code, 2);
    EXPECT_FALSE(std::filesystem::exists(path("same")));
}

TEST_F(Trace, TrainingDrawsMeasuredStepsBesideTheirPredictions) {
    job::Job const plain = job("plain");
    job::Job traced = job("traced");
    traced.log.trace_steps = {1, 3, 9};
    ASSERT_EQ(train(plain, {.ranks = 3}).exit_code, 0);
    auto const result = train(traced, {.ranks = 3});
    ASSERT_EQ(result.exit_code, 0) << result.errors;
    auto const instructions = printed_instructions(plan(traced, {}).output);
    std::filesystem::path const out = traced.run.out;
    for (int const step : {1, 3}) {
        auto const file = [&](char const* ending) {
            return out / fmt::format("trace-step-{:08}.{}", step, ending);
        };
        auto const rows = read_csv(file("csv"));
        EXPECT_EQ(listed_instructions(rows), instructions);
        expect_possible(rows, "start", "end");
        expect_possible(rows, "predicted_start", "predicted_end");
        EXPECT_EQ(complete_events(file("json")), 2 * rows.size());
        EXPECT_TRUE(has_text(file("svg"), fmt::format("on 3 ranks, step {}", step)));
        EXPECT_TRUE(has_text(file("svg"), "than measured"));
        EXPECT_TRUE(has_text(file("svg"), step == 1 ? "FLOPs over matrix rates and measured links"
                                                    : "layer times of step 2"));
        auto const facts =
            nlohmann::json::parse(io::read_file(file("json").string())).at("otherData");
        EXPECT_EQ(facts.at("clock error bound in seconds"), "0"); // one node
    }
    for (auto const& entry : std::filesystem::directory_iterator{out}) {
        std::string const name = entry.path().filename().string();
        if (name.starts_with("trace-")) {
            EXPECT_TRUE(name.find("00000001") != std::string::npos ||
                        name.find("00000003") != std::string::npos)
                << name;
        }
    }
    EXPECT_EQ(result.errors.find("not traced"), std::string::npos) << result.errors;
    EXPECT_EQ(metrics(out, "loss"), metrics(plain.run.out, "loss")); // to the bit
}

TEST_F(Trace, TrainingGoesOnWhereAPictureCannotBeWritten) {
    job::Job traced = job("blocked");
    traced.log.trace_steps = {2};
    std::filesystem::create_directories(traced.run.out + "/trace-step-00000002.svg/full");
    auto const result = train(traced, {.ranks = 3});
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    EXPECT_NE(result.errors.find("step 2 is not traced: "), std::string::npos) << result.errors;
    EXPECT_EQ(metrics(traced.run.out, "loss").size(), 4U);
}

} // namespace
} // namespace evener::system_test
