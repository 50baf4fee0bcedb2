// SPDX-License-Identifier: Apache-2.0

// Manifest <-> JSON. The layout of the text is fixed (one record a line) so that people can read
// and compare manifests; the meaning is not in the layout, any JSON parser reads it.

#include "checkpoints/manifest.hpp"
#include "core/error.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <limits>
#include <optional>

namespace evener::checkpoints {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view format_name = "evener-checkpoint";
constexpr std::string_view element_type = "float32-le";
constexpr std::string_view seal_mark = "\"seal_xxh3_128\": \"";
constexpr std::size_t seal_digits = 32;

/// Reads members of one object with errors that name the place: `slices[3].rows is ...`.
class Fields {
  public:
    Fields(Json const& object, std::string where, std::string const& path)
        : object_{object}, where_{std::move(where)}, path_{path} {
        if (!object_.is_object())
            refuse("", "is not an object");
    }

    Json const& at(char const* key) const {
        auto const found = object_.find(key);
        if (found == object_.end())
            refuse(key, "is missing");
        return *found;
    }
    std::string text(char const* key) const {
        Json const& value = at(key);
        if (!value.is_string())
            refuse(key, "is not a string");
        return value.get<std::string>();
    }
    std::int64_t integer(char const* key) const { return integer_of(at(key), key); }
    std::uint64_t natural(char const* key) const {
        Json const& value = at(key);
        if (!value.is_number_unsigned())
            refuse(key, "is not an integer of 64 bits >= 0");
        return value.get<std::uint64_t>();
    }
    double number(char const* key) const {
        Json const& value = at(key);
        if (!value.is_number())
            refuse(key, "is not a number");
        return value.get<double>();
    }
    Digest digest(char const* key) const {
        auto const digest = parse_digest(text(key));
        if (!digest)
            refuse(key, "is not 32 lower-case hexadecimal digits");
        return *digest;
    }
    std::vector<std::int64_t> integers(char const* key) const {
        std::vector<std::int64_t> values;
        for (Json const& value : list(key))
            values.push_back(integer_of(value, key));
        return values;
    }
    Json const& list(char const* key) const {
        Json const& value = at(key);
        if (!value.is_array())
            refuse(key, "is not a list");
        return value;
    }
    KeyValues texts(char const* key) const {
        Json const& value = at(key);
        if (!value.is_object())
            refuse(key, "is not an object");
        KeyValues result;
        for (auto const& [name, entry] : value.items()) {
            if (!entry.is_string())
                refuse(key, "holds something that is not a string");
            result[name] = entry.template get<std::string>();
        }
        return result;
    }
    [[noreturn]] void refuse(char const* key, std::string_view what) const {
        std::string const dot = where_.empty() || *key == '\0' ? "" : ".";
        throw core::CheckpointError{path_, fmt::format("'{}{}{}' {}", where_, dot, key, what)};
    }

  private:
    std::int64_t integer_of(Json const& value, char const* key) const {
        bool const fits = value.is_number_unsigned()
                              ? value.get<std::uint64_t>() <=
                                    std::uint64_t{std::numeric_limits<std::int64_t>::max()}
                              : value.is_number_integer();
        if (!fits)
            refuse(key, "is not an integer of 64 bits");
        return value.get<std::int64_t>();
    }

    Json const& object_;
    std::string where_;
    std::string const& path_;
};

Json json_of(FileRecord const& file) {
    return Json{{"name", file.name}, {"bytes", file.bytes}, {"xxh3_128", to_string(file.digest)}};
}

Json json_of(TensorInfo const& tensor) {
    return Json{{"name", tensor.name}, {"shape", tensor.shape}};
}

Json json_of(SliceRecord const& slice) {
    return Json{{"kind", slice.kind},
                {"name", slice.name},
                {"rows", {slice.rows.begin, slice.rows.end}},
                {"file", slice.file},
                {"dataset", slice.dataset()},
                {"offset", slice.offset},
                {"bytes", slice.bytes},
                {"xxh3_128", to_string(slice.digest)}};
}

Json json_of(TrainingState const& state) {
    return Json{{"step", state.step},
                {"samples_consumed", state.samples_consumed},
                {"tokens_consumed", state.tokens_consumed},
                {"seed", state.seed},
                {"data_fingerprint", state.data_fingerprint},
                {"optimizer", state.optimizer},
                {"loss_scale", state.loss_scale},
                {"nonfinite_steps", state.nonfinite_steps},
                {"extra", Json(state.extra)}};
}

FileRecord file_from(Fields const& fields) {
    return FileRecord{fields.text("name"), fields.integer("bytes"), fields.digest("xxh3_128")};
}

SliceRecord slice_from(Fields const& fields) {
    SliceRecord slice;
    slice.kind = fields.text("kind");
    slice.name = fields.text("name");
    auto const rows = fields.integers("rows");
    if (rows.size() != 2)
        fields.refuse("rows", "is not two integers");
    slice.rows = core::Range{rows[0], rows[1]};
    slice.file = fields.text("file");
    slice.offset = fields.integer("offset");
    slice.bytes = fields.integer("bytes");
    slice.digest = fields.digest("xxh3_128");
    if (fields.text("dataset") != slice.dataset())
        fields.refuse("dataset", "is not '" + slice.dataset() + "'");
    return slice;
}

TrainingState state_from(Fields const& fields) {
    TrainingState state;
    state.step = fields.integer("step");
    state.samples_consumed = fields.integer("samples_consumed");
    state.tokens_consumed = fields.integer("tokens_consumed");
    state.seed = fields.natural("seed");
    state.data_fingerprint = fields.text("data_fingerprint");
    state.optimizer = fields.text("optimizer");
    state.loss_scale = fields.number("loss_scale");
    state.nonfinite_steps = fields.integer("nonfinite_steps");
    state.extra = fields.texts("extra");
    return state;
}

/// The list `key` of `root`, each entry read by `from`.
template <class From>
auto records(Fields const& root, char const* key, std::string const& path, From const& from) {
    std::vector<decltype(from(root))> result;
    for (Json const& entry : root.list(key))
        result.push_back(from(Fields{entry, fmt::format("{}[{}]", key, result.size()), path}));
    return result;
}

/// `  "key": [` and one record a line.
template <class Record>
void append_records(std::string& out, std::string_view key, std::vector<Record> const& list) {
    out += fmt::format("  \"{}\": [", key);
    for (std::size_t i = 0; i < list.size(); ++i)
        out += fmt::format("{}\n    {}", i == 0 ? "" : ",", json_of(list[i]).dump());
    out += list.empty() ? "],\n" : "\n  ],\n";
}

/// Where the digits of the seal begin: the seal is the last member, so its mark is the last one.
std::optional<std::size_t> seal_place(std::string const& text) {
    auto const mark = text.rfind(seal_mark);
    if (mark == std::string::npos)
        return std::nullopt;
    std::size_t const place = mark + seal_mark.size();
    if (place + seal_digits > text.size())
        return std::nullopt;
    return place;
}

std::string seal_of(std::string text, std::size_t place) {
    text.replace(place, seal_digits, seal_digits, '0');
    return to_string(digest_of(text));
}

void check_seal(std::string const& text, std::string const& path) {
    auto const place = seal_place(text);
    if (!place)
        throw core::CheckpointError{path, "it has no seal (it is cut, or not Evener's)"};
    if (text.substr(*place, seal_digits) != seal_of(text, *place))
        throw core::CheckpointError{
            path, "its seal is broken (it was damaged or edited) use another checkpoint"};
}

Json parse(std::string const& text, std::string const& path) {
    try {
        return Json::parse(text);
    } catch (Json::exception const& error) {
        throw core::CheckpointError{path, fmt::format("it is not JSON ({})", error.what())};
    }
}

void check_version(Fields const& root) {
    if (root.text("format") != format_name)
        root.refuse("format", fmt::format("is not '{}'", format_name));
    if (std::int64_t const version = root.integer("format_version"); version != format_version)
        root.refuse("format_version", fmt::format("is {}, this Evener knows {} use the Evener that "
                                                  "wrote it ('{}')",
                                                  version, format_version, root.text("creator")));
    if (root.text("element_type") != element_type)
        root.refuse("element_type", fmt::format("is not '{}'", element_type));
}

} // namespace

std::string sealed(std::string text) {
    if (auto const place = seal_place(text))
        text.replace(*place, seal_digits, seal_of(text, *place));
    return text;
}

std::string manifest_text(Manifest const& manifest, std::string const& path) try {
    std::string out = "{\n";
    auto const member = [&out](char const* key, Json const& value) {
        out += fmt::format("  \"{}\": {},\n", key, value.dump());
    };
    member("format", format_name);
    member("format_version", format_version);
    member("creator", manifest.creator);
    member("element_type", element_type);
    member("state", json_of(manifest.state));
    member("model", Json(manifest.model));
    member("kinds", manifest.kinds);
    append_records(out, "tensors", manifest.tensors);
    append_records(out, "data_files", manifest.data_files);
    append_records(out, "side_files", manifest.side_files);
    append_records(out, "slices", manifest.slices);
    out += fmt::format("  {}{}\"\n}}\n", seal_mark, std::string(seal_digits, '0'));
    return sealed(std::move(out));
} catch (Json::exception const& error) {
    throw core::CheckpointError{path, fmt::format("a text in it is not UTF-8 ({})", error.what())};
}

Manifest parse_manifest(std::string const& text, std::string const& path) {
    check_seal(text, path);
    Json const json = parse(text, path);
    Fields const root{json, "", path};
    check_version(root);
    Manifest manifest;
    manifest.creator = root.text("creator");
    manifest.state = state_from(Fields{root.at("state"), "state", path});
    manifest.model = root.texts("model");
    for (Json const& kind : root.list("kinds")) {
        if (!kind.is_string())
            root.refuse("kinds", "holds something that is not a string");
        manifest.kinds.push_back(kind.get<std::string>());
    }
    manifest.tensors = records(root, "tensors", path, [](Fields const& fields) {
        return TensorInfo{fields.text("name"), fields.integers("shape")};
    });
    manifest.data_files = records(root, "data_files", path, file_from);
    manifest.side_files = records(root, "side_files", path, file_from);
    manifest.slices = records(root, "slices", path, slice_from);
    validate(manifest, path);
    return manifest;
}

std::string encode(WriterResult const& result) {
    Json slices = Json::array();
    for (SliceRecord const& slice : result.slices)
        slices.push_back(json_of(slice));
    return Json{{"file", json_of(result.file)}, {"slices", std::move(slices)}}.dump();
}

WriterResult decode_writer_result(std::string const& text) {
    std::string const path = "a writer's result";
    Json const json = parse(text, path);
    Fields const root{json, "", path};
    return WriterResult{file_from(Fields{root.at("file"), "file", path}),
                        records(root, "slices", path, slice_from)};
}

} // namespace evener::checkpoints
