// SPDX-License-Identifier: Apache-2.0

// A manifest is accepted only if it describes a whole checkpoint, and refused with a reason.

#include "checkpoints/manifest.hpp"
#include "core/error.hpp"
#include "support/message.hpp"
#include "support/sizes.hpp"
#include "support/temporary_folder.hpp"

#include "sample.hpp"
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <random>

namespace evener::checkpoints {

using support::expect_error;
using support::expect_error_containing;
using support::TemporaryFolder;

namespace {

Manifest small() {
    Manifest manifest;
    manifest.creator = "evener 0.1.0";
    manifest.kinds = {"parameters", "moment1"};
    manifest.tensors = {{"a", {4, 2}}, {"b", {3}}};
    manifest.data_files = {{"data-0000.h5", 1000, Digest{1, 2}}};
    manifest.side_files = {{"job.toml", 0, Digest{}}};
    std::int64_t offset = 100;
    auto const add = [&](char const* kind, char const* name, core::Range rows, std::int64_t bytes) {
        manifest.slices.push_back({kind, name, rows, "data-0000.h5", offset, bytes, Digest{3, 4}});
        offset += bytes;
    };
    for (char const* kind : {"parameters", "moment1"}) {
        add(kind, "a", {1, 4}, 24);
        add(kind, "a", {0, 1}, 8);
        add(kind, "b", {0, 3}, 12);
    }
    return manifest;
}

struct Fault {
    std::function<void(Manifest&)> plant;
    std::string message;
};

} // namespace

TEST(Manifest, TextReadsBackEqual) {
    Manifest const manifest = small();
    EXPECT_EQ(parse_manifest(manifest_text(manifest, "m"), "m"), manifest);
}

TEST(Manifest, RefusesWhatIsNoWholeCheckpoint) {
    std::vector<Fault> const faults{
        {[](Manifest& m) { m.slices.erase(m.slices.begin()); },
         "rows 1 to 4 of parameters 'a' are in no slice"},
        {[](Manifest& m) { m.slices.erase(m.slices.begin() + 1); },
         "rows 0 to 1 of parameters 'a' are in no slice"},
        {[](Manifest& m) { m.slices.erase(m.slices.end() - 1); },
         "rows 0 to 3 of moment1 'b' are in no slice"},
        {[](Manifest& m) { m.slices.push_back(m.slices.back()), m.slices.back().offset = 900; },
         "row 0 of moment1 'b' is in two slices"},
        {[](Manifest& m) { m.slices[1].offset = m.slices[0].offset + 20; },
         "'/parameters/a/rows-1-4' and '/parameters/a/rows-0-1' overlap in 'data-0000.h5'"},
        {[](Manifest& m) { m.slices[0].bytes = 20; },
         "'/parameters/a/rows-1-4' has 20 bytes, not the 24 of its rows"},
        {[](Manifest& m) { m.slices[0].rows.end = 5; },
         "a slice of 'a' has rows 1 to 5, the tensor has 4"},
        {[](Manifest& m) {
             m.slices[0].rows = {2, 2};
         },
         "a slice of 'a' has rows 2 to 2, the tensor has 4"},
        {[](Manifest& m) { m.slices[0].rows.begin = std::numeric_limits<std::int64_t>::min(); },
         "a slice of 'a' has rows -9223372036854775808 to 4, the tensor has 4"},
        {[](Manifest& m) { m.slices[0].name = "c"; },
         "a slice belongs to 'c', which is no tensor of it"},
        {[](Manifest& m) { m.slices[0].kind = "moment2"; },
         "a slice of 'a' is of kind 'moment2', which is no kind of it"},
        {[](Manifest& m) { m.slices[0].file = "data-0001.h5"; },
         "'/parameters/a/rows-1-4' is in 'data-0001.h5', which is no data file of it"},
        {[](Manifest& m) { m.slices[0].offset = 980; },
         "'/parameters/a/rows-1-4' does not lie inside 'data-0000.h5'"},
        {[](Manifest& m) { m.slices[0].offset = std::numeric_limits<std::int64_t>::max(); },
         "'/parameters/a/rows-1-4' does not lie inside 'data-0000.h5'"},
        {[](Manifest& m) { m.slices[0].offset = -1; },
         "'/parameters/a/rows-1-4' does not lie inside 'data-0000.h5'"},
        {[](Manifest& m) { m.data_files[0].name = "../data-0000.h5"; },
         "'../data-0000.h5' cannot be the name of a file"},
        {[](Manifest& m) { m.data_files[0].name = "weights.h5"; },
         "data file 'weights.h5' is not named 'data-NNNN.h5'"},
        {[](Manifest& m) { m.side_files[0].name = "data-0000.h5"; },
         "file 'data-0000.h5' is listed twice"},
        {[](Manifest& m) { m.data_files[0].bytes = -1; },
         "file 'data-0000.h5' has an impossible size of -1 bytes"},
        {[](Manifest& m) { m.tensors[1].name = "a"; }, "tensor 'a' is listed twice"},
        {[](Manifest& m) { m.tensors[0].name = "a/b"; },
         "'a/b' cannot be the name of a tensor (use letters, digits, '_', '.', '-')"},
        {[](Manifest& m) { m.tensors[0].name = ".."; },
         "'..' cannot be the name of a tensor (use letters, digits, '_', '.', '-')"},
        {[](Manifest& m) { m.tensors[0].shape = {}; }, "tensor 'a' has 0 dimensions, not 1 to 32"},
        {[](Manifest& m) {
             m.tensors[0].shape = {4, 0};
         },
         "tensor 'a' has an impossible shape [4, 0]"},
        {[](Manifest& m) {
             m.tensors[0].shape = {4, std::int64_t{1} << 62};
         },
         "tensor 'a' has an impossible shape [4, 4611686018427387904]"},
        {[](Manifest& m) { m.tensors.clear(); }, "it has no tensors"},
        {[](Manifest& m) { m.kinds = {}; }, "it has no kinds"},
        {[](Manifest& m) { m.kinds.push_back("moment1"); }, "kind 'moment1' is listed twice"},
        {[](Manifest& m) { m.kinds.push_back("a/b"); }, "'a/b' cannot be the name of a kind"},
        {[](Manifest& m) { m.kinds.push_back("moment2"); },
         "rows 0 to 4 of moment2 'a' are in no slice"},
        {[](Manifest& m) { m.state.step = -1; }, "a counter of the state is negative"},
        {[](Manifest& m) { m.state.loss_scale = std::numeric_limits<double>::infinity(); },
         "the loss scale is not finite"},
    };
    for (Fault const& fault : faults) {
        Manifest manifest = small();
        fault.plant(manifest);
        expect_error<core::CheckpointError>([&] { validate(manifest, "m"); },
                                            "checkpoint 'm': " + fault.message);
    }
    validate(small(), "m");
}

TEST(Manifest, RefusesTextThatIsNotTheFormat) {
    std::string const good = manifest_text(small(), "m");
    auto const replaced = [&good](std::string const& from, std::string const& to) {
        std::string text = good;
        auto const place = text.find(from);
        EXPECT_NE(place, std::string::npos) << from;
        return sealed(text.replace(place, from.size(), to));
    };
    std::vector<std::pair<std::string, std::string>> const cases{
        {replaced("evener-checkpoint", "other"), "'format' is not 'evener-checkpoint'"},
        {replaced("\"format_version\": 1", "\"format_version\": 2"),
         "'format_version' is 2, this Evener knows 1 use the Evener that wrote it ('evener "
         "0.1.0')"},
        {replaced("float32-le", "float64-le"), "'element_type' is not 'float32-le'"},
        {replaced("\"step\":0", "\"step\":1.5"), "'state.step' is not an integer of 64 bits"},
        {replaced("\"step\":0", "\"step\":9223372036854775808"),
         "'state.step' is not an integer of 64 bits"},
        {replaced("\"seed\":0", "\"seed\":-1"), "'state.seed' is not an integer of 64 bits >= 0"},
        {replaced("\"step\":0", "\"stop\":0"), "'state.step' is missing"},
        {replaced("\"rows\":[0,1]", "\"rows\":[0,1,2]"), "'slices[1].rows' is not two integers"},
        {replaced("rows-0-1", "rows-0-2"), "'slices[1].dataset' is not '/parameters/a/rows-0-1'"},
        {replaced("\"xxh3_128\":\"0", "\"xxh3_128\":\"G"),
         "'data_files[0].xxh3_128' is not 32 lower-case hexadecimal digits"},
        {replaced("\"kinds\": [\"parameters\"", "\"kinds\": [1"),
         "'kinds' holds something that is not a string"},
        {replaced("\"extra\":{}", "\"extra\":{\"a\":1}"),
         "'state.extra' holds something that is not a string"},
        {replaced("\"shape\":[3]", "\"shape\":3"), "'tensors[1].shape' is not a list"},
    };
    for (auto const& [text, message] : cases)
        expect_error<core::CheckpointError>([&] { parse_manifest(text, "m"); },
                                            "checkpoint 'm': " + message);
    expect_error_containing<core::CheckpointError>([&] { parse_manifest(replaced("{", "["), "m"); },
                                                   "it is not JSON");
    expect_error<core::CheckpointError>(
        [] { parse_manifest("", "m"); },
        "checkpoint 'm': it has no seal (it is cut, or not Evener's)");
}

TEST(Manifest, IgnoresUnknownMembers) {
    std::string text = manifest_text(small(), "m");
    text.insert(text.find("\"creator\""), "\"comment\": [1, {}], ");
    EXPECT_EQ(parse_manifest(sealed(text), "m"), small());
}

TEST(Manifest, SealCoversEveryBit) {
    std::string const good = manifest_text(small(), "m");
    for (std::size_t i = 0; i < good.size(); ++i)
        for (int bit = 0; bit < 8; ++bit) {
            std::string text = good;
            text[i] = static_cast<char>(text[i] ^ (1 << bit));
            EXPECT_THROW(parse_manifest(text, "m"), core::CheckpointError) << i;
        }
}

TEST(Manifest, RefusesTextsThatAreNotUtf8) {
    Manifest manifest = small();
    manifest.state.data_fingerprint = "\xff";
    expect_error_containing<core::CheckpointError>([&] { manifest_text(manifest, "m"); },
                                                   "checkpoint 'm': a text in it is not UTF-8");
}

// Sealed again after the mutation, so that it reaches the parser and the validation.
TEST(Manifest, MutatedTextGivesErrorsNeverCrashes) {
    TemporaryFolder const out;
    std::string const good = sample::slurp(sample::save(out.path(), 7) + "/manifest.json");
    std::string const interesting[] = {
        "-1", "1e999", "18446744073709551615", "null", "{}", "[", "\"", "\\u0000",
        "..", "/",     "9223372036854775807",  "true"};
    int refused = 0;
    auto const seeds = support::seeds("Manifest.MutatedTextGivesErrorsNeverCrashes", 10'000);
    for (std::uint64_t const seed : seeds) {
        std::mt19937_64 random{seed};
        std::string text = good;
        for (std::uint64_t edits = 1 + random() % 3; edits > 0; --edits) {
            std::size_t const place = random() % text.size();
            std::size_t const length = std::min<std::size_t>(random() % 12, text.size() - place);
            switch (random() % 5) {
            case 0:
                text[place] = static_cast<char>(random());
                break;
            case 1:
                text.erase(place, length);
                break;
            case 2:
                text.replace(place, length, interesting[random() % std::size(interesting)]);
                break;
            case 3: { // a digit, which keeps it JSON
                auto const digit = text.find_first_of("0123456789", place);
                if (digit != std::string::npos)
                    text[digit] = static_cast<char>('0' + random() % 10);
                break;
            }
            default: // a line twice or gone
                auto const end = text.find('\n', place);
                auto const begin = text.rfind('\n', place);
                if (end != std::string::npos && begin != std::string::npos) {
                    std::string const line = text.substr(begin, end - begin);
                    random() % 2 ? text.insert(begin, line) : text.erase(begin, end - begin);
                }
            }
        }
        if (random() % 8 != 0)
            text = sealed(text);
        try {
            Manifest const manifest = parse_manifest(text, "m");
            validate(manifest, "m");
        } catch (core::CheckpointError const&) {
            ++refused;
        }
    }
    EXPECT_GT(refused, static_cast<int>(seeds.size()) / 2);
}

TEST(Differences, SaysEachInOneLine) {
    EXPECT_EQ(differences({{"hidden_size", "512"}, {"layers", "4"}, {"rope_theta", "10000"}},
                          {{"bias", "true"}, {"hidden_size", "256"}, {"layers", "4"}}),
              (std::vector<std::string>{"hidden_size is 512 in the checkpoint, 256 in the job",
                                        "rope_theta is 10000 in the checkpoint, not set in the job",
                                        "bias is not set in the checkpoint, true in the job"}));
    EXPECT_TRUE(differences({{"a", "1"}}, {{"a", "1"}}).empty());
}

TEST(Digest, IsWhatXxh128sumPrints) {
    // printf '' | xxh128sum; printf abc | xxh128sum
    EXPECT_EQ(to_string(digest_of("")), "99aa06d3014798d86001c324468d497f");
    EXPECT_EQ(to_string(digest_of("abc")), "06b05ab6733a618578af5f94892f3950");
    Hasher hasher;
    hasher.add("a", 1);
    hasher.add("bc", 2);
    EXPECT_EQ(hasher.digest(), digest_of("abc"));
    EXPECT_EQ(parse_digest(to_string(digest_of("abc"))), digest_of("abc"));
    EXPECT_FALSE(parse_digest("06B05AB6733A618578AF5F94892F3950"));
}

} // namespace evener::checkpoints
