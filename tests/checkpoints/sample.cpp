// SPDX-License-Identifier: Apache-2.0
#include "sample.hpp"

#include "checkpoints/reader.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <fstream>
#include <iterator>
#include <random>
#include <thread>

namespace evener::checkpoints::sample {

std::vector<TensorInfo> tensors() {
    return {{"model.embed_tokens.weight", {37, 5}},
            {"model.layers.0.self_attn.q_proj.weight", {12, 3, 2}},
            {"model.norm.weight", {7}},
            {"one", {1}}};
}

std::vector<std::string> kinds() {
    return {"parameters", "moment1", "moment2"};
}

Description description(std::int64_t step) {
    Description result;
    result.creator = "evener test";
    result.state.step = step;
    result.state.samples_consumed = 8 * step;
    result.state.tokens_consumed = 512 * step;
    result.state.seed = 0xfedcba9876543210u;
    result.state.data_fingerprint = "train \"x\" \xc3\xa9";
    result.state.optimizer = "adamw";
    result.state.loss_scale = 0.1;
    result.state.nonfinite_steps = 3;
    result.state.extra = {{"best_val_loss", "1.5999999999999999"}};
    result.model = {{"hidden_size", "256"}, {"tie_word_embeddings", "false"}};
    result.kinds = kinds();
    result.tensors = tensors();
    result.job_toml = "[run]\nseed = 1\n";
    result.plan_toml = "[plan]\n";
    return result;
}

std::vector<float> values(std::uint64_t salt, std::string const& kind, TensorInfo const& tensor,
                          core::Range rows) {
    std::uint64_t const key = digest_of(kind + "/" + tensor.name).low ^ salt * 0x9e3779b97f4a7c15u;
    std::vector<float> out;
    std::int64_t const width = tensor.row_elements();
    for (std::int64_t i = rows.begin * width; i < rows.end * width; ++i) {
        std::uint64_t z = key + static_cast<std::uint64_t>(i) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 31)) * 0x94d049bb133111ebu;
        auto word = static_cast<std::uint32_t>(z >> 32);
        if (i % 5 == 1) // a NaN whose payload says where it belongs; a denormal
            word = 0x7f800001u | (word & 0x803fffffu);
        if (i % 5 == 2)
            word &= 0x807fffffu;
        out.push_back(std::bit_cast<float>(word));
    }
    return out;
}

namespace {

/// Rows of a tensor of a kind.
struct Cut {
    std::string kind;
    TensorInfo tensor;
    core::Range rows;

    SliceData slice(float const* data) const {
        return {kind, tensor.name, tensor.shape, rows, data};
    }
};

/// All of the state in pieces, in any order.
std::vector<Cut> random_cuts(std::mt19937_64& random, std::vector<TensorInfo> const& infos) {
    std::vector<Cut> cuts;
    for (std::string const& kind : kinds())
        for (TensorInfo const& tensor : infos)
            for (std::int64_t begin = 0; begin < tensor.rows();) {
                auto const left = static_cast<std::uint64_t>(tensor.rows() - begin);
                std::int64_t const end = begin + 1 + static_cast<std::int64_t>(random() % left);
                cuts.push_back({kind, tensor, {begin, end}});
                begin = end;
            }
    std::shuffle(cuts.begin(), cuts.end(), random);
    return cuts;
}

} // namespace

std::vector<WriterResult> write_slices(std::string const& folder, std::uint64_t salt,
                                       std::uint64_t seed, int writers,
                                       std::vector<TensorInfo> const& infos) {
    std::mt19937_64 random{seed};
    std::vector<Cut> const cuts = random_cuts(random, infos);
    std::vector<SliceWriter> files;
    for (int writer = 0; writer < writers; ++writer)
        files.emplace_back(folder, writer,
                           std::int64_t{4} << random() % 8); // calls of 4 to 512 bytes
    for (Cut const& cut : cuts) {
        std::vector<float> const data = values(salt, cut.kind, cut.tensor, cut.rows);
        files[random() % files.size()].write(cut.slice(data.data()));
    }
    std::vector<WriterResult> results;
    for (SliceWriter& file : files)
        results.push_back(file.finish());
    return results;
}

WriterResult write_shared_slices(std::string const& folder, std::uint64_t salt, std::uint64_t seed,
                                 int writers, std::vector<TensorInfo> const& infos) {
    std::mt19937_64 random{seed};
    std::vector<Cut> const cuts = random_cuts(random, infos);
    std::vector<SliceData> slices;
    for (Cut const& cut : cuts)
        slices.push_back(cut.slice(nullptr));
    WriterResult whole = make_shared_file(folder, slices);

    std::vector<std::thread> threads; // each writer has every so manieth slice
    for (int writer = 0; writer < writers; ++writer)
        threads.emplace_back([&, writer, call_bytes = std::int64_t{1} << random() % 8] {
            SharedFileWriter file{folder, call_bytes};
            for (auto i = static_cast<std::size_t>(writer); i < cuts.size();
                 i += static_cast<std::size_t>(writers)) {
                Cut const& cut = cuts[i];
                std::vector<float> const data = values(salt, cut.kind, cut.tensor, cut.rows);
                whole.slices[i] = file.write(cut.slice(data.data()), whole.slices[i]);
            }
            file.finish();
        });
    for (std::thread& thread : threads)
        thread.join();
    return finish_shared_file(folder, std::move(whole.slices));
}

std::string save(std::string const& out, std::int64_t step, std::uint64_t salt, int writers) {
    Description const what = description(step);
    std::string const folder = begin(out, step, payload_bytes(what.tensors, what.kinds));
    auto const results =
        write_slices(folder, salt, static_cast<std::uint64_t>(step) + salt, writers);
    return commit(out, what, results).folder;
}

void expect_values(std::string const& folder, std::uint64_t salt) {
    CheckpointReader reader{folder};
    for (std::string const& kind : reader.manifest().kinds)
        for (TensorInfo const& tensor : reader.manifest().tensors) {
            core::Range const all{0, tensor.rows()};
            std::vector<float> const expected = values(salt, kind, tensor, all);
            std::vector<float> got(expected.size());
            reader.read(kind, tensor.name, all, got.data());
            EXPECT_EQ(bits(got), bits(expected)) << kind << " of " << tensor.name;
        }
}

std::vector<std::uint32_t> bits(std::vector<float> const& values) {
    std::vector<std::uint32_t> words;
    for (float const value : values)
        words.push_back(std::bit_cast<std::uint32_t>(value));
    return words;
}

std::string slurp(std::filesystem::path const& path) {
    std::ifstream stream{path, std::ios::binary};
    return {std::istreambuf_iterator<char>{stream}, {}};
}

void spill(std::filesystem::path const& path, std::string const& text) {
    std::ofstream stream{path, std::ios::binary | std::ios::trunc};
    stream << text;
}

} // namespace evener::checkpoints::sample
