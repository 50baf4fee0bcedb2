// SPDX-License-Identifier: Apache-2.0
#include "schedule/svg.hpp"

#include "schedule/draw_facts.hpp"

#include <fmt/format.h>

#include <cmath>
#include <iterator>

namespace evener::schedule {

namespace {

std::string text_attributes(TextStyle const& style) {
    static constexpr std::string_view anchors[] = {"", " text-anchor=\"middle\"",
                                                   " text-anchor=\"end\""};
    return fmt::format("font-size=\"{}\" fill=\"{}\"{}{}", coordinate(style.size), style.fill,
                       anchors[static_cast<std::size_t>(style.anchor)],
                       style.bold ? " font-weight=\"bold\"" : "");
}

std::string line_attributes(LineStyle const& style) {
    std::string text =
        fmt::format("stroke=\"{}\" stroke-width=\"{}\"", style.stroke, coordinate(style.width));
    if (!style.dashes.empty())
        text += fmt::format(" stroke-dasharray=\"{}\"", style.dashes);
    return text;
}

} // namespace

std::string coordinate(double value) {
    double const rounded = std::round(value * 100) / 100;
    return fmt::format("{}", rounded == 0 ? 0.0 : rounded); // shortest; no "-0"
}

void add_bar(std::string& path, double x1, double x2, double y) {
    fmt::format_to(std::back_inserter(path), "M{} {}H{}", coordinate(x1), coordinate(y),
                   coordinate(x2));
}

void Svg::rect(double x, double y, double width, double height, std::string_view fill) {
    fmt::format_to(std::back_inserter(body_),
                   "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"/>\n",
                   coordinate(x), coordinate(y), coordinate(width), coordinate(height), fill);
}

void Svg::line(double x1, double y1, double x2, double y2, LineStyle const& style) {
    path(
        fmt::format("M{} {}L{} {}", coordinate(x1), coordinate(y1), coordinate(x2), coordinate(y2)),
        "none", style);
}

void Svg::text(double x, double y, std::string_view text, TextStyle const& style) {
    fmt::format_to(std::back_inserter(body_), "<text x=\"{}\" y=\"{}\" {}>{}</text>\n",
                   coordinate(x), coordinate(y), text_attributes(style), xml_text(text));
}

void Svg::bars(std::string_view path, double width, std::string_view stroke) {
    if (!path.empty())
        this->path(path, "none", {stroke, width, {}});
}

void Svg::path(std::string_view path, std::string_view fill, LineStyle const& style) {
    fmt::format_to(std::back_inserter(body_), "<path d=\"{}\" fill=\"{}\" {}/>\n", path, fill,
                   line_attributes(style));
}

void Svg::begin_texts(TextStyle const& style) {
    fmt::format_to(std::back_inserter(body_), "<g {}>\n", text_attributes(style));
}

void Svg::plain_text(double x, double y, std::string_view text) {
    fmt::format_to(std::back_inserter(body_), "<text x=\"{}\" y=\"{}\">{}</text>\n", coordinate(x),
                   coordinate(y), xml_text(text));
}

std::string Svg::finish(double width, double height, std::string_view title) const {
    return fmt::format(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
        "viewBox=\"0 0 {0} {1}\" font-family=\"Helvetica, Arial, sans-serif\">\n"
        "<title>{2}</title>\n<rect width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n{3}</svg>\n",
        coordinate(width), coordinate(height), xml_text(title), body_);
}

} // namespace evener::schedule
