// SPDX-License-Identifier: Apache-2.0
#include "core/error.hpp"
#include "io/safetensors.hpp"
#include "support/message.hpp"
#include "support/sizes.hpp"
#include "support/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <random>

namespace evener::io {
namespace {

/// Bytes of a file with this header and data.
std::string file_of(std::string const& header, std::string const& data) {
    std::uint64_t const length = header.size();
    std::string text(8, '\0');
    std::memcpy(text.data(), &length, 8);
    return text + header + data;
}

class Safetensors : public testing::Test {
  protected:
    std::string path(std::string const& name = "a.safetensors") {
        return (folder_ / name).string();
    }
    SafetensorsFile opened(std::string const& bytes) {
        std::ofstream{path(), std::ios::binary} << bytes;
        return SafetensorsFile{path()};
    }
    void expect_refused(std::string const& bytes, std::string const& why) {
        support::expect_error_containing<core::IoError>([&] { opened(bytes); }, why);
    }

    support::TemporaryFolder folder_{"safetensors"};
};

std::vector<float> read_all(SafetensorsFile const& file, StoredTensor const& tensor) {
    std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
    file.read(tensor, {0, tensor.elements()}, values.data());
    return values;
}

// The layout written out by hand.
TEST_F(Safetensors, ReadsTensorsByPlaceWhateverTheirOrderInTheHeader) {
    float const a[] = {1.5F, -2};
    std::string data(reinterpret_cast<char const*>(a), sizeof a);
    data += std::string{"\x00\x3C\x01\x00", 4}; // float16: 1 and the smallest positive
    data += std::string{"\x80\x3F", 2};         // bfloat16: 1
    SafetensorsFile const file =
        opened(file_of(R"({"h":{"dtype":"F16","shape":[2,1],"data_offsets":[8,12]},)"
                       R"("__metadata__":{"format":"pt"},)"
                       R"("w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                       R"("b":{"dtype":"BF16","shape":[],"data_offsets":[12,14]}}   )",
                       data));
    ASSERT_EQ(file.tensors().size(), 3U);
    EXPECT_EQ(file.tensors()[0].name, "w");
    EXPECT_EQ(read_all(file, file.tensors()[0]), (std::vector<float>{1.5F, -2}));
    EXPECT_EQ(file.tensors()[1].shape, (std::vector<std::int64_t>{2, 1}));
    EXPECT_EQ(read_all(file, file.tensors()[1]), (std::vector<float>{1, 0x1p-24F}));
    EXPECT_EQ(read_all(file, file.tensors()[2]), (std::vector<float>{1}));
    float one = 0;
    file.read(file.tensors()[0], {1, 2}, &one);
    EXPECT_EQ(one, -2);
}

// Every float16, by its definition.
TEST_F(Safetensors, ReadsFloat16Exactly) {
    std::string data(2 * 65536, '\0');
    for (std::uint32_t bits = 0; bits < 65536; ++bits)
        std::memcpy(data.data() + 2 * bits, &bits, 2);
    SafetensorsFile const file =
        opened(file_of(R"({"h":{"dtype":"F16","shape":[65536],"data_offsets":[0,131072]}})", data));
    std::vector<float> const values = read_all(file, file.tensors()[0]);
    for (std::uint32_t bits = 0; bits < 65536; ++bits) {
        int const exponent = static_cast<int>(bits >> 10 & 31);
        float const fraction = static_cast<float>(bits & 1023) / 1024;
        float expected = exponent == 0   ? std::ldexp(fraction, -14)
                         : exponent < 31 ? std::ldexp(1 + fraction, exponent - 15)
                         : fraction == 0 ? INFINITY
                                         : NAN;
        if (bits >> 15 != 0)
            expected = -expected;
        ASSERT_EQ(std::isnan(values[bits]), std::isnan(expected)) << bits;
        if (!std::isnan(expected)) {
            ASSERT_EQ(values[bits], expected) << bits;
        }
        ASSERT_EQ(std::signbit(values[bits]), bits >> 15 != 0) << bits;
    }
}

TEST_F(Safetensors, WritesWhatItReads) {
    std::vector<float> values(5000);
    std::mt19937 engine{1};
    for (float& value : values)
        value = std::bit_cast<float>(static_cast<std::uint32_t>(engine() & 0xBFFFFFFFU));
    for (StoredType const type : {StoredType::float32, StoredType::bfloat16}) {
        SafetensorsWriter writer{
            path(), type, {{"a.b", {3, 1000}}, {"c", {2000}}}, {{"format", "pt"}}};
        std::span<float const> const all{values};
        writer.append(all.first(10)); // blocks need not end where tensors do
        writer.append(all.subspan(10));
        writer.finish();
        SafetensorsFile const file{path()};
        ASSERT_EQ(file.tensors().size(), 2U);
        EXPECT_EQ(file.tensors()[0].begin % 8, 0);
        std::vector<float> back = read_all(file, file.tensors()[0]);
        std::vector<float> const rest = read_all(file, file.tensors()[1]);
        back.insert(back.end(), rest.begin(), rest.end());
        ASSERT_EQ(back.size(), values.size());
        for (std::size_t i = 0; i < values.size(); ++i) {
            float const expected =
                type == StoredType::float32
                    ? values[i]
                    : std::bit_cast<float>(static_cast<std::uint32_t>(core::to_bfloat16(values[i]))
                                           << 16);
            ASSERT_EQ(std::bit_cast<std::uint32_t>(back[i]), std::bit_cast<std::uint32_t>(expected))
                << i;
        }
    }
}

TEST_F(Safetensors, RefusesWhatDoesNotCoverTheFileOnce) {
    auto const one = [](std::string const& rest) { return R"({"w":{)" + rest + "}}"; };
    std::string const four(4, '\0');
    expect_refused("1234567", "it has 7 bytes");
    expect_refused(file_of("", "").replace(0, 1, "\x10"), "its header is said to have 16 bytes");
    expect_refused(file_of("[1]", ""), "not a JSON object");
    expect_refused(file_of(one(R"("dtype":"F32","shape":[1],"data_offsets":[0,8])"), four),
                   "lies outside the file");
    expect_refused(file_of(one(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"), four),
                   "has 4 bytes (its shape takes 8)");
    expect_refused(file_of(one(R"("dtype":"F32","shape":[1],"data_offsets":[0,4])"), four + "x"),
                   "its tensors take 4 bytes (it has 5 behind the header)");
    expect_refused(file_of(one(R"("dtype":"Q4","shape":[1],"data_offsets":[0,4])"), four),
                   "unknown type 'Q4'");
    expect_refused(file_of(one(R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])"), four),
                   "no list of whole numbers");
    expect_refused(
        file_of(one(R"("dtype":"U8","shape":[4611686018427387904,4],"data_offsets":[0,0])"), ""),
        "impossibly large");
    expect_refused(file_of(R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
                           R"("b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
                           four),
                   "tensor 'b' begins at byte 2");
}

TEST_F(Safetensors, SaysThatItCannotReadOtherTypes) {
    SafetensorsFile const file =
        opened(file_of(R"({"i":{"dtype":"I8","shape":[1],"data_offsets":[0,1]}})", "x"));
    float value = 0;
    support::expect_error_containing<core::IoError>(
        [&] {
            file.read(file.tensors()[0], {0, 1}, &value);
        },
        "type 'I8'");
}

// Any change of the header gives a file that is refused or whose tensors still cover its data once.
TEST_F(Safetensors, SurvivesMutatedHeaders) {
    std::string const header = R"({"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
                               R"("b":{"dtype":"BF16","shape":[4],"data_offsets":[16,24]}})";
    std::string const sound = file_of(header, std::string(24, '\1'));
    std::int64_t refused = 0;
    std::int64_t taken = 0;
    for (std::uint64_t const seed : support::seeds("safetensors", 5000)) {
        std::mt19937_64 engine{seed};
        std::string bytes = sound;
        for (int change = 0; change < 1 + static_cast<int>(engine() % 3); ++change) {
            std::size_t const place = engine() % bytes.size();
            if (engine() % 4 == 0)
                bytes.erase(place, 1);
            else
                bytes[place] = "0123456789[]{},:\"-ab\0\xFF"[engine() % 22];
        }
        try {
            SafetensorsFile const file = opened(bytes);
            std::int64_t sum = 0;
            for (StoredTensor const& tensor : file.tensors()) {
                sum += tensor.bytes;
                if (tensor.type != StoredType::other)
                    read_all(file, tensor);
            }
            EXPECT_LE(sum, std::ssize(bytes));
            ++taken;
        } catch (core::IoError const&) {
            ++refused;
        }
    }
    EXPECT_GT(refused, taken);
    EXPECT_GT(taken, 0);
}

} // namespace
} // namespace evener::io
