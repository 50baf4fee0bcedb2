// SPDX-License-Identifier: Apache-2.0
#include "io/safetensors.hpp"

#include "core/error.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

namespace evener::io {

static_assert(std::endian::native == std::endian::little, "values are copied as they lie");

namespace {

using nlohmann::json;

constexpr std::int64_t length_bytes = 8;
constexpr std::int64_t most_header_bytes = 100'000'000; // the format's own limit

struct TypeName {
    StoredType type;
    char const* name;
    std::int64_t bytes;
};
constexpr TypeName type_names[] = {
    {StoredType::float32, "F32", 4},  {StoredType::bfloat16, "BF16", 2},
    {StoredType::float16, "F16", 2},  {StoredType::other, "F64", 8},
    {StoredType::other, "I64", 8},    {StoredType::other, "U64", 8},
    {StoredType::other, "I32", 4},    {StoredType::other, "U32", 4},
    {StoredType::other, "I16", 2},    {StoredType::other, "U16", 2},
    {StoredType::other, "I8", 1},     {StoredType::other, "U8", 1},
    {StoredType::other, "BOOL", 1},   {StoredType::other, "F8_E4M3", 1},
    {StoredType::other, "F8_E5M2", 1}};

TypeName const& name_of(StoredType type) {
    return *std::find_if(std::begin(type_names), std::end(type_names),
                         [&](TypeName const& entry) { return entry.type == type; });
}

/// Checks a header against the size of its file.
class HeaderReader {
  public:
    HeaderReader(std::string const& path, std::int64_t data_begin, std::int64_t data_bytes)
        : path_{path}, data_begin_{data_begin}, data_bytes_{data_bytes} {}

    std::vector<StoredTensor> read(std::string_view text) const {
        json const header = json::parse(text, nullptr, false);
        if (header.is_discarded() || !header.is_object())
            fail("its header is not a JSON object");
        std::vector<StoredTensor> tensors;
        for (auto const& [name, entry] : header.items())
            if (name != "__metadata__")
                tensors.push_back(tensor(name, entry));
        std::sort(tensors.begin(), tensors.end(), [](auto const& a, auto const& b) {
            return std::pair{a.begin, a.bytes} < std::pair{b.begin, b.bytes};
        });
        std::int64_t end = data_begin_;
        for (StoredTensor const& next : tensors) {
            if (next.begin != end)
                fail(fmt::format("tensor '{}' begins at byte {} of the data (the one before ends "
                                 "at {})",
                                 next.name, next.begin - data_begin_, end - data_begin_));
            end = next.begin + next.bytes;
        }
        if (end != data_begin_ + data_bytes_)
            fail(fmt::format("its tensors take {} bytes (it has {} behind the header)",
                             end - data_begin_, data_bytes_));
        return tensors;
    }

    [[noreturn]] void fail(std::string const& what) const {
        throw core::IoError{path_,
                            fmt::format("no valid safetensors file ({}); copy it again", what)};
    }

  private:
    StoredTensor tensor(std::string const& name, json const& entry) const {
        StoredTensor result;
        result.name = name;
        if (!entry.is_object() || !entry.contains("dtype") || !entry["dtype"].is_string())
            fail(fmt::format("tensor '{}' has no type", name));
        result.type_name = entry["dtype"].get<std::string>();
        auto const* const known =
            std::find_if(std::begin(type_names), std::end(type_names),
                         [&](TypeName const& type) { return result.type_name == type.name; });
        if (known == std::end(type_names))
            fail(fmt::format("tensor '{}' has the unknown type '{}'", name, result.type_name));
        result.type = known->type;
        std::int64_t elements = 1;
        for (std::int64_t const extent : numbers(name, entry, "shape")) {
            if (extent > 0 && elements > std::numeric_limits<std::int64_t>::max() / 16 / extent)
                fail(fmt::format("tensor '{}' is impossibly large", name));
            elements *= extent;
            result.shape.push_back(extent);
        }
        std::vector<std::int64_t> const offsets = numbers(name, entry, "data_offsets");
        if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > data_bytes_)
            fail(fmt::format("tensor '{}' lies outside the file", name));
        result.begin = data_begin_ + offsets[0];
        result.bytes = offsets[1] - offsets[0];
        if (result.bytes != elements * known->bytes)
            fail(fmt::format("tensor '{}' has {} bytes (its shape takes {})", name, result.bytes,
                             elements * known->bytes));
        return result;
    }

    std::vector<std::int64_t> numbers(std::string const& name, json const& entry,
                                      char const* key) const {
        std::vector<std::int64_t> result;
        bool good = entry.contains(key) && entry[key].is_array();
        if (good)
            for (json const& value : entry[key]) {
                good = good && value.is_number_unsigned() &&
                       value.get<std::uint64_t>() <
                           static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
                result.push_back(good ? value.get<std::int64_t>() : 0);
            }
        if (!good)
            fail(fmt::format("'{}' of tensor '{}' is no list of whole numbers", key, name));
        return result;
    }

    std::string const& path_;
    std::int64_t data_begin_;
    std::int64_t data_bytes_;
};

float from_float16(std::uint16_t bits) {
    std::uint32_t const sign = (bits & 0x8000u) << 16;
    std::uint32_t const exponent = (bits >> 10) & 0x1Fu;
    std::uint32_t const fraction = bits & 0x3FFu;
    if (exponent == 0) { // zero or subnormal: fraction x 2^-24, which float32 holds exactly
        float const value = static_cast<float>(fraction) * 0x1p-24F;
        return sign != 0 ? -value : value;
    }
    std::uint32_t const wide = exponent == 0x1F ? 0xFFu : exponent + (127 - 15);
    return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

} // namespace

std::int64_t StoredTensor::elements() const {
    std::int64_t count = 1;
    for (std::int64_t const extent : shape)
        count *= extent;
    return count;
}

SafetensorsFile::SafetensorsFile(std::string const& path) : file_{path} {
    HeaderReader const unread{path, 0, file_.size()};
    std::uint64_t length = 0;
    if (file_.size() < length_bytes)
        unread.fail(fmt::format("it has {} bytes", file_.size()));
    std::memcpy(&length, file_.bytes().data(), sizeof length);
    if (length >
        static_cast<std::uint64_t>(std::min(most_header_bytes, file_.size() - length_bytes)))
        unread.fail(fmt::format("its header is said to have {} bytes (the file has {})", length,
                                file_.size()));
    auto const header = static_cast<std::int64_t>(length);
    tensors_ = HeaderReader{path, length_bytes + header, file_.size() - length_bytes - header}.read(
        {reinterpret_cast<char const*>(file_.bytes().data()) + length_bytes, length});
}

void SafetensorsFile::read(StoredTensor const& tensor, core::Range elements, float* dst) const {
    EVENER_EXPECT(0 <= elements.begin && elements.end <= tensor.elements());
    if (elements.empty())
        return; // memcpy may not get a null pointer, whatever the size
    auto const count = static_cast<std::size_t>(elements.size());
    std::byte const* const data = file_.bytes().data() + tensor.begin;
    if (tensor.type == StoredType::float32) {
        std::memcpy(dst, data + 4 * elements.begin, 4 * count);
        file_.require_unchanged();
        return;
    }
    if (tensor.type == StoredType::other)
        throw core::IoError{path(), fmt::format("tensor '{}' has type '{}' (evener reads F32, BF16 "
                                                "and F16); convert it",
                                                tensor.name, tensor.type_name)};
    for (std::size_t i = 0; i < count; ++i) {
        std::uint16_t bits = 0;
        std::memcpy(&bits, data + 2 * (elements.begin + static_cast<std::int64_t>(i)), 2);
        dst[i] = tensor.type == StoredType::bfloat16
                     ? std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16)
                     : from_float16(bits);
    }
    file_.require_unchanged();
}

SafetensorsWriter::SafetensorsWriter(
    std::string const& path, StoredType type,
    std::vector<std::pair<std::string, std::vector<std::int64_t>>> const& tensors,
    std::map<std::string, std::string> const& metadata)
    : file_{path}, type_{type} {
    EVENER_EXPECT(type == StoredType::float32 || type == StoredType::bfloat16);
    TypeName const& element = name_of(type);
    nlohmann::ordered_json header;
    header["__metadata__"] = metadata;
    std::int64_t end = 0;
    for (auto const& [name, shape] : tensors) {
        std::int64_t elements = 1;
        for (std::int64_t const extent : shape)
            elements *= extent;
        std::int64_t const begin = end;
        end += elements * element.bytes;
        missing_ += elements;
        header[name] = {{"dtype", element.name}, {"shape", shape}, {"data_offsets", {begin, end}}};
    }
    std::string text = header.dump();
    text.append((8 - text.size() % 8) % 8, ' '); // so that the data is aligned to 8 bytes
    std::uint64_t const length = text.size();
    file_.append(std::as_bytes(std::span{&length, 1}));
    file_.append(std::as_bytes(std::span{text}));
}

void SafetensorsWriter::append(std::span<float const> values) {
    EVENER_EXPECT(std::ssize(values) <= missing_);
    missing_ -= std::ssize(values);
    if (type_ == StoredType::float32) {
        file_.append(std::as_bytes(values));
        return;
    }
    rounded_.resize(values.size());
    std::transform(values.begin(), values.end(), rounded_.begin(), core::to_bfloat16);
    file_.append(std::as_bytes(std::span<std::uint16_t const>{rounded_}));
}

void SafetensorsWriter::finish() {
    EVENER_EXPECT(missing_ == 0);
    file_.commit();
}

} // namespace evener::io
