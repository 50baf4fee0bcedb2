// SPDX-License-Identifier: Apache-2.0
#pragma once

// Builds token files byte by byte from the published formats, independently of io/'s own writer.

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <type_traits>
#include <vector>

namespace evener::io::test {

/// Bytes in the order of a file; numbers are appended little-endian.
class Bytes {
  public:
    template <class T>
    Bytes& add(T value) {
        using Bits = std::make_unsigned_t<T>;
        auto bits = static_cast<Bits>(value);
        for (std::size_t i = 0; i < sizeof(T); ++i) {
            content.push_back(static_cast<char>(bits & 0xff));
            bits = static_cast<Bits>(static_cast<std::uint64_t>(bits) >> 8);
        }
        return *this;
    }
    template <class T, class From>
    Bytes& add_all(std::vector<From> const& values) {
        for (From const value : values)
            add(static_cast<T>(value));
        return *this;
    }

    std::string content;
};

inline std::string write(std::filesystem::path const& path, std::string const& content) {
    std::ofstream{path, std::ios::binary} << content;
    return path.string();
}

/// llm.c: 256 int32 words, then the tokens as T.
template <class T>
std::string llmc_file(std::int32_t magic, std::int32_t version,
                      std::vector<std::int32_t> const& tokens) {
    Bytes file;
    file.add(magic).add(version).add(static_cast<std::int32_t>(tokens.size()));
    file.add_all<std::int32_t>(std::vector<int>(253, 0)).add_all<T>(tokens);
    return file.content;
}

inline std::string gpt2_file(std::vector<std::int32_t> const& tokens) {
    return llmc_file<std::uint16_t>(20240520, 1, tokens);
}
inline std::string llama3_file(std::vector<std::int32_t> const& tokens) {
    return llmc_file<std::uint32_t>(20240801, 7, tokens);
}

/// What a Megatron .idx says.
struct MegatronIndexFields {
    std::uint64_t version = 1;
    std::uint8_t type_code = 8; // uint16
    std::vector<std::int32_t> lengths;
    std::vector<std::int64_t> pointers;
    std::vector<std::int64_t> documents;
    std::vector<std::int8_t> modes;
};

inline std::string megatron_index(MegatronIndexFields const& fields) {
    Bytes file;
    file.content.assign("MMIDIDX\0\0", 9);
    file.add(fields.version).add(fields.type_code);
    file.add(static_cast<std::uint64_t>(fields.lengths.size()));
    file.add(static_cast<std::uint64_t>(fields.documents.size()));
    file.add_all<std::int32_t>(fields.lengths).add_all<std::int64_t>(fields.pointers);
    file.add_all<std::int64_t>(fields.documents).add_all<std::int8_t>(fields.modes);
    return file.content;
}

/// first, first + 1, ..., count of them.
inline std::vector<std::int32_t> counting(std::int32_t first, std::int32_t count) {
    std::vector<std::int32_t> tokens;
    for (std::int32_t i = 0; i < count; ++i)
        tokens.push_back(first + i);
    return tokens;
}

} // namespace evener::io::test
