// SPDX-License-Identifier: Apache-2.0
#include "planner/profile_file.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <limits>

namespace evener::planner {

using nlohmann::json;

namespace {

constexpr char const* format_name = "evener profile 1";

/// Reads members and says what is wrong with them.
class Reader {
  public:
    explicit Reader(std::string const& file) : file_{file} {}

    [[noreturn]] void refuse(std::string const& why) const {
        throw core::ConfigError{
            fmt::format("{}: {}; write it with 'evener profile JOB.toml'", file_, why)};
    }

    json const& member(json const& object, char const* key) const {
        if (!object.is_object() || !object.contains(key))
            refuse(fmt::format("'{}' is missing", key));
        return object[key];
    }
    double seconds(json const& object, char const* key) const {
        json const& value = member(object, key);
        if (!value.is_number() || !std::isfinite(value.get<double>()) || value.get<double>() < 0)
            refuse(fmt::format("'{}' is {} (it must be a number >= 0)", key, value.dump()));
        return value.get<double>();
    }
    json const& list(json const& object, char const* key) const {
        json const& value = member(object, key);
        if (!value.is_array())
            refuse(fmt::format("'{}' must be a list", key));
        return value;
    }

    program::CopyRate copy_rate(json const& object) const {
        return {seconds(object, "latency_seconds"), seconds(object, "seconds_per_byte")};
    }

    RankProfile rank(json const& object) const {
        RankProfile result;
        json const& layers = member(object, "layers");
        if (!layers.is_object())
            refuse("'layers' must be a table of kinds of layers");
        for (auto const& [kind, entry] : layers.items())
            result.layers[kind] = {seconds(entry, "forward"), seconds(entry, "backward_input"),
                                   seconds(entry, "backward_weight"), seconds(entry, "backward")};
        result.boundary_seconds_per_byte = seconds(object, "boundary_seconds_per_byte");
        result.instruction_seconds = seconds(object, "instruction_seconds");
        result.measure_seconds_per_element = seconds(object, "measure_seconds_per_element");
        result.update_seconds_per_element = seconds(object, "update_seconds_per_element");
        if (object.contains("contention")) { // older files have neither
            result.contention = seconds(object, "contention");
            json const& node = member(object, "node");
            if (!node.is_number_integer() || node.get<std::int64_t>() < 0 ||
                node.get<std::int64_t>() > std::numeric_limits<int>::max())
                refuse(fmt::format("'node' is {} (it must be a whole number >= 0)", node.dump()));
            result.node = node.get<int>();
        }
        if (object.contains("repeat")) {
            json const& repeat = object["repeat"];
            result.repeat = {seconds(repeat, "forward"), seconds(repeat, "backward_input"),
                             seconds(repeat, "backward_weight"), seconds(repeat, "backward")};
        }
        if (object.contains("copies")) {
            json const& copies = object["copies"];
            result.copies = {copy_rate(member(copies, "in")), copy_rate(member(copies, "out"))};
        }
        return result;
    }

    program::Network network(json const& object, std::int64_t ranks) const {
        program::Network result{ranks, {}, {}};
        for (json const& wire : list(object, "wires"))
            result.wires.push_back(
                {seconds(wire, "latency_seconds"), seconds(wire, "seconds_per_byte")});
        for (json const& route : list(object, "routes")) {
            if (!route.is_number_integer() || route.get<std::int64_t>() < -1 ||
                route.get<std::int64_t>() >= std::ssize(result.wires))
                refuse(fmt::format("route {} is none of the {} wires", route.dump(),
                                   result.wires.size()));
            result.routes.push_back(route.get<std::int32_t>());
        }
        if (!result.routes.empty() && std::ssize(result.routes) != ranks * ranks)
            refuse(fmt::format("{} routes do not fit {} ranks (each pair needs one)",
                               result.routes.size(), ranks));
        return result;
    }

  private:
    std::string const& file_;
};

json to_json(program::CopyRate const& rate) {
    return {{"latency_seconds", rate.latency_seconds}, {"seconds_per_byte", rate.seconds_per_byte}};
}

json to_json(RankProfile const& rank) {
    json layers = json::object();
    for (auto const& [kind, seconds] : rank.layers)
        layers[kind] = {{"forward", seconds.forward},
                        {"backward_input", seconds.backward_input},
                        {"backward_weight", seconds.backward_weight},
                        {"backward", seconds.backward}};
    json object{{"layers", layers},
                {"repeat",
                 {{"forward", rank.repeat.forward},
                  {"backward_input", rank.repeat.backward_input},
                  {"backward_weight", rank.repeat.backward_weight},
                  {"backward", rank.repeat.backward}}},
                {"contention", rank.contention},
                {"node", rank.node},
                {"boundary_seconds_per_byte", rank.boundary_seconds_per_byte},
                {"instruction_seconds", rank.instruction_seconds},
                {"measure_seconds_per_element", rank.measure_seconds_per_element},
                {"update_seconds_per_element", rank.update_seconds_per_element}};
    if (rank.copies)
        object["copies"] = {{"in", to_json(rank.copies->in)}, {"out", to_json(rank.copies->out)}};
    return object;
}

} // namespace

std::string print_profile(Profile const& profile) {
    json ranks = json::array();
    for (RankProfile const& rank : profile.ranks)
        ranks.push_back(to_json(rank));
    json wires = json::array();
    for (program::Wire const& wire : profile.network.wires)
        wires.push_back({{"latency_seconds", wire.latency_seconds},
                         {"seconds_per_byte", wire.seconds_per_byte}});
    json const document{
        {"format", format_name},
        {"source", profile.source},
        {"model", profile.model},
        {"ranks", ranks},
        {"network", {{"wires", wires}, {"routes", profile.network.routes}}},
    };
    return document.dump(1) + "\n";
}

Profile parse_profile(std::string_view text, std::string const& name) {
    Reader const reader{name};
    json const document = json::parse(text, nullptr, false);
    if (document.is_discarded())
        reader.refuse("this is not JSON");
    json const& format = reader.member(document, "format");
    if (format != format_name)
        reader.refuse(fmt::format("its format is {} (this version reads \"{}\")", format.dump(),
                                  format_name));
    Profile profile;
    json const& source = reader.member(document, "source");
    if (source.is_string())
        profile.source = source.get<std::string>();
    for (auto const& [name, value] : reader.member(document, "model").items()) {
        if (!value.is_string())
            reader.refuse(fmt::format("'model.{}' must be a text", name));
        profile.model[name] = value.get<std::string>();
    }
    for (json const& rank : reader.list(document, "ranks"))
        profile.ranks.push_back(reader.rank(rank));
    profile.network = reader.network(reader.member(document, "network"), std::ssize(profile.ranks));
    return profile;
}

std::string profile_problem(Profile const& profile, model::Model const& model,
                            std::int64_t rank_count) {
    if (std::ssize(profile.ranks) != rank_count)
        return fmt::format("it is for {} ranks (the job has {})", profile.ranks.size(), rank_count);
    if (!profile.model.empty())
        for (auto const& [name, value] : model_facts(model))
            if (auto const found = profile.model.find(name);
                found == profile.model.end() || found->second != value)
                return fmt::format("its model has {} {} (the job's has {})", name,
                                   found == profile.model.end() ? "unknown" : found->second, value);
    for (std::size_t r = 0; r < profile.ranks.size(); ++r)
        for (std::int64_t l = 0; l < model.layer_count(); ++l) {
            std::string const kind{model.layer(core::LayerId{l}).kind()};
            if (!profile.ranks[r].layers.contains(kind))
                return fmt::format("it has no seconds of {} layers on rank {}", kind, r);
        }
    return {};
}

} // namespace evener::planner
