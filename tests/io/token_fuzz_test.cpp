// SPDX-License-Identifier: Apache-2.0

// Damaged token files: each either opens and reads within its bounds, or is refused with
// core::IoError. Under the sanitizers a read outside the map would end the test.

#include "core/error.hpp"
#include "core/random.hpp"
#include "io/file_bytes.hpp"
#include "io/token_stream.hpp"
#include "support/sizes.hpp"
#include "support/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <array>
#include <bit>

namespace evener::io {
namespace {

/// Draws from one seed, in order.
class Draws {
  public:
    explicit Draws(std::uint64_t seed) : seed_{seed} {}
    /// In [0, bound), bound > 0.
    std::uint64_t below(std::uint64_t bound) {
        return static_cast<std::uint64_t>(core::uniform(seed_, 0, count_++) *
                                          static_cast<double>(bound));
    }

  private:
    std::uint64_t seed_;
    std::uint64_t count_ = 0;
};

/// A 64-bit value that is likely to upset arithmetic.
std::uint64_t extreme(Draws& draws) {
    constexpr std::array<std::uint64_t, 12> values{0,
                                                   1,
                                                   0x7f,
                                                   0xffff,
                                                   0x7fffffff,
                                                   0x80000000,
                                                   0xffffffff,
                                                   0x0123456789abcdef,
                                                   1u << 30,
                                                   std::uint64_t{1} << 62,
                                                   std::uint64_t{1} << 63,
                                                   ~std::uint64_t{0}};
    return values[draws.below(values.size())];
}

/// Damages a file in one to four places; most changes fall on the first 1.1 KiB (headers).
std::string mutate(std::string bytes, Draws& draws) {
    for (std::uint64_t changes = 1 + draws.below(4); changes > 0 && !bytes.empty(); --changes) {
        std::size_t const reach =
            draws.below(4) == 0 ? bytes.size() : std::min<std::size_t>(bytes.size(), 64);
        std::size_t const place = draws.below(reach);
        switch (draws.below(6)) {
        case 0:
            bytes[place] = static_cast<char>(bytes[place] ^ (1 << draws.below(8)));
            break;
        case 1: { // a number of 1 to 8 bytes
            std::uint64_t const value = extreme(draws);
            std::size_t const width = std::size_t{1} << draws.below(4);
            for (std::size_t i = 0; i < width && place + i < bytes.size(); ++i)
                bytes[place + i] = static_cast<char>(value >> (8 * i));
            break;
        }
        case 2:
            bytes.resize(draws.below(bytes.size()));
            break;
        case 3:
            bytes.append(1 + draws.below(40), static_cast<char>(draws.below(256)));
            break;
        case 4:
            bytes.erase(place, 1 + draws.below(16));
            break;
        default:
            bytes.insert(place, 1 + draws.below(16), static_cast<char>(draws.below(256)));
            break;
        }
    }
    return bytes;
}

/// Opens the dataset and reads all of it. True: it was accepted.
bool read_everything(std::string const& path, TokenFormat format, std::int64_t sequence_length) {
    try {
        TokenDataset const data{{path}, format, sequence_length, 3};
        data.fingerprint();
        std::vector<std::int32_t> inputs(static_cast<std::size_t>(sequence_length));
        std::vector<std::int32_t> targets(inputs.size());
        // A damaged Megatron index may name the same bytes very often; the ends are enough then.
        std::int64_t const step = std::max<std::int64_t>(1, data.samples() / 100);
        for (std::int64_t sample = 0; sample < data.samples(); sample += step)
            data.read(sample, inputs, targets);
        data.read(data.samples() - 1, inputs, targets);
        data.check_tokens(1000);
        return true;
    } catch (core::IoError const& error) {
        EXPECT_FALSE(error.path().empty());
        return false;
    }
}

struct Accepted {
    int yes = 0;
    int no = 0;
    void count(bool accepted) { accepted ? ++yes : ++no; }
};

/// Both outcomes must occur: mutants that are all refused, or all accepted, test little.
void expect_both(Accepted const& accepted) {
    if (accepted.yes + accepted.no == 1)
        return; // one seed, to repeat a failure
    EXPECT_GT(accepted.yes, 0);
    EXPECT_GT(accepted.no, 0);
}

/// Writes a file in place of the old one; truncating the old one instead makes ext4 wait for the
/// disk at every close.
void replace(std::string const& path, std::string const& content) {
    std::filesystem::remove(path);
    test::write(path, content);
}

constexpr int mutants = 10000;

TEST(TokenFuzz, DamagedFilesOfOneHalfAreReadOrRefused) {
    support::TemporaryFolder const folder{"token-fuzz"};
    struct Case {
        TokenFormat format;
        std::string content;
    };
    std::vector<std::int32_t> const tokens = test::counting(0, 200);
    std::array<Case, 6> const cases{{
        {TokenFormat::automatic, test::gpt2_file(tokens)},
        {TokenFormat::llmc, test::gpt2_file(tokens)},
        {TokenFormat::automatic, test::llama3_file(tokens)},
        {TokenFormat::llmc, test::llama3_file(tokens)},
        {TokenFormat::uint16, test::Bytes{}.add_all<std::uint16_t>(tokens).content},
        {TokenFormat::uint32, test::Bytes{}.add_all<std::uint32_t>(tokens).content},
    }};
    std::string const path = (folder / "a.bin").string();
    for (Case const& original : cases) {
        Accepted accepted;
        for (std::uint64_t const seed :
             support::seeds("io/token_fuzz " + std::string{name_of(original.format)}, mutants)) {
            Draws draws{seed};
            replace(path, mutate(original.content, draws));
            SCOPED_TRACE(testing::Message() << name_of(original.format) << " seed " << seed);
            accepted.count(read_everything(path, original.format,
                                           1 + static_cast<std::int64_t>(draws.below(40))));
        }
        expect_both(accepted);
    }
}

TEST(TokenFuzz, DamagedMegatronPairsAreReadOrRefused) {
    support::TemporaryFolder const folder{"token-fuzz"};
    test::MegatronIndexFields fields;
    fields.lengths = {30, 0, 50, 120};
    fields.pointers = {0, 60, 160, 60}; // the last two do not follow one another
    fields.documents = {0, 2, 4};
    std::string const index = test::megatron_index(fields);
    std::string const data = test::Bytes{}.add_all<std::uint16_t>(test::counting(0, 200)).content;
    std::string const prefix = (folder / "m").string();
    Accepted accepted;
    for (std::uint64_t const seed : support::seeds("io/token_fuzz megatron", mutants)) {
        Draws draws{seed};
        bool const damage_data = draws.below(8) == 0;
        replace(prefix + ".idx", damage_data ? index : mutate(index, draws));
        replace(prefix + ".bin", damage_data ? mutate(data, draws) : data);
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        accepted.count(read_everything(prefix, TokenFormat::megatron,
                                       1 + static_cast<std::int64_t>(draws.below(40))));
    }
    expect_both(accepted);
}

} // namespace
} // namespace evener::io
