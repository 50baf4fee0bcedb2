// SPDX-License-Identifier: Apache-2.0
#pragma once

// Writes SVG 1.1 with presentation attributes only, which browsers, office programs and TeX tools
// all read. Coordinates in pixels from the top left corner, two decimals. Internal to this folder.

#include <string>
#include <string_view>
#include <vector>

namespace evener::schedule {

enum class Anchor { start, middle, end };

struct TextStyle {
    double size = 11;
    std::string_view fill = "#222222";
    Anchor anchor = Anchor::start;
    bool bold = false;
};

struct LineStyle {
    std::string_view stroke = "#222222";
    double width = 1;
    std::string_view dashes = {}; ///< "4 3"; empty: solid
};

class Svg {
  public:
    void rect(double x, double y, double width, double height, std::string_view fill);
    void line(double x1, double y1, double x2, double y2, LineStyle const& style);
    /// `y` is the base line. The text is escaped here.
    void text(double x, double y, std::string_view text, TextStyle const& style);
    /// Thick horizontal strokes of one colour; `path` as bar() makes it. Nothing for an empty path.
    void bars(std::string_view path, double width, std::string_view stroke);
    /// `path` of an outline or an area; `fill` "none" for a line.
    void path(std::string_view path, std::string_view fill, LineStyle const& style);
    /// Texts of the same style up to end_group() take it from the group, which saves their bytes.
    void begin_texts(TextStyle const& style);
    void plain_text(double x, double y, std::string_view text);
    void end_group() { body_ += "</g>\n"; }

    void append(Svg const& other) { body_ += other.body_; }

    /// The document, white, with a title that viewers show.
    std::string finish(double width, double height, std::string_view title) const;

  private:
    std::string body_;
};

/// Shortest text of a coordinate.
std::string coordinate(double value);

/// Appends a bar from x1 to x2 at height y to the path of Svg::bars.
void add_bar(std::string& path, double x1, double x2, double y);

} // namespace evener::schedule
